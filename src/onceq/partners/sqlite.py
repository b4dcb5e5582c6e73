"""SQLite: a connection of ``sqlite3``, which has no two-phase commit, can decide.

A database is known by the place of its file. What is not in a file, or is not synced at a commit,
cannot decide for others.

Upholds: I21 as far as the contract asks.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from onceq.errors import EnlistRefused, PartnerEnded, PartnerLost, PartnerRefused
from onceq.model.branches import Xid
from onceq.partners.contract import TABLE, short_name
from onceq.partners.procedures import Calls
from onceq.partners.shares import (
    LOCK_S,
    SAVEPOINT,
    DecidingInThreads,
    DecidingRows,
    Dialect,
    KnownDatabase,
    Meaning,
    Rows,
)

_FULL: Final = 2
"""PRAGMA synchronous: from here on a commit is synced."""
_NOT_DONE: Final = (
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_FULL, sqlite3.SQLITE_ERROR,
)  # fmt: skip
"""Errors, without their finer parts, of a commit that did not happen."""


class SqliteDialect(Dialect):
    """What SQLite says and wants."""

    kind = "SQLite"
    make_table = (
        f"CREATE TABLE IF NOT EXISTS {TABLE} (manager TEXT NOT NULL, number INTEGER NOT NULL, "
        "id TEXT NOT NULL, outcome TEXT NOT NULL, PRIMARY KEY (manager, number, id)) WITHOUT ROWID"
    )

    def errors(self, connection: Any) -> type[Exception]:
        """Return the class of all errors of ``sqlite3``."""
        return sqlite3.Error

    def code_of(self, error: BaseException) -> int:
        """Return the code of an error, without its finer part."""
        code: int = getattr(error, "sqlite_errorcode", 0)
        return code & 0xFF

    def is_refusal(self, error: Exception, connection: Any) -> bool:
        """Return whether nothing was done."""
        return self.code_of(error) in _NOT_DONE

    def query(self, connection: sqlite3.Connection, text: str) -> Calls[Rows]:
        """Execute a statement; returns its rows."""
        # The connection's row factory may be the application's.
        cursor = sqlite3.Cursor(connection)
        cursor.row_factory = None
        yield partial(cursor.execute, text)
        return cursor.fetchall()

    query_apart = query
    """What only reads begins no transaction."""

    def cut(self, connection: sqlite3.Connection) -> None:
        """Interrupt it: a connection cannot be cut; what it still does, recovery finds."""
        with contextlib.suppress(sqlite3.Error):
            connection.interrupt()

    def check_idle(self, connection: sqlite3.Connection) -> Calls[str]:
        """Check that the connection can begin."""
        yield from ()
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
        return ""

    def check_deciding(self, connection: sqlite3.Connection, schema: str) -> Calls[KnownDatabase]:
        """Check that commits are durable, and make the table of decisions if there is none."""
        files = yield from self.query(connection, "PRAGMA database_list")
        ((synced,),) = yield from self.query(connection, "PRAGMA synchronous")
        path = next(file for _, name, file in files if name == "main")
        if not path:
            raise EnlistRefused("a SQLite database that is not in a file cannot decide")
        if synced < _FULL:
            raise EnlistRefused(
                "the SQLite connection does not sync its commits, so they cannot decide; "
                "execute PRAGMA synchronous = FULL"
            )
        yield from self.query(connection, self.make_table)
        yield connection.commit
        place = str(Path(path).resolve())
        return KnownDatabase(short_name("sqlite", place), place)

    def ask_name(self, connection: sqlite3.Connection, schema: str) -> Calls[str]:
        """Return the name, which its file gives."""
        found = yield from self.check_deciding(connection, schema)
        return found.name

    def begin_deciding(self, connection: sqlite3.Connection, xid: Xid) -> Calls[None]:
        """Begin the transaction."""
        yield from self.query(connection, "BEGIN")
        yield from self.query(connection, f"SAVEPOINT {SAVEPOINT}")

    def commit_deciding(self, connection: sqlite3.Connection, xid: Xid, insert: str) -> Calls[None]:
        """Commit, with the row before it."""
        try:
            yield from self.query(connection, f"RELEASE {SAVEPOINT}")
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
        try:
            with Meaning(self, connection, voting=True):
                if insert:
                    yield from self.query(connection, insert)
                yield from self.query(connection, "COMMIT")
        except PartnerRefused:
            connection.rollback()
            raise

    def roll_back_deciding(self, connection: sqlite3.Connection) -> Calls[None]:
        """Roll back."""
        yield connection.rollback


_DIALECT: Final = SqliteDialect()


class SqliteLast(DecidingInThreads):
    """A connection of ``sqlite3`` that decides. See LastAgent."""

    dialect = _DIALECT

    _known = None
    # The type has no room for marks, but each connection has functions of its own.

    def is_new(self, manager: str) -> bool:
        """Return whether the rows of a queue manager were not looked for. See LastAgent."""
        try:
            sqlite3.Cursor(self.connection).execute(f"SELECT {_mark_of(manager)}()")
        except sqlite3.OperationalError:
            return True
        return False

    def set_looked(self, manager: str) -> None:
        """Remember that they were. See LastAgent."""
        self.connection.create_function(_mark_of(manager), 0, lambda: 1)

    def agent(self) -> SqliteAgent:
        """Return the same database as recovery sees it. See LastAgent."""
        return SqliteAgent(self.address, name=self._name)


class SqliteAgent(DecidingRows):
    """The rows in a SQLite database that decide. See Agent."""

    dialect = _DIALECT
    settings = ("PRAGMA synchronous = FULL", _DIALECT.make_table)

    def __init__(self, path: str, *, name: str = "", wait_s: float = LOCK_S) -> None:
        """Open later.

        Args:
            name: See SqliteLast.
            wait_s: How long (seconds) a transaction that writes is waited for.
        """
        place = Path(path)
        super().__init__(
            partial(
                sqlite3.connect,
                # A file that is away is not made: an empty one would answer "aborted".
                f"{place.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=wait_s,
                isolation_level=None,
                check_same_thread=False,
            ),
            name=name or short_name("sqlite", str(place.resolve())),
        )
        self._path = path
        self._file = (0, 0)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Any]:
        if self._connection is None:
            self._file = self._identify_file()
        with super()._asking() as connection:
            self._check_same_file()
            yield connection
            self._check_same_file()

    def _identify_file(self) -> tuple[int, int]:
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise PartnerLost(f"SQLite database {self._path}: {error}") from error
        return found.st_dev, found.st_ino

    def _check_same_file(self) -> None:
        """An open file stays what it was when another one is put in its place: what is read there
        is of the past, and what is written is lost."""
        if self._identify_file() != self._file:
            raise PartnerLost(f"SQLite database {self._path}: the file was replaced by another one")


def _mark_of(manager: str) -> str:
    """Return the name of the function that marks a connection; see ``set_looked``."""
    return f"onceq_looked_by_{manager}"
