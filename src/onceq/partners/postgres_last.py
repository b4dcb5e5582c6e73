"""PostgreSQL as the last agent, through psycopg 3: connections and asyncio connections.

The row and the commit go out as one text of two statements, which is one round trip, and passes
through every pooler. If the first fails the second is not executed. No setting of the server is
needed; ``synchronous_commit`` must not be off, or the decision would not be durable.

The table is made by the first connection that finds none, or by hand (``MAKE``) where the
application's user may make none.

Upholds: I21 as far as the contract asks (``last_agent.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row

from onceq.errors import EnlistRefused, PartnerRefused
from onceq.model.xid import Xid
from onceq.partners.contract import short_name
from onceq.partners.cutting import cut
from onceq.partners.last_agent import ABORTED, COMMITTED, TABLE, Row
from onceq.partners.postgres_terms import (
    Meaning,
    conninfo_of,
    driver_xid,
    over_reason,
    refuse_if_busy,
)
from onceq.partners.postgresql import CONNECT_S

MAKE: Final = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (manager text NOT NULL, number bigint NOT NULL, "
    "id text NOT NULL, outcome text NOT NULL, PRIMARY KEY (manager, number, id))"
)
_FACTS: Final = (
    "SELECT pg_is_in_recovery(), (SELECT system_identifier::text FROM pg_control_system()), "
    "current_database(), current_setting('synchronous_commit'), to_regclass("
    f"'{TABLE}') IS NOT NULL"
)
_COUNT: Final = (
    "SELECT coalesce(bool_or(number = %(after)s), false), "
    "count(*) FILTER (WHERE number > %(after)s AND NOT number = ANY(%(but)s::bigint[])) "
    f"FROM {TABLE} WHERE manager = %(manager)s AND number BETWEEN %(after)s AND %(upto)s "
    f"AND outcome = '{COMMITTED}'"
)
_REMOVE: Final = (
    f"DELETE FROM {TABLE} WHERE manager = %(manager)s AND number < %(below)s "
    f"AND outcome = '{COMMITTED}' AND NOT number = ANY(%(but)s::bigint[])"
)
LOCK_MS: Final = 2_000
"""How long recovery waits for a commit that is under way; then it tries again later."""

Connection = TypeVar("Connection", bound="psycopg.Connection[Any] | psycopg.AsyncConnection[Any]")
_names: WeakKeyDictionary[object, str] = WeakKeyDictionary()
"""The name of the database of each connection that was found fit: it is asked once."""


def _name_of(row: tuple[Any, ...]) -> str:
    """The name out of the facts; raises EnlistRefused."""
    standby, system, database, synced, _ = row
    if standby:
        raise EnlistRefused(
            f"the PostgreSQL server of database {database} is a standby: it only reads"
        )
    if synced == "off":
        raise EnlistRefused(
            "synchronous_commit is off for this PostgreSQL connection, so its commits cannot "
            "decide; execute SET synchronous_commit = on"
        )
    return short_name("postgresql", f"{system}/{database}")


def _refused_table(error: Exception) -> EnlistRefused:
    said = " ".join(str(error).split())
    return EnlistRefused(
        f"the table of decisions cannot be made in this database ({said}); let its owner "
        f"execute: {MAKE}"
    )


def _deciding(row: Row) -> bytes:
    values = f"('{row.manager}', {row.number}, '{row.id}', '{COMMITTED}')"
    return f"INSERT INTO {TABLE} VALUES {values}; COMMIT".encode()


class _Share(Generic[Connection]):
    """What is the same whether calls are awaited or not."""

    def __init__(self, connection: Connection, *, name: str = "") -> None:
        """Take a connection that is idle and not in autocommit mode.

        Args:
            name: Another name than the database has by itself, which is to be the same for ever and
                for everybody who recovers it.
        """
        self.connection = connection
        self._name = name

    @property
    def name(self) -> str:
        """``postgresql:<system identifier>/<database>``. See LastAgent."""
        return self._name or _names[self.connection]

    def abandon(self) -> None:
        """See LastAgent."""
        with contextlib.suppress(psycopg.Error):
            cut(self.connection.fileno())

    def agent(self) -> PostgresAgent:
        """See LastAgent."""
        return PostgresAgent(conninfo_of(self.connection), name=self._name)


class PostgresLast(_Share["psycopg.Connection[Any]"]):
    """A psycopg connection that decides. See LastAgent.

    Until the end of the transaction psycopg refuses ``commit`` and ``rollback`` on it.
    """

    def check(self) -> None:
        """See LastAgent."""
        connection = self.connection
        refuse_if_busy(connection)
        if connection in _names:
            return
        with Meaning(connection, voting=True), connection.cursor(row_factory=tuple_row) as cursor:
            try:
                row = cursor.execute(_FACTS).fetchone()
                assert row is not None, "a SELECT without FROM has one row"
                name = _name_of(row)
                if not row[-1]:
                    cursor.execute(MAKE)
                    connection.commit()
            except psycopg.errors.InsufficientPrivilege as error:
                raise _refused_table(error) from error
            finally:
                connection.rollback()
        _names[connection] = name

    def begin(self, xid: Xid) -> None:
        """See LastAgent."""
        refuse_if_busy(self.connection)
        with Meaning(self.connection, voting=True):
            self.connection.tpc_begin(driver_xid(self.connection, xid))

    def record(self, row: Row) -> None:
        """See LastAgent."""
        connection = self.connection
        over = over_reason(connection)
        if over is not None:
            self.rollback()
            raise over
        try:
            with Meaning(connection, voting=True):
                psycopg.Cursor(connection).execute(_deciding(row))
        except PartnerRefused:
            self.rollback()
            raise
        self.rollback()

    def commit_one_phase(self, xid: Xid) -> None:
        """See LastAgent."""
        connection = self.connection
        over = over_reason(connection)
        if over is not None:
            self.rollback()
            raise over
        with Meaning(connection, voting=True):
            connection.tpc_commit()

    def rollback(self, xid: Xid | None = None) -> None:
        """See LastAgent. After the commit it only takes psycopg out of its two-phase state."""
        with Meaning(self.connection, voting=False):
            self.connection.tpc_rollback()


class AsyncPostgresLast(_Share["psycopg.AsyncConnection[Any]"]):
    """A psycopg asyncio connection that decides. See PostgresLast."""

    async def check(self) -> None:
        """See LastAgent."""
        connection = self.connection
        refuse_if_busy(connection)
        if connection in _names:
            return
        with Meaning(connection, voting=True):
            async with connection.cursor(row_factory=tuple_row) as cursor:
                try:
                    await cursor.execute(_FACTS)
                    row = await cursor.fetchone()
                    assert row is not None, "a SELECT without FROM has one row"
                    name = _name_of(row)
                    if not row[-1]:
                        await cursor.execute(MAKE)
                        await connection.commit()
                except psycopg.errors.InsufficientPrivilege as error:
                    raise _refused_table(error) from error
                finally:
                    await connection.rollback()
        _names[connection] = name

    async def begin(self, xid: Xid) -> None:
        """See LastAgent."""
        refuse_if_busy(self.connection)
        with Meaning(self.connection, voting=True):
            await self.connection.tpc_begin(driver_xid(self.connection, xid))

    async def record(self, row: Row) -> None:
        """See LastAgent."""
        connection = self.connection
        over = over_reason(connection)
        if over is not None:
            await self.rollback()
            raise over
        try:
            with Meaning(connection, voting=True):
                await psycopg.AsyncCursor(connection).execute(_deciding(row))
        except PartnerRefused:
            await self.rollback()
            raise
        await self.rollback()

    async def commit_one_phase(self, xid: Xid) -> None:
        """See LastAgent."""
        connection = self.connection
        over = over_reason(connection)
        if over is not None:
            await self.rollback()
            raise over
        with Meaning(connection, voting=True):
            await connection.tpc_commit()

    async def rollback(self, xid: Xid | None = None) -> None:
        """See PostgresLast."""
        with Meaning(self.connection, voting=False):
            await self.connection.tpc_rollback()


class PostgresAgent:
    """One database, over a connection of recovery's own. See Agent.

    Its user may write the table of decisions: the application's, or one to whom it was granted.
    """

    def __init__(self, conninfo: str, *, name: str = "", lock_ms: int = LOCK_MS) -> None:
        """Nothing is connected yet.

        Args:
            conninfo: Connection string of libpq.
            name: See PostgresLast.
            lock_ms: How long (ms) a commit that is under way is waited for.
        """
        self._lock_ms = lock_ms
        self._conninfo = conninfo
        self._name = name
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    @property
    def name(self) -> str:
        """See Agent."""
        if not self._name:
            with self._asking() as connection:
                row = connection.execute(_FACTS).fetchone()
            assert row is not None, "a SELECT without FROM has one row"
            self._name = _name_of(row)
        return self._name

    def settle(self, row: Row) -> bool:
        """See Agent."""
        key = [row.manager, row.number, row.id]
        with self._asking() as connection:
            # In autocommit each is a transaction of its own: the second sees whoever was first.
            connection.execute(
                f"INSERT INTO {TABLE} VALUES (%s, %s, %s, '{ABORTED}') ON CONFLICT DO NOTHING", key
            )
            found = connection.execute(
                f"SELECT outcome = '{COMMITTED}' FROM {TABLE} "
                "WHERE manager = %s AND number = %s AND id = %s", key
            ).fetchone()  # fmt: skip
        assert found is not None, "there is a row now, whoever wrote it"
        return bool(found[0])

    def count(self, manager: str, after: int, upto: int, but: Sequence[int]) -> int:
        """See Agent."""
        given = {"manager": manager, "after": after, "upto": upto, "but": list(but)}
        with self._asking() as connection:
            if connection.execute(f"SELECT to_regclass('{TABLE}')").fetchone() == (None,):
                return -1 if after else 0
            row = connection.execute(_COUNT, given).fetchone()
        assert row is not None, "an aggregate has one row"
        there, found = row
        return int(found) if there or not after else -1

    def remove(self, manager: str, below: int, but: Sequence[int]) -> None:
        """See Agent."""
        with self._asking() as connection:
            connection.execute(_REMOVE, {"manager": manager, "below": below, "but": list(but)})

    def close(self) -> None:
        """See Agent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    @contextlib.contextmanager
    def _asking(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """A connection that works; after an error of the connection it is a new one next time."""
        with Meaning(None, voting=False):
            if self._connection is None or self._connection.closed:
                given = conninfo_to_dict(self._conninfo)
                given.setdefault("connect_timeout", str(CONNECT_S))
                given.setdefault("application_name", "onceq recovery")
                self._connection = psycopg.connect(make_conninfo("", **given), autocommit=True)
                self._connection.execute(
                    sql.SQL("SET lock_timeout = {}").format(sql.Literal(self._lock_ms))
                )
                self._connection.execute("SET synchronous_commit = on")
            yield self._connection
