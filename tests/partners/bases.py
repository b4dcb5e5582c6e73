"""The databases of P11, each in the same few words: a table ``done`` with a row for each case."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import psycopg
import pymysql

from onceq.partners.contract import Partner, Resource
from onceq.partners.mariadb import MariaPartner, MariaResource
from onceq.partners.postgresql import PostgresPartner, PostgresResource
from tests.programs import NoServer
from tests.servers import MariaDB, Postgres, Server, started

POSTGRESQL, MARIADB = "postgresql", "mariadb"
KINDS = (POSTGRESQL, MARIADB)
ERRORS = (psycopg.Error, pymysql.err.Error)
LOCKED_S = 2
"""How long a lock may be waited for that nobody should hold."""


class Base(Protocol):
    """A database that takes part."""

    kind: str

    @property
    def server(self) -> Server:
        """Where it is."""

    def connect(self) -> Any:
        """As an application does."""

    def partner(self, connection: Any) -> Partner:
        """Of such a connection."""

    def resource(self) -> Resource:
        """For recovery."""

    def insert(self, connection: Any, number: int) -> None:
        """Write the row of a case."""

    def has(self, number: int) -> bool:
        """Whether the row of a case is committed."""

    def prepared(self) -> list[str]:
        """What is left prepared, of anybody."""

    def write_at_once(self, number: int, *, there: bool) -> None:
        """Write the row of a case, and remove all; an error if a lock is held."""


class PostgresBase:
    kind = POSTGRESQL

    def __init__(self, server: Postgres) -> None:
        self.server = server
        server.sql("CREATE TABLE IF NOT EXISTS done (number int PRIMARY KEY)")

    def connect(self) -> Any:
        return psycopg.connect(self.server.conninfo())

    def partner(self, connection: Any) -> Partner:
        return PostgresPartner(connection)

    def resource(self) -> Resource:
        return PostgresResource(self.server.conninfo())

    def insert(self, connection: Any, number: int) -> None:
        connection.execute("INSERT INTO done VALUES (%s)", (number,))

    def has(self, number: int) -> bool:
        return bool(self.server.sql(f"SELECT number FROM done WHERE number = {number}"))

    def prepared(self) -> list[str]:
        return self.server.prepared_ids()

    def write_at_once(self, number: int, *, there: bool) -> None:
        with psycopg.connect(self.server.conninfo(), autocommit=True) as connection:
            connection.execute(f"SET lock_timeout = '{LOCKED_S}s'".encode())
            connection.execute(_write(number, there=there).encode())
            connection.execute("TRUNCATE done")


class MariaBase:
    kind = MARIADB

    def __init__(self, server: MariaDB) -> None:
        self.server = server
        server.sql("CREATE TABLE IF NOT EXISTS done (number int PRIMARY KEY) ENGINE=InnoDB")

    def connect(self) -> Any:
        return pymysql.connect(**self.server.arguments())

    def partner(self, connection: Any) -> Partner:
        return MariaPartner(connection)

    def resource(self) -> Resource:
        return MariaResource(lambda: pymysql.connect(**self.server.arguments()))

    def insert(self, connection: Any, number: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO done VALUES (%s)", (number,))

    def has(self, number: int) -> bool:
        return bool(self.server.sql(f"SELECT number FROM done WHERE number = {number}"))

    def prepared(self) -> list[str]:
        return self.server.prepared_ids()

    def write_at_once(self, number: int, *, there: bool) -> None:
        """Locks of rows, and then those of the table's definition, which TRUNCATE needs."""
        connection = pymysql.connect(**self.server.arguments(), autocommit=True)
        with connection, connection.cursor() as cursor:
            cursor.execute(f"SET innodb_lock_wait_timeout = {LOCKED_S}")
            cursor.execute(f"SET lock_wait_timeout = {LOCKED_S}")
            cursor.execute(_write(number, there=there))
            cursor.execute("TRUNCATE done")


def _write(number: int, *, there: bool) -> str:
    if there:
        return f"DELETE FROM done WHERE number = {number}"
    return f"INSERT INTO done VALUES ({number})"


def of(server: Postgres | MariaDB) -> Base:
    """The base of a server that runs."""
    return PostgresBase(server) if isinstance(server, Postgres) else MariaBase(server)


def open_all(kinds: Iterable[str]) -> tuple[dict[str, Base], dict[str, str]]:
    """Servers of these kinds, started.

    Returns:
        Their bases by kind; and of those that cannot be had, why.
    """
    made: dict[str, Base] = {}
    missing: dict[str, str] = {}
    for kind in sorted(kinds):
        try:
            server = started(Postgres if kind == POSTGRESQL else MariaDB)
        except NoServer as error:
            missing[kind] = str(error)
            continue
        assert isinstance(server, Postgres | MariaDB)
        made[kind] = of(server)
    return made, missing
