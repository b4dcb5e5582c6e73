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

from functools import partial
from typing import Any, Final

import psycopg

from onceq.model.branch import Vote
from onceq.model.xid import Xid
from onceq.partners.driving import Calls, in_tasks, in_threads
from onceq.partners.postgres_share import Connection, Recovering, Share
from onceq.partners.postgres_terms import (
    FACTS,
    ONLY_READ,
    Facts,
    Meaning,
    conninfo_of,
    driver_xid,
    known,
    not_prepared,
    refuse_if_busy,
    statement,
    xid_of,
)

_LIST: Final = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid"
_PREPARED: Final = "PREPARE TRANSACTION"


class _Share(Share[Connection]):
    """A connection that prepares."""

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
        super().__init__(connection, name=name)
        self._may_vote = read_only_votes
        self._prepared = False

    @property
    def name(self) -> str:
        """``postgresql:<system identifier>/<database>``. See Partner."""
        return self._name or known[self.connection].name

    @property
    def address(self) -> str:
        """See Partner."""
        return known[self.connection].address

    def resource(self) -> PostgresResource:
        """See Partner."""
        return PostgresResource(conninfo_of(self.connection), name=self._name)

    def _check(self) -> Calls[None]:
        """See Partner."""
        connection = self.connection
        refuse_if_busy(connection)
        if connection not in known:
            with Meaning(connection, voting=True):
                cursor = yield from self._apart(FACTS)
            slots, standby, system, database = yield cursor.fetchone
            dsn = connection.info.dsn
            known[connection] = Facts(slots, standby, system, database, dsn)
        known[connection].check()

    def _prepare(self, xid: Xid) -> Calls[Vote]:
        """See Partner."""
        if self._may_vote:
            cursor = yield from self._execute(ONLY_READ)
            if (yield cursor.fetchone) == (True,):
                yield from self._leave()
                return Vote.READ_ONLY
        cursor = yield from self._execute(statement(_PREPARED, xid))
        yield from self._leave()
        if cursor.statusmessage != _PREPARED:
            raise not_prepared(cursor.statusmessage)
        self._prepared = True
        return Vote.PREPARED

    def _commit(self, xid: Xid) -> Calls[None]:
        """See Partner."""
        with Meaning(self.connection, voting=False):
            yield partial(self.connection.tpc_commit, driver_xid(self.connection, xid))

    def _rollback(self, xid: Xid) -> Calls[None]:
        """See Partner."""
        if not self._prepared:
            yield from self._leave()
            return
        with Meaning(self.connection, voting=False):
            yield partial(self.connection.tpc_rollback, driver_xid(self.connection, xid))

    def _forget(self, xid: Xid) -> Calls[None]:
        """See Partner: PostgreSQL decides nothing on its own."""
        yield from ()


class PostgresPartner(_Share[psycopg.Connection[Any]]):
    """A psycopg connection in a transaction. See Partner.

    Until the end of the transaction psycopg refuses ``commit`` and ``rollback`` on it.
    """

    cursor_type = psycopg.Cursor
    check = in_threads(_Share._check)
    begin = in_threads(_Share._begin)
    prepare = in_threads(_Share._prepare)
    commit = in_threads(_Share._commit)
    commit_one_phase = in_threads(_Share._commit_one_phase)
    rollback = in_threads(_Share._rollback)
    forget = in_threads(_Share._forget)


class AsyncPostgresPartner(_Share[psycopg.AsyncConnection[Any]]):
    """A psycopg asyncio connection in a transaction. See AsyncPartner and PostgresPartner."""

    cursor_type = psycopg.AsyncCursor
    check = in_tasks(_Share._check)
    begin = in_tasks(_Share._begin)
    prepare = in_tasks(_Share._prepare)
    commit = in_tasks(_Share._commit)
    commit_one_phase = in_tasks(_Share._commit_one_phase)
    rollback = in_tasks(_Share._rollback)
    forget = in_tasks(_Share._forget)


class PostgresResource(Recovering):
    """One database, over a connection of recovery's own. See Resource.

    It must be a user who may end what the application prepares: the same one, or a superuser.
    """

    @property
    def name(self) -> str:
        """See Resource."""
        if not self._name:
            facts = Facts(*self._told(FACTS))
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
        self._do(statement("COMMIT PREPARED", xid))

    def rollback(self, xid: Xid) -> None:
        """See Resource."""
        self._do(statement("ROLLBACK PREPARED", xid))

    def forget(self, xid: Xid) -> None:
        """See Resource: PostgreSQL decides nothing on its own."""
