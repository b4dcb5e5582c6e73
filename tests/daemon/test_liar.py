"""Two real daemons at work among the lies of a third: ``make liar``, in small."""

from __future__ import annotations

from pathlib import Path

import pytest

import liar


@pytest.mark.slow
def test_nothing_is_lost_repeated_or_out_of_order_among_lies(tmp_path: Path) -> None:
    """I1, I4, I5, I10, I24."""
    outcome = liar.run(seconds=6, seed=20, folder=tmp_path)
    assert outcome.violations == []
    assert outcome.received == outcome.sent > 0
    assert len(outcome.lies) >= 8, "a liar of many kinds"
