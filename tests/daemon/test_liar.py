"""Real daemons at work among the lies of others: ``make liar``, in small."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import pytest

from proof.torture.liar import liar
from proof.torture.liar.scene import MEMBERS, ROGUES

WAYS = 5
"""In which a stranger can come to a door that wants a certificate."""


@pytest.mark.slow
@pytest.mark.search("doors", few=2)
@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("pin", [False, True])
def test_nothing_is_lost_repeated_or_out_of_order_among_lies(
    tmp_path: Path, pin: bool, tls: bool
) -> None:
    """I1, I4, I5, I10, I24."""
    outcome = liar.run(
        seconds=6, seed=20, folder=tmp_path, pin=pin, tls=tls, look_s_max=math.inf
    )  # fmt: skip
    assert outcome.violations == []
    kinds = {tally.kind for tally in outcome.tallies if tally.tried or tally.absent}
    assert len(kinds) == len(ROGUES) + len(MEMBERS) * tls, "everybody has tried everything"
    assert outcome.sent - outcome.acknowledged <= outcome.received <= outcome.sent
    assert outcome.received > 0
    assert len(outcome.lies) == outcome.kinds > 20, "every kind of lie was told"
    assert outcome.takeovers > 0
    if pin:
        assert outcome.received == outcome.sent
    parsed = outcome.parsed
    if tls:
        assert (parsed.unproven_sessions, parsed.unproven_bytes) == (0, 0)
        assert len(outcome.strangers) == WAYS * len(over_sessions(outcome.lies)), (
            "each lie in each way"
        )
        assert outcome.takeovers > 1, "by a stranger, and by a neighbour"
        assert parsed.proven_bytes > outcome.sent
    else:
        # The same count finds every liar where nobody has to prove anything.
        assert parsed.unproven_sessions > outcome.lies.total() / 2
        assert parsed.unproven_bytes > outcome.sent
        assert parsed.proven_sessions == 0


def over_sessions(told: Iterable[str]) -> list[str]:
    """Kinds of lies that are told to the parser of sessions."""
    return [name for name in told if not name.startswith("http")]
