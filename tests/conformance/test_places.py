"""Places of messages in local queues: no start gives one that any earlier life has given.

A machine is rolled back as a whole, so nothing tells the manager that it is an older copy of
itself. Whoever kept a lookup identifier, or a checkpoint, of the life that is undone finds nothing
new at the places that he knows (I18).
"""

from __future__ import annotations

from typing import Any

import pytest

from onceq.model.message import Delivery, Journal
from onceq.model.requests import TakeRead
from onceq.model.views import looks
from onceq.model.views.queues import RangeAsked
from onceq.testing.disk import Plan, SimFiles
from tests.conformance.copies import image
from tests.conformance.world import Node, World, fast

Q, PLAIN, JOURNAL = r"private$\q", r"private$\p", r"private$\q;journal"
LETTERS = "SYSTEM$;DEADXACT"
LATE: dict[str, Any] = {"journal": Journal.DEADLETTER, "time_to_be_received": 2}


@pytest.fixture
def a() -> Node:
    made = World("A", settings=fast())
    made["A"].create("q", journal=True)
    made["A"].create("p", transactional=False)
    return made["A"]


def roll_back(node: Node, files: SimFiles) -> None:
    """The machine is as it was, and cannot tell."""
    node.kill()
    node.files = files.image(Plan((), ()))
    node.start()


def places(node: Node, queue: str) -> set[int]:
    return set(node.messages(queue).lookup_ids)


def filled(world: World, node: Node, count: int) -> dict[str, set[int]]:
    """Messages come into queues of every kind; their places by queue."""
    node.once(Q, *(b"%d" % n for n in range(count)))
    node.send(0, PLAIN, *(b"%d" % n for n in range(count)))
    node.once(Q, b"late", **LATE)
    world.run(5)
    found = {queue: places(node, queue) for queue in (Q, PLAIN, LETTERS)}
    for _ in range(count):
        node.receive(Q)
    return found | {JOURNAL: places(node, JOURNAL)}


def test_no_queue_gives_a_place_of_a_life_that_is_undone(a: Node) -> None:
    """Neither one that had messages at the cut, nor one that had none and was not used yet."""
    empty = image(a)
    first = filled(a.world, a, 3)
    some = image(a)
    second = filled(a.world, a, 4)
    for files in (empty, some):
        roll_back(a, files)
        third = filled(a.world, a, 5)
        for queue, given in third.items():
            old = first[queue] | second[queue]
            kept = first[queue] if files is some else set()
            assert len(given - kept) >= 5 or queue == LETTERS
            assert not (given - kept) & old, queue


def test_what_was_planned_in_a_life_that_is_undone_removes_nothing_unseen(a: Node) -> None:
    """A reader looks, and writes what it has planned in an undone life; more comes meanwhile."""
    a.once(Q, b"1", b"2")
    files = image(a)
    a.once(Q, b"3", b"4", b"5", b"6")
    planned = max(places(a, Q))
    roll_back(a, files)
    a.once(Q, b"new")
    view = a.look(looks.RANGE.what, RangeAsked(Q, 0, planned, 0).text())
    assert view.messages == 2, "those that it had before"
    a.once(Q, b"newer")
    assert a.ask(TakeRead(Q, 0, 1, planned)) == 2
    assert a.bodies(Q) == [b"new", b"newer"]


def test_a_reader_goes_on_behind_what_it_has_read_in_a_life_that_is_undone(a: Node) -> None:
    """Or what comes now would stand before its place, and never be read."""
    a.once(Q, b"1")
    files = image(a)
    a.once(Q, b"2", b"3", b"4")
    read = max(places(a, Q))
    roll_back(a, files)
    a.once(Q, b"new")
    view = a.look(looks.RANGE.what, RangeAsked(Q, read, (1 << 62) - 1, 0).text())
    assert view.messages == 1


def test_express_messages_that_are_lost_leave_their_places_behind(a: Node) -> None:
    a.send(0, PLAIN, b"1", b"2", b"3", delivery=Delivery.EXPRESS)
    lost = places(a, PLAIN)
    a.kill()
    a.start()
    a.send(0, PLAIN, b"4", b"5", b"6", delivery=Delivery.EXPRESS)
    assert min(places(a, PLAIN)) > max(lost)


def test_a_checkpoint_keeps_where_places_begin(a: Node) -> None:
    """Of queues that are not used before it, too; the log behind it counts from there."""
    a.kill()
    a.start()
    a.create("later")
    a.once(r"private$\later", b"1")
    before = places(a, r"private$\later")
    assert a.engine is not None
    a.engine.checkpoint()
    a.create("last")
    a.once(r"private$\last", b"1")
    last = places(a, r"private$\last")
    a.kill()
    a.start()
    assert places(a, r"private$\later") == before
    assert places(a, r"private$\last") == last
    a.once(r"private$\last", b"2")
    assert max(places(a, r"private$\last")) > max(last)
