"""SQLite as the last agent: a connection of ``sqlite3``, which has no two-phase commit.

A database is known by the place of its file. What is not in a file, or is not synced at a commit,
cannot decide for others.

Upholds: I21 as far as the contract asks (``last_agent.py``).
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from onceq.errors import EnlistRefused, PartnerEnded, PartnerLost, PartnerRefused
from onceq.model.xid import Xid
from onceq.partners.contract import short_name
from onceq.partners.last_agent import ABORTED, COMMITTED, NOTED, TABLE, Row

MAKE: Final = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (manager TEXT NOT NULL, number INTEGER NOT NULL, "
    "id TEXT NOT NULL, outcome TEXT NOT NULL, PRIMARY KEY (manager, number, id)) WITHOUT ROWID"
)
_INSERT: Final = f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?)"
_INSERT_IF_NONE: Final = f"INSERT OR IGNORE INTO {TABLE} VALUES (?, ?, ?, ?)"
_IS_COMMITTED: Final = (
    f"SELECT outcome = ? FROM {TABLE} WHERE manager = ? AND number = ? AND id = ?"
)
_NUMBERS: Final = (
    f"SELECT number, outcome FROM {TABLE} WHERE manager = ? AND outcome IN (?, ?) "
    "AND (number BETWEEN ? AND ? OR number = ? OR number IN (SELECT value FROM json_each(?)))"
)
_REMOVE: Final = (
    f"DELETE FROM {TABLE} WHERE manager = ? AND number < ? AND outcome IN (?, ?) "
    "AND number NOT IN (SELECT value FROM json_each(?))"
)
_FULL: Final = 2
"""PRAGMA synchronous: from here on a commit is synced."""
_NOT_DONE: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_FULL)
"""Errors, without their finer parts, of a commit that did not happen."""
_MARK: Final = "onceq_enlisted"
"""The savepoint at the beginning: it is gone when the transaction is, also where the driver has
begun another one."""
WAIT_S: Final = 2.0
"""How long recovery waits for whoever writes; then it tries again later."""


class SqliteLast:
    """A connection of ``sqlite3`` that decides. See LastAgent."""

    def __init__(self, connection: sqlite3.Connection, *, name: str = "") -> None:
        """Take a connection outside any transaction.

        Args:
            name: Another name than the database has by its place, which is to be the same for ever
                and for everybody who recovers it.
        """
        self.connection = connection
        self._name = name
        self._path = ""

    @property
    def name(self) -> str:
        """``sqlite:`` and the place of its file. See LastAgent."""
        return self._name or short_name("sqlite", self._path)

    def check(self) -> None:
        """See LastAgent."""
        connection = self.connection
        if getattr(connection, "autocommit", None) is False:
            raise PartnerRefused(
                "the SQLite connection was opened with autocommit=False, where it is always in a "
                "transaction; open it without"
            )
        if connection.in_transaction:
            raise PartnerRefused(
                "the SQLite connection is in a transaction already; commit it or roll it back "
                "first, or enlist the connection before it writes"
            )
        with _voting():
            cursor = self._cursor()
            files = cursor.execute("PRAGMA database_list").fetchall()
            ((synced,),) = cursor.execute("PRAGMA synchronous").fetchall()
            path = next(file for _, name, file in files if name == "main")
            if not path:
                raise EnlistRefused("a SQLite database that is not in a file cannot decide")
            if synced < _FULL:
                raise EnlistRefused(
                    "the SQLite connection does not sync its commits, so they cannot decide; "
                    "execute PRAGMA synchronous = FULL"
                )
            cursor.execute(MAKE)
            connection.commit()
        self._path = str(Path(path).resolve())

    @property
    def address(self) -> str:
        """See LastAgent."""
        return self._path

    def is_new(self, manager: str) -> bool:
        """See LastAgent."""
        try:
            self._cursor().execute(f"SELECT {_looked_by(manager)}()")
        except sqlite3.OperationalError:
            return True
        return False

    def set_looked(self, manager: str) -> None:
        """See LastAgent. The type has no room for marks, but each connection has functions of its
        own."""
        self.connection.create_function(_looked_by(manager), 0, lambda: 1)

    def withdraw(self) -> None:
        """See LastAgent: no call leaves anything open."""

    def count(
        self, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
        note: int,
    ) -> int:  # fmt: skip
        """See LastAgent."""
        given = (manager, COMMITTED, NOTED, after, upto, note, json.dumps(list(must)))
        with _voting():
            found = self._cursor().execute(_NUMBERS, given).fetchall()
        return _counted(found, after, upto, but, must, note)

    def _cursor(self) -> sqlite3.Cursor:
        """One that gives plain rows: the connection's row factory may be the application's."""
        cursor = sqlite3.Cursor(self.connection)
        cursor.row_factory = None
        return cursor

    def begin(self, xid: Xid) -> None:
        """See LastAgent."""
        with _voting():
            self.connection.execute("BEGIN")
            self.connection.execute(f"SAVEPOINT {_MARK}")

    def record(self, row: Row) -> None:
        """See LastAgent."""
        self._check_open()
        try:
            with _voting():
                self.connection.execute(_INSERT, (row.manager, row.number, row.id, COMMITTED))
        except PartnerRefused:
            self.connection.rollback()
            raise
        self._commit()

    def commit_one_phase(self, xid: Xid) -> None:
        """See LastAgent."""
        self._check_open()
        self._commit()

    def _check_open(self) -> None:
        connection = self.connection
        try:
            connection.execute(f"RELEASE {_MARK}")
        except sqlite3.ProgrammingError as error:
            raise PartnerEnded(
                "the enlisted SQLite connection was closed before the commit, which has rolled its "
                "work back; keep it open until the transaction is over"
            ) from error
        except sqlite3.OperationalError as error:
            # What was begun since is not of this transaction.
            connection.rollback()
            raise PartnerEnded(
                "the transaction was ended by a statement (COMMIT or ROLLBACK) on the enlisted "
                "SQLite connection, or by an error; let the transaction that it is enlisted in "
                "do that"
            ) from error

    def _commit(self) -> None:
        try:
            with _voting():
                self.connection.execute("COMMIT")
        except PartnerRefused:
            self.connection.rollback()
            raise

    def rollback(self, xid: Xid) -> None:
        """See LastAgent."""
        self.connection.rollback()

    def abandon(self) -> None:
        """See LastAgent. A connection cannot be cut; what it still does, recovery finds."""
        with contextlib.suppress(sqlite3.Error):
            self.connection.interrupt()

    def agent(self) -> SqliteAgent:
        """See LastAgent."""
        return SqliteAgent(self._path, name=self._name)


class SqliteAgent:
    """A SQLite database for recovery, over a connection of its own. See Agent."""

    def __init__(self, path: str, *, name: str = "", wait_s: float = WAIT_S) -> None:
        """Nothing is opened yet.

        Args:
            name: See SqliteLast.
            wait_s: How long (seconds) whoever writes is waited for.
        """
        self._wait_s = wait_s
        self._path = path
        self.name = name or short_name("sqlite", str(Path(path).resolve()))
        self._connection: sqlite3.Connection | None = None
        self._file = (0, 0)

    def settle(self, row: Row) -> bool:
        """See Agent."""
        key = row.manager, row.number, row.id
        with self._asking() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(MAKE)
            connection.execute(_INSERT_IF_NONE, (*key, ABORTED))
            ((committed,),) = connection.execute(_IS_COMMITTED, (COMMITTED, *key)).fetchall()
            connection.execute("COMMIT")
        return bool(committed)

    def count(
        self, manager: str, after: int, upto: int, but: Sequence[int], must: Sequence[int],
        note: int,
    ) -> int:  # fmt: skip
        """See Agent."""
        given = (manager, COMMITTED, NOTED, after, upto, note, json.dumps(list(must)))
        with self._asking() as connection:
            connection.execute("BEGIN")
            connection.execute(MAKE)
            found = connection.execute(_NUMBERS, given).fetchall()
            connection.execute("COMMIT")
        return _counted(found, after, upto, but, must, note)

    def note(self, manager: str, number: int) -> None:
        """See Agent."""
        with self._asking() as connection:
            connection.execute(_INSERT_IF_NONE, (manager, number, "", NOTED))

    def remove(self, manager: str, below: int, but: Sequence[int]) -> None:
        """See Agent."""
        with self._asking() as connection:
            connection.execute("BEGIN IMMEDIATE")
            given = (manager, below, COMMITTED, NOTED, json.dumps(list(but)))
            connection.execute(_REMOVE, given)
            connection.execute("COMMIT")

    def close(self) -> None:
        """See Agent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    @contextlib.contextmanager
    def _asking(self) -> Iterator[sqlite3.Connection]:
        try:
            if self._connection is None:
                # A file that is away is not made: an empty one would answer "aborted".
                where = f"{Path(self._path).absolute().as_uri()}?mode=rw"
                self._file = self._identity()
                self._connection = sqlite3.connect(
                    where,
                    uri=True,
                    timeout=self._wait_s,
                    isolation_level=None,
                    check_same_thread=False,
                )
                self._connection.execute("PRAGMA synchronous = FULL")
            self._look_whether_the_same()
            yield self._connection
            self._look_whether_the_same()
        except (OSError, sqlite3.Error) as error:
            self.close()
            raise PartnerLost(f"SQLite database {self._path}: {error}") from error

    def _identity(self) -> tuple[int, int]:
        found = os.stat(self._path)
        return found.st_dev, found.st_ino

    def _look_whether_the_same(self) -> None:
        """An open file stays what it was when another one is put in its place: what is read there
        is of the past, and what is written is lost."""
        if self._identity() != self._file:
            raise OSError("the file was replaced by another one")


def _looked_by(manager: str) -> str:
    """The function that marks a connection; see ``set_looked``."""
    return f"onceq_looked_by_{manager}"


def _counted(
    found: list[tuple[int, str]], after: int, upto: int, but: Sequence[int], must: Sequence[int],
    note: int,
) -> int:  # fmt: skip
    """What ``count`` returns for the rows of ``_NUMBERS``."""
    committed = {number for number, outcome in found if outcome == COMMITTED}
    if note and (note, NOTED) not in found:
        return -1
    if not committed.issuperset(must):
        return -1
    return sum(after < number <= upto for number in committed - set(but))


@contextlib.contextmanager
def _voting() -> Iterator[None]:
    """What errors of SQLite mean before its commit and in it."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _NOT_DONE or code == sqlite3.SQLITE_ERROR:
            raise PartnerRefused(f"SQLite says: {error}") from error
        raise PartnerLost(f"SQLite says: {error}") from error
