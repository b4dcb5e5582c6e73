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

from typing import Any

import sqlalchemy
from sqlalchemy import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from onceq.errors import EnlistRefused, PartnerRefused
from onceq.model.branch import Vote
from onceq.model.xid import Xid
from onceq.partners.contract import Resource
from onceq.partners.last_agent import is_last_agent
from onceq.partners.sqlalchemy_last import SQLAlchemyLast
from onceq.partners.sqlalchemy_share import AsyncShare, Share, opened


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
            if _dialect_of(what) == "sqlite":
                return SQLAlchemyLast(what)
            work = opened(what)
            return SQLAlchemyPartner(work, driver, opened=isinstance(what, Engine))
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


def _dialect_of(what: Any) -> str:
    """The kind of its database; empty if it has several, which ``check`` refuses."""
    try:
        bind = what.get_bind() if isinstance(what, scoped_session | Session) else what
    except sqlalchemy.exc.UnboundExecutionError:
        return ""
    name: str = bind.dialect.name
    return name


class SQLAlchemyPartner(Share):
    """A session on one database, or a connection. See Partner."""

    def prepare(self, xid: Xid) -> Vote:
        """See Partner."""
        self._flush()
        with self._failing():
            vote: Vote = self._partner.prepare(xid)
        if vote is Vote.READ_ONLY:
            self._finish(committed=True)
        return vote

    def commit(self, xid: Xid) -> None:
        """See Partner."""
        with self._failing():
            self._partner.commit(xid)
        self._finish(committed=True)

    def forget(self, xid: Xid) -> None:
        """See Partner."""
        self._partner.forget(xid)

    def resource(self) -> Resource | None:
        """See Partner."""
        found: Resource | None = self._partner.resource()
        return found

    def _fit(self, found: Any) -> None:
        _refuse_last(found)


class AsyncSQLAlchemyPartner(AsyncShare):
    """A session or connection of the asyncio extension. See AsyncPartner and SQLAlchemyPartner.

    The driver's own asyncio connection takes part.
    """

    async def prepare(self, xid: Xid) -> Vote:
        """See Partner."""
        await self._flush()
        async with self._failing():
            vote: Vote = await self._partner.prepare(xid)
        if vote is Vote.READ_ONLY:
            await self._finish(committed=True)
        return vote

    async def commit(self, xid: Xid) -> None:
        """See Partner."""
        async with self._failing():
            await self._partner.commit(xid)
        await self._finish(committed=True)

    async def forget(self, xid: Xid) -> None:
        """See Partner."""
        await self._partner.forget(xid)

    def resource(self) -> Resource | None:
        """See Partner."""
        found: Resource | None = self._partner.resource()
        return found

    def _fit(self, found: Any) -> None:
        _refuse_last(found)


def _refuse_last(found: Any) -> None:
    if is_last_agent(found):
        raise PartnerRefused(
            "a connection that decides by a row cannot promise; enlist "
            "onceq.partners.sqlalchemy_last.SQLAlchemyLast(session)"
        )
