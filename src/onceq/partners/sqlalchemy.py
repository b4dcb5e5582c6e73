"""SQLAlchemy: sessions, connections and engines, sync and asyncio, that prepare or decide.

The driver's connection below is what takes part, so identifiers, rows and recovery are the same as
without SQLAlchemy. Of its own two-phase support nothing is used: it chooses identifiers itself, or
gives the database one part of ours only.

A session is flushed before its connection prepares or decides. When the outcome is known it is
ended the way that it would have been without others (``commit`` or ``rollback``), which is nothing
to the connection any more, so that events, expiry and pools see what they expect. If the connection
was lost the session is invalidated.

Upholds: I20 and I21 as far as the partner of the driver does.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, Engine, event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from onceq.errors import EnlistRefused, OnceqError, PartnerLost, PartnerRefused
from onceq.model.branches import Vote, Xid
from onceq.partners.contract import Agent, Resource, Row, is_last_agent
from onceq.partners.drivers import last_agent_for
from onceq.partners.procedures import Call, Calls, in_tasks, in_threads

Work = Session | Connection | AsyncSession | AsyncConnection

_LET_IT = "let the transaction that it is enlisted in do that"


def sqlalchemy_partner(
    what: object, driver: Any
) -> SQLAlchemyPartner | SQLAlchemyLast | AsyncSQLAlchemyPartner:
    """The partner for something of SQLAlchemy; over SQLite it is a last agent.

    Args:
        driver: Finds the partner for a connection of a driver (``finding.partner_for``).

    Raises:
        EnlistRefused: It is nothing that works on one database.
    """
    match what:
        case scoped_session() | Session() | Connection() | Engine():
            try:
                bind = what.get_bind() if isinstance(what, scoped_session | Session) else what
                decides = bind.dialect.name == "sqlite"
            except sqlalchemy.exc.UnboundExecutionError:
                decides = False  # It has several databases, which ``check`` refuses.
            return SQLAlchemyLast(what) if decides else SQLAlchemyPartner(what, driver)
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


class _Share:
    """Something of SQLAlchemy in a transaction, by either procedure.

    Attributes:
        work: What to work with: what was enlisted; for an engine a connection that was opened.
    """

    def __init__(self, what: Work | Engine | scoped_session[Session], driver: Any) -> None:
        """Take what has begun nothing yet.

        Args:
            driver: Makes what takes part of a connection of a driver.
        """
        self._opened = isinstance(what, Engine)
        self.work: Any = what
        match what:
            case scoped_session():
                self.work = what()
            case Engine():
                self.work = what.connect()
        self._driver = driver
        self._inner: Any = None
        self._xid: Xid | None = None

    @property
    def _partner(self) -> Any:
        assert self._inner is not None, "check comes first"
        return self._inner

    @property
    def name(self) -> str:
        """The name of the driver's connection. See Partner."""
        name: str = self._partner.name
        return name

    @property
    def address(self) -> str:
        """The address of the driver's connection. See Partner."""
        address: str = getattr(self._partner, "address", "")
        return address

    def abandon(self) -> None:
        """Cut the driver's connection. See Partner."""
        if self._inner is not None:
            self._inner.abandon()

    def _check(self) -> Calls[None]:
        """Check that it can begin, and that what is below can take part."""
        try:
            _refuse(self.work)
            below = yield from self._below()
            if isinstance(below, AsyncConnection):
                pooled = yield below.get_raw_connection
            else:
                pooled = below.connection
            found = self._driver(pooled.driver_connection)
            if isinstance(below, AsyncConnection) and not inspect.iscoroutinefunction(found.check):
                raise PartnerRefused(
                    "of asyncio drivers below SQLAlchemy only psycopg is supported: "
                    "create_async_engine('postgresql+psycopg://...')"
                )
            if isinstance(self, _EnginePreparing) and is_last_agent(found):
                raise PartnerRefused(
                    "a connection that decides by a row cannot promise; enlist "
                    "onceq.partners.sqlalchemy.SQLAlchemyLast(session)"
                )
            self._inner = found
            yield found.check
        except OnceqError:
            yield from self._finish(committed=False)
            raise
        except sqlalchemy.exc.UnboundExecutionError as error:
            raise PartnerRefused(
                "the Session has several databases; enlist a Session or Connection for each"
            ) from error
        except sqlalchemy.exc.DBAPIError as error:
            raise PartnerLost(f"the database cannot be reached: {error}") from error

    def _begin(self, xid: Xid) -> Calls[None]:
        """Begin. See Partner."""
        self._xid = xid
        yield partial(self._partner.begin, xid)

    def _commit_one_phase(self, xid: Xid) -> Calls[None]:
        """Flush and commit. See Partner."""
        yield from self._flush()
        yield from self._call(partial(self._partner.commit_one_phase, xid))
        yield from self._finish(committed=True)

    def _rollback(self, xid: Xid) -> Calls[None]:
        """Undo the work. See Partner."""
        yield from self._call(partial(self._partner.rollback, xid))
        yield from self._finish(committed=False)

    def _below(self) -> Calls[Connection | AsyncConnection]:
        """SQLAlchemy's connection; a session keeps it until its transaction ends."""
        if isinstance(self.work, Session | AsyncSession):
            below: Connection | AsyncConnection = yield self.work.connection
            return below
        yield from ()
        return self.work  # type: ignore[no-any-return]

    def _flush(self) -> Calls[None]:
        """Write what a session has in mind; a refusal of the database is one of the share."""
        if isinstance(self.work, Session | AsyncSession):
            try:
                yield self.work.flush
            except sqlalchemy.exc.SQLAlchemyError as error:
                assert self._xid is not None, "begin comes first"
                yield from self._rollback(self._xid)
                raise PartnerRefused(f"the session cannot be flushed: {error}") from error

    def _call(self, call: Call) -> Calls[Any]:
        """Make a call of the driver's partner. If it ends the share, SQLAlchemy hears of it."""
        try:
            return (yield call)
        except PartnerLost:
            yield from self._lose()
            raise
        except OnceqError:
            yield from self._finish(committed=False)
            raise

    def _lose(self) -> Calls[None]:
        """The connection is lost."""
        yield self.work.invalidate

    def _finish(self, *, committed: bool) -> Calls[None]:
        # The database has ended it already: to the connection this is nothing any more.
        yield self.work.commit if committed else self.work.rollback
        if self._opened:
            yield self.work.close


def _refuse(what: Work) -> None:
    """Raise what keeps it from beginning now."""
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


class _EnginePreparing(_Share):
    """Something of SQLAlchemy whose driver's connection prepares."""

    def _prepare(self, xid: Xid) -> Calls[Vote]:
        """Flush and prepare. See Partner."""
        yield from self._flush()
        vote: Vote = yield from self._call(partial(self._partner.prepare, xid))
        if vote is Vote.READ_ONLY:
            yield from self._finish(committed=True)
        return vote

    def _commit(self, xid: Xid) -> Calls[None]:
        """Commit what is prepared. See Partner."""
        yield from self._call(partial(self._partner.commit, xid))
        yield from self._finish(committed=True)

    def _forget(self, xid: Xid) -> Calls[None]:
        """Forget a heuristic outcome. See Partner."""
        yield partial(self._partner.forget, xid)

    def resource(self) -> Resource | None:
        """Return the other side of the same database. See Partner."""
        found: Resource | None = self._partner.resource()
        return found


class SQLAlchemyPartner(_EnginePreparing):
    """A session on one database, or a connection. See Partner."""

    check = in_threads(_Share._check)
    begin = in_threads(_Share._begin)
    prepare = in_threads(_EnginePreparing._prepare)
    commit = in_threads(_EnginePreparing._commit)
    commit_one_phase = in_threads(_Share._commit_one_phase)
    rollback = in_threads(_Share._rollback)
    forget = in_threads(_EnginePreparing._forget)


class AsyncSQLAlchemyPartner(_EnginePreparing):
    """A session or connection of the asyncio extension. See AsyncPartner and SQLAlchemyPartner.

    The driver's own asyncio connection takes part.
    """

    check = in_tasks(_Share._check)
    begin = in_tasks(_Share._begin)
    prepare = in_tasks(_EnginePreparing._prepare)
    commit = in_tasks(_EnginePreparing._commit)
    commit_one_phase = in_tasks(_Share._commit_one_phase)
    rollback = in_tasks(_Share._rollback)
    forget = in_tasks(_EnginePreparing._forget)


class _EngineDeciding(_Share):
    """Something of SQLAlchemy whose driver's connection decides.

    Drivers of SQLite and MariaDB let an application commit in the middle. Here that is refused
    before the driver is asked. What the application rolls back, or closes, goes back to the pool,
    where it may be at work for somebody else at once: the driver's connection is not touched any
    more after that.
    """

    def __init__(
        self, what: Work | Engine | scoped_session[Session], driver: Any = last_agent_for
    ) -> None:
        """Take what has begun nothing yet.

        Args:
            driver: Makes the last agent of a connection of a driver.
        """
        super().__init__(what, driver)
        self._watched: Connection | None = None
        self._ended = False

    @property
    def connection(self) -> Any:
        """What to work with."""
        return self.work

    def is_new(self, manager: str) -> bool:
        """Return whether the rows of a queue manager were not looked for. See LastAgent."""
        new: bool = self._partner.is_new(manager)
        return new

    def set_looked(self, manager: str) -> None:
        """Remember that they were. See LastAgent."""
        self._partner.set_looked(manager)

    def count(
        self, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
        note: int,
    ) -> Any:  # fmt: skip
        """Count committed rows of a queue manager. See LastAgent."""
        return self._partner.count(manager, after, upto, but, must, note)

    def agent(self) -> Agent | None:
        """Return the same database as recovery sees it. See LastAgent."""
        found: Agent | None = self._partner.agent()
        return found

    def abandon(self) -> None:
        """Cut the driver's connection, if it is still ours. See LastAgent."""
        if not self._ended:
            super().abandon()

    def _withdraw(self) -> Calls[None]:
        """Free what ``check`` holds. See LastAgent."""
        yield from self._finish(committed=False)

    def _begin(self, xid: Xid) -> Calls[None]:
        """Begin, and watch what the application does. See LastAgent."""
        yield from super()._begin(xid)
        below = yield from self._below()
        # psycopg refuses both by itself.
        if isinstance(below, Connection) and below.dialect.name != "postgresql":
            self._watched = below
            event.listen(below, "commit", self._on_commit)
            event.listen(below, "rollback", self._on_rollback)

    def _record(self, row: Row) -> Calls[None]:
        """Flush, and commit with a row that says so. See LastAgent."""
        yield from self._flush()
        yield from self._call(partial(self._partner.record, row))
        yield from self._finish(committed=True)

    def _rollback(self, xid: Xid) -> Calls[None]:
        """Undo the work. See LastAgent."""
        if self._ended:
            yield from self._finish(committed=False)
        else:
            yield from super()._rollback(xid)

    def _flush(self) -> Calls[None]:
        """Write what a session has in mind; raises PartnerRefused if the transaction is not what
        it was."""
        if not self._ended:
            yield from super()._flush()
        if self._ended:
            yield from self._finish(committed=False)
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

    def _lose(self) -> Calls[None]:
        self._stop_watching()
        yield from super()._lose()

    def _finish(self, *, committed: bool) -> Calls[None]:
        self._stop_watching()
        yield from super()._finish(committed=committed)

    def _stop_watching(self) -> None:
        watched, self._watched = self._watched, None
        if watched is not None:
            event.remove(watched, "commit", self._on_commit)
            event.remove(watched, "rollback", self._on_rollback)


class SQLAlchemyLast(_EngineDeciding):
    """A session on one database, a connection, or a new one of an engine, that decides.

    See LastAgent.
    """

    check = in_threads(_Share._check)
    withdraw = in_threads(_EngineDeciding._withdraw)
    begin = in_threads(_EngineDeciding._begin)
    record = in_threads(_EngineDeciding._record)
    commit_one_phase = in_threads(_Share._commit_one_phase)
    rollback = in_threads(_EngineDeciding._rollback)


class AsyncSQLAlchemyLast(_EngineDeciding):
    """A session or connection of the asyncio extension, over psycopg. See SQLAlchemyLast."""

    check = in_tasks(_Share._check)
    withdraw = in_tasks(_EngineDeciding._withdraw)
    begin = in_tasks(_EngineDeciding._begin)
    record = in_tasks(_EngineDeciding._record)
    commit_one_phase = in_tasks(_Share._commit_one_phase)
    rollback = in_tasks(_EngineDeciding._rollback)
