"""A disk that fails a history for a while, and a process that dies meanwhile: nothing is lost.

What the manager itself writes is not touched by these faults; a store whose own disk fails stops,
and that is another matter (P8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from onceq.errors import NoSpace, StorageFailure, SyncFailed
from onceq.history import keeper
from onceq.history.keeper import Keeper
from onceq.model.settings import Settings
from onceq.store.log import LogStore
from onceq.testing.disk import SimFiles
from tests.conformance.world import Node
from tests.history.projections import reference, whole, without_times
from tests.history.worlds import HISTORY, History, Kept, keep

Q, TO_B = r"private$\q", r"DIRECT=OS:B\private$\q"
FULL, BROKEN = NoSpace("the disk is full"), StorageFailure("input/output error")
FAULTS = {
    "open": FULL, "write": FULL, "sync": SyncFailed("a sync failed"), "rename": BROKEN,
    "sync_directory": SyncFailed("a sync of the directory failed"), "unlink": BROKEN,
}  # fmt: skip
CHANGING = ("open", "write", "sync", "rename", "sync_directory", "unlink")


class Failing:
    """The files of a history: operations that change them fail when told to."""

    def __init__(self, files: SimFiles, faults: Faults) -> None:
        self._files = files
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._files, name)

        def asked(*given: Any, **more: Any) -> Any:
            self._faults.meet(name)
            return real(*given, **more)

        return asked if name in CHANGING else real


class Faults:
    """Which operations fail, over all lives of a manager."""

    def __init__(self) -> None:
        self.failing: dict[str, StorageFailure] = {}
        self.at = 0
        self.calls: list[str] = []

    def meet(self, name: str) -> None:
        self.calls.append(name)
        if len(self.calls) == self.at:
            raise FAULTS[name]
        if name in self.failing:
            raise self.failing[name]


class Faulty(Kept):
    """A world in which the disk can fail the histories."""

    def __init__(self, *names: str, settings: Settings = HISTORY) -> None:
        self.faults = Faults()
        super().__init__(*names, settings=settings)

    def keep(self, store: LogStore, files: SimFiles, settings: Settings) -> Keeper:
        return keep(store, Failing(files, self.faults), settings)  # type: ignore[arg-type]


def begun() -> tuple[Faulty, Node]:
    """A manager with a queue, and a history up to there."""
    world = Faulty("A")
    node = world["A"]
    node.create("q")
    world.run(6)
    return world, node


def ended(node: Node) -> History:
    """The history after an end in order."""
    assert node.engine is not None
    node.engine.stop()
    return History(node.files, "/store")


@pytest.mark.parametrize("operation", FAULTS)
def test_what_could_not_be_written_is_written_later(operation: str) -> None:
    world, node = begun()
    world.faults.failing = {operation: FAULTS[operation]}
    node.once(Q, b"1")
    world.run(6)
    node.once(Q, b"2")
    world.run(6)
    world.faults.failing = {}
    node.once(Q, b"3")
    world.run(6)
    assert [row["event"] for row in History(node.files, "/store").rows()] == ["committed"] * 3
    node.receive(Q, count=3)
    whole(ended(node), node)


@pytest.mark.parametrize("operation", FAULTS)
@pytest.mark.parametrize("die", [Node.kill, Node.power_cut])
def test_a_crash_before_it_was_written_loses_nothing(
    operation: str, die: Callable[[Node], None]
) -> None:
    world, node = begun()
    world.faults.failing = {operation: FAULTS[operation]}
    node.once(Q, b"1")
    world.run(6)
    node.once(Q, b"2")
    world.run(6)
    die(node)
    world.faults.failing = {}
    node.start()
    node.receive(Q, count=2)
    world.run(6)
    whole(ended(node), node)


def test_the_log_stays_that_an_unwritten_part_is_told_from() -> None:
    """What was received stood before a checkpoint: nobody but the history needs it any more."""
    world, node = begun()
    node.once(Q, *[b"x" * 4_000] * 40)
    assert node.engine is not None
    node.engine.checkpoint()
    world.faults.failing = {"write": FULL}
    for _ in range(4):
        node.receive(Q, count=10)
        world.run(6)
    node.kill()
    world.faults.failing = {}
    node.start()
    world.run(6)
    told = ended(node)
    assert all(one.end == other.start for one, other in pairwise(told.spans))
    rows = told.rows()
    assert [row["event"] for row in rows] == ["committed"] * 40 + ["received"] * 40
    assert [row["message"] for row in rows[:40]] == [row["message"] for row in rows[40:]]


@pytest.mark.slow
def test_each_operation_of_the_disk_may_fail_once() -> None:
    def lived(at: int) -> tuple[Faulty, Node]:
        world = Faulty("A", settings=replace(HISTORY, history_roll_s=1))
        world.faults.at = at
        node = world["A"]
        node.create("q")
        for life in range(2):
            node.once(Q, *[b"%d" % life] * 30)
            world.run(2)
            node.receive(Q, count=20)
            world.run(2)
            node.kill()
            node.start()
        ended(node)
        return world, node

    world, node = lived(0)
    calls = list(world.faults.calls)
    assert set(calls) == {"open", "write", "sync", "rename", "sync_directory"}
    for at, name in enumerate(calls, 1):
        try:
            _, node = lived(at)
        except StorageFailure:
            assert name in ("unlink", "open"), "only a folder that cannot be looked at is refused"
            continue
        history = History(node.files, "/store")
        last = history.spans[-1].end
        assert without_times(history) == [
            row for row in without_times(reference(node)) if int(str(row["position"])) < last
        ]


def test_what_stays_unwritten_until_a_crash_behind_a_checkpoint_is_missing_and_it_shows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, node = begun()
    world.faults.failing = {"open": FULL}
    node.once(Q, b"1")
    assert node.engine is not None
    node.engine.checkpoint()
    assert node.bodies(Q) == [b"1"], "the manager goes on"
    assert "cannot be written now" in caplog.text
    node.kill()
    world.faults.failing = {}
    node.start()
    assert "a part of the history is missing" in caplog.text
    node.once(Q, b"2")
    told = ended(node)
    assert [one.end == other.start for one, other in pairwise(told.spans)].count(False) == 1
    assert [row["event"] for row in told.rows()] == ["committed"]


def test_what_waits_is_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keeper, "HISTORY_UNWRITTEN_BYTES_MAX", 40_000)
    world, node = begun()
    world.faults.failing = {"open": FULL}
    for at in range(6):
        node.once(Q, b"%d" % at)
        world.run(6)
    assert "a part of the history is missing" in caplog.text
    world.faults.failing = {}
    told = ended(node)
    assert [one.end == other.start for one, other in pairwise(told.spans)].count(False) == 1
    assert 0 < len(told.rows()) < 6
    assert [row["event"] for row in told.rows()] == ["committed"] * len(told.rows())


def test_what_is_seen_where_the_last_part_had_to_go_does_not_end_the_history(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No file and no part is left then of the place at which the log stands still."""
    monkeypatch.setattr(keeper, "HISTORY_UNWRITTEN_BYTES_MAX", 0)
    world = Faulty("A", "B", settings=replace(HISTORY, resend_first_s=20.0, resend_second_s=20.0))
    a = world["A"]
    world["B"].create("q")
    world.link("A", "B").policy = lambda p: [] if p.kind == 1 else [(0, p)]
    world.faults.failing = {"write": FULL}
    a.once(TO_B, b"1")
    world.run(90)
    assert "too much waits" in caplog.text
    world.faults.failing = {}
    a.once(TO_B, b"2")
    world.run(6)
    assert [row["event"] for row in History(a.files, "/store").rows()] == ["committed"]
    assert "has failed" not in caplog.text
