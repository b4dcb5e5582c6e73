"""Loops with a real PostgreSQL: what it refuses counts against no message (finding K2)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import onceq
from onceq import aio
from onceq.errors import TwoPhaseForbidden
from onceq.partners.contract import TABLE
from onceq.partners.postgresql import PostgresLast
from tests.servers import Postgres, postgres

pytestmark = pytest.mark.slow

Q = r"private$\orders"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """PostgreSQL as it comes."""
    with postgres(prepared=0) as running:
        yield running


def filled(path: Path, count: int = 5) -> onceq.QueueManager:
    qm = onceq.open(path, name="ALPHA", create=True)
    qm.create_queue(Q, transactional=True)
    qm.set_poison_policy(Q, attempts=3, then="dead-letter")
    qm.send_many(Q, [str(n) for n in range(count)])
    return qm


def sell(tx: Any, message: Any, db: Any) -> None: ...


def counts(qm: Any) -> list[tuple[str, int]]:
    return [(m.text, m.abort_count) for m in qm.peek_many(Q)]


@pytest.mark.parametrize("options", [{}, {"concurrency": 3}, {"batch": 2}], ids=str)
def test_no_message_dies_where_nothing_can_be_promised(
    server: Postgres, tmp_path: Path, options: dict[str, Any]
) -> None:
    calls: list[Any] = []
    with filled(tmp_path / "a") as qm:
        with pytest.raises(TwoPhaseForbidden, match="max_prepared_transactions"):
            qm.consume(
                Q, lambda tx, found, db: calls.append(found), timeout=0.0,
                database=lambda: psycopg.connect(server.conninfo()), **options,
            )  # fmt: skip
        assert counts(qm) == [(str(n), 0) for n in range(5)]
    assert calls == []


def test_nor_in_tasks(server: Postgres, tmp_path: Path) -> None:
    filled(tmp_path / "a").close()

    async def handle(tx: Any, message: Any, db: Any) -> None:
        raise AssertionError

    async def connect() -> Any:
        return await psycopg.AsyncConnection.connect(server.conninfo())

    async def main() -> list[tuple[str, int]]:
        async with await aio.open(tmp_path / "a") as qm:
            with pytest.raises(TwoPhaseForbidden):
                await qm.consume(Q, handle, database=connect, timeout=0.0)
            return [(m.text, m.abort_count) for m in await qm.peek_many(Q)]

    assert asyncio.run(main()) == [(str(n), 0) for n in range(5)]


def test_several_workers_make_the_table_of_decisions_at_once(
    server: Postgres, tmp_path: Path
) -> None:
    """PostgreSQL tells one of two that the name is taken, whatever IF NOT EXISTS says."""
    workers = 8
    for turn in range(5):
        with psycopg.connect(server.conninfo(), autocommit=True) as db:
            db.execute(f"DROP TABLE IF EXISTS {TABLE}")
        begin = threading.Barrier(workers)

        def connect(begin: threading.Barrier = begin) -> Any:
            made = psycopg.connect(server.conninfo())
            begin.wait(30.0)
            return PostgresLast(made)

        with filled(tmp_path / str(turn), 20) as qm:
            handled = qm.consume(
                Q, sell, timeout=0.0, concurrency=workers, database=connect
            )  # fmt: skip
            assert handled == 20
            assert not qm.queue(Q).messages
