"""What a partner of an external transaction has to do: the contract for everything that commits.

A *partner* is one share of one transaction: a connection to a database on which the application
works, or anything else that can promise. A *resource* is the other side of the same database: it
has connections of its own, and ends shares whose connection was lost.

A *last agent* is a connection whose one commit decides, by a row that it writes in the same
transaction (``procedures.py``). An *agent* is the same database as recovery sees it.

``docs/reference/partners.md`` says the same for readers; ``onceq.testing.partners`` checks a
partner and its resource against it.

Upholds: I20 (a promise is kept), I21 (one outcome for all), by what is asked of partners here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, runtime_checkable

from onceq.model.branches import PREFIX, Vote, Xid
from onceq.model.limits import PARTNER_NAME_CHARS_MAX
from onceq.model.record import Record

TABLE: Final = "onceq_decisions"
"""Of ours, in the application's database: ``manager, number, id, outcome``; the first three are its
key."""
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
NOTED: Final = "noted"
"""No decision: all rows up to this number were found when this one was written."""


class Partner(Protocol):
    """One share of one transaction.

    Calls come from one thread, in this order: ``check``, ``begin``, then the application's work,
    then either ``rollback``; or ``commit_one_phase``; or ``prepare`` and, if that voted PREPARED,
    ``commit`` or ``rollback``. Only ``abandon`` may come at any time and from any thread.

    Any call may raise PartnerLost: whether it happened is not known. Any error that is not named
    here counts as that.

    A partner may have an attribute ``address`` (str), known after ``check``: where its connection
    leads. One database may be found at several addresses, one after another; recovery asks at the
    newest that answers.
    """

    @property
    def name(self) -> str:
        """Stable identity of the resource: the same through all restarts, and the same as the
        name of its Resource. At most 60 characters of printable ASCII; see ``short_name``.
        Known after ``check``."""

    def check(self) -> None:
        """Find out, before any work is done, whether this can be a partner at all.

        Raises:
            TwoPhaseForbidden: The server's settings forbid it; the text names the line to change.
            PartnerRefused: The connection is in a state in which it cannot begin.
        """

    def begin(self, xid: Xid) -> None:
        """What the connection does from here on belongs to the branch.

        Raises:
            PartnerRefused: It is in the middle of something else.
        """

    def prepare(self, xid: Xid) -> Vote:
        """Make all work of the branch durable without ending it, and promise both outcomes.

        Raises:
            PartnerRefused: It cannot. The work is rolled back then, and the connection free.
        """

    def commit(self, xid: Xid) -> None:
        """Commit what is prepared.

        Raises:
            UnknownBranch: There is no such branch (any more).
            DecidedByHand: It was ended otherwise. It is remembered until ``forget``.
        """

    def commit_one_phase(self, xid: Xid) -> None:
        """Commit what is not prepared: there is no other partner.

        Raises:
            PartnerRefused: It was rolled back instead.
            DecidedByHand: See commit.
        """

    def rollback(self, xid: Xid) -> None:
        """Undo the work of the branch, prepared or not. Raises the same as commit."""

    def forget(self, xid: Xid) -> None:
        """A heuristic outcome was noted here; it need not be remembered there."""

    def abandon(self) -> None:
        """Cut the connection, from any thread, without waiting: what is not prepared is thereby
        rolled back, what is prepared can be ended by the Resource. Never raises."""

    def resource(self) -> Resource | None:
        """The other side of the same database, to go on with if this connection is lost; None
        if it cannot be made from what the connection knows."""


class AsyncPartner(Protocol):
    """A Partner whose calls are awaited; the same promises."""

    @property
    def name(self) -> str:
        """The stable identity of the resource; known after ``check``."""

    async def check(self) -> None:
        """Find out, before any work is done, whether this can be a partner at all."""

    async def begin(self, xid: Xid) -> None:
        """Make what the connection does from here on belong to the branch."""

    async def prepare(self, xid: Xid) -> Vote:
        """Make all work of the branch durable without ending it, and promise both outcomes."""

    async def commit(self, xid: Xid) -> None:
        """Commit what is prepared."""

    async def commit_one_phase(self, xid: Xid) -> None:
        """Commit what is not prepared: there is no other partner."""

    async def rollback(self, xid: Xid) -> None:
        """Undo the work of the branch, prepared or not."""

    async def forget(self, xid: Xid) -> None:
        """Forget a heuristic outcome of the branch."""

    def abandon(self) -> None:
        """Cut the connection, from any thread, without waiting."""

    def resource(self) -> Resource | None:
        """Return the other side of the same database, or None."""


@runtime_checkable
class Resource(Protocol):
    """A database as recovery sees it; it connects by itself, and again after each loss.

    Calls come from one thread at a time. Each may raise PartnerLost.
    """

    @property
    def name(self) -> str:
        """The name that partners of this database have. May connect to find it out."""

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        """Branches that are prepared here and can be ended from here.

        Args:
            prefix: How their global identifiers begin.
        """

    def commit(self, xid: Xid) -> None:
        """As Partner.commit. UnknownBranch only if the branch is over: one that merely cannot be
        reached now, because its own connection still holds it, is PartnerLost."""

    def rollback(self, xid: Xid) -> None:
        """As Partner.rollback, and as ``commit`` here."""

    def forget(self, xid: Xid) -> None:
        """As Partner.forget."""

    def close(self) -> None:
        """Let go of connections; never raises."""


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


class RowLookup(Protocol):
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


class LastAgent(RowLookup, Protocol):
    """A connection to a database that decides for one transaction.

    Calls come from one thread, in this order: ``check``, ``count`` (on a connection that is new),
    ``begin``, then the application's work,
    then one of ``rollback``, ``commit_one_phase`` and ``record``. Only ``abandon`` may come at any
    time and from any thread. The calls of one for ``async`` code are awaited.
    """

    connection: Any

    @property
    def name(self) -> str:
        """Stable identity, as a Partner has one; the same as the name of its Agent."""

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


class Agent(RowLookup, Protocol):
    """A database that keeps decisions, as recovery sees it; it connects by itself, and again after
    each loss.

    Calls come from one thread at a time. Each may raise PartnerLost, and each must that cannot be
    done over the same connection to the same database as the one before it: the database may have
    been set back in between. (So it is not connected through a pooler, which hides that.)
    """

    @property
    def name(self) -> str:
        """The name of its LastAgents. May connect to find it out."""

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


def short_name(kind: str, place: str) -> str:
    """The name of a resource: ``kind:place``, made to fit.

    Args:
        kind: Of database, lower case.
        place: Which one; what is too long or not printable is told apart by a digest.
    """
    whole = f"{kind}:{place}"
    plain = "".join(char if " " < char < "\x7f" else "_" for char in whole)
    if whole == plain and len(whole) <= PARTNER_NAME_CHARS_MAX:
        return whole
    import hashlib  # which loads OpenSSL

    digest = hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return plain[: PARTNER_NAME_CHARS_MAX - len(digest) - 1] + "~" + digest


AnyPartner = Any
"""A Partner or an AsyncPartner."""
