"""SQLAlchemy as a partner: sessions, connections and engines, sync and asyncio.

The driver's connection below is what takes part, so identifiers and recovery are the same as
without SQLAlchemy. Of its own two-phase support nothing is used: it chooses identifiers itself, or
gives the database one part of ours only.

The session is flushed before its connection prepares. When the outcome is known it is ended the
way that it would have been without others (``commit`` or ``rollback``), which is nothing to the
connection any more, so that events, expiry and pools see what they expect. If the connection was
lost the session is invalidated.

Upholds: I20 and I21 as far as the partner of the driver does.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any, Generic, TypeVar, cast

import sqlalchemy
from sqlalchemy import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from onceq.errors import EnlistRefused, OnceqError, PartnerLost, PartnerRefused
from onceq.model.branch import Vote
from onceq.model.xid import Xid
from onceq.partners.contract import AsyncPartner, Partner, Resource
from onceq.partners.last_agent import is_last_agent


def sqlalchemy_partner(what: object, driver: Any) -> SQLAlchemyPartner | AsyncSQLAlchemyPartner:
    """The partner for something of SQLAlchemy.

    Args:
        driver: Finds the partner for a connection of a driver (``finding.partner_for``).

    Raises:
        EnlistRefused: It is nothing that works on one database.
    """
    match what:
        case scoped_session():
            return SQLAlchemyPartner(cast(Session, what()), driver)
        case Session() | Connection():
            return SQLAlchemyPartner(what, driver)
        case Engine():
            return SQLAlchemyPartner(what.connect(), driver, opened=True)
        case AsyncSession() | AsyncConnection():
            return AsyncSQLAlchemyPartner(what, driver)
        case AsyncEngine():
            raise EnlistRefused(
                "enlist a connection of the asyncio engine: async with engine.connect() as "
                "connection: await tx.enlist(connection)"
            )
    raise EnlistRefused(
        f"{type(what).__qualname__} of SQLAlchemy is no session, connection or engine"
    )


def _refuse(what: Session | Connection | AsyncSession | AsyncConnection) -> None:
    """Say why it cannot begin now, if so."""
    kind = type(what).__name__
    session = what.sync_session if isinstance(what, AsyncSession) else what
    if isinstance(session, Session) and session.twophase:
        raise PartnerRefused(
            f"a {kind} with twophase=True chooses transaction identifiers by itself, so nobody "
            "could recover its branches; give one without"
        )
    if what.in_transaction():
        raise PartnerRefused(
            f"the {kind} of SQLAlchemy is in a transaction already (it begins one at its first "
            "statement); commit it or roll it back first, or enlist it before"
        )


Work = TypeVar("Work")
Inner = TypeVar("Inner", Partner, AsyncPartner)


class _Share(Generic[Work, Inner]):
    """What is the same whether calls are awaited or not.

    Attributes:
        work: What to work with: what was enlisted; for an engine the connection that was opened.
    """

    def __init__(self, work: Work, driver: Any) -> None:
        """Take one that has begun nothing yet.

        Args:
            driver: See sqlalchemy_partner.
        """
        self.work = work
        self._driver = driver
        self._inner: Inner | None = None

    @property
    def _partner(self) -> Inner:
        assert self._inner is not None, "check comes first"
        return self._inner

    @property
    def name(self) -> str:
        """See Partner."""
        return self._partner.name

    def abandon(self) -> None:
        """See Partner."""
        if self._inner is not None:
            self._inner.abandon()

    def resource(self) -> Resource | None:
        """See Partner."""
        return self._partner.resource()


class SQLAlchemyPartner(_Share[Session | Connection, Partner]):
    """A session on one database, or a connection. See Partner."""

    def __init__(self, work: Session | Connection, driver: Any, *, opened: bool = False) -> None:
        """Take one that has begun nothing yet.

        Args:
            driver: See sqlalchemy_partner.
            opened: It was opened for this, and is closed at the end.
        """
        super().__init__(work, driver)
        self._opened = opened

    def check(self) -> None:
        """See Partner."""
        try:
            _refuse(self.work)
            connection = self.work
            if isinstance(connection, Session):
                connection = connection.connection()
            found = self._driver(connection.connection.dbapi_connection)
            if is_last_agent(found):
                raise PartnerRefused(
                    "below SQLAlchemy a database must be able to promise, and SQLite cannot; work "
                    "with a connection of sqlite3 itself, which is taken as the last agent"
                )
            self._inner = found
            self._partner.check()
        except OnceqError:
            self._finish(committed=False)
            raise
        except sqlalchemy.exc.UnboundExecutionError as error:
            raise PartnerRefused(
                "the Session has several databases; enlist a Session or Connection for each"
            ) from error
        except sqlalchemy.exc.DBAPIError as error:
            raise PartnerLost(f"the database cannot be reached: {error}") from error

    def begin(self, xid: Xid) -> None:
        """See Partner."""
        self._partner.begin(xid)

    def prepare(self, xid: Xid) -> Vote:
        """See Partner."""
        self._flush(xid)
        with self._failing():
            vote = self._partner.prepare(xid)
        if vote is Vote.READ_ONLY:
            self._finish(committed=True)
        return vote

    def commit(self, xid: Xid) -> None:
        """See Partner."""
        with self._failing():
            self._partner.commit(xid)
        self._finish(committed=True)

    def commit_one_phase(self, xid: Xid) -> None:
        """See Partner."""
        self._flush(xid)
        with self._failing():
            self._partner.commit_one_phase(xid)
        self._finish(committed=True)

    def rollback(self, xid: Xid) -> None:
        """See Partner."""
        with self._failing():
            self._partner.rollback(xid)
        self._finish(committed=False)

    def forget(self, xid: Xid) -> None:
        """See Partner."""
        self._partner.forget(xid)

    def _flush(self, xid: Xid) -> None:
        """Write what a session has in mind; a refusal of the database is one of the share."""
        if isinstance(self.work, Session):
            try:
                self.work.flush()
            except sqlalchemy.exc.SQLAlchemyError as error:
                self.rollback(xid)
                raise PartnerRefused(f"the session cannot be flushed: {error}") from error

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """When the database has ended the share, SQLAlchemy hears of it."""
        try:
            yield
        except PartnerLost:
            self.work.invalidate()
            raise
        except OnceqError:
            self._finish(committed=False)
            raise

    def _finish(self, *, committed: bool) -> None:
        # The database has ended it already: to the connection this is nothing any more.
        (self.work.commit if committed else self.work.rollback)()
        if self._opened:
            self.work.close()


class AsyncSQLAlchemyPartner(_Share[AsyncSession | AsyncConnection, AsyncPartner]):
    """A session or connection of the asyncio extension. See AsyncPartner and SQLAlchemyPartner.

    The driver's own asyncio connection takes part.
    """

    async def check(self) -> None:
        """See Partner."""
        try:
            _refuse(self.work)
            connection = self.work
            if isinstance(connection, AsyncSession):
                connection = await connection.connection()
            raw = await connection.get_raw_connection()
            found = self._driver(raw.driver_connection)
            if not inspect.iscoroutinefunction(found.check):
                raise PartnerRefused(
                    "of asyncio drivers below SQLAlchemy only psycopg is supported: "
                    "create_async_engine('postgresql+psycopg://...')"
                )
            self._inner = found
            await self._partner.check()
        except OnceqError:
            await self._finish(committed=False)
            raise
        except sqlalchemy.exc.DBAPIError as error:
            raise PartnerLost(f"the database cannot be reached: {error}") from error

    async def begin(self, xid: Xid) -> None:
        """See Partner."""
        await self._partner.begin(xid)

    async def prepare(self, xid: Xid) -> Vote:
        """See Partner."""
        await self._flush(xid)
        async with self._failing():
            vote = await self._partner.prepare(xid)
        if vote is Vote.READ_ONLY:
            await self._finish(committed=True)
        return vote

    async def commit(self, xid: Xid) -> None:
        """See Partner."""
        async with self._failing():
            await self._partner.commit(xid)
        await self._finish(committed=True)

    async def commit_one_phase(self, xid: Xid) -> None:
        """See Partner."""
        await self._flush(xid)
        async with self._failing():
            await self._partner.commit_one_phase(xid)
        await self._finish(committed=True)

    async def rollback(self, xid: Xid) -> None:
        """See Partner."""
        async with self._failing():
            await self._partner.rollback(xid)
        await self._finish(committed=False)

    async def forget(self, xid: Xid) -> None:
        """See Partner."""
        await self._partner.forget(xid)

    async def _flush(self, xid: Xid) -> None:
        if isinstance(self.work, AsyncSession):
            try:
                await self.work.flush()
            except sqlalchemy.exc.SQLAlchemyError as error:
                await self.rollback(xid)
                raise PartnerRefused(f"the session cannot be flushed: {error}") from error

    @contextlib.asynccontextmanager
    async def _failing(self) -> AsyncIterator[None]:
        try:
            yield
        except PartnerLost:
            await self.work.invalidate()
            raise
        except OnceqError:
            await self._finish(committed=False)
            raise

    async def _finish(self, *, committed: bool) -> None:
        await (self.work.commit if committed else self.work.rollback)()
