"""Real daemons at work among the lies of others: ``make liar``, in small."""

from __future__ import annotations

from pathlib import Path

import pytest

import liar
from liar_lies import Liar


@pytest.mark.slow
@pytest.mark.parametrize("pin", [False, True])
def test_nothing_is_lost_repeated_or_out_of_order_among_lies(tmp_path: Path, pin: bool) -> None:
    """I1, I4, I5, I10, I24."""
    outcome = liar.run(seconds=6, seed=20, folder=tmp_path, pin=pin)
    assert outcome.violations == []
    assert outcome.sent - outcome.acknowledged <= outcome.received <= outcome.sent
    assert outcome.received > 0
    assert len(outcome.lies) == len(Liar({}, {}, {}, 0).kinds()), "every kind of lie was told"
    assert outcome.takeovers > 0
    if pin:
        assert outcome.received == outcome.sent
