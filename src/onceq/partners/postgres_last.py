"""PostgreSQL as the last agent, through psycopg 3: connections and asyncio connections.

The row and the commit go out as one text of two statements, which is one round trip, and passes
through every pooler. If the first fails the second is not executed. No setting of the server is
needed; ``synchronous_commit`` must not be off, or the decision would not be durable.

The table is made by the first connection that finds none, or by hand (``MAKE``) where the
application's user may make none.

Upholds: I21 as far as the contract asks (``last_agent.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

import psycopg
from psycopg import sql

from onceq.errors import EnlistRefused
from onceq.model.xid import Xid
from onceq.partners.contract import short_name
from onceq.partners.driving import Calls, in_tasks, in_threads
from onceq.partners.last_agent import ABORTED, COMMITTED, NOTED, TABLE, Row
from onceq.partners.postgres_share import Connection, Recovering, Share
from onceq.partners.postgres_terms import Meaning, conninfo_of, refuse_if_busy

MAKE: Final = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (manager text NOT NULL, number bigint NOT NULL, "
    "id text NOT NULL, outcome text NOT NULL, PRIMARY KEY (manager, number, id))"
)
_TAKEN: Final = (
    psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable, psycopg.errors.DuplicateObject,
)  # fmt: skip
"""What one of two connections is told that make the table at once."""
_FACTS: Final = (
    "SELECT pg_is_in_recovery(), (SELECT system_identifier::text FROM pg_control_system()), "
    "current_database(), current_setting('synchronous_commit'), to_regclass("
    f"'{TABLE}') IS NOT NULL"
)
_COUNT: Final = (
    f"SELECT coalesce(bool_or(outcome = '{NOTED}' AND number = %(note)s), false), "
    f"count(DISTINCT number) FILTER (WHERE outcome = '{COMMITTED}' "
    "AND number = ANY(%(must)s::bigint[])), "
    f"count(*) FILTER (WHERE outcome = '{COMMITTED}' AND number > %(after)s "
    "AND number <= %(upto)s AND NOT number = ANY(%(but)s::bigint[])) "
    f"FROM {TABLE} WHERE manager = %(manager)s AND outcome IN ('{COMMITTED}', '{NOTED}') "
    "AND (number BETWEEN %(after)s AND %(upto)s OR number = %(note)s "
    "OR number = ANY(%(must)s::bigint[]))"
)
_REMOVE: Final = (
    f"DELETE FROM {TABLE} WHERE manager = %(manager)s AND number < %(below)s "
    f"AND outcome IN ('{COMMITTED}', '{NOTED}') AND NOT number = ANY(%(but)s::bigint[])"
)
LOCK_MS: Final = 2_000
"""How long recovery waits for a commit that is under way; then it tries again later."""


@dataclass(frozen=True, slots=True)
class _Base:
    """What is known of the database of a connection that was found fit.

    Attributes:
        name, address: See LastAgent.
        looked: GUIDs of queue managers whose rows were looked for over it.
    """

    name: str
    address: str
    looked: set[str] = field(default_factory=set)


_known: WeakKeyDictionary[object, _Base] = WeakKeyDictionary()
"""Asked once for each connection."""


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


def _counting(
    manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int], note: int
) -> Mapping[str, Any]:
    """The parameters of ``_COUNT``."""
    return {
        "manager": manager, "after": after, "upto": upto, "but": list(but), "must": list(must),
        "note": note,
    }  # fmt: skip


def _counted(told: tuple[Any, ...], must: Sequence[int], note: int) -> int:
    """What ``count`` returns for the one row of ``_COUNT``."""
    noted, there, found = told
    return int(found) if (noted or not note) and there == len(set(must)) else -1


class _Share(Share[Connection]):
    """A connection that decides."""

    @property
    def name(self) -> str:
        """``postgresql:<system identifier>/<database>``. See LastAgent."""
        return self._name or _known[self.connection].name

    @property
    def address(self) -> str:
        """See LastAgent."""
        return _known[self.connection].address

    def is_new(self, manager: str) -> bool:
        """See LastAgent."""
        return manager not in _known[self.connection].looked

    def set_looked(self, manager: str) -> None:
        """See LastAgent."""
        _known[self.connection].looked.add(manager)

    def withdraw(self) -> None:
        """See LastAgent: no call leaves anything open."""

    def agent(self) -> PostgresAgent:
        """See LastAgent."""
        return PostgresAgent(conninfo_of(self.connection), name=self._name)

    def _check(self) -> Calls[None]:
        """See LastAgent."""
        connection = self.connection
        refuse_if_busy(connection)
        if connection in _known:
            return
        with Meaning(connection, voting=True):
            try:
                cursor = yield from self._apart(_FACTS)
                facts = yield cursor.fetchone
                name = _name_of(facts)
                if not facts[-1]:
                    yield from self._make_table()
            except psycopg.errors.InsufficientPrivilege as error:
                raise _refused_table(error) from error
        _known[connection] = _Base(name, connection.info.dsn)

    def _count(
        self, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
        note: int,
    ) -> Calls[int]:  # fmt: skip
        """See LastAgent."""
        with Meaning(self.connection, voting=False):
            given = _counting(manager, after, upto, but, must, note)
            cursor = yield from self._apart(_COUNT, given)
            told = yield cursor.fetchone
        return _counted(told, must, note)

    def _make_table(self) -> Calls[None]:
        """Make the table. PostgreSQL looks whether it is there before it holds the name, so of two
        connections that make it at once one is told that the name is taken: then it is there."""
        try:
            yield from self._apart(MAKE)
        except _TAKEN:
            yield from self._apart(MAKE)

    def _record(self, row: Row) -> Calls[None]:
        """See LastAgent."""
        yield from self._execute(_deciding(row))
        yield from self._leave()

    def _rollback(self, xid: Xid) -> Calls[None]:
        """See LastAgent."""
        yield from self._leave()


class PostgresLast(_Share[psycopg.Connection[Any]]):
    """A psycopg connection that decides. See LastAgent.

    Until the end of the transaction psycopg refuses ``commit`` and ``rollback`` on it.
    """

    cursor_type = psycopg.Cursor
    check = in_threads(_Share._check)
    count = in_threads(_Share._count)
    begin = in_threads(_Share._begin)
    record = in_threads(_Share._record)
    commit_one_phase = in_threads(_Share._commit_one_phase)
    rollback = in_threads(_Share._rollback)


class AsyncPostgresLast(_Share[psycopg.AsyncConnection[Any]]):
    """A psycopg asyncio connection that decides. See PostgresLast."""

    cursor_type = psycopg.AsyncCursor
    check = in_tasks(_Share._check)
    count = in_tasks(_Share._count)
    begin = in_tasks(_Share._begin)
    record = in_tasks(_Share._record)
    commit_one_phase = in_tasks(_Share._commit_one_phase)
    rollback = in_tasks(_Share._rollback)


class PostgresAgent(Recovering):
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
        super().__init__(conninfo, name=name)
        self._lock_ms = lock_ms

    @property
    def name(self) -> str:
        """See Agent."""
        self._name = self._name or _name_of(self._told(_FACTS))
        return self._name

    def settle(self, row: Row) -> bool:
        """See Agent."""
        key = [row.manager, row.number, row.id]
        # In autocommit each is a transaction of its own: the second sees whoever was first.
        self._do(
            f"INSERT INTO {TABLE} VALUES (%s, %s, %s, '{ABORTED}') ON CONFLICT DO NOTHING", key
        )
        (committed,) = self._told(
            f"SELECT outcome = '{COMMITTED}' FROM {TABLE} "
            "WHERE manager = %s AND number = %s AND id = %s", key
        )  # fmt: skip
        return bool(committed)

    def count(
        self, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
        note: int,
    ) -> int:  # fmt: skip
        """See Agent."""
        if self._told(f"SELECT to_regclass('{TABLE}')") == (None,):
            return -1 if must or note else 0
        told = self._told(_COUNT, _counting(manager, after, upto, but, must, note))
        return _counted(told, must, note)

    def note(self, manager: str, number: int) -> None:
        """See Agent."""
        self._do(
            f"INSERT INTO {TABLE} VALUES (%s, %s, '', '{NOTED}') ON CONFLICT DO NOTHING",
            [manager, number],
        )

    def remove(self, manager: str, below: int, but: Sequence[int]) -> None:
        """See Agent."""
        self._do(_REMOVE, {"manager": manager, "below": below, "but": list(but)})

    def _set(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(sql.SQL("SET lock_timeout = {}").format(sql.Literal(self._lock_ms)))
        connection.execute("SET synchronous_commit = on")
