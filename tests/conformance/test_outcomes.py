"""What became of commits, asked of a queue manager (I3a, I24)."""

from __future__ import annotations

import pytest

from onceq.errors import InsufficientResources, TransactionOver
from onceq.model import limits
from onceq.model.identity import TransactionId
from onceq.model.requests import Commit
from onceq.model.results import Outcome
from tests.conformance.clocks import START_S
from tests.conformance.world import Worlds, item

Q = "private$\\q"


def made_up(n: int, began_s: int = START_S) -> TransactionId:
    return TransactionId(began_s.to_bytes(4, "little") + n.to_bytes(12, "little"), 1)


@pytest.mark.inside("the limit is made small, and sessions are made up")
def test_outcomes_of_made_up_sessions_are_bounded_and_stay_true(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FENCES_MAX", 20)
    a = worlds("A")["A"]
    a.create("q")
    for n in range(20):
        assert a.outcome(made_up(n)) is Outcome.ABORTED
    with pytest.raises(InsufficientResources):
        a.outcome(made_up(20))
    long_ago = made_up(99, START_S - 30 * 24 * 3600)
    with pytest.raises(InsufficientResources):
        a.outcome(long_ago)
    with pytest.raises(TransactionOver):
        a.ask(Commit(0, (item(Q, b"late"),), made_up(3)))
    a.ask(Commit(0, (item(Q, b"in time"),), made_up(20)))
    assert a.bodies(Q) == [b"in time"]
    assert a.outcome(made_up(20)) is Outcome.COMMITTED


@pytest.mark.inside("sessions are made up")
def test_what_was_told_to_be_unknown_is_never_committed(worlds: Worlds) -> None:
    a = worlds("A")["A"]
    a.create("q")
    long_ago = made_up(1, START_S - 30 * 24 * 3600)
    assert a.outcome(long_ago) is Outcome.UNKNOWN
    with pytest.raises(TransactionOver):
        a.ask(Commit(0, (item(Q, b"late"),), long_ago))
    assert a.outcome(long_ago) is Outcome.UNKNOWN
