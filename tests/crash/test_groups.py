"""Groups of branches survive every crash point on every legal disk, and every cut of the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onceq.core.state.branch_table import GroupTable
from onceq.core.step.step import RULES, Step
from onceq.core.transaction import second_phase
from onceq.model.requests import CommitGroup
from onceq.testing.disk import Plan, SimFiles, Torn
from tests.crash.group_life import GroupLife, images

LARGE = 1 << 20
"""A segment that holds everything."""


def test_some_images_at_every_point() -> None:
    assert images(3) > 60


@pytest.mark.slow
@pytest.mark.tier("rest")
def test_many_images_at_every_point() -> None:
    assert images(60) > 1_500


def cuts() -> tuple[GroupLife, list[int]]:
    """A life that ends while the records of a group are synced, and where each of them ends."""
    life = GroupLife(SimFiles(), segment_bytes=LARGE)
    life.open()
    life.batch(0)
    xids = life.prepare(1)
    ends: list[int] = []
    append = life.store.append

    def noting(*arguments: Any) -> int:
        at = append(*arguments)
        ends.append(life.store.position)
        return at

    start = life.store.position
    life.store.append = noting  # type: ignore[assignment, method-assign]
    life.store.sync = life.store.flush  # type: ignore[method-assign]
    life.commit(1, xids)
    life.told = 0  # of the second one nothing was said
    return life, [end - start for end in ends]


def judge_cuts(step: int) -> tuple[int, int]:
    """Cut the log at the end of each record, around it, and at every ``step``-th byte."""
    life, ends = cuts()
    (write,) = life.files.pending_writes
    lengths = {near for end in ends for near in (end - 1, end, end + 1) if near <= ends[-1]}
    lengths |= set(range(0, ends[-1], step))
    for length in sorted(lengths):
        plan = Plan((write,), life.files.pending_names, Torn(write, length))
        life.judge(life.files.image(plan))
    return len(ends), len(lengths)


def test_the_log_is_cut_within_the_records_of_a_group() -> None:
    records, count = judge_cuts(149)
    assert records == 5, "the decision, three branches, and one of an attempt beside"
    assert count > 20


@pytest.mark.slow
@pytest.mark.tier("rest")
def test_the_log_is_cut_at_many_bytes_of_a_group() -> None:
    """Every single one takes 40 s: ``judge_cuts(1)``."""
    assert judge_cuts(2)[1] > 350


# ---- planted mistakes ---------------------------------------------------------------------


def _record_after_changes(patch: pytest.MonkeyPatch) -> None:
    """27 of a kind: what is to be done is written after it was done."""

    def commit(step: Step, item: CommitGroup) -> None:
        setup = step.setup
        late: list[Callable[[], None]] = []
        step.setup = lambda *a, **v: late.append(lambda: setup(*a, **v))  # type: ignore
        try:
            original(step, item)
        finally:
            del step.setup
        for work in late:
            work()
            step.state.groups.pending = []

    original = second_phase.commit
    kind: type[Any] = CommitGroup
    patch.setitem(RULES, kind, commit)


def _not_finished(patch: pytest.MonkeyPatch) -> None:
    """Recovery leaves a group as the cut has left it."""

    def finish(step: Step) -> None:
        step.state.groups.pending = []

    patch.setattr(second_phase, "finish", finish)


def _not_remembered(patch: pytest.MonkeyPatch) -> None:
    """27: a batch that is written twice is committed twice."""
    patch.setattr(GroupTable, "get", lambda self, app: None)


def _version_forgotten_by_checkpoints(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupTable, "dump", lambda self: [])


def _any_order(patch: pytest.MonkeyPatch) -> None:
    """Recovery takes up what is left from the end."""

    def finish(step: Step) -> None:
        step.state.groups.pending.reverse()
        original(step)

    original = second_phase.finish
    patch.setattr(second_phase, "finish", finish)


PLANTED = (
    _record_after_changes, _not_finished, _not_remembered, _version_forgotten_by_checkpoints,
    _any_order,
)  # fmt: skip


@pytest.mark.tier("rest")
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__.strip("_"))
def test_a_planted_mistake_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        images(3)
        judge_cuts(149)
