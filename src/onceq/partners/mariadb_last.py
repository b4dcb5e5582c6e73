"""MariaDB as the last agent, through PyMySQL or MariaDB's own connector.

The row and the commit go out as one compound statement, which is one round trip. If one of its
parts fails those behind it are not executed. No ``XA`` is needed, so proxies may stand between.

Traps that are avoided here:
    * A connection in a plain transaction lets the application commit, and a statement like
      ``CREATE TABLE`` does so by itself. What comes after it is another transaction, and would be
      taken for this one. So a savepoint is set at the beginning, and looked for at the end.
    * An error of the compound statement does not say which part has failed. Where the savepoint is
      still there, nothing was committed; else only those errors are believed that a commit which is
      done cannot have.
    * InnoDB syncs no commit unless ``innodb_flush_log_at_trx_commit`` says so; and with a binary
      log it leaves that to the binary log, which is not synced by default.
    * ``completion_type`` can make a commit begin another transaction, or cut the connection.
    * Recovery's row waits for one that is not committed yet, by the lock on its key. That ends with
      ``innodb_lock_wait_timeout``.

Upholds: I21 as far as the contract asks (``last_agent.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from onceq.errors import EnlistRefused, PartnerEnded, PartnerLost, PartnerRefused
from onceq.model.xid import Xid
from onceq.partners.contract import short_name
from onceq.partners.last_agent import ABORTED, COMMITTED, NOTED, TABLE, Row
from onceq.partners.mariadb_terms import (
    Recovering,
    abandon,
    again,
    code_of,
    do,
    error_of,
    is_closed,
    meaning,
    refuse_if_busy,
    rows,
)

MAKE: Final = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (manager CHAR(32) CHARACTER SET ascii COLLATE ascii_bin "
    "NOT NULL, number BIGINT NOT NULL, id VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT "
    "NULL, outcome VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, "
    "PRIMARY KEY (manager, number, id)) ENGINE=InnoDB"
)
LOCK_S: Final = 2
"""How long recovery waits for a commit that is under way; then it tries again later."""
_MARK: Final = "onceq_enlisted"
"""The savepoint at the beginning."""
_END: Final = "AND NO CHAIN NO RELEASE"
_SETTINGS: Final = (
    "version", "innodb_flush_log_at_trx_commit", "log_bin", "sync_binlog", "read_only", "wsrep_on",
)  # fmt: skip
_NO_SUCH_TABLE: Final = 1146
_DENIED: Final = (1044, 1142, 1227)
_NO_SAVEPOINT: Final = 1305
_LOCK_TIME: Final = 1205
_NOT_DONE: Final = (_LOCK_TIME, 1213, _NO_SAVEPOINT)
"""Errors of a commit that did not happen, whatever is left of its transaction; 1213: deadlock."""


@dataclass(frozen=True)
class _Base:
    """A database that can decide.

    Attributes:
        looked: GUIDs of queue managers whose rows were looked for over the connection.
    """

    name: str
    database: str
    looked: set[str] = field(default_factory=set, compare=False)

    @property
    def table(self) -> str:
        """Ours there; the application may go to another database meanwhile."""
        return _table_in(self.database)


_known: WeakKeyDictionary[Any, _Base] = WeakKeyDictionary()
"""What was found out over each connection: it is asked once for each database."""


def _table_in(database: str) -> str:
    return f"`{database.replace('`', '``')}`.{TABLE}"


def _told_by(connection: Any) -> dict[str, str]:
    """Settings of a server; raises EnlistRefused if it is none of a kind that is known."""
    names = ", ".join(f"'{name}'" for name in _SETTINGS)
    found = rows(connection, f"SHOW VARIABLES WHERE Variable_name IN ({names})")
    told = {str(name).lower(): str(value).upper() for name, value in found}
    if "MARIADB" not in told["version"]:
        raise EnlistRefused(
            f"the server is {told['version']}; of its kind onceq knows MariaDB only"
        )
    if told.get("wsrep_on") == "ON":
        raise EnlistRefused(
            "the MariaDB server is part of a Galera cluster, whose members do not wait for each "
            "other's locks; set wsrep_on = OFF in its configuration, or use another server"
        )
    return told


def _name_of(connection: Any, database: str) -> str:
    ((host, port),) = rows(connection, "SELECT @@hostname, @@port")
    return short_name("mariadb", f"{host}:{port}/{database}")


def _look(connection: Any, database: str) -> None:
    """Raises EnlistRefused if commits over a connection cannot decide."""
    told = _told_by(connection)
    if told["read_only"] not in ("OFF", "0"):
        raise EnlistRefused(
            f"the MariaDB server of database {database} only reads (read_only); use its primary"
        )
    flush = told["innodb_flush_log_at_trx_commit"]
    if flush not in ("1", "3"):
        raise EnlistRefused(
            f"innodb_flush_log_at_trx_commit is {flush} on this MariaDB server, so that it does "
            "not sync its commits and they cannot decide; set it to 1"
        )
    if flush == "1" and told["log_bin"] == "ON" and told["sync_binlog"] != "1":
        raise EnlistRefused(
            f"this MariaDB server has a binary log, and sync_binlog is {told['sync_binlog']}: its "
            "commits are durable with the binary log only, so they cannot decide; set sync_binlog "
            "to 1"
        )


def _make_table(connection: Any, database: str) -> None:
    """See that there is a table of decisions, and that it takes part in transactions."""
    engine = (
        "SELECT engine FROM information_schema.tables "
        f"WHERE table_schema = DATABASE() AND table_name = '{TABLE}'"
    )
    found = rows(connection, engine)
    if not found:
        try:
            do(connection, MAKE)
        except error_of(connection) as error:
            if code_of(error) not in _DENIED:
                raise
            raise EnlistRefused(
                f"the table of decisions cannot be made in this database ({error}); let its owner "
                f"execute: {MAKE}"
            ) from error
        found = rows(connection, engine)
    if [str(name).upper() for (name,) in found] != ["INNODB"]:
        raise EnlistRefused(
            f"table {TABLE} of database {database} is not of InnoDB, so it takes no part in "
            f"transactions; execute: ALTER TABLE {TABLE} ENGINE=InnoDB"
        )


def _all(*statements: str) -> str:
    """Statements in one round trip; what is behind one that fails is not executed."""
    return f"BEGIN NOT ATOMIC {'; '.join(statements)}; END"


class MariadbLast:
    """A connection of pymysql or mariadb that decides. See LastAgent."""

    def __init__(self, connection: Any, *, name: str = "") -> None:
        """Take a connection outside any transaction.

        Args:
            connection: Of pymysql or mariadb, with a database.
            name: Another name than the database has by itself, which is to be the same for ever and
                for everybody who recovers it.
        """
        self.connection = connection
        self._name = name
        self._base: _Base | None = None

    @property
    def _there(self) -> _Base:
        assert self._base is not None, "check comes first"
        return self._base

    @property
    def name(self) -> str:
        """``mariadb:<host name>:<port>/<database>``, as the server says them. See LastAgent."""
        return self._name or self._there.name

    def check(self) -> None:
        """See LastAgent."""
        connection = self.connection
        with meaning(connection, voting=True):
            ((busy, database),) = rows(connection, "SELECT @@in_transaction, DATABASE()")
            refuse_if_busy(busy)
            if database is None:
                raise EnlistRefused(
                    "the MariaDB connection has no database in which the table of decisions could "
                    "be; connect with one"
                )
            base = _known.get(connection)
            if base is None or base.database != database:
                try:
                    _look(connection, database)
                    _make_table(connection, database)
                    base = _Base(_name_of(connection, database), database)
                finally:
                    do(connection, f"ROLLBACK {_END}")
                _known[connection] = base
        self._base = base

    @property
    def address(self) -> str:
        """See LastAgent: what the server calls itself. Another server has another name."""
        return self._there.name

    def is_new(self, manager: str) -> bool:
        """See LastAgent."""
        return manager not in self._there.looked

    def set_looked(self, manager: str) -> None:
        """See LastAgent."""
        self._there.looked.add(manager)

    def withdraw(self) -> None:
        """See LastAgent: no call leaves anything open."""

    def count(
        self, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
        note: int,
    ) -> int:  # fmt: skip
        """See LastAgent."""
        query = _counting(self._there.table, manager, after, upto, but, must, note)
        with meaning(self.connection, voting=False):
            try:
                found = rows(self.connection, query)
            finally:
                do(self.connection, f"ROLLBACK {_END}")
        return _counted(found, must, note)

    def begin(self, xid: Xid) -> None:
        """See LastAgent."""
        with meaning(self.connection, voting=True):
            do(self.connection, _all("START TRANSACTION", f"SAVEPOINT {_MARK}"))

    def record(self, row: Row) -> None:
        """See LastAgent."""
        values = f"('{row.manager}', {row.number}, '{row.id}', '{COMMITTED}')"
        self._commit(f"INSERT INTO {self._there.table} VALUES {values}")

    def commit_one_phase(self, xid: Xid) -> None:
        """See LastAgent."""
        self._commit()

    def _commit(self, *before: str) -> None:
        if is_closed(self.connection):
            raise PartnerEnded(
                "the enlisted MariaDB connection was closed before the commit, so the server has "
                "rolled its work back; keep it open until the transaction is over"
            )
        # It fails where the savepoint is not there; and it is there again until the commit is done.
        looked = (f"RELEASE SAVEPOINT {_MARK}", f"SAVEPOINT {_MARK}")
        try:
            with meaning(self.connection, voting=True):
                do(self.connection, _all(*looked, *before, f"COMMIT {_END}"))
        except PartnerRefused as error:
            code = code_of(error.__cause__) if isinstance(error.__cause__, Exception) else 0
            undone = self._undo()
            if code == _NO_SAVEPOINT:
                raise PartnerEnded(
                    "the transaction was ended by a statement on the enlisted MariaDB connection "
                    "(COMMIT, ROLLBACK, or one like CREATE TABLE that commits by itself), or by a "
                    "deadlock; let the transaction that it is enlisted in do that"
                ) from error
            if undone or code in _NOT_DONE:
                raise
            raise PartnerLost(f"whether it has committed is not known: {error}") from error

    def _undo(self) -> bool:
        """Free the connection; whether what was begun was still open."""
        connection = self.connection
        with meaning(connection, voting=False):
            try:
                do(connection, f"ROLLBACK TO SAVEPOINT {_MARK}")
            except error_of(connection) as error:
                if code_of(error) != _NO_SAVEPOINT:
                    raise
                undone = False
            else:
                undone = True
            do(connection, f"ROLLBACK {_END}")
        return undone

    def rollback(self, xid: Xid) -> None:
        """See LastAgent."""
        with meaning(self.connection, voting=False):
            do(self.connection, f"ROLLBACK {_END}")

    def abandon(self) -> None:
        """See LastAgent."""
        abandon(self.connection)

    def agent(self) -> MariadbAgent | None:
        """See LastAgent. Version 1 of MariaDB's connector does not tell what another connection
        needs."""
        connect = again(self.connection)
        if connect is None:
            return None
        return MariadbAgent(connect, self._there.database, name=self._name)


class MariadbAgent(Recovering):
    """One database, over a connection of recovery's own. See Agent.

    Its user may write the table of decisions.
    """

    def __init__(
        self, connect: Callable[[], Any], database: str, *, name: str = "", lock_s: int = LOCK_S
    ) -> None:
        """Nothing is connected yet.

        Args:
            connect: Makes a connection; it is put into autocommit mode.
            database: With the table of decisions; it need not be that of the connection.
            name: See MariadbLast.
            lock_s: How long (seconds) a commit that is under way is waited for.
        """
        super().__init__(connect, name=name)
        self._database = database
        self._table = _table_in(database)
        self._lock_s = lock_s

    @property
    def name(self) -> str:
        """See Agent."""
        if not self._name:
            with self._asking() as connection:
                _told_by(connection)
                self._name = _name_of(connection, self._database)
        return self._name

    def settle(self, row: Row) -> bool:
        """See Agent."""
        with self._asking() as connection:
            # In autocommit each is a transaction of its own: the second sees whoever was first.
            do(
                connection,
                f"INSERT INTO {self._table} VALUES "
                f"('{row.manager}', {row.number}, '{row.id}', '{ABORTED}') "
                "ON DUPLICATE KEY UPDATE outcome = outcome",
            )
            ((committed,),) = rows(
                connection,
                f"SELECT outcome = '{COMMITTED}' FROM {self._table} WHERE manager = "
                f"'{row.manager}' AND number = {row.number} AND id = '{row.id}'",
            )
        return bool(committed)

    def count(
        self, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
        note: int,
    ) -> int:  # fmt: skip
        """See Agent."""
        query = _counting(self._table, manager, after, upto, but, must, note)
        with self._asking() as connection:
            try:
                found = rows(connection, query)
            except error_of(connection) as error:
                if code_of(error) != _NO_SUCH_TABLE:
                    raise
                return -1 if must or note else 0
        return _counted(found, must, note)

    def note(self, manager: str, number: int) -> None:
        """See Agent."""
        with self._asking() as connection:
            do(
                connection,
                f"INSERT INTO {self._table} VALUES ('{manager}', {number}, '', '{NOTED}') "
                "ON DUPLICATE KEY UPDATE outcome = outcome",
            )

    def remove(self, manager: str, below: int, but: Sequence[int]) -> None:
        """See Agent."""
        with self._asking() as connection:
            do(
                connection,
                f"DELETE FROM {self._table} WHERE manager = '{manager}' AND number < {below} "
                f"AND outcome IN ('{COMMITTED}', '{NOTED}') AND number NOT IN {_among(but)}",
            )

    def _set(self, connection: Any) -> None:
        do(
            connection,
            f"SET innodb_lock_wait_timeout = {self._lock_s}, lock_wait_timeout = {LOCK_S}, "
            "sql_mode = 'STRICT_ALL_TABLES'",
        )
        do(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def _counting(
    table: str, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
    note: int,
) -> str:  # fmt: skip
    """The query of ``count``."""
    return (
        f"SELECT COALESCE(MAX(outcome = '{NOTED}' AND number = {note}), 0), "
        f"COUNT(DISTINCT CASE WHEN outcome = '{COMMITTED}' AND number IN {_among(must)} "
        "THEN number END), "
        f"COALESCE(SUM(outcome = '{COMMITTED}' AND number > {after} AND number <= {upto} "
        f"AND number NOT IN {_among(but)}), 0) FROM {table} "
        f"WHERE manager = '{manager}' AND outcome IN ('{COMMITTED}', '{NOTED}') "
        f"AND (number BETWEEN {after} AND {upto} OR number = {note} "
        f"OR number IN {_among(must)})"
    )


def _counted(found: Sequence[Sequence[Any]], must: Sequence[int], note: int) -> int:
    """What ``count`` returns for the one row of that query."""
    ((noted, there, count),) = found
    return int(count) if (noted or not note) and there == len(set(must)) else -1


def _among(numbers: Iterable[int]) -> str:
    """A list for IN, which must not be empty; no number is negative."""
    return f"({', '.join(map(str, (-1, *numbers)))})"
