"""One task of a write, without Spark: branches of a moderate size, all prepared or none left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed: pip install onceq[spark]")

import onceq  # noqa: E402
from onceq.errors import QueueNotFound, RolledBack, SendFailed  # noqa: E402
from onceq.model.branches import ONCEQ_FORMAT, Xid  # noqa: E402
from onceq.spark.sink import branches  # noqa: E402
from onceq.spark.sink.options import parse_sink  # noqa: E402
from onceq.spark.sink.task import Staged, TaskBatch, stage  # noqa: E402
from tests.scratch import scratch  # noqa: E402

QUEUE = r"private$\q"
JOB = TaskBatch("app", 0, "", 3)


@pytest.fixture
def qm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[onceq.QueueManager]:
    with (
        scratch(tmp_path_factory, "task") as folder,
        onceq.open(str(folder / "a"), create=True) as made,
    ):
        made.create_queue(QUEUE, transactional=True)
        yield made


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "BRANCH_MESSAGES", 10)
    monkeypatch.setattr(branches, "BRANCH_BYTES", 100)


def batches(*bodies: bytes, size: int = 4) -> Iterator[Any]:
    for at in range(0, len(bodies), size):
        yield pa.RecordBatch.from_pydict({"body": list(bodies[at : at + size])})


class _Task:
    """A task of a write at one queue manager that is there already."""

    def __init__(
        self, qm: onceq.QueueManager, names: tuple[str, ...], options: Any, job: TaskBatch
    ):
        self._stage = partial(
            stage, names=names, options=options, job=job, opened=lambda address: nullcontext(qm)
        )

    def run(self, batches: Iterator[Any]) -> Staged:
        return self._stage(batches)


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
    assert [view["messages"] for view in qm.admin.branches()] == [8, 8, 8, 1, 1]
    assert {view["phase"] for view in qm.admin.branches()} == {"prepared"}
    assert len(staged.branches) == len(set(staged.branches)) == 5
    assert len({gtrid for gtrid, _ in staged.branches}) == 1
    assert commit(qm, staged) == bodies


@pytest.mark.usefixtures("small")
def test_a_task_that_fails_rolls_back_what_it_has_promised(qm: onceq.QueueManager) -> None:
    def failing() -> Iterator[Any]:
        yield from batches(*[b"x"] * 25)
        assert [view["phase"] for view in qm.admin.branches()].count("prepared") == 2
        raise KeyError("in a row")

    with pytest.raises(KeyError):
        task(qm).run(failing())
    assert [view for view in qm.admin.branches() if view["phase"] == "prepared"] == []


def test_no_rows_are_no_branches(qm: onceq.QueueManager) -> None:
    assert task(qm).run(batches()) == Staged((), 0, 0)
    assert qm.admin.branches() == []


def test_after_the_end_of_the_write_nothing_is_prepared(qm: onceq.QueueManager) -> None:
    late = task(qm)
    qm.groups.rollback(JOB.app, JOB.version, final=True)
    with pytest.raises(RolledBack, match="group is over"):
        late.run(batches(b"late"))
    assert qm.admin.branches() == []


def test_what_is_not_the_rows_fault_fails_it_also_with_an_error_queue(
    qm: onceq.QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    qm.create_queue(r"private$\e", transactional=True)
    qm.create_queue(r"private$\full", transactional=True, quota_kb=1)
    with pytest.raises(SendFailed, match=r"quota-exceeded.*make batches smaller"):
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


# ---- destinations of each row ----------------------------------------------------------------

FAR = r"DIRECT=OS:BETA\private$\far"


def names_of(qm: onceq.QueueManager) -> tuple[str, ...]:
    here = f"DIRECT=OS:{qm.name}\\{QUEUE}"
    return (
        QUEUE, here, r"private$\other", FAR, f"{here},{FAR}", r".\PRIVATE$\Q", r"private$\third",
        r"direct=os:beta\PRIVATE$\far",
    )  # fmt: skip


def rows_of(count: int, **columns: Any) -> Iterator[Any]:
    data = {"body": [b"%d" % n for n in range(count)], **columns}
    yield pa.RecordBatch.from_pydict(data)


def held(qm: onceq.QueueManager, queue: str) -> list[int]:
    return [int(body) for body in qm.peek_many(queue, 1_000).bodies()]


def test_each_queue_has_its_rows_in_order_by_whatever_names_they_go_there(
    qm: onceq.QueueManager,
) -> None:
    """Names of one queue, and lists with it, are not put in another order (I5)."""
    for name in ("other", "third"):
        qm.create_queue(rf"private$\{name}", transactional=True)
    count, names = 400, names_of(qm)
    queues = [names[n * 5 % len(names)] for n in range(count)]
    options = parse_sink({"queueManager": "h:1"}, stream=True)
    made = _Task(qm, ("body", "queue", "label"), options, JOB)
    labels = [f"row {n}" for n in range(count)]
    staged = made.run(rows_of(count, queue=queues, label=labels))
    assert staged.rows == count
    qm.groups.commit(JOB.app, JOB.version, [Xid(ONCEQ_FORMAT, *x) for x in staged.branches])
    places = {
        QUEUE: {0, 1, 4, 5}, r"private$\other": {2}, r"private$\third": {6},
        FAR: {3, 4, 7},
    }  # fmt: skip
    for place, those in places.items():
        expected = [n for n in range(count) if n * 5 % len(names) in those]
        assert held(qm, place) == expected, place
        batch = qm.peek_many(place, 1_000)
        assert [message.label for message in batch] == [f"row {n}" for n in expected]


def test_refused_rows_are_told_apart_in_the_error_queue(qm: onceq.QueueManager) -> None:
    errors = r"private$\e"
    qm.create_queue(errors, transactional=True)
    options = parse_sink({"queueManager": "h:1", "errorQueue": errors}, stream=True)
    made = _Task(qm, ("body", "queue", "label"), options, JOB)
    queues = [QUEUE if n % 2 else r"private$\nowhere" for n in range(10)]
    labels: list[str | None] = [f"row {n}" if n else None for n in range(10)]
    labels[3] = "x" * 250
    staged = made.run(rows_of(10, queue=queues, label=labels))
    assert (staged.rows, staged.refused) == (10, 6)
    assert [int(body) for body in commit(qm, staged)] == [1, 5, 7, 9]
    found = {}
    for message in qm.receive_many(errors, timeout=0):
        about = json.loads(message.extension)
        assert about["rows"] == 1
        assert about["label"] == (labels[about["firstRow"]] or "")
        found[about["firstRow"]] = (int(message.body), about["code"])
    missing = {n: (n, "queue-not-found") for n in range(0, 10, 2)}
    assert found == {**missing, 3: (3, "label-too-long")}


def test_a_row_of_several_is_named_when_nobody_takes_the_refused(qm: onceq.QueueManager) -> None:
    options = parse_sink({"queueManager": "h:1"}, stream=True)
    queues = [QUEUE, r"private$\nowhere"] * 3
    with pytest.raises(QueueNotFound, match="3 rows from 1 to 5 of partition 3"):
        _Task(qm, ("body", "queue"), options, JOB).run(rows_of(6, queue=queues))
