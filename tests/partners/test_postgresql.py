"""PostgreSQL as a partner: what it promises, and what it says when something is wrong."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import onceq
from onceq import aio
from onceq.errors import (
    EnlistRefused,
    NoCoordinator,
    PartnerLost,
    ReceiveTimeout,
    RolledBack,
    TwoPhaseForbidden,
)
from onceq.model.branches import ONCEQ_FORMAT, make_gtrid
from onceq.model.identity import guid_bytes
from onceq.partners.postgresql import PostgresResource
from tests.servers import Postgres, postgres

pytestmark = pytest.mark.slow
Q = r"private$\q"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as made:
        for database in ("one", "two"):
            made.execute("CREATE TABLE t (x int UNIQUE DEFERRABLE INITIALLY DEFERRED)", database)
        yield made


@pytest.fixture
def qm(tmp_path: Path) -> Iterator[onceq.QueueManager]:
    with onceq.open(str(tmp_path / "a"), create=True) as made:
        made.create_queue(Q, transactional=True)
        yield made


@pytest.fixture
def db(server: Postgres) -> Iterator[psycopg.Connection]:
    for database in ("one", "two"):
        server.execute("TRUNCATE t", database)
    with psycopg.connect(server.where()) as made:
        yield made
    assert server.prepared_ids() == []


def rows(server: Postgres, database: str = "one") -> list[object]:
    return [x for (x,) in server.execute("SELECT x FROM t ORDER BY x", database)]


def bodies(qm: onceq.QueueManager) -> list[str]:
    try:
        return [m.text for m in qm.peek_many(Q)]
    except ReceiveTimeout:
        return []


def test_both_or_neither(server: Postgres, qm: onceq.QueueManager, db: psycopg.Connection) -> None:
    with qm.transaction() as tx:
        assert tx.enlist(db) is db
        db.execute("INSERT INTO t VALUES (1)")
        tx.send(Q, "1")
    assert tx.pending == []
    assert tx.sent is not None
    with pytest.raises(KeyError), qm.transaction() as tx:
        tx.enlist(db)
        db.execute("INSERT INTO t VALUES (2)")
        tx.send(Q, "2")
        raise KeyError
    with qm.transaction() as tx:
        tx.enlist(db)
        tx.send(Q, "3")
        tx.abort()
    assert rows(server) == [1]
    assert bodies(qm) == ["1"]
    assert (qm.admin.decisions(), qm.admin.branches()) == ([], [])


def test_what_cannot_be_prepared_is_undone_everywhere(
    server: Postgres, qm: onceq.QueueManager, db: psycopg.Connection
) -> None:
    """A constraint that is checked at the end, and a statement that has failed."""
    for statement in ("INSERT INTO t VALUES (1), (1)", "SELECT 1/0"):
        with pytest.raises(RolledBack) as told, qm.transaction() as tx:
            tx.enlist(db)
            try:
                db.execute(statement)
            except psycopg.Error:
                assert "/0" in statement
            tx.send(Q, "no")
        assert told.value.__cause__ is not None
        assert rows(server) == bodies(qm) == []
    with qm.transaction() as tx:  # the connection is of use again
        tx.enlist(db)
        db.execute("INSERT INTO t VALUES (5)")
    assert rows(server) == [5]


def test_what_the_queue_manager_refuses_is_undone_in_the_database(
    server: Postgres, qm: onceq.QueueManager, db: psycopg.Connection
) -> None:
    qm.create_queue(r"private$\small", transactional=True, quota_kb=1)
    tx = qm.transaction()
    tx.enlist(db)
    db.execute("INSERT INTO t VALUES (1)")
    tx.send(r"private$\small", b"x" * 5000)
    with pytest.raises(onceq.OnceqError, match="quota"):
        tx.commit()
    assert rows(server) == []
    assert qm.admin.decisions() == []


def test_two_databases_and_another_manager(
    server: Postgres, qm: onceq.QueueManager, db: psycopg.Connection, tmp_path: Path
) -> None:
    with (
        onceq.open(str(tmp_path / "b"), create=True) as other,
        psycopg.connect(server.where("two")) as second,
    ):
        other.create_queue(Q, transactional=True)
        other.send(Q, "taken", transactional=True)
        for value in (1, 2):
            with qm.transaction() as tx:
                there = tx.enlist(other)
                tx.enlist(db)
                tx.enlist(second)
                db.execute("INSERT INTO t VALUES (%s)", (value,))
                second.execute("INSERT INTO t VALUES (%s)", (value,))
                if value == 1:
                    assert there.receive(Q, timeout=0).text == "taken"
                there.send(Q, f"{value}")
                tx.send(Q, f"{value}")
        with pytest.raises(RolledBack), qm.transaction() as tx:
            there = tx.enlist(other)
            tx.enlist(second)
            there.send(Q, "no")
            second.execute("INSERT INTO t VALUES (7), (7)")
            tx.send(Q, "no")
        assert rows(server) == rows(server, "two") == [1, 2]
        assert bodies(qm) == bodies(other) == ["1", "2"]
        assert (qm.admin.decisions(), other.admin.branches()) == ([], [])


def test_only_the_database_has_work(
    server: Postgres, qm: onceq.QueueManager, db: psycopg.Connection
) -> None:
    before = qm.admin.status()["log_position"]
    with qm.transaction() as tx:
        tx.enlist(db)
        db.execute("INSERT INTO t VALUES (1)")
    assert rows(server) == [1]
    assert qm.admin.status()["log_position"] == before, (
        "in one phase, with nothing to be written here"
    )


def test_two_phase_commit_is_forbidden(qm: onceq.QueueManager) -> None:
    with (
        postgres(prepared=0) as server,
        psycopg.connect(server.where()) as db,
    ):
        tx = qm.transaction()
        for _ in range(2):
            with pytest.raises(TwoPhaseForbidden, match="max_prepared_transactions = 100"):
                tx.enlist(db)
        assert db.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_connections_that_cannot_be_enlisted(
    server: Postgres, qm: onceq.QueueManager, db: psycopg.Connection
) -> None:
    db.execute("SELECT 1")
    tx = qm.transaction()
    with pytest.raises(EnlistRefused, match="before its first statement"):
        tx.enlist(db)
    db.rollback()
    db.autocommit = True
    with pytest.raises(EnlistRefused, match="autocommit"):
        tx.enlist(db)
    db.autocommit = False
    with pytest.raises(EnlistRefused, match="that manager's own"):
        tx.enlist(qm)
    with psycopg.connect(server.where()) as closed:
        pass
    with pytest.raises(PartnerLost, match="closed"):
        tx.enlist(closed)
    tx.enlist(db)
    tx.commit()
    asyncio.run(_wrong_kind(server, qm))


async def _wrong_kind(server: Postgres, qm: onceq.QueueManager) -> None:
    async with await psycopg.AsyncConnection.connect(server.where()) as connection:
        with pytest.raises(EnlistRefused, match="belongs to async code"):
            qm.transaction().enlist(connection)


def test_a_manager_that_takes_no_part(
    server: Postgres, tmp_path: Path, db: psycopg.Connection
) -> None:
    settings = onceq.Settings(external_transactions=False)
    with onceq.open(str(tmp_path / "n"), settings=settings, create=True) as qm:
        tx = qm.transaction()
        with pytest.raises(NoCoordinator):
            tx.enlist(db)
        assert db.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_a_sweep_finds_orphans_and_leaves_others_alone(
    server: Postgres, qm: onceq.QueueManager, db: psycopg.Connection
) -> None:
    """Ours without a decision roll back; those of others, and of other tools, stay."""
    mine = make_gtrid(guid_bytes(qm.id), 1).decode()
    theirs = make_gtrid(b"O" * 16, 1).decode()
    for gtrid in (mine, theirs):
        db.tpc_begin(db.xid(ONCEQ_FORMAT, gtrid, "1"))
        db.execute("INSERT INTO t VALUES (%s)", (len(gtrid) + (gtrid == mine),))
        db.tpc_prepare()
        db.close()
        db = psycopg.connect(server.where())
    db.execute("BEGIN; INSERT INTO t VALUES (99); PREPARE TRANSACTION 'somebody else''s'")
    db.close()
    recovery = qm.recovery([PostgresResource(server.where())])
    report = recovery.step(0.0, dry_run=True)
    assert [xid.gtrid.decode() for _, xid in report.rolled_back] == [mine]
    assert len(server.prepared_ids()) == 3
    recovery.step(0.0)
    recovery.close()
    assert sorted(server.prepared_ids()) == sorted(
        [str(psycopg.Xid.from_parts(ONCEQ_FORMAT, theirs, "1")), "somebody else's"]
    )
    for gid in server.prepared_ids():
        server.execute("ROLLBACK PREPARED '" + gid.replace("'", "''") + "'")


def test_recovery_starts_by_itself(
    server: Postgres, qm: onceq.QueueManager, db: psycopg.Connection
) -> None:
    """What an earlier life has left prepared goes when the database is enlisted again."""
    mine = make_gtrid(guid_bytes(qm.id), 77).decode()
    with psycopg.connect(server.where()) as earlier:
        earlier.tpc_begin(earlier.xid(ONCEQ_FORMAT, mine, "1"))
        earlier.execute("INSERT INTO t VALUES (3)")
        earlier.tpc_prepare()
        earlier.close()
    assert server.prepared_ids()
    with qm.transaction() as tx:
        tx.enlist(db)
        # The row is free as soon as recovery has rolled the orphan back.
        db.execute("SET LOCAL lock_timeout = '20s'; INSERT INTO t VALUES (3)")
        tx.send(Q, "3")
    assert rows(server) == [3]


def test_for_tasks(server: Postgres, db: psycopg.Connection, tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            await aio.open(str(tmp_path / "t"), create=True) as qm,
            await aio.open(str(tmp_path / "u"), create=True) as other,
            await psycopg.AsyncConnection.connect(server.where()) as connection,
        ):
            await qm.create_queue(Q, transactional=True)
            await other.create_queue(Q, transactional=True)
            async with qm.transaction() as tx:
                await tx.enlist(connection)
                there = await tx.enlist(other)
                await connection.execute("INSERT INTO t VALUES (1)")
                await tx.send(Q, "1")
                await there.send(Q, "1")
            assert tx.pending == []
            with pytest.raises(RolledBack):
                async with qm.transaction() as tx:
                    there = await tx.enlist(other)
                    await tx.enlist(connection)
                    await connection.execute("INSERT INTO t VALUES (2), (2)")
                    await tx.send(Q, "2")
                    await there.send(Q, "2")
            with pytest.raises(KeyError):
                async with qm.transaction() as tx:
                    await tx.enlist(connection)
                    await connection.execute("INSERT INTO t VALUES (3)")
                    raise KeyError
            assert len(await qm.peek_many(Q)) == len(await other.peek_many(Q)) == 1
            assert (await qm.admin.decisions(), await other.admin.branches()) == ([], [])

    asyncio.run(work())
    assert rows(server) == [1]


def test_the_samples_of_the_page(server: Postgres, tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/databases.md").read_text()
    samples = re.findall(r"```python no-run\n(# needs a PostgreSQL .*?)```", page, re.S)
    assert len(samples) == 5
    server.execute("CREATE DATABASE shop", "postgres")
    server.execute("CREATE TABLE orders (text text)", "shop")
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(samples)], cwd=tmp_path, capture_output=True, text=True,
        timeout=60, check=False, env={
            **os.environ, "PYTHONPATH": str(ROOT / "src"), "PGHOST": "127.0.0.1",
            "PGPORT": str(server.port), "PGUSER": "onceq",
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[] [] {}\n"
    assert server.execute("SELECT text FROM orders", "shop") == [
        ("17 apples",),
        ("three pears",),
        ("12 quinces",),
        ("a plum",),
    ]
