"""What outlives a connection."""

from __future__ import annotations

import itertools
import threading
from array import array

import pytest

from onceq.client.link import DESTINATIONS_MAX, Greeting, Session
from onceq.client.plans.unit_of_work import not_committed
from onceq.core.state.client_memory import Outcomes, began_s
from onceq.errors import InvalidParameter, ServiceNotAvailable, TransactionOver
from onceq.model.identity import TransactionId
from onceq.model.results import Outcome
from onceq.model.run import Run
from onceq.packet.arrived import Batch

HOME = Greeting("ALPHA", bytes(range(16)), 1_000_000, outcome_age_s=100)


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def session(clock: Clock | None = None) -> Session:
    numbers = itertools.count(1)
    return Session(
        HOME, random=lambda size: next(numbers).to_bytes(size, "big"), clock=clock or Clock()
    )


def batch(*bodies: bytes) -> Batch:
    count = len(bodies)
    none = array("I", [0] * count)
    return Batch(Run.of(list(bodies)), array("Q", range(count)), none, none)


def test_commits_are_numbered_from_one_under_one_identifier() -> None:
    mine = session()
    first, second = mine.next_commit(), mine.next_commit()
    assert (first.number, second.number) == (1, 2)
    assert first.session == second.session
    assert began_s(first.session) == 1_000_000


def test_no_two_threads_get_the_same_number() -> None:
    mine = session()
    found: list[tuple[TransactionId, int]] = []

    def work() -> None:
        found.extend((mine.next_commit(), mine.next_transaction()) for _ in range(2_000))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(id.number for id, _ in found) == list(range(1, 16_001))
    assert sorted(number for _, number in found) == list(range(1, 16_001))


def test_a_session_that_was_idle_begins_anew_so_that_its_answers_are_true() -> None:
    clock = Clock()
    mine = session(clock)
    old = mine.next_commit()
    clock.now += 51
    new = mine.next_commit()
    assert new.session != old.session
    assert new.number == 1
    assert began_s(new.session) == 1_000_051


def test_a_session_that_commits_keeps_its_identifier() -> None:
    clock = Clock()
    mine = session(clock)
    first = mine.next_commit()
    for _ in range(10):
        clock.now += 49
        mine.used = mine.clock()
    assert mine.next_commit().session == first.session


@pytest.mark.parametrize("lost", [1, 3, 7], ids=["all lost", "one in three", "one in seven"])
def test_whatever_is_asked_in_time_has_an_answer(lost: int) -> None:
    """Against the manager's own memory: a lost commit is never unknown within its time."""
    clock = Clock()
    mine = session(clock)
    outcomes = Outcomes()
    for step in range(400):
        clock.now += 1 + step % 60
        wall = int(clock.now) + 999_950
        outcomes.forget(wall, HOME.outcome_age_s)
        id = mine.next_commit()
        done = step % lost != 0
        if done:
            outcomes.committed(id, wall)
            mine.used = mine.clock()
        expected = Outcome.COMMITTED if done else Outcome.ABORTED
        assert outcomes.ask(id, wall + 40, HOME.outcome_age_s) is expected, step


def test_another_manager_at_the_same_place_is_not_taken_for_the_first() -> None:
    mine = session()
    mine.note_greeting(Greeting("ALPHA", bytes(range(16)), 1_000_500))
    with pytest.raises(ServiceNotAvailable, match="BETA"):
        mine.note_greeting(Greeting("BETA", bytes(16), 1_000_000))


def test_commits_that_were_never_begun_are_not_asked_for() -> None:
    mine = session()
    id = mine.next_commit()
    mine.check(id)
    mine.check(TransactionId(bytes(16), 999))
    with pytest.raises(InvalidParameter):
        mine.check(TransactionId(id.session, 2))


def test_names_known_are_bounded() -> None:
    mine = session()
    for number in range(DESTINATIONS_MAX + 1):
        mine.add_destination(f"q{number}", None)
    assert f"q{DESTINATIONS_MAX}" in mine.destinations
    assert len(mine.destinations) == 1
    for number in range(DESTINATIONS_MAX + 1):
        mine.note_foreign_manager(f"os:host{number}")
    assert mine.foreign == {f"os:host{DESTINATIONS_MAX}"}


def test_late_messages_are_given_to_the_next_receive_in_order() -> None:
    mine = session()
    assert mine.take("q", 10) is None
    mine.keep("q", batch(b"1", b"2", b"3"))
    mine.keep("q", batch(b"4"))
    assert mine.take("other", 10) is None
    found: list[list[bytes]] = []
    while (taken := mine.take("q", 2)) is not None:
        found.append([bytes(body) for body in taken.run])
    assert found == [[b"1", b"2"], [b"3"], [b"4"]]


def test_a_session_whose_commit_was_refused_as_too_late_numbers_anew() -> None:
    mine = session()
    id = mine.next_commit()
    not_committed(mine, id, TransactionOver("too late"))
    fresh = mine.next_commit()
    assert fresh.session != id.session
    mine.renumber(id)
    assert mine.next_commit() == TransactionId(fresh.session, 2), "that was another session's"
