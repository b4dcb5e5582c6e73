"""Branches that a task fills and prepares, also when its queue manager goes away meanwhile.

A ``Line`` is the way to one queue manager. It borrows a connection of its process when it first
needs one, and repeats a request that got no answer, for a time; so every request here must be
repeatable.

What a branch was given lives on its connection until it is prepared, and is gone with that. So
``Filling`` keeps it too, until the queue manager has said that the branch is prepared. When a
connection breaks, a new branch is begun under another name, and is given all of it again. The old
one may be prepared all the same, if only the answer was lost: it is rolled back before, so that
nothing is promised twice. Its queue manager answers "rolled back" or "unknown", and after either it
can never be prepared any more; as long as the queue manager takes the old connection for being at
work in it, all that helps is to wait.

Upholds: I4 at the connector (what is repeated is promised once), I5, I24; nothing is silent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from onceq import errors
from onceq.client.threads.manager import QueueManager
from onceq.model.branches import Vote, Xid
from onceq.model.run import Run
from onceq.spark.argument_checks import coded
from onceq.spark.connections import Patience, Spell
from onceq.spark.sink.rows import Piece

if TYPE_CHECKING:
    from onceq.client.threads.transaction import Branch


WRONG_S_MAX: Final = 3.0
"""Seconds; for an address at which there never was a queue manager nobody waits much longer."""

Opened = Callable[[str], AbstractContextManager[QueueManager]]
T = TypeVar("T")


def asked_again(
    work: Callable[[], T], place: str, patience: Patience,
    *, met: Callable[[], bool] = lambda: False,
) -> T:  # fmt: skip
    """Do something that needs a queue manager, and do it again while that is away.

    Args:
        place: What is away then, for the log and the error.
        met: Whether it was there before.

    Raises:
        ServiceNotAvailable: It was away for too long.
    """
    spell: Spell | None = None
    while True:
        try:
            result = work()
        except errors.ServiceNotAvailable as error:
            if spell is None:
                wrong = isinstance(error, errors.WrongAddress) and not met()
                most = min(patience.retry_s, WRONG_S_MAX) if wrong else patience.retry_s
                spell = Spell(replace(patience, retry_s=most), place)
            if not spell.again(error):
                raise coded(error, place + spell.describe_tries()) from None
        else:
            if spell is not None:
                spell.over()
            return result


class Line:
    """The way to one queue manager. For one thread."""

    def __init__(self, address: str, patience: Patience, opened: Opened) -> None:
        """Args:
        opened: Borrows a connection to an address.
        """
        self.address = address
        self._patience = patience
        self._opened = opened
        self._manager: QueueManager | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def name(self) -> str:
        """Computer name of the queue manager, or its address as long as it was not heard."""
        return self._manager.name if self._manager is not None else self.address

    @property
    def met(self) -> bool:
        """Whether there was a connection."""
        return self._manager is not None

    @property
    def manager(self) -> QueueManager:
        """The connection, whether or not it lives.

        Raises:
            ServiceNotAvailable: There was none yet, and nobody answers.
        """
        if self._manager is None:
            self._manager = self._stack.enter_context(self._opened(self.address))
        return self._manager

    def do(self, work: Callable[[QueueManager], T]) -> T:
        """Ask something that may be asked twice; raises ServiceNotAvailable after a long time."""
        return asked_again(
            lambda: work(self.manager), f"queue manager at {self.address}", self._patience,
            met=lambda: self.met,
        )  # fmt: skip


BRANCH_BYTES: Final = 12 << 20
"""Bodies of one branch, which are kept until it is prepared: its record and its memory stay
moderate. With headers before bodies of 1 KiB its record still fits into a segment of the log, and
takes a used one. A larger one gets a file of its own, whose memory the system has to find again:
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
        with contextlib.suppress(errors.OnceqError):
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
            except errors.ServiceNotAvailable:
                self._lost()
                raise
            except errors.OnceqError as error:
                raise NotTaken(rows) from error
            self._given += 1

    def _promise(self, manager: QueueManager) -> Vote:
        self._catch_up(manager)
        assert self._branch is not None
        try:
            return self._branch.prepare()
        except errors.ServiceNotAvailable:
            self._lost()
            raise
        except errors.OnceqError as error:
            raise NotTaken(self._kept[-1]) from error

    def _lost(self) -> None:
        assert self._branch is not None
        self._doubtful, self._branch, self._given = self._branch.xid, None, 0


def fence(manager: QueueManager, xid: Xid) -> None:
    """Make sure that a branch whose connection was lost is not prepared, and never will be.

    Raises:
        ServiceNotAvailable: The queue manager still takes it for being at work.
    """
    try:
        manager.xa.rollback(xid)
    except errors.UnknownBranch:
        pass
    except errors.BranchState as error:
        raise unnoticed(manager, error) from error


def unnoticed(manager: QueueManager, error: errors.OnceqError) -> errors.ManagerAway:
    """What to raise, and so to ask again, as long as the old connection is at work in a branch."""
    return errors.ManagerAway(
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
