"""One task of a write, without Spark: branches of a moderate size, all prepared or none left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed: pip install onceq[spark]")

import onceq  # noqa: E402
from onceq.errors import InsufficientResources, QueueNotFound, RolledBack  # noqa: E402
from onceq.model.xid import ONCEQ_FORMAT, Xid  # noqa: E402
from onceq.spark import sink_task  # noqa: E402
from onceq.spark.sink_options import parse_sink  # noqa: E402
from onceq.spark.sink_task import Job, Staged, _Task  # noqa: E402
from tests.scratch import scratch  # noqa: E402

QUEUE = r"private$\q"
JOB = Job("app", 0, "", 3)


@pytest.fixture
def qm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[onceq.QueueManager]:
    with scratch(tmp_path_factory, "task") as folder, onceq.open(str(folder / "a")) as made:
        made.create_queue(QUEUE, transactional=True)
        yield made


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_task, "BRANCH_MESSAGES", 10)
    monkeypatch.setattr(sink_task, "BRANCH_BYTES", 100)


def batches(*bodies: bytes, size: int = 4) -> Iterator[Any]:
    for at in range(0, len(bodies), size):
        yield pa.RecordBatch.from_pydict({"body": list(bodies[at : at + size])})


def task(qm: onceq.QueueManager, **options: str) -> _Task:
    given = {"queueManager": "unused", "queue": QUEUE, **options}
    return _Task(qm, ("body",), parse_sink(given, stream=True), JOB)


def commit(qm: onceq.QueueManager, staged: Staged) -> list[bytes]:
    xids = [Xid(ONCEQ_FORMAT, *branch) for branch in staged.branches]
    qm.groups.commit(JOB.app, JOB.version, xids)
    return list(qm.receive_many(QUEUE, timeout=0).bodies())


@pytest.mark.usefixtures("small")
def test_a_branch_that_is_full_is_prepared_and_the_next_begins(qm: onceq.QueueManager) -> None:
    bodies = [b"%d" % n for n in range(23)] + [b"x" * 60, b"y" * 60, b"z" * 500]
    staged = task(qm).run(batches(*bodies))
    assert staged.rows == 26
    assert [view["messages"] for view in qm.branches()] == [8, 8, 8, 1, 1]
    assert {view["phase"] for view in qm.branches()} == {"prepared"}
    assert len(staged.branches) == len(set(staged.branches)) == 5
    assert len({gtrid for gtrid, _ in staged.branches}) == 1
    assert commit(qm, staged) == bodies


@pytest.mark.usefixtures("small")
def test_a_task_that_fails_rolls_back_what_it_has_promised(qm: onceq.QueueManager) -> None:
    def failing() -> Iterator[Any]:
        yield from batches(*[b"x"] * 25)
        assert [view["phase"] for view in qm.branches()].count("prepared") == 2
        raise KeyError("in a row")

    with pytest.raises(KeyError):
        task(qm).run(failing())
    assert [view for view in qm.branches() if view["phase"] == "prepared"] == []


def test_no_rows_are_no_branches(qm: onceq.QueueManager) -> None:
    assert task(qm).run(batches()) == Staged((), 0, 0)
    assert qm.branches() == []


def test_after_the_end_of_the_write_nothing_is_prepared(qm: onceq.QueueManager) -> None:
    late = task(qm)
    qm.groups.rollback(JOB.app, JOB.version, final=True)
    with pytest.raises(RolledBack, match="group is over"):
        late.run(batches(b"late"))
    assert qm.branches() == []


def test_what_is_not_the_rows_fault_fails_it_also_with_an_error_queue(
    qm: onceq.QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    qm.create_queue(r"private$\e", transactional=True)
    qm.create_queue(r"private$\full", transactional=True, quota_kb=1)
    with pytest.raises(InsufficientResources, match="make batches smaller"):
        task(qm, queue=r"private$\full", errorQueue=r"private$\e").run(batches(b"x" * 5_000))
    assert qm.queue(r"private$\e")["messages"] == 0
    with pytest.raises(QueueNotFound, match="row 5 of partition 3"):
        made = _Task(qm, ("body", "queue"), parse_sink({"queueManager": "h:1"}, stream=True), JOB)
        queues = [QUEUE] * 5 + [r"private$\nowhere"]
        made.run(iter([
            pa.RecordBatch.from_pydict({"body": [b"1"] * 2, "queue": queues[:2]}),
            pa.RecordBatch.from_pydict({"body": [b"2"] * 4, "queue": queues[2:]}),
        ]))  # fmt: skip


def test_a_record_of_a_task_holds_no_address(qm: onceq.QueueManager, tmp_path: Path) -> None:
    """What goes back to the driver is in Spark's hands: names and numbers only."""
    staged = task(qm, queueManager="onceq://secret-host:1").run(batches(b"1"))
    assert "secret" not in repr((JOB, staged))
