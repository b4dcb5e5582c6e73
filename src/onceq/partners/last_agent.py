"""The database as the last agent: its one commit is the decision, and a row of ours the record.

A queue manager and one database have one outcome for a promise of one of them: the manager's. It
prepares the transaction as a branch, in one sync. Then the database commits once, with one row
more in the same transaction: a row that says that this branch is committed. Either both are there
or neither is, so that row *is* the decision. Then the branch is committed, for which nobody waits:
it is decided. So the database syncs once, keeps no prepared transactions, and needs no two-phase
commit: SQLite can be such a last agent, and PostgreSQL behind a pooler.

Whoever recovers asks for the row. If it is there the branch is committed. If it is not there, that
alone says nothing: the commit that writes it may still be under way. So recovery writes a row
itself, under the same key, which says "aborted". Either it is too late, for the other row is
there; or it waits until the other commit is over; or it is first, and then the other commit fails
on the key. Whatever comes of it is the outcome for ever.

With several databases all but one prepare first, as in two phases. The row decides the manager's
branch, and that decides for them: it is their decision, on record (``core/transaction``).

A row that says "aborted" therefore stays for ever: it is what keeps a slow commit out. There is one
for each transaction that recovery had to end, which takes a crash.

The procedure is a generator of steps, like that of two phases (``deciding.py``).

Upholds: I20, I21, XTX-16 (the branch is committed only after the row, and rolled back only where
there is none and can be none).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Final, Protocol

from onceq.errors import InDoubt, OnceqError, PartnerRefused, RolledBack
from onceq.model.branch import Vote
from onceq.model.record import Record
from onceq.model.xid import PREFIX, Xid
from onceq.partners.deciding import (
    Made,
    Step,
    Steps,
    What,
    one_phase,
    preparing,
    rolled_back,
    telling,
    undoing,
)

TABLE: Final = "onceq_decisions"
"""Of ours, in the application's database: ``manager, number, id, outcome``; the first three are its
key."""
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
NOTED: Final = "noted"
"""No decision: all rows up to this number were found when this one was written."""
_PROMISE, _FULFIL = Step(What.PROMISE), Step(What.FULFIL)


class Row(Record, frozen=True):
    """The key of a decision; all text in it needs no quoting.

    Attributes:
        manager: GUID of the queue manager, in hexadecimal digits.
        number: Of the branch at that manager: later ones have higher numbers.
        id: What no other transaction has, in hexadecimal digits.
    """

    manager: str
    number: int
    id: str


def row_of(xid: Xid, number: int) -> Row:
    """The row that decides a branch (``xid_by_row``)."""
    manager, _, id_ = xid.gtrid.decode("ascii").removeprefix(PREFIX).partition("-r")
    return Row(manager, number, id_)


class Counts(Protocol):
    """What can look for rows in a database."""

    def count(
        self, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
        note: int,
    ) -> Any:  # fmt: skip
        """How many committed rows of a queue manager there are (int).

        Args:
            after: Rows are counted from the next number on.
            upto: Number of the last that is counted.
            but: Numbers that are not counted.
            must: Numbers of committed rows that must be there.
            note: Number of a note that must be there; 0: none.

        Returns:
            -1: That note, or one of those rows, is not there.
        """


class LastAgent(Counts, Protocol):
    """A connection to a database that decides for one transaction.

    Calls come from one thread, in this order: ``check``, ``count`` (on a connection that is new),
    ``begin``, then the application's work,
    then one of ``rollback``, ``commit_one_phase`` and ``record``. Only ``abandon`` may come at any
    time and from any thread. The calls of one for ``async`` code are awaited.
    """

    connection: Any

    @property
    def name(self) -> str:
        """As that of a Partner, and the same as that of its Agent."""

    def check(self) -> Any:
        """Find out, before any work is done, whether this can be a last agent.

        Raises:
            EnlistRefused: It cannot; the text says what is missing.
            PartnerRefused: The connection is in a state in which it cannot begin.
        """

    @property
    def address(self) -> str:
        """Where the connection leads; known after ``check``. One database may be found at several,
        one after another: a standby that was promoted has the name of the server before it."""

    def is_new(self, manager: str) -> bool:
        """Whether ``set_looked`` was not called for this connection and that queue manager."""

    def set_looked(self, manager: str) -> None:
        """Remember with the connection that its database has the rows of that queue manager."""

    def withdraw(self) -> Any:
        """It takes no part after all: free what ``check`` holds. ``begin`` does not follow."""

    def begin(self, xid: Xid) -> Any:
        """What the connection does from here on belongs to the transaction."""

    def record(self, row: Row) -> Any:
        """Commit the transaction with a row that says that it is committed.

        Raises:
            PartnerRefused: It did not commit, and never will; the connection is free.
            Exception: Any other: whether it committed is not known.
        """

    def commit_one_phase(self, xid: Xid) -> Any:
        """Commit without a row: nobody else has anything to decide. Raises as ``record``."""

    def rollback(self, xid: Xid) -> Any:
        """Undo the work."""

    def abandon(self) -> None:
        """As of a Partner."""

    def agent(self) -> Agent | None:
        """The same database as recovery sees it; None if it cannot be made from the connection."""


def is_last_agent(partner: object) -> bool:
    """Whether it decides; else it is a Partner that prepares."""
    return callable(getattr(partner, "record", None))


class Agent(Counts, Protocol):
    """A database that keeps decisions, as recovery sees it; it connects by itself, and again after
    each loss.

    Calls come from one thread at a time. Each may raise PartnerLost, and each must that cannot be
    done over the same connection to the same database as the one before it: the database may have
    been set back in between. (So it is not connected through a pooler, which hides that.)
    """

    @property
    def name(self) -> str:
        """That of its LastAgents. May connect to find it out."""

    def settle(self, row: Row) -> bool:
        """Whether the transaction is committed. If it is not, it can never be from now on.

        Raises:
            PartnerLost: Its commit may be under way, or the database gives no answer.
        """

    def note(self, manager: str, number: int) -> None:
        """Write a row of that number with an empty id and the outcome ``NOTED``; it may be there
        already."""

    def remove(self, manager: str, below: int, but: Sequence[int]) -> None:
        """Remove committed rows and notes with lower numbers, but these."""

    def close(self) -> None:
        """Let go of connections; never raises."""


def committing_by_row(
    count: int = 1, votes: list[Vote] | None = None, *, idle: bool = False
) -> Steps:
    """The steps of a commit with ``count`` partners, of which the last is a last agent; exceptions
    of a step are thrown in.

    Args:
        votes: As of ``committing``.
        idle: The home manager has nothing to commit itself.

    Raises:
        RolledBack: A partner would not; everything was undone.
        InDoubt: Nobody knows whether the database has committed; the branch and the other partners
            stay prepared, and recovery will find out.
        OnceqError: The home manager refused its promise; everything was undone.
    """
    last = count - 1
    votes = [] if votes is None else votes
    if last:
        yield from preparing(last, votes, count)
    promised = None
    if last or not idle:
        try:
            promised = yield _PROMISE
        except Exception:
            # Nothing was decided, and nothing will be: there is no row, and nobody writes one.
            yield from undoing(count, votes)
            raise
    if promised is None:
        return (yield from one_phase())
    try:
        yield Step(What.RECORD, last)
    except GeneratorExit:
        raise
    except (PartnerRefused, RolledBack) as error:
        with contextlib.suppress(OnceqError):  # Recovery will find no row.
            yield Step(What.BREAK)
        yield from undoing(last, votes)
        raise rolled_back("the database could not commit, and all was undone", error) from error
    except BaseException as error:
        with contextlib.suppress(OnceqError):
            yield Step(What.LEAVE)
        if not isinstance(error, Exception):
            raise
        raise InDoubt(
            f"the answer of the database to its commit was lost ({error}); whether its row is "
            "there decides, and recovery will ask for it"
        ) from error
    made = Made(promised)
    try:
        made.result = yield _FULFIL
    except OnceqError as error:  # It is decided; recovery will find the row.
        made.pending.append((-1, error))
    if last:
        yield from telling(made, votes)
    return made
