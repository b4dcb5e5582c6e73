"""A branch that a task fills and promises, also when its queue manager goes away meanwhile.

What a branch was given lives on its connection until it is prepared, and is gone with that. So it
is kept here as well, until the queue manager has said that it is prepared. When a connection breaks
a new branch is begun under another name, and is given all of it again. The old one may be prepared
all the same, because it was only the answer that was lost: it is rolled back before, so that
nothing is promised twice. Its queue manager says of it "rolled back" or "unknown", and after either
it can never be prepared any more; as long as the old connection is still at work in it for that
queue manager, there is nothing to do but wait.

Upholds: I4 at the connector (what is repeated is promised once), I5, I24.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from onceq.client.threads.manager import QueueManager
from onceq.errors import BranchState, ManagerAway, OnceqError, ServiceNotAvailable, UnknownBranch
from onceq.model.branch import Vote
from onceq.model.run import Run
from onceq.model.xid import Xid
from onceq.spark.sink_line import Line
from onceq.spark.sink_rows import Piece

if TYPE_CHECKING:
    from onceq.client.threads.transaction import Branch

BRANCH_BYTES: Final = 12 << 20
"""Bodies of one branch, which are kept until it is prepared: its record and its memory stay
moderate. With headers before bodies of 1 KiB its record still fits into a segment of the log, and
takes a used one. A larger one gets a file of its own, whose memory the system has to find anew:
that were 2.4 us a message of the queue manager's processor, beside 0.4 (1 KiB, 16 MiB)."""
BRANCH_MESSAGES: Final = 50_000


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows that were given to a branch.

    Attributes:
        destination: As the queue manager knows it.
        values: Properties by name.
        piece: Which these rows are of.
    """

    destination: str
    bodies: Run
    values: dict[str, Any]
    piece: Piece


class NotTaken(Exception):
    """The queue manager has refused something; the cause says why.

    Attributes:
        kept: The last rows that it was given.
    """

    def __init__(self, kept: Kept) -> None:
        super().__init__()
        self.kept = kept


class Filling:
    """The open branch of a task at one queue manager, and those that came before it."""

    def __init__(
        self, line: Line, named: Callable[[], Xid], anchor: Callable[[], None] | None
    ) -> None:
        """Args:
        named: Names for branches, each one once.
        anchor: To be called before anything is prepared here, where another one decides.
        """
        self._line, self._named, self._anchor = line, named, anchor
        self._kept: list[Kept] = []
        self._bytes = self._messages = self._given = 0
        self._branch: Branch | None = None
        self._doubtful: Xid | None = None
        self.prepared: list[Xid] = []

    def add(self, rows: Kept) -> None:
        """Give the branch some rows; before that, if it is full, it is prepared.

        Raises:
            NotTaken: The queue manager refuses these, or rows that it was given before.
        """
        count, size = len(rows.bodies), len(rows.bodies.data)
        if self._kept and (
            self._bytes + size > BRANCH_BYTES or self._messages + count > BRANCH_MESSAGES
        ):
            self.prepare()
        if not self._kept and self._anchor is not None:
            self._anchor()
        self._kept.append(rows)
        self._bytes += size
        self._messages += count
        self._line.do(self._catch_up)

    def prepare(self) -> None:
        """Have what it was given promised, if that is anything.

        Raises:
            NotTaken: It is not; nothing of it is left.
        """
        if not self._kept:
            return
        vote = self._line.do(self._promise)
        if vote is Vote.PREPARED:
            assert self._branch is not None
            self.prepared.append(self._branch.xid)
        self._branch = None
        self._kept = []
        self._bytes = self._messages = self._given = 0

    def undo(self, manager: QueueManager) -> None:
        """Roll back what was promised."""
        with contextlib.suppress(OnceqError):
            for xid in self.prepared:
                manager.xa.rollback(xid)

    # ---- what may be asked twice ----------------------------------------------------------

    def _catch_up(self, manager: QueueManager) -> None:
        """Give a branch all that it has not been given yet."""
        if self._doubtful is not None:
            fence(manager, self._doubtful)
            self._doubtful = None
        if self._branch is None:
            # One whose beginning was not answered is at work at most, and ends with its connection.
            self._branch = manager.branch(self._named())
        while self._given < len(self._kept):
            rows = self._kept[self._given]
            # One that is given to the client library belongs to it, and may grow there.
            given = Run(rows.bodies.data, rows.bodies.lengths[:])
            try:
                self._branch.send_many(rows.destination, given, **rows.values)
            except ServiceNotAvailable:
                self._lost()
                raise
            except OnceqError as error:
                raise NotTaken(rows) from error
            self._given += 1

    def _promise(self, manager: QueueManager) -> Vote:
        self._catch_up(manager)
        assert self._branch is not None
        try:
            return self._branch.prepare()
        except ServiceNotAvailable:
            self._lost()
            raise
        except OnceqError as error:
            raise NotTaken(self._kept[-1]) from error

    def _lost(self) -> None:
        assert self._branch is not None
        self._doubtful, self._branch, self._given = self._branch.xid, None, 0


def fence(manager: QueueManager, xid: Xid) -> None:
    """See to it that a branch whose connection was lost is not prepared, and never will be.

    Raises:
        ServiceNotAvailable: The queue manager still takes it for being at work.
    """
    try:
        manager.xa.rollback(xid)
    except UnknownBranch:
        pass
    except BranchState as error:
        raise unnoticed(manager, error) from error


def unnoticed(manager: QueueManager, error: OnceqError) -> ManagerAway:
    """What to raise, and so to ask again, as long as the old connection is at work in a branch."""
    return ManagerAway(
        f"{manager.name} has not noticed yet that a connection of this task has ended "
        f"({error.text})"
    )


def parts(run: Run) -> Iterator[tuple[int, Run]]:
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
