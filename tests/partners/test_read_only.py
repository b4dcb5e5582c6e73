"""Shares of PostgreSQL that have written nothing: which may be ended before the decision, if asked,
and which are prepared all the same."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import onceq
from onceq.errors import RolledBack
from onceq.model.branches import ONCEQ_FORMAT, Vote, Xid, make_gtrid
from onceq.partners.postgresql import AsyncPostgresPartner, PostgresPartner
from onceq.partners.sqlalchemy import AsyncSQLAlchemyPartner, SQLAlchemyPartner
from tests.servers import Postgres

pytestmark = pytest.mark.slow
Q = r"private$\q"
numbers = itertools.count(1)

SPARED = {
    "nothing": "",
    "reading": "select * from kept",
    "an update of no row": "update kept set key = 'x' where key = 'nobody'",
    "no row for update": "select * from kept where key = 'nobody' for update",
    "a cursor that is held": "declare c cursor with hold for select 1",
    "an exported snapshot": "select pg_export_snapshot()",
    "repeatable read": "set transaction isolation level repeatable read; select * from kept",
    "reading a temporary table": "select * from passing",
}
PREPARED = {
    "a row": "insert into kept values ('read only')",
    "a row to update": "select * from locked for update",
    "an advisory lock": "select pg_advisory_xact_lock(7)",
    "a shared advisory lock": "select pg_advisory_xact_lock_shared(7)",
    "a lock on a table": "lock table kept in share mode",
    "the strongest lock on a table": "lock table kept in access exclusive mode",
    "a savepoint that wrote": "savepoint s; insert into kept values ('gone'); rollback to s",
    "serializable": "set transaction isolation level serializable; select * from kept",
}


@pytest.fixture
def db(postgres: Postgres) -> Iterator[psycopg.Connection[Any]]:
    postgres.sql("create table if not exists locked (n int)")
    if not postgres.sql("select * from locked"):
        postgres.sql("insert into locked values (1)")
    with psycopg.connect(postgres.conninfo()) as made:
        yield made


@pytest.fixture
def qm(tmp_path: Path) -> Iterator[onceq.QueueManager]:
    with onceq.open(str(tmp_path / "a"), create=True) as made:
        made.create_queue(Q, transactional=True)
        yield made


asking = functools.partial(PostgresPartner, read_only_votes=True)


def xid() -> Xid:
    return Xid(ONCEQ_FORMAT, make_gtrid(b"R" * 16, next(numbers)), b"x")


def voted(db: psycopg.Connection[Any], statements: str, partner: PostgresPartner) -> Vote:
    branch = xid()
    partner.check()
    partner.begin(branch)
    if statements:
        db.execute(statements.encode())
    vote = partner.prepare(branch)
    if vote is Vote.PREPARED:
        partner.rollback(branch)
    assert db.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    db.execute("select 1")
    db.rollback()
    return vote


@pytest.mark.parametrize("what", SPARED)
def test_what_nobody_could_notice_is_ended_at_once(what: str, db: psycopg.Connection[Any]) -> None:
    db.execute("create temporary table passing (n int)")
    db.commit()
    assert voted(db, SPARED[what], asking(db)) is Vote.READ_ONLY
    assert db.execute("select count(*) from pg_cursors").fetchone() == (0,)


@pytest.mark.parametrize("what", PREPARED)
def test_what_others_could_notice_is_prepared(what: str, db: psycopg.Connection[Any]) -> None:
    assert voted(db, PREPARED[what], asking(db)) is Vote.PREPARED


def test_who_does_not_ask_prepares(db: psycopg.Connection[Any]) -> None:
    assert voted(db, "select * from kept", PostgresPartner(db)) is Vote.PREPARED


def test_a_lock_of_the_session_is_no_reason_to_lose_it(db: psycopg.Connection[Any]) -> None:
    db.execute("select pg_advisory_lock(9)")
    db.commit()
    assert voted(db, "select 1", asking(db)) is Vote.PREPARED
    assert db.execute("select pg_advisory_unlock(9)").fetchone() == (True,)


def test_nothing_is_told_before_the_decision(
    postgres: Postgres, qm: onceq.QueueManager, db: psycopg.Connection[Any]
) -> None:
    """NOTIFY cannot be asked for. It is lost, as documented; it is never told too early."""
    with psycopg.connect(postgres.conninfo(), autocommit=True) as listener:
        listener.execute("listen spared")
        with qm.transaction() as tx:
            tx.enlist(asking(db))
            db.execute("notify spared")
            tx.send(Q, "x")
        assert list(listener.notifies(timeout=0)) == []
    assert qm.admin.decisions() == []


def test_with_others_in_a_transaction(
    postgres: Postgres, qm: onceq.QueueManager, db: psycopg.Connection[Any]
) -> None:
    """The reader is told nothing more, whatever becomes of the others."""
    with psycopg.connect(postgres.conninfo()) as other:
        for key, good in (("one", True), ("two", False)):
            tx = qm.transaction()
            tx.enlist(asking(db))
            db.execute("select * from kept")
            tx.enlist(other)
            other.execute("insert into checked values (%s)", [key])
            if not good:
                other.execute("insert into checked values (%s)", [key])
            tx.send(Q, key)
            if good:
                tx.commit()
            else:
                with pytest.raises(RolledBack):
                    tx.commit()
            assert db.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert postgres.sql("delete from checked returning key") == [("one",)]
    assert [m.text for m in qm.peek_many(Q)] == ["one"]


def test_async(postgres: Postgres) -> None:
    async def work(statement: bytes) -> Vote:
        async with await psycopg.AsyncConnection.connect(postgres.conninfo()) as connection:
            partner = AsyncPostgresPartner(connection, read_only_votes=True)
            branch = xid()
            await partner.check()
            await partner.begin(branch)
            await connection.execute(statement)
            vote = await partner.prepare(branch)
            if vote is Vote.PREPARED:
                await partner.rollback(branch)
            assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            return vote

    assert asyncio.run(work(b"select * from kept")) is Vote.READ_ONLY
    assert asyncio.run(work(b"insert into kept values ('async')")) is Vote.PREPARED


@pytest.mark.parametrize("make", [Session, sqlalchemy.Engine.connect])
def test_sqlalchemy(
    make: Callable[[sqlalchemy.Engine], Any], postgres: Postgres, qm: onceq.QueueManager
) -> None:
    """What is enlisted is as free afterwards as after a commit."""
    engine = sqlalchemy.create_engine(postgres.url())
    with make(engine) as work:
        for number in range(2):
            with qm.transaction() as tx:
                tx.enlist(SQLAlchemyPartner(work, asking))
                work.execute(sqlalchemy.text("select * from kept"))
                tx.send(Q, f"{number}")
            assert not work.in_transaction()
    engine.dispose()


def test_async_sqlalchemy(postgres: Postgres) -> None:
    async def work() -> None:
        engine = create_async_engine(postgres.url())
        driver = functools.partial(AsyncPostgresPartner, read_only_votes=True)
        async with AsyncSession(engine) as session:
            partner = AsyncSQLAlchemyPartner(session, driver)
            branch = xid()
            await partner.check()
            await partner.begin(branch)
            await session.execute(sqlalchemy.text("select * from kept"))
            assert await partner.prepare(branch) is Vote.READ_ONLY
            assert not session.in_transaction()
        await engine.dispose()

    asyncio.run(work())
