"""What connections to MariaDB have in common, whichever way a transaction is decided.

What drivers say (PyMySQL and MariaDB's own connector: any connection of PEP 249), what their errors
mean, and the connection of recovery. ``mariadb.py`` (two phases) and ``mariadb_last.py`` (the last
agent) say what is done with them.
"""

from __future__ import annotations

import contextlib
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from onceq.errors import (
    EnlistRefused,
    InvalidParameter,
    PartnerLost,
    PartnerRefused,
    RolledBackByHand,
    UnknownBranch,
)
from onceq.partners.cutting import cut

CONNECT_S: Final = 10
"""How long recovery waits for a connection (seconds)."""
ANSWER_S: Final = 60
"""How long it waits for an answer: a server that hangs must not keep it from the others."""

XAER_NOTA: Final = 1397
ROLLED_BACK: Final = (1402, 1613, 1614)
"""XA_RBROLLBACK, XA_RBTIMEOUT, XA_RBDEADLOCK."""
GONE: Final = (1053, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1927)
"""Codes of the server that mean that the connection is, or will be, at its end."""
CLIENT_CODES: Final = range(2000, 3000)
"""Codes of the client library: what the server did is not known."""


def driver_of(connection: Any) -> str:
    """The package that a connection is of, also if its class is derived from it."""
    for kind in type(connection).__mro__:
        root = kind.__module__.partition(".")[0]
        if root in ("pymysql", "mariadb"):
            return root
    raise InvalidParameter(f"{type(connection)} is no connection of pymysql or mariadb")


def error_of(connection: Any) -> type[Exception]:
    """The class of all errors of a connection's driver."""
    found: type[Exception] = sys.modules[driver_of(connection)].Error
    return found


def code_of(error: Exception) -> int:
    """The number of an error; 0 if it has none."""
    number = getattr(error, "errno", None)
    if number is None and error.args:
        number = error.args[0]
    return number if isinstance(number, int) else 0


@contextlib.contextmanager
def meaning(connection: Any, *, voting: bool) -> Iterator[None]:
    """What an error of a driver means.

    Args:
        voting: The share is not prepared yet: an error that the server gives refuses it.
    """
    try:
        yield
    except error_of(connection) as error:
        code = code_of(error)
        said = " ".join(str(arg) for arg in error.args)
        if code == XAER_NOTA and not voting:
            raise UnknownBranch(f"MariaDB knows no such branch: {said}") from error
        if code in ROLLED_BACK and not voting:
            raise RolledBackByHand(f"MariaDB has rolled the branch back: {said}") from error
        if voting and code >= 1000 and code not in GONE and code not in CLIENT_CODES:
            raise PartnerRefused(f"MariaDB says: {said}") from error
        raise PartnerLost(f"MariaDB gives no answer: {said}") from error


def is_closed(connection: Any) -> bool:
    """Whether the application has closed the connection; the server is not asked."""
    try:
        return not connection.open
    except error_of(connection):  # so one of the drivers answers
        return True


def do(connection: Any, command: str) -> None:
    """Execute a command."""
    cursor = connection.cursor()
    try:
        cursor.execute(command)
    finally:
        cursor.close()


def rows(connection: Any, query: str) -> list[tuple[Any, ...]]:
    """All rows, also if the connection's cursors give dictionaries by default."""
    cursor = connection.cursor()
    try:
        cursor.execute(query)
        found = list(cursor.fetchall())
    finally:
        cursor.close()
    return [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in found]


def descriptor_of(connection: Any) -> int:
    """Of the connection's socket; -1 if the driver does not tell."""
    with contextlib.suppress(Exception):
        # PyMySQL has no other name for it, nor has MariaDB's connector 2.
        holder = getattr(connection, "_client", connection)
        shared = getattr(holder, "_sock", None) or getattr(holder, "socket", None)
        return int(shared.fileno() if shared is not None else connection.get_socket())
    return -1


def again(connection: Any) -> Callable[[], Any] | None:
    """Makes another connection like one, without keeping that one alive; None: nobody tells how."""
    if driver_of(connection) == "mariadb":
        import mariadb

        told = getattr(connection, "_connection_params", None)
        if not isinstance(told, Mapping):
            return None
        same = dict(told)
        return lambda: mariadb.connect(**same)
    import pymysql

    given = {
        "host": connection.host,
        "port": connection.port,
        "user": connection.user,
        "password": connection.password,
        "unix_socket": connection.unix_socket,
        "ssl": connection.ctx if isinstance(connection._sock, ssl.SSLSocket) else None,
        "connect_timeout": CONNECT_S,
        "read_timeout": ANSWER_S,
        "write_timeout": ANSWER_S,
        "autocommit": True,
    }
    return lambda: pymysql.connect(**{key: value for key, value in given.items() if value})


def abandon(connection: Any) -> None:
    """Cut a connection, from any thread, without waiting; never raises."""
    descriptor = descriptor_of(connection)
    if descriptor >= 0:
        cut(descriptor)
    else:
        with contextlib.suppress(Exception):
            connection.close()


def refuse_if_busy(busy: object) -> None:
    """Raises PartnerRefused if a connection is in a transaction (``@@in_transaction``)."""
    if busy:
        raise PartnerRefused(
            "the MariaDB connection is in a transaction already (without autocommit the first "
            "statement begins one, a SELECT too); commit it or roll it back first, or enlist "
            "the connection before its first statement"
        )


class Recovering:
    """A server over a connection of recovery's own."""

    def __init__(self, connect: Callable[[], Any], *, name: str = "") -> None:
        """Nothing is connected yet.

        Args:
            connect: Makes a connection; it is put into autocommit mode.
            name: As that of the partner.
        """
        self._connect = connect
        self._name = name
        self._connection: Any = None

    def close(self) -> None:
        """See Resource."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def _set(self, connection: Any) -> None:
        """Give a new connection the settings that it needs."""

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Any]:
        """A connection that works; after a loss it is a new one next time."""
        try:
            if self._connection is None:
                self._connection = self._connect()
                with meaning(self._connection, voting=False):
                    do(self._connection, "SET autocommit = 1")
                    self._set(self._connection)
            with meaning(self._connection, voting=False):
                yield self._connection
        except (UnknownBranch, RolledBackByHand, EnlistRefused):
            raise
        except PartnerLost:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise PartnerLost(f"MariaDB cannot be reached: {error}") from error


def connecting_to(where: str) -> tuple[Callable[[], Any], str]:
    """What connects to ``mariadb://user:password@host:port/database``, through PyMySQL, and the
    name of that database."""
    import pymysql

    url = urlsplit(where)
    database = unquote(url.path.strip("/"))
    given = {
        "host": url.hostname or "localhost",
        "port": url.port or 3306,
        "user": unquote(url.username or ""),
        "password": unquote(url.password or ""),
        "database": database,
        "connect_timeout": CONNECT_S,
        "read_timeout": ANSWER_S,
        "write_timeout": ANSWER_S,
    }
    return lambda: pymysql.connect(**{k: v for k, v in given.items() if v}), database
