"""PostgreSQL as a partner, through psycopg 3: connections and asyncio connections.

The branch is prepared by ``PREPARE TRANSACTION`` under the name that psycopg gives a transaction
identifier (XTX-9), so other tools that use psycopg's two-phase calls see the same names.

Three traps that are avoided here:
    * ``PREPARE TRANSACTION`` in a transaction that has failed answers without an error, and rolls
      back. So the answer of the server is read, not only whether there was an error.
    * A transaction that has written nothing is not necessarily without effect: ``NOTIFY`` counts
      only at the commit, and nothing tells whether there was one. So no share is called read-only,
      unless the application asks for that (``read_only_votes``), and then it is rolled back:
      nothing of it may be seen before the decision.
    * ``pg_prepared_xacts`` lists branches of the whole server, but a branch can be ended only in
      its own database. So a resource is one database, and sees its own branches only.

Upholds: I20 and I21 as far as the contract asks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row

from onceq.errors import PartnerRefused
from onceq.model.branch import Vote
from onceq.model.xid import Xid
from onceq.partners.cutting import cut
from onceq.partners.postgres_terms import (
    FACTS,
    ONLY_READ,
    Facts,
    Meaning,
    conninfo_of,
    driver_xid,
    known,
    not_prepared,
    over_reason,
    refuse_if_busy,
    statement,
    xid_of,
)

_LIST: Final = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid"
_PREPARED: Final = "PREPARE TRANSACTION"
CONNECT_S: Final = 10
"""How long recovery waits for a connection (seconds), if the connection string sets nothing."""


Connection = TypeVar("Connection", bound="psycopg.Connection[Any] | psycopg.AsyncConnection[Any]")


class _Share(Generic[Connection]):
    """What is the same whether calls are awaited or not."""

    def __init__(
        self, connection: Connection, *, name: str = "", read_only_votes: bool = False
    ) -> None:
        """Take a connection that is idle and not in autocommit mode.

        Args:
            name: Another name than the database has by itself; its resource needs the same.
            read_only_votes: A share that has written nothing is not prepared but rolled back, which
                spares the database two syncs, and costs the others a question. What LISTEN,
                NOTIFY and SET did in it is then undone, and nobody is told: not for applications
                that use those.
        """
        self.connection = connection
        self._name = name
        self._may_vote = read_only_votes
        self._prepared = False

    @property
    def name(self) -> str:
        """``postgresql:<system identifier>/<database>``. See Partner."""
        return self._name or known[self.connection].name

    def abandon(self) -> None:
        """See Partner."""
        with contextlib.suppress(psycopg.Error):
            cut(self.connection.fileno())

    def resource(self) -> PostgresResource:
        """See Partner."""
        return PostgresResource(conninfo_of(self.connection), name=self._name)


class PostgresPartner(_Share["psycopg.Connection[Any]"]):
    """A psycopg connection in a transaction. See Partner.

    Until the end of the transaction psycopg refuses ``commit`` and ``rollback`` on it.
    """

    def check(self) -> None:
        """See Partner."""
        connection = self.connection
        refuse_if_busy(connection)
        if connection not in known:
            with Meaning(connection, voting=True):
                with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
                    row = cursor.execute(FACTS).fetchone()
                connection.rollback()
            assert row is not None, "a SELECT without FROM has one row"
            known[connection] = Facts(*row)
        known[connection].check()

    def begin(self, xid: Xid) -> None:
        """See Partner."""
        refuse_if_busy(self.connection)
        with Meaning(self.connection, voting=True):
            self.connection.tpc_begin(driver_xid(self.connection, xid))

    def prepare(self, xid: Xid) -> Vote:
        """See Partner."""
        connection = self.connection
        over = over_reason(connection)
        if over is not None:
            self._leave()
            raise over
        try:
            with Meaning(connection, voting=True):
                cursor = psycopg.Cursor(connection, row_factory=tuple_row)
                if self._may_vote and cursor.execute(ONLY_READ).fetchone() == (True,):
                    self._leave()
                    return Vote.READ_ONLY
                cursor.execute(statement("PREPARE TRANSACTION", xid), prepare=False)
                said = cursor.statusmessage
        except PartnerRefused:
            self._leave()
            raise
        self._leave()
        if said != _PREPARED:
            raise not_prepared(said)
        self._prepared = True
        return Vote.PREPARED

    def _leave(self) -> None:
        """Take psycopg out of its two-phase state; what is prepared stays so."""
        with Meaning(self.connection, voting=False):
            self.connection.tpc_rollback()

    def commit(self, xid: Xid) -> None:
        """See Partner."""
        with Meaning(self.connection, voting=False):
            self.connection.tpc_commit(driver_xid(self.connection, xid))

    def commit_one_phase(self, xid: Xid) -> None:
        """See Partner."""
        connection = self.connection
        over = over_reason(connection)
        if over is not None:
            self._leave()
            raise over
        with Meaning(connection, voting=True):
            connection.tpc_commit()

    def rollback(self, xid: Xid) -> None:
        """See Partner."""
        connection = self.connection
        with Meaning(connection, voting=False):
            if self._prepared:
                connection.tpc_rollback(driver_xid(connection, xid))
            else:
                connection.tpc_rollback()

    def forget(self, xid: Xid) -> None:
        """See Partner: PostgreSQL decides nothing on its own."""


class AsyncPostgresPartner(_Share["psycopg.AsyncConnection[Any]"]):
    """A psycopg asyncio connection in a transaction. See AsyncPartner and PostgresPartner."""

    async def check(self) -> None:
        """See Partner."""
        connection = self.connection
        refuse_if_busy(connection)
        if connection not in known:
            with Meaning(connection, voting=True):
                async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
                    await cursor.execute(FACTS)
                    row = await cursor.fetchone()
                await connection.rollback()
            assert row is not None, "a SELECT without FROM has one row"
            known[connection] = Facts(*row)
        known[connection].check()

    async def begin(self, xid: Xid) -> None:
        """See Partner."""
        refuse_if_busy(self.connection)
        with Meaning(self.connection, voting=True):
            await self.connection.tpc_begin(driver_xid(self.connection, xid))

    async def prepare(self, xid: Xid) -> Vote:
        """See Partner."""
        connection = self.connection
        over = over_reason(connection)
        if over is not None:
            await self._leave()
            raise over
        try:
            with Meaning(connection, voting=True):
                cursor = psycopg.AsyncCursor(connection, row_factory=tuple_row)
                if self._may_vote:
                    await cursor.execute(ONLY_READ)
                    if await cursor.fetchone() == (True,):
                        await self._leave()
                        return Vote.READ_ONLY
                await cursor.execute(statement("PREPARE TRANSACTION", xid), prepare=False)
                said = cursor.statusmessage
        except PartnerRefused:
            await self._leave()
            raise
        await self._leave()
        if said != _PREPARED:
            raise not_prepared(said)
        self._prepared = True
        return Vote.PREPARED

    async def _leave(self) -> None:
        with Meaning(self.connection, voting=False):
            await self.connection.tpc_rollback()

    async def commit(self, xid: Xid) -> None:
        """See Partner."""
        with Meaning(self.connection, voting=False):
            await self.connection.tpc_commit(driver_xid(self.connection, xid))

    async def commit_one_phase(self, xid: Xid) -> None:
        """See Partner."""
        connection = self.connection
        over = over_reason(connection)
        if over is not None:
            await self._leave()
            raise over
        with Meaning(connection, voting=True):
            await connection.tpc_commit()

    async def rollback(self, xid: Xid) -> None:
        """See Partner."""
        connection = self.connection
        with Meaning(connection, voting=False):
            if self._prepared:
                await connection.tpc_rollback(driver_xid(connection, xid))
            else:
                await connection.tpc_rollback()

    async def forget(self, xid: Xid) -> None:
        """See Partner: PostgreSQL decides nothing on its own."""


class PostgresResource:
    """One database, over a connection of recovery's own. See Resource.

    It must be a user who may end what the application prepares: the same one, or a superuser.
    """

    def __init__(self, conninfo: str, *, name: str = "") -> None:
        """Nothing is connected yet.

        Args:
            conninfo: Connection string of libpq; the database in it is the one that is watched.
            name: See PostgresPartner.
        """
        self._conninfo = conninfo
        self._name = name
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    @property
    def name(self) -> str:
        """See Resource."""
        if not self._name:
            with self._asking() as connection:
                row = connection.execute(FACTS).fetchone()
                assert row is not None, "a SELECT without FROM has one row"
                facts = Facts(*row)
            facts.check()
            self._name = facts.name
        return self._name

    def recover(self, prefix: bytes = b"") -> list[Xid]:
        """See Resource."""
        with self._asking() as connection:
            rows = connection.execute(_LIST).fetchall()
        found = (xid_of(gid) for (gid,) in rows)
        return [xid for xid in found if xid is not None and xid.gtrid.startswith(prefix)]

    def commit(self, xid: Xid) -> None:
        """See Resource."""
        with self._asking() as connection:
            connection.execute(statement("COMMIT PREPARED", xid))

    def rollback(self, xid: Xid) -> None:
        """See Resource."""
        with self._asking() as connection:
            connection.execute(statement("ROLLBACK PREPARED", xid))

    def forget(self, xid: Xid) -> None:
        """See Resource: PostgreSQL decides nothing on its own."""

    def close(self) -> None:
        """See Resource."""
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
            yield self._connection
