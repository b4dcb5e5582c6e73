"""PostgreSQL through psycopg 3 as a partner (XTX-9, XTX-10).

psycopg keeps the global identifier of a prepared transaction as text: format, and both parts in
base 64. PostgreSQL forbids two-phase commit unless ``max_prepared_transactions`` is set, which is
found out at enlistment, before anything is done.

Two traps are met here. PREPARE TRANSACTION of a transaction in which a statement has failed is
*not* an error: the server rolls it back and says so in a word that nobody reads; so it is never
asked for then. And psycopg takes a connection whose PREPARE has failed for prepared; it is set
free again, because the server has undone it.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import pq, sql
from psycopg.errors import UndefinedObject

from onceq.errors import (
    EnlistRefused,
    PartnerLost,
    RolledBack,
    TwoPhaseForbidden,
    UnknownBranch,
)
from onceq.model.branch import Vote
from onceq.model.xid import Xid

_ASK = "SELECT current_setting('max_prepared_transactions')::int"
_names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""Connections that were found able to take part, and the names of their databases."""


def name_of(info: Any) -> str:
    """The name of the database of a connection: where it is, not who asks."""
    host = info.host or info.hostaddr or "local"
    return f"postgresql://{host}:{info.port}/{info.dbname}"


def _ready(connection: Any) -> str:
    """The name of a connection that is free to begin; raises EnlistRefused."""
    name = name_of(connection.info)
    if connection.autocommit:
        raise EnlistRefused(
            f"the connection to {name} is in autocommit mode, where each statement commits by "
            "itself; set autocommit to False before you enlist it"
        )
    status = connection.info.transaction_status
    if status != pq.TransactionStatus.IDLE:
        raise EnlistRefused(
            f"the connection to {name} is in a transaction already ({status.name}); enlist it "
            "before its first statement, or commit or roll back first"
        )
    return name


def _allowed(name: str, most: int) -> None:
    if most == 0:
        raise TwoPhaseForbidden(
            f"{name} does not allow two-phase commit: max_prepared_transactions is 0. Set\n"
            "    max_prepared_transactions = 100\n"
            "in its postgresql.conf (or ALTER SYSTEM SET max_prepared_transactions = 100) and "
            "restart the server"
        )


def _xid(connection: Any, xid: Xid) -> Any:
    return connection.xid(xid.format_id, xid.gtrid.decode("ascii"), xid.bqual.decode("ascii"))


@contextlib.contextmanager
def _known(name: str, xid: Xid) -> Iterator[None]:
    """A branch that is not prepared is an UnknownBranch."""
    try:
        yield
    except UndefinedObject as error:
        raise UnknownBranch(f"{name} has no prepared branch {xid}") from error


def _whole(connection: Any, name: str) -> None:
    """Refuse to prepare what the server would roll back without a complaint."""
    if connection.info.transaction_status == pq.TransactionStatus.INERROR:
        raise RolledBack(f"a statement on {name} had failed before")


def _undone(connection: Any) -> bool:
    """Whether a PREPARE has failed and the server has undone it; the connection is free then."""
    if connection.closed or connection.broken:
        return False  # It may be prepared all the same.
    if hasattr(connection, "_tpc"):
        connection._tpc = None
    else:
        connection.close()
    return True


class _Common:
    """What both kinds have in common."""

    def __init__(self, connection: Any) -> None:
        if connection.closed:
            raise EnlistRefused("that connection to PostgreSQL is closed; enlist an open one")
        self.connection = connection
        self.name = name_of(connection.info)
        self._failed = False

    def resource(self) -> PostgresResource:
        """See Partner."""
        return PostgresResource(_parameters(self.connection.info), name=self.name)


class PostgresPartner(_Common):
    """A ``psycopg.Connection``; see ``Partner``."""

    def check(self) -> None:
        """See Partner."""
        _ready(self.connection)
        if self.connection in _names:
            return
        row = self.connection.execute(_ASK).fetchone()
        self.connection.rollback()
        assert row is not None
        _allowed(self.name, int(row[0]))
        _names[self.connection] = self.name

    def begin(self, xid: Xid) -> None:
        """See Partner."""
        self.connection.tpc_begin(_xid(self.connection, xid))

    def prepare(self, xid: Xid) -> Vote:
        """See Partner."""
        _whole(self.connection, self.name)
        self._failed = True
        self.connection.tpc_prepare()
        self._failed = False
        return Vote.PREPARED

    def commit(self, xid: Xid) -> None:
        """See Partner."""
        with _known(self.name, xid):
            self.connection.tpc_commit()

    def commit_one_phase(self, xid: Xid) -> None:
        """See Partner."""
        self.connection.tpc_commit()

    def rollback(self, xid: Xid) -> None:
        """See Partner."""
        if not (self._failed and _undone(self.connection)):
            self.connection.tpc_rollback()


class AsyncPostgresPartner(_Common):
    """A ``psycopg.AsyncConnection``; see ``Partner``."""

    async def check(self) -> None:
        """See Partner."""
        _ready(self.connection)
        if self.connection in _names:
            return
        row = await (await self.connection.execute(_ASK)).fetchone()
        await self.connection.rollback()
        assert row is not None
        _allowed(self.name, int(row[0]))
        _names[self.connection] = self.name

    async def begin(self, xid: Xid) -> None:
        """See Partner."""
        await self.connection.tpc_begin(_xid(self.connection, xid))

    async def prepare(self, xid: Xid) -> Vote:
        """See Partner."""
        _whole(self.connection, self.name)
        self._failed = True
        await self.connection.tpc_prepare()
        self._failed = False
        return Vote.PREPARED

    async def commit(self, xid: Xid) -> None:
        """See Partner."""
        with _known(self.name, xid):
            await self.connection.tpc_commit()

    async def commit_one_phase(self, xid: Xid) -> None:
        """See Partner."""
        await self.connection.tpc_commit()

    async def rollback(self, xid: Xid) -> None:
        """See Partner."""
        if not (self._failed and _undone(self.connection)):
            await self.connection.tpc_rollback()


def _parameters(info: Any) -> dict[str, Any]:
    found = dict(info.get_parameters())
    if info.password:
        found["password"] = info.password
    return found


class PostgresResource:
    """A database for recovery, which connects when it is asked and again when that broke."""

    def __init__(self, parameters: dict[str, Any] | str, *, name: str = "") -> None:
        """Say how to connect.

        Args:
            parameters: Of ``psycopg.connect``: a connection string, or keywords.
            name: As its partners have it; "" finds it out by connecting.

        Raises:
            PartnerLost: It cannot be reached, and has no name yet.
        """
        self._conninfo = parameters if isinstance(parameters, str) else ""
        self._keywords = {} if isinstance(parameters, str) else parameters
        self._connection: psycopg.Connection[Any] | None = None
        try:
            self.name = name or name_of(self._open().info)
        except psycopg.OperationalError as error:
            raise PartnerLost(f"the database cannot be reached: {error}".strip()) from error

    def _open(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = psycopg.connect(
                self._conninfo, autocommit=True, connect_timeout=5, **self._keywords
            )
        return self._connection

    def recover(self) -> list[Xid]:
        """See Resource. Branches of other databases of the server are not seen: they can only be
        ended from there."""
        rows = self._open().execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() "
            "ORDER BY prepared"
        )
        found = (psycopg.Xid.from_string(row[0]) for row in rows)
        return [
            Xid(each.format_id, each.gtrid.encode(), (each.bqual or "").encode())
            for each in found
            if each.format_id is not None and 0 < len(each.gtrid) <= 64
        ]

    def commit(self, xid: Xid) -> None:
        """See Resource."""
        self._end("COMMIT PREPARED", xid)

    def rollback(self, xid: Xid) -> None:
        """See Resource."""
        self._end("ROLLBACK PREPARED", xid)

    def _end(self, verb: str, xid: Xid) -> None:
        connection = self._open()
        text = sql.Literal(str(_xid(connection, xid)))
        with _known(self.name, xid):
            connection.execute(sql.SQL("{} {}").format(sql.SQL(verb), text))

    def close(self) -> None:
        """See Resource."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
