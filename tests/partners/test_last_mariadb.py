"""MariaDB as the last agent: what its connections do, and what recovery hears."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mariadb as connector
import pymysql
import pytest

import onceq
from onceq.errors import EnlistRefused, InDoubt, PartnerLost, PartnerRefused, RolledBack
from onceq.model.branches import xid_by_row
from onceq.partners.contract import TABLE, Row
from onceq.partners.finding import place_for
from onceq.partners.mariadb import DIALECT, MariadbAgent, MariadbLast
from onceq.partners.shares import cut
from tests.partners.benches import deadlock
from tests.scratch import scratch
from tests.servers import MariaDB
from tests.unit.partners.agents import MANAGER, check_rows

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
Q = r"private$\q"
XID = xid_by_row(b"G" * 16, 1, "x")


@pytest.fixture
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[onceq.QueueManager]:
    with (
        scratch(tmp_path_factory, "lm") as folder,
        onceq.open(str(Path(folder) / "e"), name="LASTMARIA", create=True) as made,
    ):
        made.create_queue(Q, transactional=True)
        yield made


Connect = Callable[..., Any]


@pytest.fixture(params=["pymysql", "mariadb"])
def connect(request: pytest.FixtureRequest, mariadb: MariaDB) -> Connect:
    """Connects through each driver."""
    driver = pymysql if request.param == "pymysql" else connector

    def made(database: str = "test", **given: Any) -> Any:
        return driver.connect(**mariadb.arguments(database), **given)

    return made


def execute(connection: Any, statement: str) -> None:
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(statement)


def kept(mariadb: MariaDB, key: str) -> bool:
    return bool(mariadb.sql(f"select k from kept where k = '{key}'"))


def begun(connection: Any, key: str) -> MariadbLast:
    last = MariadbLast(connection)
    last.check()
    last.begin(XID)
    execute(connection, f"insert into kept values ('{key}')")
    return last


@pytest.fixture
def agent(mariadb: MariaDB) -> Iterator[MariadbAgent]:
    made = MariadbAgent(lambda: pymysql.connect(**mariadb.arguments()), "test", lock_s=0)
    yield made
    made.close()


@pytest.mark.parametrize("autocommit", [False, True])
def test_a_message_and_a_row_are_committed_together(
    manager: onceq.QueueManager, mariadb: MariaDB, connect: Connect, autocommit: bool
) -> None:
    with contextlib.closing(connect(autocommit=autocommit)) as db:
        for key in ("together", "again"):
            key = f"{key} {autocommit} {type(db).__module__}"
            with manager.transaction() as tx:
                assert tx.enlist(MariadbLast(db)) is db
                execute(db, f"insert into kept values ('{key}')")
                tx.send(Q, key)
            assert manager.receive(Q, timeout=5).text == key
            assert kept(mariadb, key)
        with pytest.raises(KeyError), manager.transaction() as tx:
            tx.enlist(MariadbLast(db))
            execute(db, "insert into kept values ('undone')")
            tx.send(Q, "undone")
            raise KeyError
    assert not kept(mariadb, "undone")
    assert manager.queue(Q).messages == 0


def test_only_the_database_has_work(
    manager: onceq.QueueManager, mariadb: MariaDB, connect: Connect
) -> None:
    with contextlib.closing(connect()) as db:
        before = mariadb.sql(f"select count(*) from {TABLE}")
        with manager.transaction() as tx:
            tx.enlist(MariadbLast(db))
            execute(db, f"insert into kept values ('alone {type(db).__module__}')")
    assert kept(mariadb, f"alone {type(db).__module__}")
    assert mariadb.sql(f"select count(*) from {TABLE}") == before


def test_the_application_is_at_another_database_when_it_commits(
    manager: onceq.QueueManager, mariadb: MariaDB
) -> None:
    mariadb.sql("create database if not exists `o``ther`")
    with pymysql.connect(**mariadb.arguments("o`ther")) as db:
        with manager.transaction() as tx:
            tx.enlist(MariadbLast(db))
            db.select_db("test")
            tx.send(Q, "other")
        assert len(mariadb.sql(f"select * from {TABLE}", "o`ther")) == 1
        first, second = MariadbLast(db), MariadbLast(db)
        first.check()
        db.select_db("o`ther")
        second.check()
        assert first.name.endswith("/test")
        assert second.name.endswith("/o`ther")
        agent = second.agent()
        assert agent is not None
        assert agent.name == second.name
        assert agent.settle(Row("c" * 32, 1, "1")) is False
        assert mariadb.sql(f"select id from {TABLE} where manager = '{'c' * 32}'", "o`ther")
        agent.close()


@pytest.mark.parametrize(
    "statement", ["commit", "rollback", "create table if not exists made (x int)"]
)
def test_a_statement_that_ends_the_transaction_is_noticed(
    manager: onceq.QueueManager, mariadb: MariaDB, connect: Connect, statement: str
) -> None:
    """What came after it would be taken for the same transaction."""
    with contextlib.closing(connect()) as db:
        for messages in (0, 1):
            ended = pytest.raises(RolledBack, match="ended by a statement")
            with ended, manager.transaction() as tx:
                tx.enlist(MariadbLast(db))
                execute(db, statement)
                execute(db, "insert into kept values ('ended')")
                if messages:
                    tx.send(Q, "ended")
            execute(db, "rollback")
    assert not kept(mariadb, "ended")
    assert manager.queue(Q).messages == 0
    assert manager.admin.branches() == []


def test_a_connection_that_was_closed_has_committed_nothing(
    manager: onceq.QueueManager, mariadb: MariaDB, connect: Connect
) -> None:
    """Finding K15: it was called in doubt, although nothing was asked."""
    db = connect()
    with pytest.raises(RolledBack, match="closed before the commit"), manager.transaction() as tx:
        tx.enlist(MariadbLast(db))
        execute(db, "insert into kept values ('closed')")
        tx.send(Q, "closed")
        db.close()
    assert not kept(mariadb, "closed")
    assert (manager.queue(Q).messages, manager.admin.branches()) == (0, [])


def test_a_deadlock_undoes_all(
    manager: onceq.QueueManager, mariadb: MariaDB, connect: Connect
) -> None:
    db = connect()
    with pytest.raises(RolledBack, match="deadlock"), manager.transaction() as tx:
        tx.enlist(MariadbLast(db))
        with contextlib.suppress(pymysql.err.Error, connector.Error):
            other = pymysql.connect(**mariadb.arguments())
            deadlock(other, lambda statement: execute(db, statement))
        tx.send(Q, "deadlock")
    db.close()
    assert manager.queue(Q).messages == 0


def test_once_aborted_a_commit_that_comes_later_fails_on_the_key(
    mariadb: MariaDB, connect: Connect, agent: MariadbAgent
) -> None:
    row = Row("a" * 32, 1 if connect().__class__.__module__.startswith("pymysql") else 2, "7")
    with contextlib.closing(connect()) as db:
        last = begun(db, "late")
        assert agent.name == last.name
        assert agent.settle(row) is False
        with pytest.raises(PartnerRefused, match="Duplicate"):
            last.record(row)
        assert agent.settle(row) is False
        execute(db, "insert into kept values ('late')")
        execute(db, "rollback")
    assert not kept(mariadb, "late")


@pytest.mark.parametrize("level", ["READ UNCOMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_recovery_waits_for_a_commit_that_is_under_way(
    mariadb: MariaDB, connect: Connect, agent: MariadbAgent, level: str
) -> None:
    """Whatever isolation the application and the server have."""
    mariadb.sql(f"set global transaction isolation level {level}")
    row = Row("b" * 32, 1, f"{level} {connect().__class__.__module__}"[:30].replace(" ", "_"))
    try:
        with contextlib.closing(connect()) as db:
            last = begun(db, "slow")
            execute(db, f"insert into {TABLE} values ('{row.manager}', 1, '{row.id}', 'committed')")
            before = agent.count(row.manager, 0, 9, (), (), 0)
            for _ in range(2):
                with pytest.raises(PartnerLost, match="Lock wait"):
                    agent.settle(row)
            last.rollback(XID)
            last = begun(db, "slow")
            last.record(row)
            assert agent.settle(row) is True
            assert agent.settle(row) is True
            assert agent.count(row.manager, 0, 9, (), (), 0) == before + 1
            execute(db, "delete from kept where k = 'slow'")
            db.commit()
    finally:
        mariadb.sql("set global transaction isolation level REPEATABLE READ")


def test_rows_are_counted_and_removed(mariadb: MariaDB, connect: Connect) -> None:
    name = f"counted_{connect().__class__.__module__.partition('.')[0]}"
    mariadb.sql(f"create database {name}")
    agent = MariadbAgent(connect, name)
    assert agent.count(MANAGER, 0, 9, (), (), 0) == 0, "there is no table yet"
    assert agent.count(MANAGER, 0, 9, (), (), 4) == -1
    with contextlib.closing(connect(name)) as db:

        def commit(row: Row) -> None:
            last = MariadbLast(db)
            last.check()
            last.begin(XID)
            last.record(row)

        MariadbLast(db).check()
        check_rows(agent, commit)
    found = mariadb.sql(f"select number from {TABLE} where manager = '{MANAGER}'", name)
    assert sorted(number for (number,) in found) == [2, 5, 5, 6, 7]


def test_a_lost_connection_is_told_before_another_is_used(agent: MariadbAgent) -> None:
    """The database may have been set back in between."""
    agent.note(MANAGER, 77)
    assert agent.count(MANAGER, 77, 77, (), (), 77) == 0
    cut(agent._connection._sock.fileno())
    with pytest.raises(PartnerLost):
        agent.count(MANAGER, 77, 77, (), (), 77)
    assert agent.count(MANAGER, 77, 77, (), (), 77) == 0


def test_an_answer_that_is_lost_leaves_it_to_recovery(
    manager: onceq.QueueManager, mariadb: MariaDB, connect: Connect
) -> None:
    class Losing(MariadbLast):
        def record(self, row: Row) -> None:
            super().record(row)
            raise PartnerLost("no answer")

    manager._recovering.look_after_rows = lambda last: False  # type: ignore[method-assign]
    with contextlib.closing(connect()) as db:
        losing = Losing(db)
        with pytest.raises(InDoubt, match="recovery will ask"), manager.transaction() as tx:
            tx.enlist(losing)
            tx.send(Q, "a")
        agent = losing.agent()
    assert agent is not None
    recovery = manager.recovery()
    recovery.add_agent(agent)
    assert len(recovery.step(0.0).committed) == 1
    recovery.close()
    assert manager.receive(Q, timeout=5).text == "a"


def test_the_address_of_a_database_gives_both_sides(mariadb: MariaDB) -> None:
    where = f"mariadb://onceq@127.0.0.1:{mariadb.port}"
    assert place_for(where).agent is None, "rows are in a database"
    place = place_for(f"{where}/test")
    assert place.agent is not None
    with pymysql.connect(**mariadb.arguments()) as db:
        last = MariadbLast(db)
        last.check()
        assert place.agent.name == last.name
    place.agent.close()


def test_the_sample_of_the_page(mariadb: MariaDB, tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/databases.md").read_text()
    (sample,) = re.findall(r"```python no-run\n(# needs a MariaDB .*?)```", page, re.S)
    given = 'user="shop"'
    assert given in sample
    sample = sample.replace(given, f'user="onceq", port={mariadb.port}')
    mariadb.sql("create database shop")
    mariadb.sql("create table orders (text text)", "shop")
    with onceq.open(str(tmp_path / "shop"), create=True) as qm:
        qm.create_queue(r"private$\stock", transactional=True)
    subprocess.run(
        [sys.executable, "-c", f"import onceq\n{sample}"], cwd=tmp_path, check=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert mariadb.sql("select text from orders", "shop") == [("a medlar",)]
    with onceq.open(str(tmp_path / "shop")) as qm:
        assert qm.receive(r"private$\stock", timeout=5).text == "a medlar"


def test_a_user_who_may_make_no_table_is_told_what_to_make(mariadb: MariaDB) -> None:
    mariadb.sql("create database bare")
    mariadb.sql("create user guest@'%' identified by ''")
    mariadb.sql("grant select on bare.* to guest@'%'")
    given = {**mariadb.arguments("bare"), "user": "guest"}
    with pymysql.connect(**given) as db:
        with pytest.raises(EnlistRefused, match=f"CREATE TABLE IF NOT EXISTS {TABLE}"):
            MariadbLast(db).check()
        db.begin()
    mariadb.sql(DIALECT.make_table.replace("InnoDB", "MyISAM"), "bare")
    with pymysql.connect(**given) as db, pytest.raises(EnlistRefused, match="ENGINE=InnoDB"):
        MariadbLast(db).check()


def test_what_cannot_decide(mariadb: MariaDB) -> None:
    nowhere = pymysql.connect(**{**mariadb.arguments(), "database": None})
    with nowhere as db, pytest.raises(EnlistRefused, match="no database"):
        MariadbLast(db).check()
    with pymysql.connect(**mariadb.arguments()) as db:
        db.begin()
        execute(db, "insert into kept values ('busy')")
        with pytest.raises(PartnerRefused, match="in a transaction already"):
            MariadbLast(db).check()
        db.rollback()
    mariadb.sql("set global innodb_flush_log_at_trx_commit = 2")
    try:
        expected = pytest.raises(EnlistRefused, match="innodb_flush_log_at_trx_commit is 2")
        with pymysql.connect(**mariadb.arguments()) as db, expected:
            MariadbLast(db).check()
    finally:
        mariadb.sql("set global innodb_flush_log_at_trx_commit = 1")
