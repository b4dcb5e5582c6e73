"""Outcomes that were told bar the commits they speak of, in bounded memory (I3a, I24)."""

from __future__ import annotations

import pytest

from onceq.core.state.client_memory import Fences, Outcomes
from onceq.errors import InsufficientResources, InvalidParameter
from onceq.model import limits
from onceq.model.identity import TransactionId
from onceq.model.limits import FENCES_MAX
from onceq.model.marks import SECOND_US, Now
from onceq.model.results import Outcome

START_S = 1_700_000_000
AGE_S = 1_000


class Asked:
    """What a queue manager does with outcomes, and nothing else."""

    def __init__(self) -> None:
        self.outcomes = Outcomes()
        self.fences = Fences()
        self.now_s = START_S
        self.mono_s = 0

    def now(self) -> Now:
        return Now(self.now_s * SECOND_US, self.mono_s * SECOND_US)

    def wait(self, seconds: int) -> None:
        self.now_s += seconds
        self.mono_s += seconds

    def ask(self, id: TransactionId) -> Outcome:
        answer = self.outcomes.ask(id, self.now_s, AGE_S)
        if answer is not Outcome.COMMITTED:
            self.fences.bar(id, self.outcomes, self.now(), AGE_S)
        return answer

    def commit(self, id: TransactionId) -> bool:
        if self.fences.bars(id, self.outcomes):
            return False
        self.outcomes.committed(id, self.now_s)
        return True


def session(n: int, began_s: int = START_S) -> bytes:
    return began_s.to_bytes(4, "little") + n.to_bytes(12, "little")


def made_up(n: int, began_s: int = START_S) -> TransactionId:
    return TransactionId(session(n, began_s), 1)


def test_what_was_told_to_be_aborted_or_unknown_cannot_be_committed() -> None:
    asked = Asked()
    assert asked.ask(made_up(1)) is Outcome.ABORTED
    assert asked.ask(made_up(2, START_S - AGE_S - 1)) is Outcome.UNKNOWN
    assert not asked.commit(made_up(1))
    assert not asked.commit(made_up(2, START_S - AGE_S - 1))
    assert asked.commit(TransactionId(session(1), 2))


def test_made_up_sessions_fill_a_table_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FENCES_MAX", 50)
    asked = Asked()
    for n in range(50):
        asked.ask(made_up(n))
    for n in range(50, 500):
        with pytest.raises(InsufficientResources, match="ask again later"):
            asked.ask(made_up(n))
    assert len(asked.fences) == 50
    assert asked.ask(made_up(7)) is Outcome.ABORTED, "what is barred can be asked again"
    assert asked.commit(made_up(400)), "nobody was told anything of it"
    assert asked.ask(made_up(400)) is Outcome.COMMITTED
    assert FENCES_MAX <= 100_000


def test_the_table_empties_with_time_and_no_answer_ever_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "FENCES_MAX", 50)
    asked = Asked()
    told: list[TransactionId] = []
    for turn in range(20):
        for n in range(50):
            id = made_up(1_000 * turn + n, asked.now_s)
            try:
                asked.ask(id)
            except InsufficientResources:
                continue
            told.append(id)
        assert len(asked.fences) <= 50
        asked.wait(AGE_S)
    assert len(told) >= 400
    for id in told:
        assert not asked.commit(id)
        assert asked.outcomes.ask(id, asked.now_s, AGE_S) is not Outcome.COMMITTED
    assert asked.commit(made_up(9_999_999, asked.now_s)), "new sessions are not concerned"


def test_a_session_that_goes_on_committing_keeps_its_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FENCES_MAX", 3)
    asked = Asked()
    alive = session(1)
    assert asked.ask(TransactionId(alive, 1)) is Outcome.ABORTED
    for number in range(2, 40):
        assert asked.commit(TransactionId(alive, number)), "it is older than anything dropped"
        asked.wait(AGE_S // 2)
        for n in range(3):
            try:
                asked.ask(made_up(100 * number + n, asked.now_s))
            except InsufficientResources:
                break
    assert not asked.commit(TransactionId(alive, 1))


def test_sessions_of_a_far_future_are_not_told_of() -> None:
    asked = Asked()
    with pytest.raises(InvalidParameter, match="begin"):
        asked.ask(made_up(1, START_S + AGE_S + 1))
    assert len(asked.fences) == 0
    assert asked.ask(made_up(1, START_S + AGE_S)) is Outcome.ABORTED
