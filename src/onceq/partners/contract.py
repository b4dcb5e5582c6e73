"""What a partner of an external transaction has to do: the contract for everything that commits.

A *partner* is one connection at work in one transaction. A *resource* is the same database seen by
recovery, through connections of its own: whoever comes back finds there what was left prepared.
The contract in words, with what each call may rely on, is ``docs/reference/partners.md``; whether a
partner keeps it is found by ``onceq.testing.partners``.

Upholds: I20 and I21, as far as they lie with us: a partner that has answered "prepared" keeps that
through any crash, and is told the one outcome as often as it takes.
"""

from __future__ import annotations

from typing import Any, Protocol

from onceq.model.branch import Vote
from onceq.model.xid import Xid


class Partner(Protocol):
    """One connection in one transaction, for threads.

    Attributes:
        name: Of the resource, the same at every start: decisions are kept with it.
    """

    name: str

    def check(self) -> None:
        """See whether it can take part, before anything is done.

        Raises:
            TwoPhaseForbidden: The server does not allow it; the text says which line to change.
            EnlistRefused: The connection is in the middle of something else.
        """

    def begin(self, xid: Xid) -> None:
        """What is done on the connection from now on belongs to the branch."""

    def prepare(self, xid: Xid) -> Vote:
        """Promise both outcomes. Any exception is a vote against it."""

    def commit(self, xid: Xid) -> None:
        """Carry a decision out; the branch was prepared. An exception: it will be tried again."""

    def commit_one_phase(self, xid: Xid) -> None:
        """Commit what was not prepared, because there is nobody else. Any exception but InDoubt
        says that it was not done."""

    def rollback(self, xid: Xid) -> None:
        """Undo it, prepared or not."""

    def resource(self) -> Resource:
        """The same database, for recovery."""


class AsyncPartner(Protocol):
    """One connection in one transaction, for tasks; see ``Partner``."""

    name: str

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

    def resource(self) -> Resource:
        """See Partner."""


class Resource(Protocol):
    """A database as recovery sees it. Any call may fail; it is made again later.

    Attributes:
        name: The same as that of its partners.
    """

    name: str

    def recover(self) -> list[Xid]:
        """Every branch that is prepared there, whosever it is."""

    def commit(self, xid: Xid) -> None:
        """Carry a decision out; raises UnknownBranch if no such branch is prepared."""

    def rollback(self, xid: Xid) -> None:
        """Undo a branch; raises UnknownBranch if no such branch is prepared."""

    def close(self) -> None:
        """Give up its connection, if there is one."""


AnyPartner = Any
"""A Partner or an AsyncPartner."""
