"""The partner for a connection, found by its type's name, so that no driver need be installed."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from onceq.errors import EnlistRefused, InvalidParameter
from onceq.model.record import Record
from onceq.partners.contract import Agent, AnyPartner, Resource, is_last_agent
from onceq.partners.drivers import find_maker

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
    made = _make_partner(what)
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


@functools.lru_cache
def _belongs_to_sqlalchemy(kind: type) -> bool:
    """Whether a type, or one that it inherits from, is SQLAlchemy's."""
    return any(base.__module__.partition(".")[0] == "sqlalchemy" for base in kind.__mro__)


def _make_partner(what: object) -> AnyPartner:
    kind: Any = type(what)
    if _belongs_to_sqlalchemy(kind):
        from onceq.partners.sqlalchemy import sqlalchemy_partner

        return sqlalchemy_partner(what, _make_partner)
    maker = find_maker(kind)
    if maker is not None:
        return maker(what)
    if is_last_agent(what) or all(callable(getattr(what, verb, None)) for verb in _VERBS):
        return what
    raise EnlistRefused(
        f"{type(what).__module__}.{type(what).__qualname__} cannot be enlisted; enlist {KNOWN}"
    )


def without_secrets(where: str) -> str:
    """The address of a database as it may be shown and logged."""
    return _SECRET.sub(lambda match: f"{match[1] or match[2] or ''}…", where)


class DatabasePlace(Record, frozen=True):
    """A database at an address, as recovery sees it.

    Attributes:
        where: As it may be shown.
        resource: What is prepared there; None: nothing can be.
        agent: What was decided there; None: it is asked for no rows.
    """

    where: str
    resource: Resource | None
    agent: Agent | None


def place_for(where: str) -> DatabasePlace:
    """A database for recovery, by its address; raises InvalidParameter."""
    scheme, _, rest = where.partition("://")
    scheme = scheme.casefold()
    shown = without_secrets(where)
    if scheme == "sqlite" and rest.startswith("/"):
        from onceq.partners.sqlite import SqliteAgent

        return DatabasePlace(shown, None, SqliteAgent(rest))
    makers: dict[str, Callable[[str], tuple[Resource, Agent | None]]] = {
        "postgresql": _postgresql, "postgres": _postgresql, "mariadb": _mariadb, "mysql": _mariadb,
    }  # fmt: skip
    maker = makers.get(scheme) or (_postgresql if "dbname=" in where else None)
    if maker is None:
        raise InvalidParameter(f"{where} is not the address of a database: {ADDRESSES}")
    try:
        return DatabasePlace(shown, *maker(where))
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
