"""The last agent for a connection of a driver, found by its type's name, as partners are."""

from __future__ import annotations

from typing import Any

from onceq.errors import EnlistRefused
from onceq.partners.last_agent import LastAgent


def last_agent_for(connection: Any) -> LastAgent:
    """What decides over a connection; for asyncio one whose calls are awaited.

    Raises:
        EnlistRefused: Nothing can over such a connection.
    """
    for kind in type(connection).__mro__:
        match kind.__module__.partition(".")[0], kind.__name__:
            case "psycopg", "Connection":
                from onceq.partners.postgres_last import PostgresLast

                return PostgresLast(connection)
            case "psycopg", "AsyncConnection":
                from onceq.partners.postgres_last import AsyncPostgresLast

                return AsyncPostgresLast(connection)
            case (("pymysql" | "mariadb"), ("Connection" | "SyncConnection")):
                from onceq.partners.mariadb_last import MariadbLast

                return MariadbLast(connection)
            case "sqlite3", "Connection":
                from onceq.partners.sqlite_last import SqliteLast

                return SqliteLast(connection)
    raise EnlistRefused(
        f"a {type(connection).__module__}.{type(connection).__qualname__} cannot be a last agent; "
        "connections of psycopg 3, PyMySQL, mariadb and sqlite3 can"
    )
