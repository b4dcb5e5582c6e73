"""The page about security: its numbers are those of the code, and tests hold each of its sentences.

What the page of findings names is there, too.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from onceq.model import limits, tokens
from tests.docs.security_claims import HEADING, HELD, MORE, NOT_HELD
from tests.docs.sentences import sentences

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "SECURITY.md").read_text()
WORDS = " ".join(PAGE.split())


def test_the_limits_are_those_of_the_code() -> None:
    table = PAGE.split("## Before anybody")[1].split("\n\n")[1]
    found = dict(re.findall(r"^\| ([a-z][^|]+) \| (.+) \|$", table, re.M))
    del found["limit"]
    assert [value.split(";")[0].split(",  ")[0] for value in found.values()] == [
        f"{limits.HANDSHAKE_S_MAX} s, the TLS handshake included",
        f"{limits.HANDSHAKE_BYTES_MAX >> 10} KiB",
        f"{limits.ADDRESS_HANDSHAKES_MAX}",
        f"{limits.HANDSHAKES_MAX:,}",
        f"{limits.ADDRESS_CONNECTIONS_MAX}",
        f"{limits.DESCRIPTORS_RESERVED}, of which {limits.DESCRIPTORS_LOCAL} are for the local "
        "socket",
        f"{limits.WRONG_TOKENS_AT_ONCE} at once, then {limits.WRONG_TOKENS_A_S:g} a second",
        f"{limits.LOG_LINES_AT_ONCE} in {limits.LOG_RATE_S} s",
    ]
    assert f"Tokens** are {8 * tokens.SECRET_BYTES} random bits" in WORDS


def test_what_other_numbers_say() -> None:
    assert limits.MEMBERS_ASK_S == 60
    assert "Members hear of a removal within a minute" in WORDS


def _is_there(path: str, test: str) -> bool:
    """Whether there is such a test, or such a folder of tests."""
    file = ROOT / path
    if not test or not file.is_file():
        return file.exists() and not test
    return test in {getattr(one, "name", "") for one in ast.parse(file.read_text()).body}


def test_what_the_findings_name_is_there() -> None:
    text = (ROOT / "docs" / "findings.md").read_text()
    named = re.findall(r"`(tests/[^`:]+)(?:::(\w+))?`", text)
    assert len(named) >= 10
    assert [one for one in named if not _is_there(*one)] == []


def test_each_sentence_is_held_by_tests_or_says_why_not() -> None:
    """A sentence that was changed is one that nobody has looked at: see ``security_claims.py``."""
    said = [sentence for _, sentence in sentences(PAGE)]
    known = [*HELD, *(one for ones in NOT_HELD.values() for one in ones)]
    assert [one for one in said if one not in known] == [], "look at it, and say what holds it"
    assert [one for one in known if one not in said] == [], "it is not said any more"
    assert len(known) == len(set(known)), "a sentence is held or it is not"


def test_what_is_defended_is_held() -> None:
    """Nothing there may be an admission, or advice."""
    defended = {one for heading, one in sentences(PAGE) if heading == "What is defended"}
    open_ = {why for why, ones in NOT_HELD.items() if defended & {*ones}}
    assert open_ <= {HEADING, MORE}
    assert len(defended & {*HELD}) >= 30


def test_the_tests_that_hold_it_are_there() -> None:
    assert all(HELD.values())
    named = [one.partition("::") for tests in HELD.values() for one in tests]
    assert [one for one in named if not one[2] or not _is_there(f"tests/{one[0]}", one[2])] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* **A claim.** It [holds](x.md#y) for `a.b`, e.g. Monday ([how](z.md)). More\n  of it.",
         ["A claim.", "It holds for `a.b`, e.g. Monday.", "More of it."]),
        ("| a | b |\n|---|---|\n| c | 5 s |", ["a: b", "c: 5 s"]),
        ("One: Two is no end.\n\n* three\n* four", ["One: Two is no end.", "three", "four"]),
    ],
)  # fmt: skip
def test_a_page_is_read_as_its_sentences(text: str, expected: list[str]) -> None:
    assert [one for _, one in sentences(text)] == expected


def test_nobody_is_named_whom_one_could_not_reach() -> None:
    assert "@" not in PAGE
