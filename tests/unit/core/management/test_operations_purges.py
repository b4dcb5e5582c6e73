"""Purges and deletions of many messages: a portion in each step, and whose messages they end."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest

from onceq.core import inputs
from onceq.core.decision import Handed
from onceq.core.ending.ending import ENDED_AT_ONCE, UNASKED_FOR_ONE
from onceq.core.inputs import Room, SessionOpened
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queue_tables import ACKS_OWED, DEAD_XACT
from onceq.core.state.queues import Queue
from onceq.errors import QueueDeleted, QueueNotFound
from onceq.model import requests
from onceq.model.message import Acknowledge, Journal, Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import LENGTH_TYPE, Run
from tests.unit.core.alone import WAITS, Core

Q = r"private$\q"
ELSEWHERE = r"PRIVATE=5a5a5a5a-0000-0000-0000-000000000001\00000001"
ASKED = Properties(journal=Journal.DEADLETTER)
TOLD = Properties(admin_queue=r"DIRECT=OS:X\private$\a", acknowledge=Acknowledge.NEGATIVE_RECEIVE)
MANY = 3 * ENDED_AT_ONCE


def made(core: Core, name: str = "q") -> None:
    properties = QueueProperties(name=name, transactional=True)
    core.ask(requests.CreateQueue(properties=properties, instance=name.encode().zfill(16)))


def send(core: Core, count: int, properties: Properties = ASKED, to: str = Q) -> None:
    bodies = Run(bytes(count), array(LENGTH_TYPE, [1] * count))
    core.ask(requests.Commit(0, (requests.SendItem(to, properties, bodies=bodies),)))


def queue_of(core: Core) -> Queue:
    return core.manager.state.queues[Q]


def outgoing_of(core: Core) -> OutgoingQueue:
    (outgoing,) = core.manager.state.outgoing.values()
    return outgoing


def begun(core: Core, request: requests.PurgeQueue | requests.DeleteQueue) -> int:
    """Ask for something long; the number of the request."""
    assert core.ask(request) is WAITS
    return core.asked


def goes_on(core: Core) -> None:
    core.step(inputs.Tick())


def finished(core: Core, asked: int, most: int, left: Callable[[], int]) -> object:
    """The answer, in the end; no step ends more than that many messages."""
    for _ in range(100):
        if asked in core.answers:
            return core.answers[asked]
        due = core.manager.next_timer()
        assert due == core.now_us, "nobody comes back for the rest"
        before = left()
        goes_on(core)
        assert before - left() <= most
    raise AssertionError("it never ends")


@pytest.mark.parametrize("verb", [requests.PurgeQueue, requests.DeleteQueue])
def test_many_whose_senders_ask_end_in_several_steps(
    verb: type[requests.PurgeQueue | requests.DeleteQueue],
) -> None:
    core = Core()
    made(core)
    for _ in range(3):
        # Each is a request of its own: of neighbours with the same wishes one is noted.
        send(core, MANY // 6, TOLD)
        send(core, MANY // 6)
    queue = queue_of(core)
    asked = begun(core, verb(Q))
    assert len(queue) == MANY - ENDED_AT_ONCE
    assert finished(core, asked, ENDED_AT_ONCE, lambda: len(queue)) == MANY
    assert not len(queue)
    kept = core.manager.state.all_queues
    assert len(kept[DEAD_XACT]) == MANY // 2
    assert len(kept[ACKS_OWED]) == MANY // 2
    assert (Q in core.manager.state.queues) == (verb is requests.PurgeQueue)


@pytest.mark.parametrize("verb", [requests.PurgeQueue, requests.DeleteQueue])
def test_of_those_that_nobody_asks_about_more_end_in_a_step(
    verb: type[requests.PurgeQueue | requests.DeleteQueue],
) -> None:
    core = Core()
    made(core)
    many = 3 * ENDED_AT_ONCE * UNASKED_FOR_ONE
    send(core, many, Properties())
    queue = queue_of(core)
    asked = begun(core, verb(Q))
    most = ENDED_AT_ONCE * UNASKED_FOR_ONE
    assert many - most <= len(queue) < many
    assert finished(core, asked, most, lambda: len(queue)) == many


@pytest.mark.parametrize("verb", [requests.PurgeQueue, requests.DeleteQueue])
def test_few_end_in_one_step(
    verb: type[requests.PurgeQueue | requests.DeleteQueue],
) -> None:
    core = Core()
    made(core)
    send(core, ENDED_AT_ONCE - 1)
    assert core.ask(verb(Q)) == ENDED_AT_ONCE - 1


def test_what_comes_in_during_a_purge_stays() -> None:
    core = Core()
    made(core)
    send(core, MANY)
    asked = begun(core, requests.PurgeQueue(Q))
    send(core, 7)
    core.pass_time(0)
    assert core.answers[asked] == MANY
    assert len(queue_of(core)) == 7


def test_what_is_received_during_a_purge_is_received() -> None:
    core = Core()
    made(core)
    send(core, MANY)
    asked = begun(core, requests.PurgeQueue(Q))
    assert isinstance(core.ask(requests.Receive(Q, count_max=5)), Handed)
    core.pass_time(0)
    assert core.answers[asked] == MANY - 5
    assert not len(queue_of(core))


@pytest.mark.parametrize("then", ["commit", "abort", "abort at once"])
def test_what_is_locked_during_a_purge_follows_when_its_transaction_ends(then: str) -> None:
    core = Core()
    made(core)
    send(core, MANY)
    asked = begun(core, requests.PurgeQueue(Q))
    core.ask(requests.Begin(9))
    assert isinstance(core.ask(requests.Receive(Q, transaction=9, count_max=5)), Handed)
    if then == "abort at once":
        core.ask(requests.Abort(9))
    core.pass_time(0)
    assert core.answers[asked] == (MANY if then == "abort at once" else MANY - 5)
    if then == "commit":
        core.ask(requests.Commit(9, ()))
    elif then == "abort":
        core.ask(requests.Abort(9))
    assert not len(queue_of(core))
    ended = MANY - 5 if then == "commit" else MANY
    assert len(core.manager.state.all_queues[DEAD_XACT]) == ended


def test_a_queue_that_is_deleted_during_its_purge() -> None:
    core = Core()
    made(core)
    for _ in range(2):
        send(core, MANY)
    first = begun(core, requests.PurgeQueue(Q))
    second = begun(core, requests.DeleteQueue(Q))
    third = begun(core, requests.DeleteQueue(Q))
    core.pass_time(0)
    assert Q not in core.manager.state.queues
    purged, *deleted = (core.answers[asked] for asked in (first, second, third))
    assert isinstance(purged, int)
    # One of the two was late.
    assert [type(one) for one in sorted(deleted, key=str)] == [int, QueueNotFound]
    assert len(core.manager.state.all_queues[DEAD_XACT]) == 2 * MANY


def test_who_waits_at_a_queue_is_told_when_its_deletion_is_over() -> None:
    core = Core()
    made(core)
    send(core, MANY)
    core.ask(requests.OpenQueue(Q, requests.Access.RECEIVE))
    asked = begun(core, requests.DeleteQueue(Q))
    send(core, 3)
    core.pass_time(0)
    assert core.answers[asked] == MANY + 3
    assert isinstance(core.ask(requests.Receive(Q, handle=1)), QueueDeleted)


def test_works_take_turns_and_a_step_does_a_portion_of_one() -> None:
    core = Core()
    for name in ("q", "r"):
        made(core, name)
        send(core, MANY, to=rf"private$\{name}")
    for name in ("q", "r"):
        begun(core, requests.PurgeQueue(rf"private$\{name}"))
    sizes = []
    for _ in range(4):
        goes_on(core)
        sizes.append([len(core.manager.state.queues[rf"private$\{name}"]) for name in "qr"])
    left = [2, 2]
    for at, now in enumerate(sizes):
        left[at % 2] -= 1
        assert now == [each * ENDED_AT_ONCE for each in left]


def test_expiry_takes_turns_with_other_works_and_a_step_does_a_portion_of_one() -> None:
    core = Core()
    made(core)
    made(core, "over")
    over = core.manager.state.queues[r"private$\over"]
    brief = Properties(journal=Journal.DEADLETTER, time_to_be_received=1)
    send(core, MANY, brief, r"private$\over")
    send(core, MANY)
    begun(core, requests.PurgeQueue(Q))
    core.now_us += 2_000_000
    turns = []
    for _ in range(4):
        before = len(over), len(queue_of(core))
        goes_on(core)
        ended = before[0] - len(over), before[1] - len(queue_of(core))
        assert 0 in ended
        assert ENDED_AT_ONCE - 1 <= sum(ended) <= ENDED_AT_ONCE
        turns.append(ended[0] > 0)
    assert turns == [True, False] * 2


def test_a_crash_leaves_a_part_of_a_purge_undone_and_nothing_else() -> None:
    core = Core()
    made(core)
    send(core, MANY)
    begun(core, requests.PurgeQueue(Q))
    other = core.again()
    assert len(other.state.queues[Q]) == MANY - ENDED_AT_ONCE
    assert len(other.state.all_queues[DEAD_XACT]) == ENDED_AT_ONCE
    assert not other.at_work


def test_nothing_leaves_an_outgoing_queue_while_it_is_purged() -> None:
    core = Core()
    send(core, MANY, to=ELSEWHERE)
    outgoing = outgoing_of(core)
    core.step(SessionOpened(1, outgoing.name.guid, "x", outgoing.number))
    asked = begun(core, requests.PurgeQueue(ELSEWHERE))
    core.step(Room(1, 1_000, 1 << 20))
    assert not outgoing.ever_sent
    send(core, 1, to=ELSEWHERE)
    assert finished(core, asked, ENDED_AT_ONCE, lambda: len(outgoing)) == MANY
    core.step(Room(1, 1_000, 1 << 20))
    assert outgoing.ever_sent == MANY + 1
