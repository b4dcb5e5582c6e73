"""The page about rights says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from onceq.client import credentials
from onceq.model.limits import TRAIL_MAX, WRONG_TOKENS_A_S, WRONG_TOKENS_AT_ONCE
from onceq.model.rights import MEANING, WHOLE, Right
from onceq.service.listening import OPEN

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "who-may-do-what.md").read_text()


def test_the_table_of_rights_is_that_of_the_code() -> None:
    table = PAGE.split("## Rights")[1].split("\n\n")[1]
    rows = re.findall(r"^\* `([a-z-]+)`: (.+)$", table.replace("\n  ", " "), re.M)
    assert rows == [(right.value, MEANING[right]) for right in Right]
    last = [Right(word) for word, _ in rows[-len(WHOLE) :]]
    assert set(last) == WHOLE, "'the last four are about the whole queue manager'"
    assert len(WHOLE) == 4


def test_the_variables_are_those_that_are_looked_at() -> None:
    said = set(re.findall(r"`(ONCEQ_[A-Z_]+)`", PAGE))
    assert said == {
        credentials.TOKEN, credentials.TOKEN_FILE, credentials.AUTHORITIES,
        credentials.CERTIFICATE, credentials.KEY,
    }  # fmt: skip


def test_the_numbers_are_those_of_the_code() -> None:
    words = " ".join(PAGE.split())
    assert f"After {WRONG_TOKENS_AT_ONCE} wrong tokens" in words
    assert f"only {WRONG_TOKENS_A_S:g} a second are checked" in words
    assert f"mode {OPEN:04o}" in words
    assert f"{TRAIL_MAX:,} acts are kept" in words
