"""The partner for a connection, found by its type's name, so that no driver need be installed."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from onceq.errors import EnlistRefused, InvalidParameter, PartnerRefused
from onceq.model.record import Record
from onceq.partners.contract import Agent, AnyPartner, LastAgent, Resource, is_last_agent

KNOWN = (
    "a connection of psycopg 3, PyMySQL, mariadb or sqlite3; a session, connection or engine of "
    "SQLAlchemy; a queue manager; or a partner of your own (docs/reference/partners.md)"
)
ADDRESSES = (
    "write postgresql://user@host:port/name, mariadb://user@host:port/name or "
    "sqlite:///path/of/file"
)
_SECRET = re.compile(r"(?<=//)([^:@/\s]*):[^@/\s]*(?=@)|(password\s*=\s*)('[^']*'|\S+)")
_VERBS = ("check", "begin", "prepare", "commit", "commit_one_phase", "rollback", "forget")


def partner_for(what: Any, *, tasks: bool = False) -> AnyPartner:
    """What takes part for a connection.

    Args:
        tasks: It is used from ``async`` code, which may use either kind of partner.

    Raises:
        PartnerRefused: This kind of connection cannot promise anything.
        EnlistRefused: It is nothing that could be a partner, or of the wrong kind.
    """
    made = _made(what)
    kind: Any = type(made)  # (mypy thinks that types have no hash)
    if not tasks and _awaited(kind):
        raise EnlistRefused(
            f"a {type(what).__qualname__} belongs to async code: enlist it in a transaction of an "
            "AsyncQueueManager"
        )
    return made


@functools.lru_cache
def _awaited(partner: type) -> bool:
    """Whether partners of a type are for ``async`` code."""
    return any(
        inspect.iscoroutinefunction(getattr(partner, verb, None)) for verb in ("record", "prepare")
    )


def _made(what: object) -> AnyPartner:
    kind: Any = type(what)
    maker = _maker(kind)
    if maker is not None:
        return maker(what)
    if is_last_agent(what) or all(callable(getattr(what, verb, None)) for verb in _VERBS):
        return what
    raise EnlistRefused(
        f"{type(what).__module__}.{type(what).__qualname__} cannot be enlisted; enlist {KNOWN}"
    )


def last_agent_for(connection: Any) -> LastAgent:
    """What decides over a connection; for asyncio one whose calls are awaited.

    Raises:
        EnlistRefused: Nothing can over such a connection.
    """
    kind: Any = type(connection)
    maker = _maker(kind, deciding=True)
    if maker is None:
        raise EnlistRefused(
            f"a {kind.__module__}.{kind.__qualname__} cannot be a last agent; "
            "connections of psycopg 3, PyMySQL, mariadb and sqlite3 can"
        )
    last: LastAgent = maker(connection)
    return last


@functools.lru_cache
def _maker(connection: type, *, deciding: bool = False) -> Callable[[Any], AnyPartner] | None:
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
            case "sqlalchemy", _ if not deciding:
                from onceq.partners.sqlalchemy import sqlalchemy_partner

                return functools.partial(sqlalchemy_partner, driver=_made)
            case "psycopg2", _ if not deciding:
                raise PartnerRefused("psycopg2 is not supported; use psycopg 3 (package psycopg)")
    return None


def without_secrets(where: str) -> str:
    """The address of a database as it may be shown and logged."""
    return _SECRET.sub(lambda match: f"{match[1] or match[2] or ''}…", where)


class Place(Record, frozen=True):
    """A database at an address, as recovery sees it.

    Attributes:
        where: As it may be shown.
        resource: What is prepared there; None: nothing can be.
        agent: What was decided there; None: it is asked for no rows.
    """

    where: str
    resource: Resource | None
    agent: Agent | None


def place_for(where: str) -> Place:
    """A database for recovery, by its address; raises InvalidParameter."""
    scheme, _, rest = where.partition("://")
    scheme = scheme.casefold()
    shown = without_secrets(where)
    if scheme == "sqlite" and rest.startswith("/"):
        from onceq.partners.sqlite import SqliteAgent

        return Place(shown, None, SqliteAgent(rest))
    makers: dict[str, Callable[[str], tuple[Resource, Agent | None]]] = {
        "postgresql": _postgresql, "postgres": _postgresql, "mariadb": _mariadb, "mysql": _mariadb,
    }  # fmt: skip
    maker = makers.get(scheme) or (_postgresql if "dbname=" in where else None)
    if maker is None:
        raise InvalidParameter(f"{where} is not the address of a database: {ADDRESSES}")
    try:
        return Place(shown, *maker(where))
    except ImportError as error:
        raise InvalidParameter(
            f"its driver is not installed: pip install 'onceq[{maker.__name__.strip('_')}]'"
        ) from error


def _postgresql(where: str) -> tuple[Resource, Agent | None]:
    from onceq.partners.postgresql import PostgresAgent, PostgresResource

    return PostgresResource(where), PostgresAgent(where)


def _mariadb(where: str) -> tuple[Resource, Agent | None]:
    from onceq.partners.mariadb import MariadbAgent, MariaResource, connect_to

    connect, database = connect_to(where)
    # Rows are in a database; what is prepared is the whole server's.
    return MariaResource(connect), MariadbAgent(connect, database) if database else None
