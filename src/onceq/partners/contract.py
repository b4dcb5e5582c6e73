"""What a partner of an external transaction has to do: the contract for everything that commits.

A *partner* is one share of one transaction: a connection to a database on which the application
works, or whatever else can promise. A *resource* is the other side of the same database: it has
connections of its own, and ends shares whose connection was lost.

``docs/reference/partners.md`` says the same for readers; ``onceq.testing.partners`` checks a
partner and its resource against it.

Upholds: I20 (a promise is kept), I21 (one outcome for all), by what is asked of partners here.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from onceq.model.branch import Vote
from onceq.model.limits import PARTNER_NAME_CHARS_MAX
from onceq.model.xid import Xid


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
        """Stable identity of the resource: the same through restarts of everybody, and the same
        as that of its Resource. At most 60 characters of printable ASCII; see ``short_name``.
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
        """See Partner."""

    async def check(self) -> None:
        """See Partner."""

    async def begin(self, xid: Xid) -> None:
        """See Partner."""

    async def prepare(self, xid: Xid) -> Vote:
        """See Partner."""

    async def commit(self, xid: Xid) -> None:
        """See Partner."""

    async def commit_one_phase(self, xid: Xid) -> None:
        """See Partner."""

    async def rollback(self, xid: Xid) -> None:
        """See Partner."""

    async def forget(self, xid: Xid) -> None:
        """See Partner."""

    def abandon(self) -> None:
        """See Partner."""

    def resource(self) -> Resource | None:
        """See Partner."""


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
