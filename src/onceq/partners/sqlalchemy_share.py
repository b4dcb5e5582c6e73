"""What something of SQLAlchemy does in a transaction with others, whichever way that is decided.

``sqlalchemy.py`` (two phases) and ``sqlalchemy_last.py`` (the last agent) add what they do alone.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any, Generic, TypeVar

import sqlalchemy
from sqlalchemy import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from onceq.errors import OnceqError, PartnerLost, PartnerRefused
from onceq.model.xid import Xid

Work = TypeVar("Work")
Worker = Session | Connection
AsyncWorker = AsyncSession | AsyncConnection


def opened(what: Worker | Engine | scoped_session[Session]) -> Worker:
    """What to work with: of an engine a new connection."""
    match what:
        case scoped_session():
            return what()
        case Engine():
            return what.connect()
    return what


def _refuse(what: Worker | AsyncWorker) -> None:
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


class _Share(Generic[Work]):
    """What is the same whether calls are awaited or not.

    Attributes:
        work: What to work with: what was enlisted; for an engine the connection that was opened.
    """

    def __init__(self, work: Work, driver: Any) -> None:
        """Take one that has begun nothing yet.

        Args:
            driver: Makes what takes part of a connection of a driver.
        """
        self.work = work
        self._driver = driver
        self._inner: Any = None
        self._xid: Xid | None = None

    @property
    def _partner(self) -> Any:
        assert self._inner is not None, "check comes first"
        return self._inner

    @property
    def _began(self) -> Xid:
        assert self._xid is not None, "begin comes first"
        return self._xid

    @property
    def name(self) -> str:
        """See Partner."""
        name: str = self._partner.name
        return name

    @property
    def address(self) -> str:
        """See Partner."""
        address: str = getattr(self._partner, "address", "")
        return address

    def abandon(self) -> None:
        """See Partner."""
        if self._inner is not None:
            self._inner.abandon()

    def _fit(self, found: Any) -> None:
        """Raises PartnerRefused if what the driver's connection gives does not fit."""


class Share(_Share[Worker]):
    """A session on one database, or a connection."""

    def __init__(self, work: Worker, driver: Any, *, opened: bool = False) -> None:
        """Take one that has begun nothing yet.

        Args:
            driver: Makes what takes part of a connection of a driver.
            opened: It was opened for this, and is closed at the end.
        """
        super().__init__(work, driver)
        self._opened = opened

    def check(self) -> None:
        """See Partner."""
        try:
            _refuse(self.work)
            found = self._driver(self._below().connection.dbapi_connection)
            self._fit(found)
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
        self._xid = xid
        self._partner.begin(xid)

    def commit_one_phase(self, xid: Xid) -> None:
        """See Partner."""
        self._flush()
        with self._failing():
            self._partner.commit_one_phase(xid)
        self._finish(committed=True)

    def rollback(self, xid: Xid) -> None:
        """See Partner."""
        with self._failing():
            self._partner.rollback(xid)
        self._finish(committed=False)

    def _below(self) -> Connection:
        """SQLAlchemy's connection; a session keeps it until its transaction ends."""
        return self.work.connection() if isinstance(self.work, Session) else self.work

    def _flush(self) -> None:
        """Write what a session has in mind; a refusal of the database is one of the share."""
        if isinstance(self.work, Session):
            try:
                self.work.flush()
            except sqlalchemy.exc.SQLAlchemyError as error:
                self.rollback(self._began)
                raise PartnerRefused(f"the session cannot be flushed: {error}") from error

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """When the database has ended the share, SQLAlchemy hears of it."""
        try:
            yield
        except PartnerLost:
            self._lose()
            raise
        except OnceqError:
            self._finish(committed=False)
            raise

    def _lose(self) -> None:
        """The connection is lost."""
        self.work.invalidate()

    def _finish(self, *, committed: bool) -> None:
        # The database has ended it already: to the connection this is nothing any more.
        (self.work.commit if committed else self.work.rollback)()
        if self._opened:
            self.work.close()


class AsyncShare(_Share[AsyncWorker]):
    """A session or connection of the asyncio extension: the driver's own asyncio connection takes
    part."""

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
            self._fit(found)
            self._inner = found
            await self._partner.check()
        except OnceqError:
            await self._finish(committed=False)
            raise
        except sqlalchemy.exc.DBAPIError as error:
            raise PartnerLost(f"the database cannot be reached: {error}") from error

    async def begin(self, xid: Xid) -> None:
        """See Partner."""
        self._xid = xid
        await self._partner.begin(xid)

    async def commit_one_phase(self, xid: Xid) -> None:
        """See Partner."""
        await self._flush()
        async with self._failing():
            await self._partner.commit_one_phase(xid)
        await self._finish(committed=True)

    async def rollback(self, xid: Xid) -> None:
        """See Partner."""
        async with self._failing():
            await self._partner.rollback(xid)
        await self._finish(committed=False)

    async def _flush(self) -> None:
        if isinstance(self.work, AsyncSession):
            try:
                await self.work.flush()
            except sqlalchemy.exc.SQLAlchemyError as error:
                await self.rollback(self._began)
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
