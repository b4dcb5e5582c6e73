"""MariaDB through PyMySQL or MariaDB's own connector: connections that prepare or decide.

A branch is worked on between ``XA START`` and ``XA END``, prepared by ``XA PREPARE``, and ended by
``XA COMMIT`` or ``XA ROLLBACK``. Only tables of transactional engines (InnoDB) take part: MariaDB
commits changes of other tables at once, even if the branch rolls back. A connection that decides
sends its row and the commit as one compound statement, which is one round trip; it needs no ``XA``,
so proxies may be between.

Upholds: I20 and I21 as far as the contract asks; what an error does not say for certain is a loss.
"""

from __future__ import annotations

import contextlib
import re
import ssl
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from onceq import errors
from onceq.model.branches import Xid
from onceq.partners.contract import TABLE, short_name
from onceq.partners.procedures import Calls
from onceq.partners.shares import (
    CONNECT_S,
    LOCK_S,
    SAVEPOINT,
    DecidingInThreads,
    DecidingRows,
    KnownDatabase,
    Meaning,
    PreparedBranches,
    PreparingDialect,
    PreparingInThreads,
    Rows,
    cut,
)

ANSWER_S: Final = 60
"""How long recovery waits for an answer: a server that hangs must not keep it from the others."""
_VERSION_MIN: Final = (10, 5, 2)
"""The first MariaDB that keeps a prepared branch when its connection is lost."""
_SETTINGS: Final = (
    "version", "innodb_flush_log_at_trx_commit", "log_bin", "sync_binlog", "read_only", "wsrep_on",
)  # fmt: skip
# ``completion_type`` can make a commit begin another transaction, or cut the connection.
_NO_MORE: Final = "AND NO CHAIN NO RELEASE"

_XAER_NOTA: Final = 1397
_ROLLED_BACK: Final = (1402, 1613, 1614)  # XA_RBROLLBACK, XA_RBTIMEOUT, XA_RBDEADLOCK
_NO_SUCH_TABLE: Final = 1146
_DENIED: Final = (1044, 1142, 1227)
_NO_SAVEPOINT: Final = 1305
_LOCK_TIMEOUT: Final = 1205
_DEADLOCK: Final = 1213
_NOT_DONE: Final = (_LOCK_TIMEOUT, _DEADLOCK, _NO_SAVEPOINT)
"""Errors of a commit that did not happen; its transaction may be open still."""
_GONE: Final = (1053, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1927)
"""Codes of the server: the connection is, or will be, at its end."""
_OF_CLIENT: Final = range(2000, 3000)
"""Codes of the client library: what the server did is not known."""


# Without it XA COMMIT of a branch of another connection fails (XAER_OUTSIDE).
_AUTOCOMMIT: Final = "SET autocommit = 1"


class MariadbDialect(PreparingDialect):
    """What MariaDB and its drivers (any of PEP 249) say and want."""

    kind = "MariaDB"
    make_table = (
        f"CREATE TABLE IF NOT EXISTS {TABLE} (manager CHAR(32) CHARACTER SET ascii COLLATE "
        "ascii_bin NOT NULL, number BIGINT NOT NULL, id VARCHAR(32) CHARACTER SET ascii COLLATE "
        "ascii_bin NOT NULL, outcome VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, "
        "PRIMARY KEY (manager, number, id)) ENGINE=InnoDB"
    )
    keep_existing = " ON DUPLICATE KEY UPDATE outcome = outcome"
    # A branch whose own connection still lives cannot be ended by another one, and the error is
    # the same: ``PreparedBranches`` reads the list again before it calls a branch unknown.
    unknown_branch = (_XAER_NOTA,)
    rolled_back = _ROLLED_BACK
    no_table = (_NO_SUCH_TABLE,)

    def table_in(self, schema: str) -> str:
        """Return it with its database: the application may go to another one meanwhile."""
        return f"`{schema.replace('`', '``')}`.{TABLE}"

    def errors(self, connection: Any) -> type[Exception]:
        """Return the class of all errors of a connection's driver."""
        found: type[Exception] = sys.modules[_driver_of(connection)].Error
        return found

    def code_of(self, error: BaseException) -> int:
        """Return the number of an error; 0 if it has none."""
        number = getattr(error, "errno", None)
        if number is None and error.args:
            number = error.args[0]
        return number if isinstance(number, int) else 0

    def is_refusal(self, error: Exception, connection: Any) -> bool:
        """Return whether the server has answered, and the connection goes on."""
        code = self.code_of(error)
        return code >= 1000 and code not in _GONE and code not in _OF_CLIENT

    def text_of(self, error: Exception) -> str:
        """Return the text of an error."""
        return " ".join(str(arg) for arg in error.args)

    def query(self, connection: Any, text: str) -> Calls[Rows]:
        """Execute a statement; returns its rows, also if the connection's cursors give
        dictionaries by default."""
        cursor = connection.cursor()
        try:
            yield partial(cursor.execute, text)
            found = (yield cursor.fetchall) if cursor.description else ()
        finally:
            cursor.close()
        return [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in found]

    def query_apart(self, connection: Any, text: str) -> Calls[Rows]:
        """As ``query``, in a transaction of its own."""
        try:
            return (yield from self.query(connection, text))
        finally:
            yield from self.query(connection, f"ROLLBACK {_NO_MORE}")

    def cut(self, connection: Any) -> None:
        """Cut the connection."""
        with contextlib.suppress(Exception):
            # PyMySQL has no other name for its socket, nor has MariaDB's connector 2.
            holder = getattr(connection, "_client", connection)
            shared = getattr(holder, "_sock", None) or getattr(holder, "socket", None)
            cut(shared.fileno() if shared is not None else connection.get_socket())
            return
        with contextlib.suppress(Exception):  # The driver does not tell.
            connection.close()

    def check_idle(self, connection: Any) -> Calls[str]:
        """Check that the connection can begin; return the database that it is in."""
        ((busy, schema),) = yield from self.query(connection, "SELECT @@in_transaction, DATABASE()")
        if busy:
            raise errors.PartnerRefused(
                "the MariaDB connection is in a transaction already (without autocommit the first "
                "statement begins one, a SELECT too); commit it or roll it back first, or enlist "
                "the connection before its first statement"
            )
        return schema or ""

    # ---- connections that prepare --------------------------------------------------------------

    def check_preparing(self, connection: Any) -> Calls[KnownDatabase]:
        """Check that the server keeps what it has prepared."""
        ((version, host, port),) = yield from self.query(
            connection, "SELECT VERSION(), @@hostname, @@port"
        )
        numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
        if "mariadb" not in version.lower():
            raise errors.TwoPhaseForbidden(
                f"the server is {version}; of its kind onceq knows MariaDB only"
            )
        if numbers < _VERSION_MIN:
            raise errors.TwoPhaseForbidden(
                f"MariaDB {version} rolls prepared transactions back when their connection is "
                f"lost; use {'.'.join(map(str, _VERSION_MIN))} or newer"
            )
        galera = yield from self.query(connection, "SHOW GLOBAL VARIABLES LIKE 'wsrep_on'")
        if galera and str(galera[0][1]).upper() == "ON":
            raise errors.TwoPhaseForbidden(
                "the MariaDB server is part of a Galera cluster, which takes no XA transactions; "
                "set wsrep_on = OFF in its configuration, or use another server"
            )
        name = short_name("mariadb", f"{host}:{port}")
        return KnownDatabase(name, name)

    def begin_branch(self, connection: Any, xid: Xid) -> Calls[None]:
        """Begin the branch. Until its end the server refuses ``commit`` and ``rollback``."""
        yield from self.query(connection, f"XA START {_literal(xid)}")

    def prepare(self, connection: Any, xid: Xid) -> Calls[None]:
        """Prepare."""
        yield from self._vote(connection, xid, f"XA PREPARE {_literal(xid)}")

    def commit_branch(self, connection: Any, xid: Xid) -> Calls[None]:
        """Commit what is not prepared."""
        yield from self._vote(connection, xid, f"XA COMMIT {_literal(xid)} ONE PHASE")

    def _vote(self, connection: Any, xid: Xid, text: str) -> Calls[None]:
        try:
            with Meaning(self, connection, voting=True):
                # After a deadlock the branch can only be rolled back: this already says so.
                yield from self.query(connection, f"XA END {_literal(xid)}")
                yield from self.query(connection, text)
        except errors.PartnerRefused:
            with Meaning(self, connection, voting=False):
                yield from self.roll_back_branch(connection, xid)
            raise

    def roll_back_branch(self, connection: Any, xid: Xid) -> Calls[None]:
        """Roll back what is not prepared; the server may have done so by itself."""
        error = self.errors(connection)
        with contextlib.suppress(error):
            yield from self.query(connection, f"XA END {_literal(xid)}")
        try:
            yield from self.query(connection, f"XA ROLLBACK {_literal(xid)}")
        except error as other:
            if self.code_of(other) not in (_XAER_NOTA, *_ROLLED_BACK):
                raise

    def end_prepared(self, connection: Any, xid: Xid, *, commit: bool) -> Calls[None]:
        """End what is prepared, over the connection that has prepared it."""
        yield from self.query(connection, self.end_found(xid, commit=commit))

    def end_found(self, xid: Xid, *, commit: bool) -> str:
        """Return the statement that ends what is prepared, over any connection."""
        return f"XA {'COMMIT' if commit else 'ROLLBACK'} {_literal(xid)}"

    def list_prepared(self, connection: Any) -> Calls[list[Xid]]:
        """Return all branches of the server; one can be ended from any of its databases."""
        found = []
        rows = yield from self.query(connection, "XA RECOVER")
        # Both parts of an identifier come as one heap of bytes with two lengths.
        for format_id, global_bytes, branch_bytes, data in rows:
            raw = data.encode("latin-1", "replace") if isinstance(data, str) else bytes(data)
            if len(raw) == global_bytes + branch_bytes:
                # Format identifiers beyond XA's are foreign.
                with contextlib.suppress(errors.InvalidParameter):
                    found.append(Xid(int(format_id), raw[:global_bytes], raw[global_bytes:]))
        return sorted(found)

    # ---- connections that decide ---------------------------------------------------------------

    def check_deciding(self, connection: Any, schema: str) -> Calls[KnownDatabase]:
        """Check that commits are durable, and make the table of decisions if there is none."""
        if not schema:
            raise errors.EnlistRefused(
                "the MariaDB connection has no database in which the table of decisions could "
                "be; connect with one"
            )
        try:
            check_durability((yield from self._read_settings(connection)), schema)
            yield from self._make_table(connection, schema)
            name = yield from self._ask_place(connection, schema)
        finally:
            yield from self.query(connection, f"ROLLBACK {_NO_MORE}")
        # Another server has another name, so the name is the address.
        return KnownDatabase(name, name, schema)

    def _read_settings(self, connection: Any) -> Calls[dict[str, str]]:
        """Return settings of a server; raises EnlistRefused if its kind is not known."""
        names = ", ".join(f"'{name}'" for name in _SETTINGS)
        rows = yield from self.query(connection, f"SHOW VARIABLES WHERE Variable_name IN ({names})")
        settings = {str(name).lower(): str(value).upper() for name, value in rows}
        if "MARIADB" not in settings["version"]:
            raise errors.EnlistRefused(
                f"the server is {settings['version']}; of its kind onceq knows MariaDB only"
            )
        if settings.get("wsrep_on") == "ON":
            raise errors.EnlistRefused(
                "the MariaDB server is part of a Galera cluster, whose members do not wait for "
                "each other's locks; set wsrep_on = OFF in its configuration, or use another "
                "server"
            )
        return settings

    def ask_name(self, connection: Any, schema: str) -> Calls[str]:
        """Return the name of the database."""
        yield from self._read_settings(connection)
        return (yield from self._ask_place(connection, schema))

    def _ask_place(self, connection: Any, schema: str) -> Calls[str]:
        ((host, port),) = yield from self.query(connection, "SELECT @@hostname, @@port")
        return short_name("mariadb", f"{host}:{port}/{schema}")

    def _make_table(self, connection: Any, schema: str) -> Calls[None]:
        engine = (
            "SELECT engine FROM information_schema.tables "
            f"WHERE table_schema = DATABASE() AND table_name = '{TABLE}'"
        )
        rows = yield from self.query(connection, engine)
        if not rows:
            try:
                yield from self.query(connection, self.make_table)
            except self.errors(connection) as error:
                if self.code_of(error) not in _DENIED:
                    raise
                raise errors.EnlistRefused(
                    f"the table of decisions cannot be made in this database ({error}); let its "
                    f"owner execute: {self.make_table}"
                ) from error
            rows = yield from self.query(connection, engine)
        if [str(name).upper() for (name,) in rows] != ["INNODB"]:
            raise errors.EnlistRefused(
                f"table {TABLE} of database {schema} is not of InnoDB, so it takes no part in "
                f"transactions; execute: ALTER TABLE {TABLE} ENGINE=InnoDB"
            )

    def begin_deciding(self, connection: Any, xid: Xid) -> Calls[None]:
        """Begin the transaction."""
        # Its application could commit it, and a statement like CREATE TABLE does so by itself.
        # What comes after that is another transaction, and would be taken for this one. So a
        # savepoint is set here, and looked for at the end.
        text = _compound("START TRANSACTION", f"SAVEPOINT {SAVEPOINT}")
        yield from self.query(connection, text)

    def commit_deciding(self, connection: Any, xid: Xid, insert: str) -> Calls[None]:
        """Commit, with the row before it."""
        try:
            is_open = connection.open  # The server is not asked.
        except self.errors(connection):  # so one of the drivers answers
            is_open = False
        if not is_open:
            raise errors.PartnerEnded(
                "the enlisted MariaDB connection was closed before the commit, so the server has "
                "rolled its work back; keep it open until the transaction is over"
            )
        # The first fails where the savepoint is not there; the second keeps it until the commit is
        # done.
        marked = (f"RELEASE SAVEPOINT {SAVEPOINT}", f"SAVEPOINT {SAVEPOINT}")
        text = _compound(*marked, *[insert] * bool(insert), f"COMMIT {_NO_MORE}")
        try:
            with Meaning(self, connection, voting=True):
                yield from self.query(connection, text)
        except errors.PartnerRefused as error:
            # An error of a compound statement does not say which part has failed. Where the
            # savepoint is still there, nothing was committed; else only those errors are believed
            # that a commit which is done cannot have.
            code = self.code_of(error.__cause__) if error.__cause__ is not None else 0
            undone = yield from self._undo(connection)
            if code == _NO_SAVEPOINT:
                raise errors.PartnerEnded(
                    "the transaction was ended by a statement on the enlisted MariaDB connection "
                    "(COMMIT, ROLLBACK, or one like CREATE TABLE that commits by itself), or by a "
                    "deadlock; let the transaction that it is enlisted in do that"
                ) from error
            if undone or code in _NOT_DONE:
                raise
            raise errors.PartnerLost(f"whether it has committed is not known: {error}") from error

    def _undo(self, connection: Any) -> Calls[bool]:
        """Free the connection; returns whether what was begun was still open."""
        with Meaning(self, connection, voting=False):
            try:
                yield from self.query(connection, f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
            except self.errors(connection) as error:
                if self.code_of(error) != _NO_SAVEPOINT:
                    raise
                undone = False
            else:
                undone = True
            yield from self.query(connection, f"ROLLBACK {_NO_MORE}")
        return undone

    def roll_back_deciding(self, connection: Any) -> Calls[None]:
        """Roll back."""
        yield from self.query(connection, f"ROLLBACK {_NO_MORE}")


DIALECT: Final = MariadbDialect()


class MariaPartner(PreparingInThreads):
    """A connection of pymysql or mariadb in a branch. See Partner."""

    dialect = DIALECT

    def resource(self) -> MariaResource | None:
        """Return the other side of the same server. See Partner."""
        connect = _connect_again(self.connection)
        return None if connect is None else MariaResource(connect, name=self._name)


class MariadbLast(DecidingInThreads):
    """A connection of pymysql or mariadb, in a database, that decides. See LastAgent."""

    dialect = DIALECT

    def agent(self) -> MariadbAgent | None:
        """Return the same database as recovery sees it. See LastAgent."""
        connect = _connect_again(self.connection)
        if connect is None:
            return None
        return MariadbAgent(connect, self.found.schema, name=self._name)


class MariaResource(PreparedBranches):
    """What is prepared in one server of MariaDB. See Resource."""

    dialect = DIALECT
    settings = (_AUTOCOMMIT,)


class MariadbAgent(DecidingRows):
    """The rows in one database of MariaDB that decide. See Agent."""

    dialect = DIALECT

    def __init__(
        self,
        connect: Callable[[], Any],
        database: str,
        *,
        name: str = "",
        lock_s: int = int(LOCK_S),
    ) -> None:
        """Connect later.

        Args:
            connect, name: As of DecidingRows.
            database: With the table of decisions; it need not be the database of the connection.
            lock_s: How long (seconds) a commit that is under way is waited for.
        """
        super().__init__(connect, database, name=name)
        self.settings = (
            _AUTOCOMMIT,
            # The row of recovery waits for one that is not committed yet, by the lock on its key.
            f"SET innodb_lock_wait_timeout = {lock_s}, lock_wait_timeout = {int(LOCK_S)}, "
            "sql_mode = 'STRICT_ALL_TABLES'",
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        )


def check_durability(settings: Mapping[str, str], schema: str) -> None:
    """Check that commits are durable; raises EnlistRefused."""
    if settings["read_only"] not in ("OFF", "0"):
        raise errors.EnlistRefused(
            f"the MariaDB server of database {schema} only reads (read_only); use its primary"
        )
    # InnoDB syncs no commit unless this says so; and with a binary log it leaves that to the
    # binary log, which is not synced by default.
    flush = settings["innodb_flush_log_at_trx_commit"]
    if flush not in ("1", "3"):
        raise errors.EnlistRefused(
            f"innodb_flush_log_at_trx_commit is {flush} on this MariaDB server, so that it does "
            "not sync its commits and they cannot decide; set it to 1"
        )
    if flush == "1" and settings["log_bin"] == "ON" and settings["sync_binlog"] != "1":
        raise errors.EnlistRefused(
            f"this MariaDB server has a binary log, and sync_binlog is {settings['sync_binlog']}: "
            "its commits are durable with the binary log only, so they cannot decide; set "
            "sync_binlog to 1"
        )


def _compound(*statements: str) -> str:
    """Return one statement; what is behind a part that fails is not executed."""
    return f"BEGIN NOT ATOMIC {'; '.join(statements)}; END"


def _literal(xid: Xid) -> str:
    return f"X'{xid.gtrid.hex()}',X'{xid.bqual.hex()}',{xid.format_id}"


# ---- drivers ----------------------------------------------------------------------------------


def _driver_of(connection: Any) -> str:
    """Return the package that a connection is of, also if its class is derived from it."""
    for kind in type(connection).__mro__:
        root = kind.__module__.partition(".")[0]
        if root in ("pymysql", "mariadb"):
            return root
    raise errors.InvalidParameter(f"{type(connection)} is no connection of pymysql or mariadb")


def _connect_again(connection: Any) -> Callable[[], Any] | None:
    """Return what makes another connection like one, without keeping that one alive.

    None: version 1 of MariaDB's connector does not tell what another connection needs.
    """
    if _driver_of(connection) == "mariadb":
        import mariadb

        given = getattr(connection, "_connection_params", None)
        return partial(mariadb.connect, **given) if isinstance(given, Mapping) else None
    return _connect_pymysql(
        host=connection.host,
        port=connection.port,
        user=connection.user,
        password=connection.password,
        unix_socket=connection.unix_socket,
        ssl=connection.ctx if isinstance(connection._sock, ssl.SSLSocket) else None,
        autocommit=True,
    )


def connect_to(where: str) -> tuple[Callable[[], Any], str]:
    """Return what connects to ``mariadb://user:password@host:port/database``, through PyMySQL, and
    the name of that database."""
    url = urlsplit(where)
    database = unquote(url.path.strip("/"))
    connect = _connect_pymysql(
        host=url.hostname or "localhost",
        port=url.port or 3306,
        user=unquote(url.username or ""),
        password=unquote(url.password or ""),
        database=database,
    )
    return connect, database


def _connect_pymysql(**given: object) -> Callable[[], Any]:
    import pymysql

    limits = {"connect_timeout": CONNECT_S, "read_timeout": ANSWER_S, "write_timeout": ANSWER_S}
    some: dict[str, Any] = {key: value for key, value in given.items() if value}
    return partial(pymysql.connect, **some, **limits)
