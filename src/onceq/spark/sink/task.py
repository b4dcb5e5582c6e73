"""What one task of a write does: stage its rows in branches of queue managers, and prepare them.

A task sends into branches of its own, one after another, each of a size that a queue manager takes
without effort; when one is full it is prepared and the next begins (``branches.py``). No receiver
sees any of it until the driver commits the group (``writer.py``). If the task dies, what was not
prepared is undone at once, and what was is rolled back by the commit or the abort of the batch, or
by time. If the queue manager goes away meanwhile, the task waits for it.

With one queue manager all rows go there. With several a row goes where its destination says
(``address/name``); where it says nothing, all rows of a partition go to one, and partitions take
turns. The first queue manager decides about all (``writer.py``): before a task prepares anything at
another one it has an anchor prepared there, so that nothing waits elsewhere of which the first
would not know.

Upholds: I2, I5 (the rows of a partition stay together, in order), I20 at the connector.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from onceq import errors
from onceq.client.properties import checked
from onceq.client.threads.manager import OpenQueue, QueueManager
from onceq.model.branches import Xid
from onceq.model.identity import guid_bytes
from onceq.model.limits import LABEL_CHARS_MAX
from onceq.model.names import parse_any
from onceq.model.run import Run
from onceq.spark.argument_checks import coded
from onceq.spark.connections import connection
from onceq.spark.sink.branches import Filling, Kept, Line, NotTaken, Opened, fence, parts, unnoticed
from onceq.spark.sink.options import SinkOptions, name_there, place_of
from onceq.spark.sink.rows import BODY_BYTES_MAX, Piece, Pieces, rows_sum

if TYPE_CHECKING:
    import pyarrow as pa

    from onceq.client.plans.batch_commit import BatchAttempt


LABEL_SHOWN: Final = 40
DESTINATION_SHOWN: Final = 200
_FULL: Final = (errors.InsufficientResources, errors.StorageReserve)
_PASSING: Final = (
    *_FULL,
    errors.ServiceNotAvailable,
    errors.NoDirectory,
    errors.DirectoryError,
    errors.NoCoordinator,
)
"""Refusals that are the state of things, and no row's fault."""
_LOST: Final = (errors.TransactionOver, errors.RolledBack, errors.BranchState)
"""And those that say what became of a branch."""
_ANSWERS: Final = frozenset(("response_queue", "admin_queue"))
_SHIFTING: Final = re.compile(r"\b(DL|PUBLIC)\s*=", re.IGNORECASE)
"""Names of which a directory says where they lead."""
_NOWHERE: Final = (-1,)
""""Places" of destinations to which nothing is sent."""


@dataclass(frozen=True, slots=True)
class TaskBatch:
    """Which batch of whom a task belongs to.

    Attributes:
        app, version: Under which it is committed.
        query: Which life of the application; empty: not known.
        partition: Of the task.
        compared: Whether it tells what its rows are.
    """

    app: str
    version: int
    query: str
    partition: int
    compared: bool = False


@dataclass(frozen=True, slots=True)
class Staged:
    """What a task has promised.

    Attributes:
        branches: At the queue manager that decides, in the order of their rows, as (global
            identifier, branch qualifier).
        rows: How many were read.
        refused: How many of them went to the error queue.
        total: Of the check sums of the rows (``rows.rows_sum``), where these are compared.
        elsewhere: Branches at other queue managers, with the index of each of these.
    """

    branches: tuple[tuple[bytes, bytes], ...]
    rows: int
    refused: int
    total: int = 0
    elsewhere: tuple[tuple[int, bytes, bytes], ...] = ()


class Task:
    """What one task does at one queue manager, on one connection at a time."""

    def __init__(
        self, line: Line, names: tuple[str, ...], options: SinkOptions, job: TaskBatch,
        attempt: BatchAttempt, anchor: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """Args:
        attempt: Of the queue manager that decides.
        anchor: To be called before anything is prepared here, where another one decides.
        """
        self._line, self._options, self._job = line, options, job
        apart = None if options.queue else self._apart
        self._pieces = Pieces(names, dict(options.values), apart)
        names_left = (attempt.branch(f"{job.partition}.{number}") for number in count())
        self._filling = Filling(line, names_left.__next__, anchor)
        self._known: dict[str, errors.OnceqError | tuple[int, ...]] = {}
        """Of destinations why nothing can be sent there, or which queues they lead to."""
        self._first = 0
        self._at: Sequence[int] | None = None
        self.refused = 0
        if options.errors:
            queue = options.errors
            opened = line.do(lambda manager: _opened(manager, queue))
            if not (opened.local and opened.transactional):
                raise errors.ConfigurationError(
                    f"errorQueue {queue} is not a transactional queue on {line.name}"
                )

    def take(self, batch: pa.RecordBatch, first: int, at: Sequence[int] | None = None) -> None:
        """Send the rows of a batch.

        Args:
            first: Number of its first row in the partition.
            at: Indices of these rows in that batch; None: it is whole.
        """
        self._first, self._at = first, at
        for piece in self._pieces.of(batch):
            self._send(piece)

    def finish(self) -> list[Xid]:
        """Promise all of it; the branches, in order."""
        with self._blaming():
            self._filling.prepare()
        return self._filling.prepared

    def undo(self) -> None:
        """Undo it, so that nobody has to clear it up; if the queue manager is away, time does."""
        with contextlib.suppress(errors.OnceqError):
            self._filling.undo(self._line.manager)

    def _number(self, index: int) -> int:
        """The number of a row in the partition."""
        return self._first + (index if self._at is None else int(self._at[index]))

    # ---- sending --------------------------------------------------------------------------

    def _send(self, piece: Piece) -> None:
        destination = self._options.queue or piece.queue or ""
        why = self._trouble(piece, destination)
        if why is not None:
            self._refuse(piece, destination, why)
            return
        self._ship(name_there(self._line.address, destination), piece)

    def _ship(self, destination: str, piece: Piece) -> None:
        for first, part in parts(piece.bodies):
            values = {
                name: value[first : first + len(part)] if isinstance(value, list) else value
                for name, value in piece.values.items()
            }
            with self._blaming():
                self._filling.add(Kept(destination, part, values, piece))

    @contextlib.contextmanager
    def _blaming(self) -> Iterator[None]:
        try:
            yield
        except NotTaken as refused:
            raise self._not_taken(refused) from refused.__cause__
        except _FULL as error:
            raise _overfull(error) from error

    def _not_taken(self, refused: NotTaken) -> BaseException:
        """Whose fault it is that the queue manager refuses rows, as an error that says so."""
        error, kept = refused.__cause__, refused.kept
        assert isinstance(error, errors.OnceqError)
        # The client library ships several pieces at once, and says so.
        why = error.__cause__ if isinstance(error, errors.SendFailed) else error
        # Of an error that came with the prepare, the cause stands only in its text.
        full = isinstance(error, errors.SendFailed) and any(
            f"({e.code})" in error.text for e in _FULL
        )
        if isinstance(why, _FULL) or full:
            return _overfull(error)
        if not isinstance(why, errors.OnceqError) or isinstance(why, (*_PASSING, *_LOST)):
            return error
        return self._row_error(why, kept.piece, kept.destination, upto=True)

    # ---- refusals -------------------------------------------------------------------------

    def _trouble(self, piece: Piece, destination: str) -> errors.OnceqError | None:
        """Why the rows of a piece can never be sent; None: nothing is known against them."""
        if piece.trouble is not None:
            return piece.trouble
        if not destination:
            return errors.IllegalFormatName(
                "there is no destination: column queue is null or empty"
            )
        known = self._look_up(destination)
        if isinstance(known, errors.OnceqError):
            return known
        shared = piece.shared
        if shared:
            try:
                checked(shared)
                for name in _ANSWERS & shared.keys():
                    parse_any(shared[name])
            except errors.OnceqError as error:
                return error
        return None

    def _apart(self, destinations: Sequence[str | None]) -> list[int]:
        """For each destination a number; with different ones they have no queue in common."""
        groups: dict[int, int] = {}
        found: list[int] = []
        for at, name in enumerate(destinations):
            known = self._look_up(name) if name else ()
            places = _NOWHERE if isinstance(known, errors.OnceqError) else known or _NOWHERE
            if name and _SHIFTING.search(name):
                # What a list or a public name leads to may change while we write.
                return [0] * len(destinations)
            met = {groups[place] for place in places if place in groups}
            group = min(met, default=at)
            for place in places:
                groups[place] = group
            if len(met) > 1:
                groups = {place: group if was in met else was for place, was in groups.items()}
                found = [group if was in met else was for was in found]
            found.append(group)
        return found

    def _look_up(self, destination: str) -> errors.OnceqError | tuple[int, ...]:
        found = self._known.get(destination)
        if found is None:
            found = self._known[destination] = self._reached(destination)
        return found

    def _reached(self, destination: str) -> errors.OnceqError | tuple[int, ...]:
        """Which queues it leads to, or why nothing can be sent there: the name is none, or leads
        to no transactional queue."""
        places: tuple[int, ...] = ()
        try:
            destination = name_there(self._line.address, destination)
            names = [str(element) for element in parse_any(destination)]
            for name in [destination] if len(names) == 1 else [destination, *names]:
                opened = self._line.do(partial(_opened, queue=name))
                if opened.transactional is False:
                    return errors.TransactionUsage(
                        f"{name} is not transactional; what is written by Spark is sent in a "
                        "transaction"
                    )
                places = places or opened.places
        except _PASSING:
            raise
        except (errors.UsageError, errors.Refused) as error:
            return error
        return places

    def _refuse(self, piece: Piece, destination: str, why: errors.OnceqError) -> None:
        if not self._options.errors:
            raise self._row_error(why, piece, destination)
        self.refused += len(piece.bodies)
        own = isinstance(piece.values.get("label"), list) or not isinstance(piece.rows, range)
        notes = [
            self._note(piece, destination, why, index)
            for index in (range(len(piece.bodies)) if own else (None,))
        ]
        kept = Piece(piece.rows, _cut(piece.bodies), None, {
            "label": f"[{why.code}] {destination}"[:LABEL_CHARS_MAX],
            "extension": notes if own else notes[0],
        })  # fmt: skip
        self._ship(self._options.errors, kept)

    def _note(
        self, piece: Piece, destination: str, why: errors.OnceqError, index: int | None
    ) -> bytes:
        """What the error queue tells of one row of a piece (None: of all of them)."""
        about = {
            "code": why.code, "text": why.text, "destination": destination,
            "label": piece.value("label", index or 0, ""), "partition": self._job.partition,
            "firstRow": self._number(piece.rows[index or 0]),
            "rows": len(piece.bodies) if index is None else 1,
            "app": self._job.app, "version": self._job.version,
        }  # fmt: skip
        return json.dumps(about, sort_keys=True).encode()

    def _row_error(
        self, error: errors.OnceqError, piece: Piece, destination: str, *, upto: bool = False
    ) -> errors.OnceqError:
        """The error with the row that it is about; of the body nothing but its size.

        Args:
            upto: It may be an earlier row, too.
        """
        neighbours = isinstance(piece.rows, range) and self._at is None
        row, last = self._number(piece.rows[0]), self._number(piece.rows[-1])
        rows = f"row {row}" if row == last else f"rows {row} to {last}"
        if not neighbours and row != last:
            rows = f"{len(piece.rows)} rows from {row} to {last}"
        if upto:
            rows = f"a row up to {last}" if neighbours else "a row of this batch"
        label = str(piece.value("label", 0, ""))[:LABEL_SHOWN]
        sizes = piece.bodies.lengths
        shown = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
        return type(error)(
            f"[{error.code}] {self._line.name}: {rows} of partition {self._job.partition} "
            f"(to {destination[:DESTINATION_SHOWN] or 'nowhere'}"
            f"{f', label {label!r}' if label else ''}, body of {shown} bytes) cannot be sent, so "
            "nothing of this batch was; mend what is wrong, or set the option errorQueue "
            f"(--error-queue) for such rows: {error.text}"
        )


def _opened(manager: QueueManager, queue: str) -> OpenQueue:
    """What there is to know of a destination."""
    opened = manager.open_queue(queue, access="send")
    opened.close()
    return opened


def _overfull(error: errors.OnceqError) -> errors.OnceqError:
    return type(error)(
        f"[{error.code}] {error.text} (a whole batch of Spark stands prepared until its commit; "
        "make batches smaller, with maxMessagesPerTrigger or maxBytesPerTrigger of the source)"
    )


def _cut(run: Run) -> Run:
    """Bodies as an error queue can hold them: what does not fit into a packet loses its end."""
    most = BODY_BYTES_MAX // 2
    if max(run.lengths) <= BODY_BYTES_MAX:
        return run
    return Run.of([body[:most] for body in run])


def stage(
    batches: Iterable[pa.RecordBatch], names: tuple[str, ...], options: SinkOptions, job: TaskBatch,
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
        self, line: Callable[[str], Line], names: tuple[str, ...], options: SinkOptions,
        job: TaskBatch,
    ) -> None:  # fmt: skip
        self._line, self._names, self._options, self._job = line, names, options, job
        self._usual = job.partition % len(options.managers)
        self._column = -1 if options.queue else names.index("queue")
        self._tasks: dict[int, Task] = {}
        self._attempt: BatchAttempt | None = None
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
        with contextlib.suppress(errors.OnceqError):
            for xid in self._anchors:
                assert self._home is not None
                self._home.manager.xa.rollback(xid)

    # ---- queue managers -------------------------------------------------------------------

    @contextlib.contextmanager
    def _telling(self, at: int) -> Iterator[None]:
        try:
            yield
        except errors.OnceqError as error:
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
        """Make sure that the manager that decides knows of branches at another one."""
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
            except errors.DuplicateBranch as error:
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
            except errors.OnceqError:
                found = -1  # It is refused like any other row, wherever that is.
            self._places[name] = found = self._usual if found < 0 else found
        return found
