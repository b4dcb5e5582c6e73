"""Who does what among workers that keep an order, and what may be asked of them."""

from __future__ import annotations

from typing import Any

import pytest

from onceq.client.ordered import LOOK, OVER, WAIT, ConsumerOptions, Turns, of_stream
from onceq.errors import InvalidParameter
from tests.unit.client.placed import message


class Stop:
    """An event."""

    def __init__(self) -> None:
        self.set = False

    def is_set(self) -> bool:
        return self.set


def key(one: Any) -> str:
    label: str = one.label
    return label


class Given(Turns):
    """Turns whose clock the test sets."""

    def __init__(self, *, timeout: float | None = None, concurrency: int = 2) -> None:
        self.stop = Stop()
        self.at = 0.0
        wish = ConsumerOptions("q", timeout, concurrency, 1, key)
        super().__init__(wish, self.stop, lambda: self.at)

    def found(self, *messages: Any) -> None:
        self.looked(list(messages))  # type: ignore[arg-type]  # what is asked of a batch


def test_one_looks_and_the_others_wait() -> None:
    turns = Given()
    assert [turns.now(), turns.now()] == [LOOK, WAIT]
    turns.found(message(1, "a"), message(2, "a"), message(3, "b"))
    assert [turns.now(), turns.now()] == [1, 3]
    assert turns.now() == LOOK, "all that can be done is at work"
    assert turns.now() == WAIT
    turns.done(1, gone=True)
    assert turns.now() == 2


def test_no_more_are_at_work_than_were_asked_for() -> None:
    turns = Given(concurrency=2)
    assert turns.now() == LOOK
    turns.found(*[message(place, str(place)) for place in range(1, 6)])
    assert [turns.now(), turns.now()] == [1, 2]
    assert turns.now() == LOOK
    turns.done(1, gone=True)
    assert turns.now() == 3


def test_the_end_of_the_time_waits_for_what_is_at_work_and_looks_once_more() -> None:
    turns = Given(timeout=0.0)
    assert turns.now() == LOOK
    turns.found(message(1, "a"))
    assert turns.now() == 1
    assert turns.now() == LOOK
    turns.nothing_came()
    assert turns.now() == WAIT, "it may come back to its place"
    turns.done(1, gone=True)
    assert turns.now() == LOOK
    turns.nothing_came()
    assert turns.now() == OVER


def test_without_a_time_it_looks_for_ever_and_from_the_front() -> None:
    turns = Given()
    assert turns.now() == LOOK
    turns.found(message(7, "a"))
    assert turns.after == 7
    assert turns.now() == 7
    turns.done(7, gone=True)
    assert turns.now() == LOOK
    turns.nothing_came()
    assert (turns.now(), turns.after) == (LOOK, 0)
    turns.found(message(9, "a"))
    assert turns.now() == 9
    assert (turns.now(), turns.after) == (LOOK, 9)
    turns.looked(None)
    turns.at = 5.0
    assert (turns.now(), turns.after) == (LOOK, 0), "also while there is always something to do"


def test_a_stop_comes_before_everything() -> None:
    turns = Given()
    assert turns.now() == LOOK
    turns.found(message(1, "a"))
    turns.stop.set = True
    assert turns.now() == OVER


class Connection:
    """Can be called, as one of sqlite3 can, and makes nothing."""

    def __call__(self) -> None: ...

    def execute(self) -> None: ...


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"concurrency": 0}, "concurrency is a number"),
        ({"concurrency": True}, "concurrency is a number"),
        ({"concurrency": 1_001}, "at most 1000"),
        ({"batch": 0}, "batch is a number"),
        ({"batch": "5"}, "batch is a number"),
        ({"timeout": float("nan")}, "timeout"),
        ({"order": "key"}, "order is"),
        ({"order": "stream", "concurrency": 2, "batch": 5}, "leave batch out"),
        ({"database": "dbname=shop"}, "function that opens a connection"),
        ({"database": Connection()}, "function that opens a connection"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidParameter, match=says):
        ConsumerOptions("q", **wrong)


def test_one_worker_keeps_every_order() -> None:
    assert ConsumerOptions("q", order="stream", batch=5).key is None
    assert ConsumerOptions("q", concurrency=2).key is None
    assert ConsumerOptions("q", order="stream", concurrency=2).key is of_stream
    assert ConsumerOptions("q", order=key, concurrency=2).key is key
