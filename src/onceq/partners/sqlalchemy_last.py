"""SQLAlchemy as the last agent: sessions, connections and engines over a driver's connection.

The driver's connection below is what decides, so rows and recovery are the same as without
SQLAlchemy. A session is flushed before its row is written.

Drivers of SQLite and MariaDB let an application commit in the middle. Here that is refused before
the driver is asked. What the application rolls back, or closes, goes back to the pool, where
it may be somebody else's at once: the driver's connection is not touched any more after that.

Upholds: I20 and I21 as far as the last agent of the driver does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.orm import Session, scoped_session

from onceq.errors import PartnerRefused
from onceq.model.xid import Xid
from onceq.partners.last_agent import Agent, Row
from onceq.partners.last_finding import last_agent_for
from onceq.partners.sqlalchemy_share import AsyncShare, AsyncWorker, Share, Worker, opened

_LET_IT = "let the transaction that it is enlisted in do that"


class _Deciding:
    """What is the same whether calls are awaited or not: the driver's connection decides."""

    _partner: Any

    def is_new(self, manager: str) -> bool:
        """See LastAgent."""
        new: bool = self._partner.is_new(manager)
        return new

    def set_looked(self, manager: str) -> None:
        """See LastAgent."""
        self._partner.set_looked(manager)

    def count(
        self, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
        note: int,
    ) -> Any:  # fmt: skip
        """See LastAgent."""
        return self._partner.count(manager, after, upto, but, must, note)

    def agent(self) -> Agent | None:
        """See LastAgent."""
        found: Agent | None = self._partner.agent()
        return found


class SQLAlchemyLast(_Deciding, Share):
    """A session on one database, a connection, or a new one of an engine, that decides.

    See LastAgent.
    """

    def __init__(
        self, work: Worker | Engine | scoped_session[Session], driver: Any = last_agent_for
    ) -> None:
        """Take one that has begun nothing yet.

        Args:
            driver: Makes the last agent of a connection of a driver.
        """
        super().__init__(opened(work), driver, opened=isinstance(work, Engine))
        self._watched: Connection | None = None
        self._ended = False

    @property
    def connection(self) -> Worker:
        """What to work with."""
        return self.work

    def withdraw(self) -> None:
        """See LastAgent."""
        self._finish(committed=False)

    def begin(self, xid: Xid) -> None:
        """See LastAgent."""
        super().begin(xid)
        below = self._below()
        if below.dialect.name != "postgresql":  # psycopg refuses both by itself.
            self._watched = below
            event.listen(below, "commit", self._on_commit)
            event.listen(below, "rollback", self._on_rollback)

    def record(self, row: Row) -> None:
        """See LastAgent."""
        self._flush_open()
        with self._failing():
            self._partner.record(row)
        self._finish(committed=True)

    def commit_one_phase(self, xid: Xid) -> None:
        """See LastAgent."""
        self._flush_open()
        with self._failing():
            self._partner.commit_one_phase(xid)
        self._finish(committed=True)

    def rollback(self, xid: Xid) -> None:
        """See LastAgent."""
        if self._ended:
            self._finish(committed=False)
        else:
            super().rollback(xid)

    def abandon(self) -> None:
        """See LastAgent."""
        if not self._ended:
            super().abandon()

    def _flush_open(self) -> None:
        """Write what a session has in mind; raises PartnerRefused if the transaction is not what
        it was."""
        if not self._ended:
            self._flush()
        if self._ended:
            self._finish(committed=False)
            raise PartnerRefused(
                "the transaction was rolled back by the enlisted session or connection of "
                f"SQLAlchemy; {_LET_IT}"
            )

    def _on_commit(self, connection: Connection) -> None:
        raise PartnerRefused(
            f"the session or connection of SQLAlchemy is enlisted; do not commit it, {_LET_IT}"
        )

    def _on_rollback(self, connection: Connection) -> None:
        self._ended = True

    def _lose(self) -> None:
        self._leave()
        super()._lose()

    def _finish(self, *, committed: bool) -> None:
        self._leave()
        super()._finish(committed=committed)

    def _leave(self) -> None:
        """Let it commit and roll back again."""
        watched, self._watched = self._watched, None
        if watched is not None:
            event.remove(watched, "commit", self._on_commit)
            event.remove(watched, "rollback", self._on_rollback)


class AsyncSQLAlchemyLast(_Deciding, AsyncShare):
    """A session or connection of the asyncio extension, over psycopg. See SQLAlchemyLast."""

    def __init__(self, work: AsyncWorker, driver: Any = last_agent_for) -> None:
        """Take one that has begun nothing yet.

        Args:
            driver: As of SQLAlchemyLast.
        """
        super().__init__(work, driver)

    @property
    def connection(self) -> AsyncWorker:
        """What to work with."""
        return self.work

    async def withdraw(self) -> None:
        """See LastAgent."""
        await self._finish(committed=False)

    async def record(self, row: Row) -> None:
        """See LastAgent."""
        await self._flush()
        async with self._failing():
            await self._partner.record(row)
        await self._finish(committed=True)
