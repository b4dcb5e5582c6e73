"""Lists that are cut, and what is said of the others."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.cli.lists import note_others, read_sorted
from onceq.model.views.view import Page


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("there", [2, 3])
def test_a_list_that_is_cut_says_that_there_are_more(
    capsys: pytest.CaptureFixture[str], there: int, *, counted: bool
) -> None:
    """Nobody has counted what is sorted by number."""

    def some(*, limit: int, **asked: Any) -> Page[int]:
        return Page((1, 2), "3" if there > limit else "", there if counted else None)

    found, of = read_sorted(lambda **asked: [], some, sort="number", only="", part="", limit=2)
    note_others(len(found), of, "queue")
    said = capsys.readouterr().err
    assert found == [1, 2]
    assert ("--limit 0 shows all" in said) == (there == 3)
