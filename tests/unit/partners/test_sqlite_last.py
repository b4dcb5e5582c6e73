"""SQLite as the last agent: connections, errors, and what recovery hears."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import onceq
import onceq.aio
from onceq.errors import (
    DatabaseRestored,
    EnlistRefused,
    InDoubt,
    PartnerLost,
    PartnerRefused,
    RolledBack,
    SendFailed,
)
from onceq.model.branches import xid_by_row
from onceq.partners.contract import Row
from onceq.partners.sqlite import SqliteAgent, SqliteLast
from tests.unit.partners.agents import MANAGER, check_rows

Q = r"private$\q"
XID = xid_by_row(b"G" * 16, 1, "x")
ROW = Row("0" * 32, 5, "1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "a b.db"
    with closing(sqlite3.connect(made)) as db:
        db.execute("CREATE TABLE t (x text UNIQUE)")
    return made


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, timeout=0)) as made:
        yield made


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[onceq.QueueManager]:
    with onceq.open(str(tmp_path / "qm"), create=True) as made:
        made.create_queue(Q, transactional=True)
        yield made


def kept(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [text for (text,) in db.execute("SELECT x FROM t ORDER BY x")]


def begun(db: sqlite3.Connection) -> SqliteLast:
    last = SqliteLast(db)
    last.check()
    last.begin(XID)
    db.execute("INSERT INTO t VALUES ('a')")
    return last


def test_a_message_and_a_row_are_committed_together(
    manager: onceq.QueueManager, db: sqlite3.Connection, path: Path
) -> None:
    db.row_factory = sqlite3.Row
    for text in ("a", "b"):
        with manager.transaction() as tx:
            assert tx.enlist(db) is db
            db.execute("INSERT INTO t VALUES (?)", (text,))
            tx.send_many(Q, [text, text])
        assert tx.sent is not None
        sent = [str(id) for id in tx.sent]
        found = list(manager.receive_many(Q, 5, timeout=5))
        assert [str(message.id) for message in found] == sent
        assert tx.pending == []
    assert kept(path) == ["a", "b"]
    assert manager.admin.branches() == []


def test_messages_that_leave_the_manager_have_identifiers_too(
    manager: onceq.QueueManager, db: sqlite3.Connection
) -> None:
    with manager.transaction() as tx:
        tx.enlist(db)
        tx.send(r"DIRECT=OS:elsewhere\private$\q", "a")
    assert tx.sent is not None
    assert len(tx.sent) == 1


def test_nothing_happens_in_either(
    manager: onceq.QueueManager, db: sqlite3.Connection, path: Path
) -> None:
    with pytest.raises(KeyError), manager.transaction() as tx:
        tx.enlist(db)
        db.execute("INSERT INTO t VALUES ('a')")
        tx.send(Q, "a")
        raise KeyError
    assert not db.in_transaction
    manager.set_queue(Q, quota_kb=1)
    with pytest.raises(SendFailed), manager.transaction() as tx:
        tx.enlist(db)
        db.execute("INSERT INTO t VALUES ('a')")
        tx.send(Q, b"x" * 5_000)
    assert not db.in_transaction
    assert (kept(path), manager.queue(Q).messages) == ([], 0)


def test_a_transaction_that_only_the_database_has_work_in(
    manager: onceq.QueueManager, db: sqlite3.Connection, path: Path
) -> None:
    with manager.transaction() as tx:
        tx.enlist(db)
        db.execute("INSERT INTO t VALUES ('a')")
    assert kept(path) == ["a"]
    assert db.execute("SELECT count(*) FROM onceq_decisions").fetchone() == (0,)


def test_a_refused_row_undoes_the_messages(
    manager: onceq.QueueManager, db: sqlite3.Connection, path: Path
) -> None:
    db.execute("CREATE TABLE u (x REFERENCES t (x) DEFERRABLE INITIALLY DEFERRED)")
    db.commit()
    db.execute("PRAGMA foreign_keys = ON")
    with pytest.raises(RolledBack, match="FOREIGN KEY"), manager.transaction() as tx:
        tx.enlist(db)
        db.execute("INSERT INTO u VALUES ('nothing')")
        tx.send(Q, "a")
    assert not db.in_transaction
    with pytest.raises(RolledBack, match="ended by a statement"), manager.transaction() as tx:
        tx.enlist(db)
        db.execute("INSERT INTO t VALUES ('a')")
        db.rollback()
        tx.send(Q, "a")
    assert (kept(path), manager.queue(Q).messages, manager.admin.branches()) == ([], 0, [])


@pytest.mark.parametrize("messages", [0, 1])
def test_a_statement_that_begins_another_transaction_is_noticed(
    manager: onceq.QueueManager, db: sqlite3.Connection, path: Path, messages: int
) -> None:
    """Finding K15: the driver begins one by itself, and it was taken for the same."""
    with pytest.raises(RolledBack, match="ended by a statement"), manager.transaction() as tx:
        tx.enlist(db)
        db.rollback()
        db.execute("INSERT INTO t VALUES ('another')")
        if messages:
            tx.send(Q, "a")
    assert not db.in_transaction
    assert (kept(path), manager.queue(Q).messages, manager.admin.branches()) == ([], 0, [])


def test_a_connection_that_was_closed_has_committed_nothing(
    manager: onceq.QueueManager, db: sqlite3.Connection, path: Path
) -> None:
    """Finding K15: it was called in doubt, although nothing was asked."""
    with pytest.raises(RolledBack, match="closed before the commit"), manager.transaction() as tx:
        tx.enlist(db)
        db.execute("INSERT INTO t VALUES ('closed')")
        tx.send(Q, "a")
        db.close()
    assert (kept(path), manager.queue(Q).messages, manager.admin.branches()) == ([], 0, [])


def test_an_answer_that_is_lost_leaves_it_to_recovery(
    manager: onceq.QueueManager, db: sqlite3.Connection, path: Path
) -> None:
    class Losing(SqliteLast):
        def record(self, row: Row) -> None:
            super().record(row)
            raise PartnerLost("no answer")

    manager._recovering.look_after_rows = lambda last: False  # type: ignore[method-assign]
    with pytest.raises(InDoubt, match="recovery will ask"), manager.transaction() as tx:
        tx.enlist(Losing(db))
        db.execute("INSERT INTO t VALUES ('a')")
        tx.send(Q, "a")
    (view,) = manager.admin.branches()
    assert (view.phase, view.at_work) == ("prepared", False)
    recovery = manager.recovery()
    recovery.add_agent(SqliteAgent(str(path)))
    assert [str(xid) for _, xid in recovery.step(0.0).committed] == [view.xid]
    recovery.close()
    assert manager.receive(Q, timeout=5).text == "a"


def test_tasks(tmp_path: Path, db: sqlite3.Connection, path: Path) -> None:
    async def work() -> None:
        async with await onceq.aio.open(str(tmp_path / "aio"), create=True) as qm:
            await qm.create_queue(Q, transactional=True)
            async with qm.transaction() as tx:
                await tx.enlist(db)
                db.execute("INSERT INTO t VALUES ('a')")
                await tx.send(Q, "a")
            assert (await qm.receive(Q, timeout=5)).text == "a"

    asyncio.run(work())
    assert kept(path) == ["a"]


def test_recovery_keeps_a_later_commit_out(db: sqlite3.Connection, path: Path) -> None:
    last = begun(db)
    db.rollback()
    agent = SqliteAgent(str(path), wait_s=0)
    assert agent.name == last.name
    assert agent.settle(ROW) is False
    last = begun(db)
    with pytest.raises(PartnerRefused, match="UNIQUE"):
        last.record(ROW)
    assert not db.in_transaction
    assert agent.settle(ROW) is False
    agent.close()
    assert kept(path) == []


def test_recovery_waits_for_a_commit_that_is_under_way(db: sqlite3.Connection, path: Path) -> None:
    last = begun(db)
    agent = SqliteAgent(str(path), wait_s=0)
    with pytest.raises(PartnerLost, match="locked"):
        agent.settle(ROW)
    last.record(ROW)
    assert agent.settle(ROW) is True
    assert agent.settle(ROW) is True
    agent.close()


def test_a_reader_keeps_it_from_committing(db: sqlite3.Connection, path: Path) -> None:
    last = begun(db)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM t").fetchall()
        with pytest.raises(PartnerRefused, match="locked"):
            last.record(ROW)
        assert not db.in_transaction
    assert kept(path) == []


def test_a_file_that_is_away_is_no_answer(tmp_path: Path) -> None:
    agent = SqliteAgent(str(tmp_path / "none.db"))
    with pytest.raises(PartnerLost, match="No such file"):
        agent.settle(ROW)
    assert not (tmp_path / "none.db").exists()


def test_what_cannot_decide(db: sqlite3.Connection, path: Path) -> None:
    db.execute("PRAGMA synchronous = NORMAL")
    with pytest.raises(EnlistRefused, match="synchronous = FULL"):
        SqliteLast(db).check()
    memory = closing(sqlite3.connect(":memory:"))
    with memory as one, pytest.raises(EnlistRefused, match="not in a file"):
        SqliteLast(one).check()
    db.execute("INSERT INTO t VALUES ('a')")
    with pytest.raises(PartnerRefused, match="in a transaction already"):
        SqliteLast(db).check()
    if sys.version_info >= (3, 12):
        always = closing(sqlite3.connect(path, autocommit=False))
        with always as one, pytest.raises(PartnerRefused, match="autocommit=False"):
            SqliteLast(one).check()


def test_a_connection_in_autocommit_mode_can(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        begun(db).record(ROW)
    assert kept(path) == ["a"]


def test_a_name_of_its_own(db: sqlite3.Connection) -> None:
    last = SqliteLast(db, name="till")
    last.check()
    assert (last.name, last.agent().name) == ("till", "till")


def test_a_broken_connection_is_a_loss(db: sqlite3.Connection) -> None:
    last = begun(db)
    db.close()
    with pytest.raises(PartnerLost):
        last.begin(XID)
    last.abandon()


def test_rows_are_counted_and_removed(db: sqlite3.Connection, path: Path) -> None:
    def commit(row: Row) -> None:
        last = begun(db)
        db.execute("DELETE FROM t")
        last.record(row)

    check_rows(SqliteAgent(str(path), wait_s=0), commit)
    found = db.execute("SELECT number FROM onceq_decisions WHERE manager = ?", (MANAGER,))
    assert [number for (number,) in found] == [2, 5, 5, 6, 7]


def test_a_file_that_was_replaced_is_a_lost_connection(db: sqlite3.Connection, path: Path) -> None:
    """What was open stays the old file: what is decided there, nobody hears."""
    agent = SqliteAgent(str(path), wait_s=0)
    manager = "0" * 32
    begun(db).record(Row(manager, 1, "1"))
    assert agent.count(manager, 0, 9, (), (), 0) == 1

    def replace() -> None:
        other = path.with_name("backup")
        with closing(sqlite3.connect(other)) as backup:
            backup.execute("CREATE TABLE t (x)")
        os.replace(other, path)

    replace()
    # SQLite itself notices that its file has gone when it writes, and not when it reads.
    with pytest.raises(PartnerLost, match="replaced by another one"):
        agent.count(manager, 0, 9, (), (), 0)
    assert agent.count(manager, 0, 9, (), (), 0) == 0
    replace()
    with pytest.raises(PartnerLost, match="replaced by another one"):
        agent.settle(Row(manager, 2, "1"))
    assert agent.settle(Row(manager, 2, "1")) is False
    agent.close()


def test_a_file_that_was_restored(
    manager: onceq.QueueManager, db: sqlite3.Connection, path: Path
) -> None:
    def work() -> None:
        with manager.transaction() as tx:
            tx.enlist(db)
            tx.send(Q, "a")

    manager._recovering.look_after_rows = lambda last: False  # type: ignore[method-assign]
    recovery = manager.recovery()
    recovery.add_agent(SqliteAgent(str(path)))
    for _ in range(3):
        work()
    assert recovery.step(0.0).clean
    rows = db.execute("SELECT * FROM onceq_decisions").fetchall()
    assert [what for *_, what in rows] == ["noted", "committed"]
    work()
    db.execute("DELETE FROM onceq_decisions")
    db.executemany("INSERT INTO onceq_decisions VALUES (?, ?, ?, ?)", rows)
    db.commit()
    work()
    (failed,) = recovery.step(0.0).failed.values()
    assert failed.startswith("DatabaseRestored: ")
    with pytest.raises(DatabaseRestored):
        work()
    recovery.close()
