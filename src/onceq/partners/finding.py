"""The partner for a connection, found by the type of it: nothing is imported that is not in use."""

from __future__ import annotations

from typing import Any

from onceq.errors import EnlistRefused, InvalidParameter
from onceq.partners.contract import AnyPartner, Resource

ADDRESSES = "write postgresql://user@host:port/name"
KNOWN = (
    "a psycopg 3 connection, a queue manager, or a partner of your own (docs/reference/partners.md)"
)


def resource_for(where: str) -> Resource:
    """A database for recovery, by its address; raises InvalidParameter."""
    scheme = where.partition("://")[0].casefold()
    if scheme in ("postgresql", "postgres") or "dbname=" in where:
        try:
            from onceq.partners.postgresql import PostgresResource
        except ImportError:
            raise InvalidParameter(
                "PostgreSQL needs its driver: pip install 'onceq[postgresql]'"
            ) from None
        return PostgresResource(where)
    raise InvalidParameter(f"{where} is not the address of a database: {ADDRESSES}")


def partner_for(connection: Any, *, tasks: bool = False) -> AnyPartner:
    """What takes part for a connection; raises EnlistRefused.

    Args:
        tasks: It is used from ``async`` code.
    """
    if all(hasattr(connection, verb) for verb in ("prepare", "rollback", "begin", "resource")):
        return connection
    for kind in type(connection).__mro__:
        package = kind.__module__.partition(".")[0]
        if package == "psycopg" and kind.__name__ in ("Connection", "AsyncConnection"):
            from onceq.partners.postgresql import AsyncPostgresPartner, PostgresPartner

            if tasks != (kind.__name__ == "AsyncConnection"):
                raise EnlistRefused(
                    "a transaction of async code takes a psycopg.AsyncConnection, and one of "
                    "threads a psycopg.Connection"
                )
            return AsyncPostgresPartner(connection) if tasks else PostgresPartner(connection)
    raise EnlistRefused(f"a {type(connection).__qualname__} cannot be enlisted; enlist {KNOWN}")
