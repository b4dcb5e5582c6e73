"""What one task of a write does: stage its rows in branches, and promise them.

A task sends into branches of its own, one after another, each of a size that a queue manager takes
without effort; when one is full it is prepared and the next begins. Nothing of it is seen by
anybody until the driver commits the group (``writer.py``). If the task dies, what was not prepared
is undone at once, and what was is rolled back by the commit or the abort of the batch, or by time.

Upholds: I2, I5, I20 at the connector.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from onceq.client.properties import checked
from onceq.client.threads.manager import QueueManager
from onceq.errors import (
    BranchState,
    ConfigurationError,
    DirectoryError,
    IllegalFormatName,
    InsufficientResources,
    NoCoordinator,
    NoDirectory,
    OnceqError,
    Refused,
    RolledBack,
    SendFailed,
    ServiceNotAvailable,
    StorageReserve,
    TransactionOver,
    TransactionUsage,
    UsageError,
)
from onceq.model.branch import Vote
from onceq.model.limits import LABEL_CHARS_MAX
from onceq.model.names import parse_any
from onceq.model.run import Run
from onceq.model.xid import Xid
from onceq.spark.sink_options import SinkOptions
from onceq.spark.sink_rows import BODY_BYTES_MAX, Piece, Pieces
from onceq.spark.sink_targets import name_there

if TYPE_CHECKING:
    import pyarrow as pa

    from onceq.client.plans.batch_commit import Attempt
    from onceq.client.threads.branches import Branch

BRANCH_BYTES: Final = 16 << 20
"""Bodies of one branch: its record and its memory stay moderate. With its headers a full one is
larger than a segment of the log, and gets a file of its own, not filled with zeros before."""
BRANCH_MESSAGES: Final = 50_000
CONNECT_S_MAX: Final = 10.0
LABEL_SHOWN: Final = 40
DESTINATION_SHOWN: Final = 200
_FULL: Final = (InsufficientResources, StorageReserve)
_PASSING: Final = (*_FULL, ServiceNotAvailable, NoDirectory, DirectoryError, NoCoordinator)
"""Refusals that are the state of things, and no row's fault."""
_LOST: Final = (TransactionOver, RolledBack, BranchState)
_ANSWERS: Final = frozenset(("response_queue", "admin_queue"))
_SHIFTING: Final = re.compile(r"\b(DL|PUBLIC)\s*=", re.IGNORECASE)
"""Names of which a directory says where they lead."""
_NOWHERE: Final = (-1,)
""""Places" of destinations to which nothing is sent."""


@dataclass(frozen=True, slots=True)
class Job:
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
        total: Of the check sums of the rows (``sink_digest.py``), where these are compared.
        elsewhere: Branches at other queue managers, with the index of each of these.
    """

    branches: tuple[tuple[bytes, bytes], ...]
    rows: int
    refused: int
    total: int = 0
    elsewhere: tuple[tuple[int, bytes, bytes], ...] = ()


class Task:
    """What one task does at one queue manager, on one connection."""

    def __init__(
        self, manager: QueueManager, address: str, names: tuple[str, ...], options: SinkOptions,
        job: Job, attempt: Attempt, anchor: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """Args:
        attempt: Of the queue manager that decides.
        anchor: To be called before anything is prepared here, where another one decides.
        """
        self._manager, self._address, self._options, self._job = manager, address, options, job
        apart = None if options.queue else self._apart
        self._pieces = Pieces(names, dict(options.values), apart)
        self._attempt, self._anchor = attempt, anchor
        self._branch: Branch | None = None
        self._bytes = self._messages = 0
        self._prepared: list[Xid] = []
        self._begun = 0
        self._known: dict[str, OnceqError | tuple[int, ...]] = {}
        """Of destinations why nothing can be sent there, or which queues they lead to."""
        self._first = 0
        self._at: Sequence[int] | None = None
        self.refused = 0
        if options.errors:
            self._check_errors(options.errors)

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
        self._prepare()
        return self._prepared

    def undo(self) -> None:
        """Undo it, so that nobody has to clear it up."""
        with contextlib.suppress(OnceqError):
            for xid in self._prepared:
                self._manager.xa.rollback(xid)

    def _number(self, index: int) -> int:
        """The number of a row in the partition."""
        return self._first + (index if self._at is None else int(self._at[index]))

    def _check_errors(self, queue: str) -> None:
        opened = self._manager.open_queue(queue, access="send")
        opened.close()
        if not (opened.local and opened.transactional):
            raise ConfigurationError(
                f"errorQueue {queue} is not a transactional queue on {self._manager.name}"
            )

    # ---- sending --------------------------------------------------------------------------

    def _send(self, piece: Piece) -> None:
        destination = self._options.queue or piece.queue or ""
        why = self._trouble(piece, destination)
        if why is not None:
            self._refuse(piece, destination, why)
            return
        self._ship(name_there(self._address, destination), piece)

    def _ship(self, destination: str, piece: Piece) -> None:
        for first, part in _parts(piece.bodies):
            values = {
                name: value[first : first + len(part)] if isinstance(value, list) else value
                for name, value in piece.values.items()
            }
            self._ship_part(destination, part, values, piece)

    def _ship_part(self, destination: str, part: Run, values: dict[str, Any], piece: Piece) -> None:
        if self._branch is not None and (
            self._bytes + len(part.data) > BRANCH_BYTES
            or self._messages + len(part) > BRANCH_MESSAGES
        ):
            self._prepare()
        if self._branch is None:
            self._begin()
        assert self._branch is not None
        count, size = len(part), len(part.data)
        try:
            self._branch.send_many(destination, part, **values)
        except _FULL as error:
            raise _overfull(error) from error
        except OnceqError as error:
            # The client library ships several pieces at once, and says so.
            why = error.__cause__ if isinstance(error, SendFailed) else error
            if isinstance(why, _FULL):
                raise _overfull(error) from error
            if not isinstance(why, OnceqError) or isinstance(why, (*_PASSING, *_LOST)):
                raise
            raise self._row_error(why, piece, destination, upto=True) from error
        self._messages += count
        self._bytes += size

    def _begin(self) -> None:
        if self._anchor is not None:
            self._anchor()
        xid = self._attempt.branch(f"{self._job.partition}.{self._begun}")
        self._begun += 1
        self._branch = self._manager.branch(xid)
        self._bytes = self._messages = 0

    def _prepare(self) -> None:
        if self._branch is None:
            return
        branch, self._branch = self._branch, None
        try:
            vote = branch.prepare()
        except (*_FULL, SendFailed) as error:
            raise _overfull(error) from error
        if vote is Vote.PREPARED:
            self._prepared.append(branch.xid)

    # ---- refusals -------------------------------------------------------------------------

    def _trouble(self, piece: Piece, destination: str) -> OnceqError | None:
        """Why the rows of a piece can never be sent; None: nothing is known against them."""
        if piece.trouble is not None:
            return piece.trouble
        if not destination:
            return IllegalFormatName("there is no destination: column queue is null or empty")
        known = self._look_up(destination)
        if isinstance(known, OnceqError):
            return known
        shared = piece.shared
        if shared:
            try:
                checked(shared)
                for name in _ANSWERS & shared.keys():
                    parse_any(shared[name])
            except OnceqError as error:
                return error
        return None

    def _apart(self, destinations: Sequence[str | None]) -> list[int]:
        """For each destination a number; with different ones they have no queue in common."""
        groups: dict[int, int] = {}
        found: list[int] = []
        for at, name in enumerate(destinations):
            known = self._look_up(name) if name else ()
            places = _NOWHERE if isinstance(known, OnceqError) else known or _NOWHERE
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

    def _look_up(self, destination: str) -> OnceqError | tuple[int, ...]:
        found = self._known.get(destination)
        if found is None:
            found = self._known[destination] = self._reached(destination)
        return found

    def _reached(self, destination: str) -> OnceqError | tuple[int, ...]:
        """Which queues it leads to, or why nothing can be sent there: the name is none, or leads
        to no transactional queue."""
        places: tuple[int, ...] = ()
        try:
            destination = name_there(self._address, destination)
            names = [str(element) for element in parse_any(destination)]
            for name in [destination] if len(names) == 1 else [destination, *names]:
                opened = self._manager.open_queue(name, access="send")
                opened.close()
                if opened.transactional is False:
                    return TransactionUsage(
                        f"{name} is not transactional; what is written by Spark is sent in a "
                        "transaction"
                    )
                places = places or opened.places
        except _PASSING:
            raise
        except (UsageError, Refused) as error:
            return error
        return places

    def _refuse(self, piece: Piece, destination: str, why: OnceqError) -> None:
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

    def _note(self, piece: Piece, destination: str, why: OnceqError, index: int | None) -> bytes:
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
        self, error: OnceqError, piece: Piece, destination: str, *, upto: bool = False
    ) -> OnceqError:
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
            f"[{error.code}] {self._manager.name}: {rows} of partition {self._job.partition} "
            f"(to {destination[:DESTINATION_SHOWN] or 'nowhere'}"
            f"{f', label {label!r}' if label else ''}, body of {shown} bytes) cannot be sent, so "
            "nothing of this batch was; mend what is wrong, or set the option errorQueue for such "
            f"rows: {error.text}"
        )


def _overfull(error: OnceqError) -> OnceqError:
    return type(error)(
        f"[{error.code}] {error.text} (a whole batch of Spark stands prepared until its commit; "
        "make batches smaller, with maxMessagesPerTrigger or maxBytesPerTrigger of the source)"
    )


def _parts(run: Run) -> Iterator[tuple[int, Run]]:
    """A run in pieces that fit into a branch, in order, with the index of the first of each."""
    if len(run.data) <= BRANCH_BYTES and len(run) <= BRANCH_MESSAGES:
        yield 0, run
        return
    view, lengths = memoryview(run.data), run.lengths
    first = start = end = 0
    for index, length in enumerate(lengths):
        if end - start + length > BRANCH_BYTES or index - first >= BRANCH_MESSAGES:
            yield first, Run(view[start:end], lengths[first:index])
            first, start = index, end
        end += length
    yield first, Run(view[start:end], lengths[first:])


def _cut(run: Run) -> Run:
    """Bodies as an error queue can hold them: what does not fit into a packet loses its end."""
    most = BODY_BYTES_MAX // 2
    if max(run.lengths) <= BODY_BYTES_MAX:
        return run
    return Run.of([body[:most] for body in run])
