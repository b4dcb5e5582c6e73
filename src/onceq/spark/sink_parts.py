"""Which rows of a task go to which queue manager, and what a task does at all of them.

With one queue manager all of them do. With several a row goes where its destination says
(``address/name``); where it says nothing all rows of a partition go to one, and partitions take
turns. The first queue manager decides about all (``sink_many.py``): before a task prepares anything
at another one it has an anchor prepared there, so that nothing waits elsewhere of which the first
would know nothing.

Upholds: I2, I5 (the rows of a partition stay together, in order), I20 at the connector.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from onceq.client.threads.manager import QueueManager
from onceq.errors import DuplicateBranch, OnceqError
from onceq.model.identity import guid_bytes
from onceq.model.xid import Xid
from onceq.spark.error_codes import coded
from onceq.spark.pool import connection
from onceq.spark.sink_branch import fence, unnoticed
from onceq.spark.sink_digest import rows_sum
from onceq.spark.sink_line import Line, Opened
from onceq.spark.sink_options import SinkOptions
from onceq.spark.sink_targets import place_of
from onceq.spark.sink_task import Job, Staged, Task

if TYPE_CHECKING:
    from onceq.client.plans.batch_commit import Attempt


def stage(
    batches: Iterable[pa.RecordBatch], names: tuple[str, ...], options: SinkOptions, job: Job,
    opened: Opened | None = None,
) -> Staged:  # fmt: skip
    """Send the rows of one task into prepared branches.

    Args:
        opened: Borrows a connection to an address; None: one of this process.

    Raises:
        OnceqError: A row was refused and there is no error queue, or a queue manager was away for
            too long. Nothing that is not rolled back was sent.
    """
    opened = opened or partial(connection, credentials=options.credentials)
    with ExitStack() as stack:

        def line(address: str) -> Line:
            return stack.enter_context(Line(address, options.patience, opened))

        parts = _Parts(line, names, options, job)
        try:
            return parts.run(batches)
        except BaseException:
            parts.undo()
            raise


class _Parts:
    """One task at work at all queue managers that its rows go to."""

    def __init__(
        self, line: Callable[[str], Line], names: tuple[str, ...], options: SinkOptions, job: Job,
    ) -> None:  # fmt: skip
        self._line, self._names, self._options, self._job = line, names, options, job
        self._usual = job.partition % len(options.managers)
        self._column = -1 if options.queue else names.index("queue")
        self._tasks: dict[int, Task] = {}
        self._attempt: Attempt | None = None
        self._home: Line | None = None
        self._anchors: list[Xid] = []
        self._places: dict[str | None, int] = {None: self._usual, "": self._usual}

    def run(self, batches: Iterable[pa.RecordBatch]) -> Staged:
        """All of it."""
        rows = total = 0
        with self._telling(0):
            self._home = self._line(self._options.manager)
            self._attempt = self._home.do(
                lambda manager: manager.groups.attempt(self._job.app, self._job.version)
            )
        self._task(self._at(self._options.queue) if self._options.queue else self._usual)
        for batch in batches:
            for at, part, indices in self._split(batch):
                with self._telling(at):
                    self._task(at).take(part, rows, indices)
            rows += batch.num_rows
            if self._job.compared:
                total += rows_sum(batch, self._names)
        branches: list[Xid] = []
        elsewhere: list[tuple[int, bytes, bytes]] = []
        for at, task in sorted(self._tasks.items()):
            with self._telling(at):
                made = task.finish()
            if at:
                elsewhere += [(at, xid.gtrid, xid.bqual) for xid in made]
            else:
                branches += made
        return Staged(
            tuple((xid.gtrid, xid.bqual) for xid in [*branches, *self._anchors]),
            rows, sum(task.refused for task in self._tasks.values()), total, tuple(elsewhere),
        )  # fmt: skip

    def undo(self) -> None:
        """The task has failed, so the driver never hears of what it has prepared."""
        for task in self._tasks.values():
            task.undo()
        with contextlib.suppress(OnceqError):
            for xid in self._anchors:
                assert self._home is not None
                self._home.manager.xa.rollback(xid)

    # ---- queue managers -------------------------------------------------------------------

    @contextlib.contextmanager
    def _telling(self, at: int) -> Iterator[None]:
        try:
            yield
        except OnceqError as error:
            raise coded(error, f"queue manager at {self._options.managers[at]}") from None

    def _task(self, at: int) -> Task:
        task = self._tasks.get(at)
        if task is not None:
            return task
        assert self._home is not None
        assert self._attempt is not None
        with self._telling(at):
            line = self._line(self._options.managers[at]) if at else self._home
            guid = guid_bytes(line.do(lambda manager: manager.id))
            anchor = partial(self._anchor, guid) if at else None
            task = self._tasks[at] = Task(
                line, self._names, self._options, self._job, self._attempt, anchor
            )
        return task

    def _anchor(self, manager: bytes) -> None:
        """See to it that the one that decides knows of branches there."""
        assert self._home is not None
        assert self._attempt is not None
        xid = self._attempt.anchor(manager)
        if xid in self._anchors:
            return
        tried = False

        def prepare(home: QueueManager) -> None:
            nonlocal tried
            if tried:
                fence(home, xid)
            tried = True
            try:
                branch = home.branch(xid)
            except DuplicateBranch as error:
                # The beginning that was not answered came later than the fence.
                raise unnoticed(home, error) from error
            branch.prepare()

        with self._telling(0):
            self._home.do(prepare)
        self._anchors.append(xid)

    # ---- rows -----------------------------------------------------------------------------

    def _split(
        self, batch: pa.RecordBatch
    ) -> Iterator[tuple[int, pa.RecordBatch, Sequence[int] | None]]:
        """The rows of a batch by queue manager, with their indices where they are not all."""
        if not batch.num_rows:
            return
        if len(self._options.managers) == 1:
            yield 0, batch, None
            return
        if self._column < 0:
            yield self._at(self._options.queue), batch, None
            return
        names = batch.column(self._column).cast(pa.string()).dictionary_encode("encode")
        places = np.array([self._at(name) for name in names.dictionary.to_pylist()])
        chosen = places[names.indices.to_numpy(zero_copy_only=False)]
        for at in np.unique(chosen).tolist():
            found: list[int] = np.flatnonzero(chosen == at).tolist()
            if len(found) == batch.num_rows:
                yield at, batch, None
            else:
                yield at, batch.take(pa.array(found)), found

    def _at(self, name: str | None) -> int:
        found = self._places.get(name)
        if found is None:
            assert name is not None
            try:
                found = place_of(self._options.managers, name)
            except OnceqError:
                found = -1  # It is refused like any other row, wherever that is.
            self._places[name] = found = self._usual if found < 0 else found
        return found
