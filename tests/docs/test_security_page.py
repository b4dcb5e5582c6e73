"""The page about security: its numbers are those of the code, and what it names is there.

What the page of findings names is there, too.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from onceq.model import limits, tokens

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


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/findings.md"])
def test_what_it_names_is_there(page: str) -> None:
    named = re.findall(r"`(tests/[^`:]+)(?:::(\w+))?`", (ROOT / page).read_text())
    assert len(named) >= 10
    for path, test in named:
        assert (ROOT / path).exists(), path
        if test:
            tree = ast.parse((ROOT / path).read_text())
            assert test in {getattr(one, "name", "") for one in tree.body}, f"{path}::{test}"


def test_everything_that_is_defended_names_what_shows_it() -> None:
    lines = PAGE.split("## What is defended")[1].split("\n## ")[0].split("\n* ")[1:]
    assert len(lines) >= 8
    assert [one for one in lines if "`tests/" not in one] == []


def test_nobody_is_named_whom_one_could_not_reach() -> None:
    assert "@" not in PAGE
