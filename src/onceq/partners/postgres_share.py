"""What a connection of psycopg does in a transaction with others, whichever way that is decided.

Each operation is written once, as a generator of calls (``driving.py``): a connection and an
asyncio connection of psycopg have the same methods, and those of the second give something to
await. ``postgresql.py`` (two phases) and ``postgres_last.py`` (the last agent) add what they do
alone, and make a class for threads and one for tasks of it.

Upholds: I20 and I21 as far as the contract asks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row

from onceq.errors import PartnerLost, PartnerRefused
from onceq.model.xid import Xid
from onceq.partners.cutting import cut
from onceq.partners.driving import Calls
from onceq.partners.postgres_terms import (
    GUARDED,
    Meaning,
    driver_xid,
    ended,
    guard,
    mark,
    over_reason,
    refuse_if_busy,
)

CONNECT_S: Final = 10
"""How long recovery waits for a connection (seconds), if the connection string sets nothing."""

Connection = TypeVar("Connection", bound="psycopg.Connection[Any] | psycopg.AsyncConnection[Any]")
Row = tuple[Any, ...]


class Share(Generic[Connection]):
    """A connection, and what is done with it either way."""

    cursor_type: ClassVar[Any]
    """Of psycopg itself, for this kind of connection: that of the connection may be the
    application's."""

    def __init__(self, connection: Connection, *, name: str = "") -> None:
        """Take a connection that is idle and not in autocommit mode.

        Args:
            name: Another name than the database has by itself, which is to be the same for ever and
                for everybody who recovers it.
        """
        self.connection = connection
        self._name = name
        self._xid: Xid | None = None

    def abandon(self) -> None:
        """See Partner."""
        with contextlib.suppress(psycopg.Error):
            cut(self.connection.fileno())

    def _cursor(self) -> Any:
        return self.cursor_type(self.connection, row_factory=tuple_row)

    def _apart(self, text: str, given: Any = None) -> Calls[Any]:
        """Execute something in a transaction of its own; errors are those of psycopg.

        Args:
            given: Its parameters.

        Returns:
            The cursor that did.
        """
        cursor = self._cursor()
        try:
            yield partial(cursor.execute, text, given)
            yield self.connection.commit
        finally:
            yield self.connection.rollback
        return cursor

    def _begin(self, xid: Xid) -> Calls[None]:
        """See Partner."""
        connection = self.connection
        refuse_if_busy(connection)
        with Meaning(connection, voting=True):
            yield partial(connection.tpc_begin, driver_xid(connection, xid))
            yield partial(self._cursor().execute, mark(xid))
        self._xid = xid

    def _execute(self, command: bytes) -> Calls[Any]:
        """Execute something of ours before the vote, or as the vote, in the transaction that
        ``_begin`` began and in no other; if it is refused the share has left.

        Returns:
            The cursor that did, at the result of the last statement.
        """
        connection = self.connection
        over = over_reason(connection)
        if over is not None:
            with contextlib.suppress(PartnerLost):  # Nothing is left where it is closed.
                yield from self._leave()
            raise over
        assert self._xid is not None, "begin comes first"
        cursor = self._cursor()
        try:
            with Meaning(connection, voting=True):
                yield partial(cursor.execute, guard(self._xid) + command, prepare=False)
                while cursor.nextset():
                    pass
        except PartnerRefused as error:
            yield from self._leave()
            if getattr(error.__cause__, "sqlstate", "") == GUARDED:
                raise ended() from error
            raise
        return cursor

    def _commit_one_phase(self, xid: Xid) -> Calls[None]:
        """See Partner."""
        yield from self._execute(b"COMMIT")
        yield from self._leave()

    def _leave(self) -> Calls[None]:
        """Take psycopg out of its two-phase state. What is open is undone; what is prepared or
        committed stays so, and the server is not asked."""
        with Meaning(self.connection, voting=False):
            yield self.connection.tpc_rollback


class Recovering:
    """A database over a connection of recovery's own."""

    def __init__(self, conninfo: str, *, name: str = "") -> None:
        """Nothing is connected yet.

        Args:
            conninfo: Connection string of libpq; the database in it is the one that is watched.
            name: As that of the partner.
        """
        self._conninfo = conninfo
        self._name = name
        self._connection: psycopg.Connection[Row] | None = None

    def _told(self, query: str, given: Any = None) -> Row:
        """The one row of a query."""
        with self._asking() as connection:
            row = connection.execute(query, given).fetchone()
        assert row is not None, "the query has one row, whatever there is"
        return row

    def _do(self, command: str | bytes, given: Any = None) -> None:
        with self._asking() as connection:
            connection.execute(command, given)

    def close(self) -> None:
        """See Resource."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    def _set(self, connection: psycopg.Connection[Row]) -> None:
        """Give a new connection the settings that it needs."""

    @contextlib.contextmanager
    def _asking(self) -> Iterator[psycopg.Connection[Row]]:
        """A connection that works; after an error of the connection it is a new one next time."""
        with Meaning(None, voting=False):
            if self._connection is None or self._connection.closed:
                given = conninfo_to_dict(self._conninfo)
                given.setdefault("connect_timeout", str(CONNECT_S))
                given.setdefault("application_name", "onceq recovery")
                # A standby that is behind would look like a database that was set back.
                given.setdefault("target_session_attrs", "read-write")
                self._connection = psycopg.connect(make_conninfo("", **given), autocommit=True)
                self._set(self._connection)
            yield self._connection
