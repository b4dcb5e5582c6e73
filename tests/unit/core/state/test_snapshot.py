"""Snapshots: taken at once, made into bytes later, and the same bytes whatever happens between."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from onceq.core.state.peer_table import Progress
from onceq.core.state.snapshot import ROWS_AT_ONCE, StateSnapshot
from onceq.model import requests
from onceq.model.message import Journal, Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import LENGTH_TYPE, InTwoParts, Run
from tests.unit.core.alone import Core
from tests.unit.core.effort import lines, stays_the_same

Q = r"private$\q"
DEAD = r"SYSTEM$;DEADXACT"
AWAY = r"PRIVATE=5a5a5a5a-0000-0000-0000-000000000001\0000000"


def send(core: Core, count: int, journal: Journal = Journal.DEADLETTER) -> None:
    item = requests.SendItem(
        Q, Properties(journal=journal), bodies=Run(bytes(count), array(LENGTH_TYPE, [1] * count))
    )
    core.ask(requests.Commit(0, (item,)))


def worn(requests_of_senders: int) -> Core:
    """A queue of that many messages of which each is noted for itself, and as many dead letters."""
    core = Core()
    properties = QueueProperties(name="q", transactional=True)
    core.ask(requests.CreateQueue(properties=properties, instance=bytes(16)))
    for _ in range(2):
        for at in range(requests_of_senders):
            send(core, 1, Journal.DEADLETTER if at % 2 else Journal.JOURNAL)
        if not len(core.manager.state.all_queues[1]):
            core.ask(requests.PurgeQueue(Q))
    core.ask(requests.Begin(1))
    core.ask(requests.Receive(Q, transaction=1, count_max=requests_of_senders // 2))
    core.ask(requests.Abort(1))
    return core


def test_what_happens_after_it_was_taken_is_not_in_it() -> None:
    core = worn(20)
    send(core, 1)
    expected = b"".join(core.manager.snapshot().encode())
    taken = core.manager.snapshot()
    send(core, 3)
    core.ask(requests.Begin(2))
    core.ask(requests.Receive(Q, transaction=2, count_max=5))
    core.ask(requests.Abort(2))
    core.ask(requests.Receive(Q, count_max=7))
    core.ask(requests.Receive(DEAD, count_max=7))
    core.ask(requests.PurgeQueue(Q))
    assert b"".join(core.manager.snapshot().encode()) != expected
    assert b"".join(taken.encode()) == expected


def test_tables_that_change_in_their_place_are_left_to_the_snapshot() -> None:
    core = worn(3)
    lane = core.manager.state.queues[Q].lanes[3]
    lengths = array(LENGTH_TYPE, [30] * 4)
    whole = lane.append(1 << 20, lengths, arrived=5, expires=1_000)
    front = lane.append(1 << 21, lengths, arrived=5, parts=InTwoParts(10, array("Q", [7, 9, 8, 6])))
    expected = b"".join(core.manager.snapshot().encode())
    taken = core.manager.snapshot()
    lane.relocate([whole, front + 1], 1 << 22, lengths[:2])
    lane.set_expiry(whole + 1, 2, 500)
    lane.append(1 << 23, lengths, arrived=6, parts=InTwoParts(10, array("Q", [3, 4, 2, 1])))
    changed = b"".join(core.manager.snapshot().encode())
    assert changed != expected
    assert b"".join(taken.encode()) == expected
    assert b"".join(core.manager.snapshot().encode()) == changed
    lane.relocate([whole + 3], 1 << 24, lengths[:1])
    assert b"".join(core.manager.snapshot().encode()) != changed, "a shared table can be changed"


def test_rows_of_queues_and_streams_are_those_of_that_moment() -> None:
    core = Core()
    state = core.manager.state
    properties = QueueProperties(name="q", transactional=True)
    core.ask(requests.CreateQueue(properties=properties, instance=bytes(16)))
    core.ask(requests.Commit(0, (requests.SendItem(AWAY + "1", Properties(), Run.of([b"a"])),)))
    stream = Progress(b"S" * 16, "key", stream=3, last=7)
    state.progress[stream.source, stream.key] = stream
    state.first_heard[stream.source] = 5
    expected = b"".join(core.manager.snapshot().encode())
    taken = core.manager.snapshot()
    core.ask(requests.SetQueue(Q, {"label": "another"}))
    stream.last, stream.passed = 9, ((8, 8),)
    (outgoing,) = state.outgoing.values()
    outgoing.paused_s, outgoing.base, outgoing.left[8] = 4, 4, 4
    outgoing.old.add(2, 1)
    state.first_heard[b"T" * 16] = 6
    for number in range(2, 4):
        item = requests.SendItem(f"{AWAY}{number}", Properties(), Run.of([b"a"]))
        core.ask(requests.Commit(0, (item,)))
    assert b"".join(core.manager.snapshot().encode()) != expected
    assert b"".join(taken.encode()) == expected


def test_a_queue_with_nothing_in_it_costs_little_when_one_is_taken() -> None:
    def cost(count: int) -> int:
        core = Core()
        for number in range(count):
            properties = QueueProperties(name=f"q{number}", transactional=True)
            core.ask(requests.CreateQueue(properties=properties, instance=bytes(16)))
        return lines(core.manager.snapshot)

    assert cost(110) - cost(10) <= 20 * 100, "lines of Python for each queue and its lane"


def test_taking_one_costs_the_same_whatever_stands_beside_the_messages() -> None:
    def make(count: int) -> Callable[[], object]:
        state = worn(count).manager.state
        return lambda: StateSnapshot(state)

    stays_the_same(make, small=10, large=500)


def test_others_have_their_turn_after_a_bounded_number_of_rows() -> None:
    core = worn(3 * ROWS_AT_ONCE)
    pauses: list[None] = []
    core.manager.snapshot().encode(lambda: pauses.append(None))
    few: list[None] = []
    worn(2).manager.snapshot().encode(lambda: few.append(None))
    # Requests of the queue, aborts there, classes of dead letters.
    assert len(pauses) - len(few) >= 2 + 1 + 1
