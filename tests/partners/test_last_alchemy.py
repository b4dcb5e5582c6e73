"""SQLAlchemy over PostgreSQL and MariaDB as the last agent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy
from sqlalchemy import Engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import onceq
from onceq import aio
from onceq.errors import PartnerRefused, RolledBack
from onceq.partners.contract import TABLE
from onceq.partners.mariadb import MariadbLast
from onceq.partners.postgresql import PostgresLast
from onceq.partners.sqlalchemy import AsyncSQLAlchemyLast, SQLAlchemyLast
from tests.partners.benches import deadlock
from tests.scratch import scratch

pytestmark = pytest.mark.slow
Q = r"private$\q"
INSERT = "INSERT INTO kept VALUES (:key)"


@pytest.fixture
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[onceq.QueueManager]:
    with (
        scratch(tmp_path_factory, "la") as folder,
        onceq.open(str(Path(folder) / "e"), name="LASTSA", create=True) as made,
    ):
        made.create_queue(Q, transactional=True)
        yield made


@pytest.fixture(params=["postgres", "mariadb"])
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def engine(server: Any) -> Iterator[Engine]:
    made = sqlalchemy.create_engine(server.url())
    yield made
    made.dispose()


def keys(server: Any, like: str) -> list[str]:
    return [key for (key,) in server.sql(f"select * from kept where {_key(server)} like '{like}%'")]


def _key(server: Any) -> str:
    return "k" if type(server).__name__ == "MariaDB" else "key"


@pytest.mark.parametrize("kind", ["session", "connection", "engine"])
def test_rows_and_messages_are_committed_together(
    manager: onceq.QueueManager, server: Any, engine: Engine, kind: str
) -> None:
    with contextlib.ExitStack() as stack:
        what: Any = engine
        if kind != "engine":
            what = stack.enter_context(Session(engine) if kind == "session" else engine.connect())
        for key, good in ((f"la {kind} a", True), (f"la {kind} b", False), (f"la {kind} c", True)):
            tx = manager.transaction()
            last = SQLAlchemyLast(what)
            work = tx.enlist(last)
            work.execute(text(INSERT), {"key": key})
            tx.send(Q, key)
            if good:
                tx.commit()
            else:
                tx.abort()
            assert isinstance(last._inner, PostgresLast | MariadbLast)
    committed = [f"la {kind} a", f"la {kind} c"]
    assert keys(server, f"la {kind}") == committed
    assert [manager.receive(Q, timeout=5).text for _ in range(2)] == committed
    assert manager.admin.branches() == []
    assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    assert server.prepared_ids() == []


@pytest.mark.parametrize("kind", ["session", "connection"])
def test_the_application_does_not_commit_it(
    manager: onceq.QueueManager, server: Any, engine: Engine, kind: str
) -> None:
    refused = (PartnerRefused, psycopg.ProgrammingError, sqlalchemy.exc.ProgrammingError)
    with Session(engine) if kind == "session" else engine.connect() as work:
        for end in ("commit", "rollback"):
            with pytest.raises((*refused, RolledBack)), manager.transaction() as tx:
                tx.enlist(SQLAlchemyLast(work))
                work.execute(text(INSERT), {"key": f"la ended {kind}"})
                tx.send(Q, "a")
                getattr(work, end)()
            work.rollback()
        with manager.transaction() as tx:
            tx.enlist(SQLAlchemyLast(work))
            work.execute(text(INSERT), {"key": f"la good {kind}"})
            tx.send(Q, "b")
    assert keys(server, "la ended") == []
    assert keys(server, f"la good {kind}") == [f"la good {kind}"]
    assert manager.receive(Q, timeout=5).text == "b"
    assert manager.queue(Q).messages == 0


def test_what_the_database_has_undone(
    manager: onceq.QueueManager, server: Any, engine: Engine
) -> None:
    with Session(engine) as session:
        with pytest.raises(RolledBack), manager.transaction() as tx:
            tx.enlist(SQLAlchemyLast(session))
            tx.send(Q, "a")
            with contextlib.suppress(sqlalchemy.exc.DBAPIError):
                if type(server).__name__ == "MariaDB":
                    other = pymysql.connect(**server.arguments())
                    deadlock(other, lambda statement: session.execute(text(statement)))
                else:
                    session.execute(text("select 1 / 0"))
        assert not session.in_transaction()
        session.execute(text("select 1"))
    assert manager.queue(Q).messages == 0


@pytest.mark.parametrize("kind", ["session", "connection"])
def test_tasks(kind: str, postgres: Any, tmp_path: Path) -> None:
    async def run() -> None:
        engine = create_async_engine(postgres.url())
        async with (
            await aio.open(str(tmp_path / "async"), create=True) as qm,
            AsyncSession(engine) if kind == "session" else engine.connect() as work,
        ):
            await qm.create_queue(Q, transactional=True)
            for key, good in (("a", True), ("b", False), ("c", True)):
                tx = qm.transaction()
                assert await tx.enlist(AsyncSQLAlchemyLast(work)) is work
                await work.execute(text(INSERT), {"key": f"la task {kind} {key}"})
                await tx.send(Q, key)
                await (tx.commit() if good else tx.abort())
                assert not work.in_transaction()
            with pytest.raises(RolledBack):
                async with qm.transaction() as tx:
                    await tx.enlist(AsyncSQLAlchemyLast(work))
                    await work.execute(text("insert into checked values ('a'), ('a')"))
                    await tx.send(Q, "refused")
            assert (await qm.queue(Q)).messages == 2
        await engine.dispose()

    asyncio.run(run())
    assert keys(postgres, f"la task {kind}") == [f"la task {kind} a", f"la task {kind} c"]
    assert postgres.sql(f"select count(*) from {TABLE} where outcome = 'committed'") != [(0,)]
