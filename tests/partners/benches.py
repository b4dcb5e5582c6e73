"""The databases of ``onceq.testing.partners``: how to connect, write, read, spoil and crash."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pymysql
import sqlalchemy
import sqlalchemy.orm

from onceq.partners.contract import Partner, Resource
from onceq.partners.finding import partner_for
from onceq.partners.mariadb import MariaResource
from onceq.partners.postgresql import PostgresResource
from onceq.partners.shares import cut
from onceq.testing.partners import Awaited
from tests.servers import MariaDB, Postgres

WRITE = "insert into kept values (%s)"


class PostgresBench:
    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.coordinator = secrets.token_bytes(16)

    def connect(self) -> Any:
        return psycopg.connect(self.server.conninfo())

    def close(self, connection: Any) -> None:
        connection.close()

    def lose(self, connection: Any) -> None:
        cut(connection.fileno())
        connection.close()

    def partner(self, connection: Any) -> Partner:
        partner: Partner = partner_for(connection)
        return partner

    def resource(self) -> Resource:
        return PostgresResource(self.server.conninfo())

    def write(self, connection: Any, key: str) -> None:
        connection.execute(WRITE, [key])

    def keys(self) -> set[str]:
        return {key for (key,) in self.server.sql("select key from kept")}

    def begin_other(self, connection: Any) -> None:
        connection.execute("select 1")

    def end_other(self, connection: Any) -> None:
        connection.rollback()

    def spoil(self, connection: Any) -> None:
        """A statement fails: PREPARE would roll back and say nothing."""
        with contextlib.suppress(psycopg.Error):
            connection.execute("select 1 / 0")

    def crash(self) -> None:
        self.server.restart()


class DeferredBench(PostgresBench):
    """PREPARE itself fails, by a constraint that is checked then."""

    def spoil(self, connection: Any) -> None:
        connection.execute("insert into checked values ('a'), ('a')")


class AsyncPostgresBench(PostgresBench):
    def __init__(self, server: Postgres, runner: asyncio.Runner) -> None:
        super().__init__(server)
        self.runner = runner

    def connect(self) -> Any:
        return self.runner.run(psycopg.AsyncConnection.connect(self.server.conninfo()))

    def close(self, connection: Any) -> None:
        self.runner.run(connection.close())

    def lose(self, connection: Any) -> None:
        cut(connection.fileno())
        self.close(connection)

    def partner(self, connection: Any) -> Partner:
        return Awaited(partner_for(connection, tasks=True), self.runner)

    def write(self, connection: Any, key: str) -> None:
        self.runner.run(connection.execute(WRITE, [key]))

    def begin_other(self, connection: Any) -> None:
        self.runner.run(connection.execute("select 1"))

    def end_other(self, connection: Any) -> None:
        self.runner.run(connection.rollback())

    def spoil(self, connection: Any) -> None:
        with contextlib.suppress(psycopg.Error):
            self.runner.run(connection.execute("select 1 / 0"))


class MariaBench:
    def __init__(self, server: MariaDB) -> None:
        self.server = server
        self.coordinator = secrets.token_bytes(16)

    def connect(self) -> Any:
        return pymysql.connect(**self.server.arguments())

    def close(self, connection: Any) -> None:
        connection.close()

    def lose(self, connection: Any) -> None:
        cut(connection._sock.fileno())
        connection._force_close()

    def partner(self, connection: Any) -> Partner:
        partner: Partner = partner_for(connection)
        return partner

    def resource(self) -> Resource:
        return MariaResource(lambda: pymysql.connect(**self.server.arguments()))

    def write(self, connection: Any, key: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(WRITE, [key])

    def keys(self) -> set[str]:
        return {key for (key,) in self.server.sql("select k from kept")}

    def begin_other(self, connection: Any) -> None:
        connection.begin()

    def end_other(self, connection: Any) -> None:
        connection.rollback()

    def spoil(self, connection: Any) -> None:
        """A deadlock: the server rolls back the one that has changed less, which is this one."""
        with contextlib.suppress(pymysql.err.OperationalError), connection.cursor() as cursor:
            deadlock(self.connect(), cursor.execute)

    def crash(self) -> None:
        self.server.restart()


def deadlock(other: Any, execute: Callable[[str], object]) -> None:
    """Let ``execute`` run into a deadlock with another connection that has changed more."""
    with other, other.cursor() as cursor:
        cursor.execute("update locks set n = n + 1 where k > 1")
        execute("select * from locks where k = 1 for update")
        waiter = threading.Thread(
            target=cursor.execute, args=["update locks set n = n + 1 where k = 1"]
        )
        waiter.start()
        try:
            execute("select * from locks where k = 2 for update")
        finally:
            waiter.join()
            other.rollback()


class AlchemyBench:
    """A session, or a connection, of SQLAlchemy over another bench's database."""

    def __init__(self, inner: PostgresBench | MariaBench, url: str, *, session: bool) -> None:
        self.inner = inner
        self.coordinator = inner.coordinator
        self.engine = sqlalchemy.create_engine(url)
        self.session = session

    def connect(self) -> Any:
        if self.session:
            return sqlalchemy.orm.Session(self.engine)
        return self.engine.connect()

    def close(self, connection: Any) -> None:
        connection.close()

    def lose(self, connection: Any) -> None:
        below = connection.connection() if self.session else connection
        raw = below.connection.dbapi_connection
        cut(raw.fileno() if hasattr(raw, "fileno") else raw._sock.fileno())
        connection.invalidate()

    def partner(self, connection: Any) -> Partner:
        partner: Partner = partner_for(connection)
        return partner

    def resource(self) -> Resource:
        return self.inner.resource()

    def write(self, connection: Any, key: str) -> None:
        connection.execute(sqlalchemy.text("insert into kept values (:key)"), {"key": key})

    def keys(self) -> set[str]:
        return self.inner.keys()

    def begin_other(self, connection: Any) -> None:
        connection.execute(sqlalchemy.text("select 1"))

    def end_other(self, connection: Any) -> None:
        connection.rollback()

    def spoil(self, connection: Any) -> None:
        with contextlib.suppress(sqlalchemy.exc.DBAPIError):
            if isinstance(self.inner, MariaBench):
                deadlock(self.inner.connect(), lambda q: connection.execute(sqlalchemy.text(q)))
                return
            connection.execute(sqlalchemy.text("select 1 / 0"))

    def crash(self) -> None:
        self.inner.crash()


@contextlib.contextmanager
def bench(kind: str, server: Postgres | MariaDB) -> Iterator[Any]:
    """The bench of a name."""
    if isinstance(server, Postgres):
        match kind:
            case "psycopg":
                yield PostgresBench(server)
            case "psycopg deferred":
                yield DeferredBench(server)
            case "psycopg async":
                with asyncio.Runner() as runner:
                    yield AsyncPostgresBench(server, runner)
            case _:
                url = server.url()
                made = AlchemyBench(PostgresBench(server), url, session="session" in kind)
                yield made
                made.engine.dispose()
        return
    if kind == "pymysql":
        yield MariaBench(server)
    else:
        url = server.url()
        made = AlchemyBench(MariaBench(server), url, session="session" in kind)
        yield made
        made.engine.dispose()
