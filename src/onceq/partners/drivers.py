"""Partners and last agents for the connections of drivers, found by their types' names: no driver
need be installed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from onceq.errors import EnlistRefused, PartnerRefused
from onceq.partners.contract import AnyPartner, LastAgent


def last_agent_for(connection: Any) -> LastAgent:
    """What decides over a connection; for asyncio one whose calls are awaited.

    Raises:
        EnlistRefused: Nothing can over such a connection.
    """
    kind: Any = type(connection)
    maker = find_maker(kind, deciding=True)
    if maker is None:
        raise EnlistRefused(
            f"a {kind.__module__}.{kind.__qualname__} cannot be a last agent; "
            "connections of psycopg 3, PyMySQL, mariadb and sqlite3 can"
        )
    last: LastAgent = maker(connection)
    return last


@functools.lru_cache
def find_maker(connection: type, *, deciding: bool = False) -> Callable[[Any], AnyPartner] | None:
    """What makes partners of connections of a type; None for types that nobody knows.

    Args:
        deciding: They are to decide by a row.
    """
    for kind in connection.__mro__:
        match kind.__module__.partition(".")[0], kind.__name__:
            case "psycopg", "Connection":
                from onceq.partners.postgresql import PostgresLast, PostgresPartner

                return PostgresLast if deciding else PostgresPartner
            case "psycopg", "AsyncConnection":
                from onceq.partners.postgresql import AsyncPostgresLast, AsyncPostgresPartner

                return AsyncPostgresLast if deciding else AsyncPostgresPartner
            case (("pymysql" | "mariadb"), ("Connection" | "SyncConnection")):
                from onceq.partners.mariadb import MariadbLast, MariaPartner

                return MariadbLast if deciding else MariaPartner
            case "sqlite3", "Connection":
                from onceq.partners.sqlite import SqliteLast

                return SqliteLast
            case "psycopg2", _ if not deciding:
                raise PartnerRefused("psycopg2 is not supported; use psycopg 3 (package psycopg)")
    return None
