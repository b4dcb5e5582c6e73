"""The page about rights says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from onceq.model.limits import TRAIL_MAX
from onceq.model.rights import MEANING, WHOLE, Right
from onceq.service.socket_group import OPEN

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "who-may-do-what.md").read_text()


def test_the_table_of_rights_is_that_of_the_code() -> None:
    table = PAGE.split("## Rights")[1].split("\n\n")[1]
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", table, re.M)
    assert rows == [(right.value, MEANING[right]) for right in Right]
    last = [Right(word) for word, _ in rows[-len(WHOLE) :]]
    assert set(last) == WHOLE, "'the last four are about the whole queue manager'"
    assert len(WHOLE) == 4


def test_the_numbers_are_those_of_the_code() -> None:
    words = " ".join(PAGE.split())
    assert f"mode {OPEN:04o}" in words
    assert f"last {TRAIL_MAX:,} are kept" in words
