"""A database as the last agent: PostgreSQL, MariaDB and SQLite, with kills at every point (P11)."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import onceq
import onceq.aio
from onceq.errors import EnlistRefused, PartnerRefused, ReceiveTimeout, RolledBack
from onceq.model.branches import xid_by_row
from onceq.partners.contract import TABLE, Row, row_of
from onceq.partners.postgresql import AsyncPostgresLast, PostgresAgent, PostgresLast
from tests.partners.bases import Base, MariaBase, PostgresBase
from tests.partners.last_crashes import (
    CRASHES,
    MARIADB,
    POINTS,
    POSTGRESQL,
    SLOW,
    SQLITE,
    LastBase,
    LastMariadb,
    LastPostgres,
    LastSqlite,
    LastStage,
)
from tests.scratch import scratch
from tests.servers import Postgres
from tests.unit.partners.agents import MANAGER, check_rows

pytestmark = pytest.mark.slow
Q = r"private$\q"
XID = xid_by_row(b"G" * 16, 1, "x")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with scratch(tmp_path_factory, "l") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def stage(folder: Path) -> Iterator[LastStage]:
    made = LastStage(folder)
    yield made
    made.close()


@pytest.fixture
def base(request: pytest.FixtureRequest, folder: Path, kind: str) -> LastBase:
    if kind == SQLITE:
        return LastSqlite(folder / "done.db")
    if kind == MARIADB:
        return LastMariadb(request.getfixturevalue("mariadb"))
    return LastPostgres(request.getfixturevalue("postgres"))


of_each_kind = pytest.mark.parametrize("kind", [POSTGRESQL, MARIADB, SQLITE])


@of_each_kind
def test_without_any_crash(stage: LastStage, base: LastBase) -> None:
    assert stage.case({}, base, messages=3) == "committed"


@pytest.mark.search("partners", few=8)
@pytest.mark.parametrize("what", CRASHES)
@pytest.mark.parametrize("point", POINTS)
@of_each_kind
def test_one_outcome_everywhere(stage: LastStage, base: LastBase, point: str, what: str) -> None:
    told = stage.case({point: what}, base)
    assert (told == "gone") == (what == "application")
    if point in ("after record", "before fulfil", "after fulfil"):
        assert stage.there


@pytest.mark.parametrize("rounds", [0, 1, 3])
@of_each_kind
def test_a_commit_that_lands_in_the_middle_of_recovery(
    stage: LastStage, base: LastBase, rounds: int
) -> None:
    """Its row is written: whoever recovers waits for it, and finds it."""
    assert stage.case({SLOW: str(rounds)}, base) == "gone"
    assert stage.there


@pytest.fixture
def other(request: pytest.FixtureRequest, kind: str) -> Base:
    """Of another server than the last agent."""
    if kind == MARIADB:
        return PostgresBase(request.getfixturevalue("postgres"))
    return MariaBase(request.getfixturevalue("mariadb"))


@pytest.mark.search("partners", few=4)
@pytest.mark.parametrize("what", ["both", "application"])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", [MARIADB, SQLITE])
def test_another_database_has_the_outcome_of_the_row(
    stage: LastStage, base: LastBase, other: Base, point: str, what: str
) -> None:
    stage.case({point: what}, base, other=other)
    if point in ("after record", "before fulfil", "after fulfil"):
        assert stage.there


@of_each_kind
def test_another_database_without_a_crash_and_with_a_slow_commit(
    stage: LastStage, base: LastBase, other: Base
) -> None:
    assert stage.case({}, base, other=other, messages=3) == "committed"
    assert stage.case({SLOW: "1"}, base, other=other) == "gone"
    assert stage.there


@pytest.fixture
def manager(folder: Path) -> Iterator[onceq.QueueManager]:
    with onceq.open(str(folder / "e"), name="LASTIN", create=True) as made:
        made.create_queue(Q, transactional=True, exist_ok=True)
        yield made
        made.purge(Q)


class Threads:
    """Connections of psycopg for threads, as last agents."""

    @contextlib.contextmanager
    def connected(self, conninfo: str, options: str = "") -> Iterator[Any]:
        with psycopg.connect(conninfo, options=options) as db:
            yield db

    def last(self, db: Any) -> Any:
        return PostgresLast(db)

    def execute(self, db: Any, statement: str) -> None:
        db.execute(statement.encode())

    def close(self) -> None:
        """There is nothing to close."""


class Tasks:
    """Connections of psycopg for tasks, whose calls are run to their end."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    @contextlib.contextmanager
    def connected(self, conninfo: str, options: str = "") -> Iterator[Any]:
        connecting = psycopg.AsyncConnection.connect(conninfo, options=options)
        db = self.runner.run(connecting)
        yield db
        self.runner.run(db.close())

    def last(self, db: Any) -> Any:
        return Ran(AsyncPostgresLast(db), self.runner)

    def execute(self, db: Any, statement: str) -> None:
        self.runner.run(db.execute(statement.encode()))

    def close(self) -> None:
        self.runner.close()


class Ran:
    """A last agent for tasks, for threads."""

    def __init__(self, inner: AsyncPostgresLast, runner: asyncio.Runner) -> None:
        self.inner, self.runner = inner, runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not inspect.iscoroutinefunction(found):
            return found
        return lambda *given: self.runner.run(found(*given))


@pytest.fixture(params=[Threads, Tasks])
def face(request: pytest.FixtureRequest) -> Iterator[Threads | Tasks]:
    made = request.param()
    yield made
    made.close()


def kept(postgres: Postgres, key: str) -> bool:
    return bool(postgres.sql(f"select key from kept where key = '{key}'"))


def test_a_server_without_prepared_transactions(manager: onceq.QueueManager, folder: Path) -> None:
    with Postgres(prepared=0) as server:
        server.start()
        server.sql("create table kept (key text primary key)")
        with psycopg.connect(server.conninfo()) as db, manager.transaction() as tx:
            assert tx.enlist(PostgresLast(db)) is db
            db.execute("insert into kept values ('a')")
            tx.send(Q, "a")
        assert kept(server, "a")
        assert manager.receive(Q, timeout=5).text == "a"
        assert [outcome for (outcome,) in server.sql(f"select outcome from {TABLE}")] == [
            "committed"
        ]


def test_the_application_cannot_end_it_by_mistake(
    manager: onceq.QueueManager, postgres: Postgres, face: Threads | Tasks
) -> None:
    with face.connected(postgres.conninfo()) as db:
        with pytest.raises(KeyError), manager.transaction() as tx:
            tx.enlist(face.last(db))
            face.execute(db, "insert into kept values ('mistake')")
            with pytest.raises(psycopg.ProgrammingError):
                _ = asyncio.run(db.commit()) if isinstance(face, Tasks) else db.commit()
            raise KeyError
        with pytest.raises(RolledBack, match="ended by a statement"), manager.transaction() as tx:
            tx.enlist(face.last(db))
            face.execute(db, "insert into kept values ('mistake')")
            face.execute(db, "rollback")
            tx.send(Q, "mistake")
        with pytest.raises(RolledBack, match="ended by a statement"), manager.transaction() as tx:
            tx.enlist(face.last(db))
            face.execute(db, "rollback")
    assert not kept(postgres, "mistake")
    assert manager.queue(Q).messages == 0


ANOTHER = ["rollback; begin", "commit; begin", "rollback and chain", "commit and chain"]


@pytest.mark.parametrize("statement", ANOTHER)
@pytest.mark.parametrize("messages", [0, 1])
def test_a_statement_that_begins_another_transaction_is_noticed(
    manager: onceq.QueueManager, postgres: Postgres, face: Threads | Tasks, statement: str,
    messages: int,
) -> None:  # fmt: skip
    """Finding K15: what came after it was taken for the same transaction."""
    with face.connected(postgres.conninfo()) as db:
        with pytest.raises(RolledBack, match="ended by a statement"), manager.transaction() as tx:
            tx.enlist(face.last(db))
            face.execute(db, statement)
            face.execute(db, "insert into kept values ('another')")
            if messages:
                tx.send(Q, "another")
        assert db.info.transaction_status.name == "IDLE"
    assert not kept(postgres, "another")
    assert (manager.queue(Q).messages, manager.admin.branches()) == (0, [])


def test_a_connection_that_was_closed_has_committed_nothing(
    manager: onceq.QueueManager, postgres: Postgres, face: Threads | Tasks
) -> None:
    """Finding K15: it was called in doubt, although nothing was asked."""
    with face.connected(postgres.conninfo()) as db:
        ended = pytest.raises(RolledBack, match="closed before the commit")
        with ended, manager.transaction() as tx:
            tx.enlist(face.last(db))
            face.execute(db, "insert into kept values ('closed')")
            tx.send(Q, "closed")
            db.pgconn.finish()
    assert not kept(postgres, "closed")
    assert (manager.queue(Q).messages, manager.admin.branches()) == (0, [])


@pytest.mark.parametrize("statement", ["insert into checked values ('a'), ('a')", "select 1 / 0"])
def test_a_commit_that_the_database_refuses_undoes_all(
    manager: onceq.QueueManager, postgres: Postgres, face: Threads | Tasks, statement: str
) -> None:
    with face.connected(postgres.conninfo()) as db:
        for _ in range(2):
            with pytest.raises(RolledBack), manager.transaction() as tx:
                tx.enlist(face.last(db))
                tx.send(Q, "refused")
                with contextlib.suppress(psycopg.errors.DivisionByZero):
                    face.execute(db, statement)
        assert db.info.transaction_status.name == "IDLE"
        face.execute(db, "select 1")
    assert manager.admin.branches() == []
    assert manager.queue(Q).messages == 0


def test_a_transaction_with_nothing_in_the_queues_needs_no_row(
    manager: onceq.QueueManager, postgres: Postgres
) -> None:
    with psycopg.connect(postgres.conninfo()) as db:
        with manager.transaction() as tx:
            tx.enlist(PostgresLast(db))
            db.execute("insert into kept values ('idle')")
        before = postgres.sql(f"select count(*) from {TABLE}")
        with manager.transaction() as tx:
            tx.enlist(PostgresLast(db))
            with pytest.raises(ReceiveTimeout):
                tx.receive(Q, timeout=0)
            db.execute("insert into kept values ('idle too')")
    assert kept(postgres, "idle")
    assert kept(postgres, "idle too")
    assert postgres.sql(f"select count(*) from {TABLE}") == before


def test_tasks(postgres: Postgres, folder: Path) -> None:
    async def work() -> None:
        async with (
            await onceq.aio.open(str(folder / "aio"), name="LASTAIO", create=True) as qm,
            await psycopg.AsyncConnection.connect(postgres.conninfo()) as db,
        ):
            await qm.create_queue(Q, transactional=True)
            async with qm.transaction() as tx:
                await tx.enlist(AsyncPostgresLast(db))
                await db.execute("insert into kept values ('task')")
                await tx.send(Q, "task")
            assert (await qm.receive(Q, timeout=5)).text == "task"
            with pytest.raises(RolledBack):
                async with qm.transaction() as tx:
                    await tx.enlist(AsyncPostgresLast(db))
                    await db.execute("insert into checked values ('a'), ('a')")
                    await tx.send(Q, "refused")
            assert (await qm.queue(Q)).messages == 0

    asyncio.run(work())
    assert kept(postgres, "task")


def test_whose_commits_are_not_synced_cannot_decide(
    postgres: Postgres, face: Threads | Tasks
) -> None:
    unsynced = face.connected(postgres.conninfo(), "-c synchronous_commit=off")
    with unsynced as db, pytest.raises(EnlistRefused, match="synchronous_commit"):
        face.last(db).check()


def test_a_user_who_may_make_no_table_is_told_what_to_make(
    postgres: Postgres, face: Threads | Tasks
) -> None:
    bare, guest = (f"{word}_{type(face).__name__.lower()}" for word in ("bare", "guest"))
    postgres.sql(f"create database {bare}")
    postgres.sql(f"create role {guest} login")
    with face.connected(postgres.conninfo(bare, guest)) as db:
        with pytest.raises(EnlistRefused, match=f"CREATE TABLE IF NOT EXISTS {TABLE}"):
            face.last(db).check()
        assert db.info.transaction_status.name == "IDLE"


def test_once_aborted_a_commit_that_comes_later_fails_on_the_key(
    postgres: Postgres, face: Threads | Tasks
) -> None:
    with face.connected(postgres.conninfo()) as db:
        last = face.last(db)
        last.check()
        row = row_of(XID, 7 if isinstance(face, Threads) else 8)
        last.begin(XID)
        face.execute(db, "insert into kept values ('late')")
        agent = PostgresAgent(postgres.conninfo())
        assert agent.name == last.name
        assert agent.settle(row) is False
        with pytest.raises(PartnerRefused, match="duplicate key"):
            last.record(row)
        assert agent.settle(row) is False
        assert agent.settle(Row(row.manager, 9, row.id)) is False
        agent.close()
    assert not kept(postgres, "late")


@pytest.mark.parametrize("first", ["last agent", "others"])
@pytest.mark.parametrize("messages", [0, 1])
def test_others_prepare_and_the_last_decides(
    manager: onceq.QueueManager, postgres: Postgres, first: str, messages: int
) -> None:
    def connect() -> Any:
        return psycopg.connect(postgres.conninfo())

    with connect() as one, connect() as other, connect() as third:
        for good in (True, False):
            key = f"{first} {messages} {good}"
            expected = contextlib.nullcontext() if good else pytest.raises(RolledBack)
            with expected, manager.transaction() as tx:
                enlisted = [PostgresLast(one), other, third]
                for connection in enlisted if first == "last agent" else enlisted[::-1]:
                    tx.enlist(connection)
                for number, connection in enumerate((one, other, third)):
                    connection.execute("insert into kept values (%s)", [f"{key} {number}"])
                if not good:
                    third.execute("insert into checked values ('a'), ('a')")
                if messages:
                    tx.send(Q, key)
            assert all(kept(postgres, f"{key} {number}") is good for number in range(3))
            assert tx.pending == []
        with pytest.raises(EnlistRefused, match="one last agent"), manager.transaction() as tx:
            tx.enlist(PostgresLast(one))
            tx.enlist(PostgresLast(other))
    assert (manager.admin.decisions(), manager.admin.branches()) == ([], [])
    assert manager.queue(Q).messages == messages


def test_rows_are_counted_and_removed(postgres: Postgres) -> None:
    postgres.sql("create database counted")
    with psycopg.connect(postgres.conninfo("counted")) as db:

        def commit(row: Row) -> None:
            last = PostgresLast(db)
            last.check()
            last.begin(XID)
            last.record(row)

        check_rows(PostgresAgent(postgres.conninfo("counted")), commit)
    found = postgres.sql(f"select number from {TABLE} where manager = '{MANAGER}'", "counted")
    assert sorted(number for (number,) in found) == [2, 5, 5, 6, 7]
