"""Databases that have promised and follow the row of a last agent, in simulated worlds.

The application enlists them as partners of two phases. The row decides the manager's branch, and
that decides for them; recovery learns it from the manager.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Protocol

from onceq.errors import PartnerLost, UnknownBranch
from onceq.model.branches import Vote, Xid
from proof.sim.apps.apps import Sleep
from proof.sim.apps.databases import Connection, Database
from proof.sim.base.kernel import Kernel

Talk = Generator[Any, Any, Any]


class OtherDatabase(Database):
    """A database that takes part in two phases, beside a last agent."""

    def __init__(self, kernel: Kernel, index: int) -> None:
        super().__init__(kernel, index)
        self.name = f"sim:O{index}"
        self.rng = kernel.stream("row others")


class Following(Protocol):
    """Watches what they are told; see ``RowBooks``."""

    def following(self, xid: Xid, *, committed: bool, recovered: bool) -> None:
        """A branch is about to be told an outcome."""


@dataclass(eq=False, slots=True)
class Other:
    """The share of one of them in a transaction.

    Attributes:
        rows: What is to be there, or not.
        asked: It was asked to promise.
    """

    database: OtherDatabase
    xid: Xid
    books: Following
    rows: list[int] = field(default_factory=list)
    asked: bool = False
    connection: Connection | None = None

    def write(self, row: int) -> Talk:
        """Write a row."""
        if self.connection is None:
            self.connection = self.database.connect()
        connection = self.connection
        self.rows.append(row)
        yield from self.database.call(lambda: connection.rows.add(row), connection)

    def prepare(self) -> Talk:
        """See Partner."""
        connection = self._here
        self.asked = True
        vote: Vote = yield from self.database.call(
            lambda: self.database.prepare(self.xid, connection), connection
        )
        return vote

    def commit(self) -> Talk:
        """See Partner."""
        yield from _tell(self.books, self.database, self.xid, self._here, committed=True)

    def undo(self) -> Talk:
        """Roll back, prepared or not."""
        if self.connection is None:
            return
        connection = self.connection
        if not self.asked:
            yield from self.database.call(lambda: self.database.undo(connection), connection)
            return
        try:
            yield from _tell(self.books, self.database, self.xid, connection, committed=False)
        except UnknownBranch:
            return

    def abandon(self) -> None:
        """Its connection ends."""
        if self.connection is not None and self.connection.usable:
            self.database.abandon(self.connection)

    @property
    def _here(self) -> Connection:
        if self.connection is None:
            raise PartnerLost(f"{self.database.name} was never reached")
        return self.connection


class OtherResource:
    """One of them for recovery; see ``Resource``."""

    def __init__(self, books: Following, database: OtherDatabase) -> None:
        self.books, self.database, self.name = books, database, database.name

    def recover(self, prefix: bytes = b"") -> Talk:
        """See Resource."""
        there = self.database.prepared
        return (
            yield from self.database.call(
                lambda: sorted(xid for xid in there if xid.gtrid.startswith(prefix))
            )
        )

    def commit(self, xid: Xid) -> Talk:
        """See Resource."""
        yield from _tell(self.books, self.database, xid, None, committed=True)

    def rollback(self, xid: Xid) -> Talk:
        """See Resource."""
        yield from _tell(self.books, self.database, xid, None, committed=False)


def _tell(
    books: Following, database: OtherDatabase, xid: Xid, connection: Connection | None,
    *, committed: bool,
) -> Generator[Sleep, Any, None]:  # fmt: skip
    def work() -> None:
        # Recovery may come when the application has told it, and the decision is forgotten.
        if xid in database.prepared:
            books.following(xid, committed=committed, recovered=connection is None)
        (database.commit if committed else database.rollback)(xid, connection)

    yield from database.call(work, connection)
