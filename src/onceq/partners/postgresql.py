"""PostgreSQL through psycopg 3: connections and asyncio connections that prepare or decide.

A branch is prepared by ``PREPARE TRANSACTION`` under the name that psycopg gives a transaction
identifier (XTX-9), so other tools that use psycopg's two-phase calls see the same names. A
connection that decides sends its row and the commit as one text of two statements, which is one
round trip, and passes through every pooler: if the first fails the second is not executed.

Upholds: I20 and I21 as far as the contract asks; what an error does not say for certain is a loss.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from functools import partial
from typing import Any, Final

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row

from onceq import errors
from onceq.model.branches import Xid
from onceq.partners.contract import TABLE, short_name
from onceq.partners.procedures import Calls
from onceq.partners.shares import (
    CONNECT_S,
    LOCK_S,
    DatabaseShare,
    DecidingInTasks,
    DecidingInThreads,
    DecidingRows,
    KnownDatabase,
    Meaning,
    PreparedBranches,
    PreparingDialect,
    PreparingInTasks,
    PreparingInThreads,
    Rows,
    cut,
)

AnyConnection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

_SERVER: Final = (
    "SELECT current_setting('max_prepared_transactions')::int, pg_is_in_recovery(), "
    "(SELECT system_identifier::text FROM pg_control_system()), current_database(), "
    f"current_setting('synchronous_commit'), to_regclass('{TABLE}') IS NOT NULL"
)
# Whether nobody could tell a rollback from a commit: it has written nothing (also no temporary
# table); what it has read counts either way, which is not so if it is serializable; and it holds
# no lock that others may be waiting for on purpose (advisory locks, LOCK TABLE), which would be
# free too early. What only its connection sees (cursors WITH HOLD, exported snapshots, SET) is not
# asked for. NOTIFY cannot be asked for.
_WROTE_NOTHING: Final = (
    "SELECT pg_catalog.txid_current_if_assigned() IS NULL "
    "AND current_setting('transaction_isolation') <> 'serializable' "
    "AND NOT EXISTS (SELECT FROM pg_catalog.pg_locks WHERE pid = pg_catalog.pg_backend_pid() "
    "AND locktype <> 'virtualxid' "
    "AND mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock'))"
)
_LIST: Final = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid"
_PREPARE: Final = "PREPARE TRANSACTION"
_BRANCH_NAME: Final = re.compile(r"(\d{1,10})_([A-Za-z0-9+/=]+)_([A-Za-z0-9+/=]*)")
_OUT_OF_SLOTS: Final = "53200"
_COMPLETION_UNKNOWN: Final = "40003"
_DENIED: Final = "42501"
_TAKEN: Final = ("23505", "42P07", "42710")  # a unique key, a table, a type
_DIVIDED_BY_ZERO: Final = "22012"
_IDLE: Final = pq.TransactionStatus.IDLE
_INERROR: Final = pq.TransactionStatus.INERROR
_PIPELINE_OFF: Final = pq.PipelineStatus.OFF


class PostgresDialect(PreparingDialect):
    """What PostgreSQL and psycopg say and want."""

    kind = "PostgreSQL"
    make_table = (
        f"CREATE TABLE IF NOT EXISTS {TABLE} (manager text NOT NULL, number bigint NOT NULL, "
        "id text NOT NULL, outcome text NOT NULL, PRIMARY KEY (manager, number, id))"
    )
    unknown_branch = ("42704",)
    no_table = ("42P01",)

    def __init__(self, cursor_type: Any) -> None:
        """Take psycopg's own type of cursors: a connection may have one of the application."""
        self._cursor_type = cursor_type

    def errors(self, connection: Any) -> type[Exception]:
        """Return the class of all errors of psycopg."""
        return psycopg.Error

    def code_of(self, error: BaseException) -> object:
        """Return the SQLSTATE."""
        return getattr(error, "sqlstate", None)

    def is_refusal(self, error: Exception, connection: Any) -> bool:
        """Return whether the server has answered, and knows what it has done."""
        return not connection.closed and self.code_of(error) not in (None, _COMPLETION_UNKNOWN)

    def text_of(self, error: Exception) -> str:
        """Return the text of an error, with the setting to change."""
        text = super().text_of(error)
        if self.code_of(error) == _OUT_OF_SLOTS and "prepared" in text:
            text += "; raise max_prepared_transactions in postgresql.conf"
        return text

    def query(self, connection: AnyConnection, text: str) -> Calls[Rows]:
        """Execute statements; returns the rows of the last one."""
        cursor = yield from self._execute(connection, text)
        rows: Rows = (yield cursor.fetchall) if cursor.description else ()
        return rows

    def _execute(self, connection: AnyConnection, text: str) -> Calls[Any]:
        """Execute statements; returns the cursor, at the result of the last one."""
        cursor = self._cursor_type(connection, row_factory=tuple_row)
        yield partial(cursor.execute, text.encode(), prepare=False)
        while cursor.nextset():
            pass
        return cursor

    def query_apart(self, connection: AnyConnection, text: str) -> Calls[Rows]:
        """As ``query``, in a transaction of its own."""
        try:
            rows = yield from self.query(connection, text)
            yield connection.commit
        finally:
            yield connection.rollback
        return rows

    def cut(self, connection: AnyConnection) -> None:
        """Cut the connection."""
        with contextlib.suppress(psycopg.Error):
            cut(connection.fileno())

    def check_idle(self, connection: AnyConnection) -> Calls[str]:
        """Check that the connection can begin."""
        _refuse_if_busy(connection)
        yield from ()
        return ""

    def check_preparing(self, connection: AnyConnection) -> Calls[KnownDatabase]:
        """Check that the server prepares transactions."""
        ((slots, standby, system, database, *_),) = yield from self.query_apart(connection, _SERVER)
        check_server(slots, standby, database)
        return _database(connection, system, database)

    def check_deciding(self, connection: AnyConnection, schema: str) -> Calls[KnownDatabase]:
        """Check that commits are durable, and make the table of decisions if there is none."""
        found, has_table = yield from self._check_decider(connection)
        if not has_table:
            yield from self._make_table(connection)
        return found

    def ask_name(self, connection: AnyConnection, schema: str) -> Calls[str]:
        """Return the name of the database."""
        found, _ = yield from self._check_decider(connection)
        return found.name

    def _check_decider(self, connection: AnyConnection) -> Calls[tuple[KnownDatabase, bool]]:
        """Check that commits are durable; return also whether there is a table."""
        rows = yield from self.query_apart(connection, _SERVER)
        ((_, standby, system, database, synced, has_table),) = rows
        if standby:
            raise errors.EnlistRefused(
                f"the PostgreSQL server of database {database} is a standby: it only reads"
            )
        if synced == "off":
            raise errors.EnlistRefused(
                "synchronous_commit is off for this PostgreSQL connection, so its commits cannot "
                "decide; execute SET synchronous_commit = on"
            )
        return _database(connection, system, database), has_table

    def _make_table(self, connection: AnyConnection) -> Calls[None]:
        try:
            try:
                yield from self.query_apart(connection, self.make_table)
            except psycopg.Error as error:
                # PostgreSQL looks whether a table is there before it holds its name, so of two
                # connections that make it at once one hears that the name is taken.
                if error.sqlstate not in _TAKEN:
                    raise
                yield from self.query_apart(connection, self.make_table)
        except psycopg.Error as error:
            if error.sqlstate != _DENIED:
                raise
            raise errors.EnlistRefused(
                f"the table of decisions cannot be made in this database ({self.text_of(error)}); "
                f"let its owner execute: {self.make_table}"
            ) from error

    def begin_branch(self, connection: AnyConnection, xid: Xid) -> Calls[None]:
        """Begin in psycopg's two-phase state, in which it refuses ``commit`` and ``rollback``."""
        _refuse_if_busy(connection)
        yield partial(connection.tpc_begin, _driver_xid(connection, xid))
        # The server forgets this mark at the end of the transaction, so a statement of the
        # application that ends it and begins another one is noticed. The server's own number of
        # the transaction would do as well, but a SELECT fixes the isolation level, which the
        # application may still want to set.
        yield from self.query(connection, f"SET LOCAL onceq.share = '{_branch_name(xid)}'")

    begin_deciding = begin_branch

    def _execute_marked(self, connection: AnyConnection, xid: Xid, text: str) -> Calls[Any]:
        """Execute statements in the transaction that was begun and in no other.

        Returns:
            The cursor, at the result of the last one.

        Raises:
            PartnerRefused: They were refused; the connection is free.
        """
        status = connection.pgconn.transaction_status
        over: errors.PartnerRefused | None = None
        if connection.closed or status == pq.TransactionStatus.UNKNOWN:
            over = errors.PartnerEnded(
                "the enlisted PostgreSQL connection was closed before the commit, so the server "
                "has rolled its work back; keep it open until the transaction is over"
            )
        elif status in (_INERROR, _IDLE):
            over = _not_prepared("ROLLBACK") if status == _INERROR else _ended()
        if over is not None:
            with contextlib.suppress(errors.PartnerLost):  # Nothing is left where it is closed.
                yield from self._leave(connection)
            raise over
        name = _branch_name(xid)
        is_open = f"coalesce(current_setting('onceq.share', true) = '{name}', false)"
        try:
            with Meaning(self, connection, voting=True):
                return (
                    yield from self._execute(connection, f"SELECT 1 / ({is_open})::int; {text}")
                )
        except errors.PartnerRefused as error:
            yield from self._leave(connection)
            if error.__cause__ is not None and self.code_of(error.__cause__) == _DIVIDED_BY_ZERO:
                raise _ended() from error
            raise

    def _leave(self, connection: AnyConnection) -> Calls[None]:
        """Take psycopg out of its two-phase state. What is open is undone; what is prepared or
        committed stays so, and the server is not asked."""
        with Meaning(self, connection, voting=False):
            yield connection.tpc_rollback

    def wrote_nothing(self, connection: AnyConnection, xid: Xid) -> Calls[bool]:
        """Return whether nobody could tell a commit of the branch from a rollback."""
        # NOTIFY counts only at the commit, and nothing tells whether there was one. So this is
        # asked for only if the application wants it (``read_only_votes``), and then the branch is
        # rolled back: nothing of it may be seen before the decision.
        cursor = yield from self._execute_marked(connection, xid, _WROTE_NOTHING)
        ((nothing,),) = yield cursor.fetchall
        return bool(nothing)

    def prepare(self, connection: AnyConnection, xid: Xid) -> Calls[None]:
        """Prepare."""
        text = f"{_PREPARE} '{_branch_name(xid)}'"
        cursor = yield from self._execute_marked(connection, xid, text)
        yield from self._leave(connection)
        # In a transaction that has failed this answers without an error, and rolls back.
        if cursor.statusmessage != _PREPARE:
            raise _not_prepared(cursor.statusmessage)

    def commit_branch(self, connection: AnyConnection, xid: Xid) -> Calls[None]:
        """Commit what is not prepared."""
        yield from self.commit_deciding(connection, xid, "")

    def roll_back_branch(self, connection: AnyConnection, xid: Xid) -> Calls[None]:
        """Roll back what is not prepared."""
        yield from self._leave(connection)

    def end_prepared(self, connection: AnyConnection, xid: Xid, *, commit: bool) -> Calls[None]:
        """End what is prepared, over the connection that has prepared it."""
        end = connection.tpc_commit if commit else connection.tpc_rollback
        yield partial(end, _driver_xid(connection, xid))

    def end_found(self, xid: Xid, *, commit: bool) -> str:
        """Return the statement that ends what is prepared, over any connection."""
        return f"{'COMMIT' if commit else 'ROLLBACK'} PREPARED '{_branch_name(xid)}'"

    def list_prepared(self, connection: AnyConnection) -> Calls[list[Xid]]:
        """Return the branches of this database."""
        # The view lists those of the whole server, but one can be ended only in its own database.
        names = [name for (name,) in (yield from self.query(connection, _LIST))]
        found = []
        for match in filter(None, map(_BRANCH_NAME.fullmatch, names)):
            with contextlib.suppress(binascii.Error, errors.InvalidParameter):
                parts = (base64.b64decode(part, validate=True) for part in match.groups()[1:])
                xid = Xid(int(match[1]), *parts)
                if _branch_name(xid) == match[0]:  # else somebody else has chosen it
                    found.append(xid)
        return found

    def commit_deciding(self, connection: AnyConnection, xid: Xid, insert: str) -> Calls[None]:
        """Commit, with the row before it."""
        yield from self._execute_marked(
            connection, xid, f"{insert}; COMMIT" if insert else "COMMIT"
        )
        yield from self._leave(connection)

    def roll_back_deciding(self, connection: AnyConnection) -> Calls[None]:
        """Roll back."""
        yield from self._leave(connection)


_THREADS: Final = PostgresDialect(psycopg.Cursor)
_TASKS: Final = PostgresDialect(psycopg.AsyncCursor)


class _Preparing(DatabaseShare):
    """A connection that is idle and not in autocommit mode, and prepares. See Partner."""

    def __init__(
        self, connection: AnyConnection, *, name: str = "", read_only_votes: bool = False
    ) -> None:
        """Take a connection.

        Args:
            name: Another name than the database has by itself; its resource needs the same.
            read_only_votes: A share that has written nothing is not prepared but rolled back, which
                spares the database two syncs, and costs the others a question. What LISTEN,
                NOTIFY and SET did in it is then undone, and nobody is told: not for applications
                that use those.
        """
        super().__init__(connection, name=name)
        self._may_vote = read_only_votes

    def resource(self) -> PostgresResource:
        """Return the other side of the same database. See Partner."""
        return PostgresResource(_conninfo_of(self.connection), name=self._name)


class PostgresPartner(_Preparing, PreparingInThreads):
    """A psycopg connection in a transaction. See Partner."""

    dialect = _THREADS


class AsyncPostgresPartner(_Preparing, PreparingInTasks):
    """A psycopg asyncio connection in a transaction. See AsyncPartner and PostgresPartner."""

    dialect = _TASKS


class _Deciding(DatabaseShare):
    def agent(self) -> PostgresAgent:
        """Return the same database as recovery sees it. See LastAgent."""
        return PostgresAgent(_conninfo_of(self.connection), name=self._name)


class PostgresLast(_Deciding, DecidingInThreads):
    """A psycopg connection that decides. See LastAgent."""

    dialect = _THREADS


class AsyncPostgresLast(_Deciding, DecidingInTasks):
    """A psycopg asyncio connection that decides. See LastAgent."""

    dialect = _TASKS


def _connect(conninfo: str) -> psycopg.Connection[Any]:
    given = conninfo_to_dict(conninfo)
    given.setdefault("connect_timeout", str(CONNECT_S))
    given.setdefault("application_name", "onceq recovery")
    # A standby that is behind would look like a database that was set back.
    given.setdefault("target_session_attrs", "read-write")
    return psycopg.connect(make_conninfo("", **given), autocommit=True)


class PostgresResource(PreparedBranches):
    """What is prepared in one database of PostgreSQL. See Resource."""

    dialect = _THREADS

    def __init__(self, conninfo: str, *, name: str = "") -> None:
        """Connect later.

        Args:
            conninfo: Connection string of libpq; the database in it is the one that is watched.
            name: The name of the partner, where it has one of its own.
        """
        super().__init__(partial(_connect, conninfo), name=name)


class PostgresAgent(DecidingRows):
    """The rows in one database of PostgreSQL that decide. See Agent."""

    dialect = _THREADS

    def __init__(self, conninfo: str, *, name: str = "", lock_ms: int = int(LOCK_S * 1e3)) -> None:
        """Connect later.

        Args:
            conninfo, name: As of PostgresResource.
            lock_ms: How long (ms) a commit that is under way is waited for.
        """
        super().__init__(partial(_connect, conninfo), name=name)
        self.settings = (f"SET lock_timeout = {int(lock_ms)}", "SET synchronous_commit = on")


def check_server(slots: int, standby: bool, database: str) -> None:
    """Check that a server can prepare; raises TwoPhaseForbidden, with the line to change.

    Args:
        slots: Its setting ``max_prepared_transactions``.
    """
    if standby:
        raise errors.TwoPhaseForbidden(
            f"the PostgreSQL server of database {database} is a standby: it only reads; "
            "connect to the primary (in the connection string: target_session_attrs=primary)"
        )
    if slots == 0:
        raise errors.TwoPhaseForbidden(
            f"the PostgreSQL server of database {database} has "
            "max_prepared_transactions = 0, which forbids two-phase commit; write "
            "max_prepared_transactions = 100 (at least max_connections) into its "
            "postgresql.conf, or run ALTER SYSTEM SET max_prepared_transactions = 100, and "
            "restart it; or enlist PostgresLast(connection) in its place (AsyncPostgresLast in "
            "tasks), which needs no such setting"
        )


def _database(connection: AnyConnection, system: str, database: str) -> KnownDatabase:
    """What is known of a database: its name is stable for the life of the cluster."""
    return KnownDatabase(short_name("postgresql", f"{system}/{database}"), connection.info.dsn)


def _refuse_if_busy(connection: AnyConnection) -> None:
    """Raise what keeps a connection from beginning (XTX-9)."""
    pgconn = connection.pgconn
    status = pgconn.transaction_status
    is_plain = not connection.autocommit and pgconn.pipeline_status == _PIPELINE_OFF
    if status == _IDLE and is_plain:
        return
    if connection.closed:
        raise errors.PartnerLost("the connection to PostgreSQL is closed")
    if connection.autocommit:
        raise errors.PartnerRefused(
            "the PostgreSQL connection is in autocommit mode, where every statement is committed "
            "by itself; set connection.autocommit = False before enlisting it"
        )
    if not is_plain:
        raise errors.PartnerRefused(
            "the PostgreSQL connection is in pipeline mode; leave the block connection.pipeline() "
            "before enlisting it"
        )
    if status == pq.TransactionStatus.UNKNOWN:
        raise errors.PartnerLost("the connection to PostgreSQL is broken")
    what = {
        int(pq.TransactionStatus.ACTIVE): "is in the middle of a statement; wait for its end",
        int(_INERROR): "is in a transaction that has failed; call connection.rollback() first",
    }.get(
        status,
        "is in a transaction already (psycopg begins one at the first statement, a SELECT too); "
        "commit it or roll it back first, or enlist the connection before its first statement",
    )
    raise errors.PartnerRefused(f"the PostgreSQL connection {what}")


def _ended() -> errors.PartnerEnded:
    return errors.PartnerEnded(
        "the transaction was ended by a statement (COMMIT or ROLLBACK) on the enlisted "
        "PostgreSQL connection; let the transaction that it is enlisted in do that"
    )


def _not_prepared(answer: str | None) -> errors.PartnerRefused:
    return errors.PartnerRefused(
        "a statement of the transaction has failed, so PostgreSQL rolled it back instead of "
        f"preparing it (it answered {answer!r})"
    )


def _branch_name(xid: Xid) -> str:
    """Return the name of a branch, as psycopg writes it; it needs no quoting in a literal."""
    parts = (base64.b64encode(part).decode() for part in (xid.gtrid, xid.bqual))
    name = "_".join((str(xid.format_id), *parts))
    assert _BRANCH_NAME.fullmatch(name), name
    return name


def _driver_xid(connection: AnyConnection, xid: Xid) -> psycopg.Xid:
    return connection.xid(xid.format_id, xid.gtrid.decode("ascii"), xid.bqual.decode("ascii"))


def _conninfo_of(connection: AnyConnection) -> str:
    """Return how recovery connects to the same database as the same user.

    It names the one host that has answered: of several in the connection string psycopg keeps no
    other. The next connection shows where the database has gone.
    """
    info = connection.info
    password = {"password": info.password} if info.password else {}
    return make_conninfo(info.dsn, **password)
