"""A history is a function of the log: whatever crashes where, each record is told exactly once.

The reference is one projection of the whole log, made at the end by a manager that never crashed.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from onceq.model.message import Journal
from onceq.testing.disk import PowerCut, SimFiles
from tests.conformance.world import Node
from tests.history.projections import SETTINGS, reference, whole
from tests.history.worlds import History, Kept

Q, NOWHERE = r"private$\q", r"DIRECT=OS:B\private$\q"
EVERY = 3
"""Each third operation of the disk is one to die at; which third, the way to die says."""


def steps(node: Node) -> list[Callable[[], object]]:
    """What an application does; each step may be the last of a process."""
    dead = Journal.DEADLETTER

    def take(*, commit: bool) -> None:
        tx = node.begin()
        node.receive(Q, tx=tx, count=2)
        if commit:
            node.commit(tx)
        else:
            node.abort(tx)

    return [
        lambda: node.create("q"),
        lambda: node.once(Q, b"1", b"2", b"3"),
        lambda: node.once(NOWHERE, b"late", b"too", journal=dead, time_to_reach_queue=4),
        lambda: node.world.run(3),
        lambda: take(commit=False),
        lambda: node.once(Q, *[b"more" * 50] * 60, journal=dead),
        lambda: take(commit=True),
        lambda: node.world.run(3),
        lambda: node.once(Q, b"short", journal=dead, time_to_be_received=1),
        lambda: node.world.run(3),
        lambda: node.purge(Q),
        lambda: node.world.run(3),
    ]


def lived(die: Callable[[SimFiles], SimFiles], stop_at: int) -> tuple[History, int, Node]:
    """A whole life with one crash before an operation of the disk; what the history says."""
    world = Kept("A", settings=SETTINGS)
    node = world["A"]
    node.files.stop_at = stop_at
    for step in steps(node):
        try:
            step()
        except PowerCut:
            node._die()
            world.events.clear()
            node.files = die(node.files)
            node.files.stop_at = 0
            node.start()
        except Exception:  # noqa: BLE001 - it lost what an earlier step had asked for
            assert node.files.stop_at == 0
    assert node.engine is not None
    node.engine.stop()
    return History(node.files, "/store"), node.files.operations, node


WAYS: dict[str, Callable[[SimFiles], SimFiles]] = {
    "kill": lambda files: files.kill(),
    "power": lambda files: next(iter(files.images())),
    "torn": lambda files: files.crash(random.Random(7)),
}


def test_damaged_packets_are_told_by_their_size() -> None:
    """Whole records of them, and some of a record: the history goes on, and guesses nothing."""
    world = Kept("A", settings=SETTINGS)
    node = world["A"]
    node.create("q")
    bodies = [b"%04d" % n * 250 for n in range(12)]
    node.once(Q, *bodies)
    node.once(Q, b"alone" * 100)
    node.once(Q, b"behind")
    right = reference(node).rows()
    for damaged, most in ((bodies[6], 6), (b"alone" * 100, 7)):
        rows = reference(node, damaged).rows()
        assert len(rows) == len(right) >= 14
        other = [at for at, row in enumerate(rows) if row != right[at]]
        assert 1 <= len(other) <= most
        assert {rows[at]["message"] for at in other} == {0}
        for at in other:
            same = ("event", "position", "ordinal", "queue", "lookupId", "bytes")
            assert [rows[at].get(name) for name in same] == [right[at].get(name) for name in same]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_crash_anywhere_doubles_and_loses_no_row(way: str) -> None:
    quiet, operations, node = lived(WAYS[way], 0)
    whole(quiet, node)
    assert {"committed", "received", "given-back", "expired", "dead-lettered", "purged"} <= {
        row["event"] for row in quiet.rows()
    }
    begin = list(WAYS).index(way)
    died = 0
    for stop_at in range(1 + begin, operations + 1, EVERY):
        try:
            history, _, node = lived(WAYS[way], stop_at)
        except PowerCut:
            continue  # before the manager was made
        whole(history, node)
        died += 1
    assert died > operations // EVERY // 2
