"""A database fails over to a standby, synchronous or asynchronous (finding O1, I21).

What the standby lacks was committed, and messages were sent for it. Nobody may take the same rows
again without a word: the first transaction on a new connection says so, in each process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import onceq
import onceq.aio
from onceq.client.recovering import ManagerDecider
from onceq.errors import DatabaseRestored, InDoubt
from onceq.model.requests.xa import ROWS_ACCEPTED
from onceq.partners.contract import Row
from onceq.partners.postgresql import AsyncPostgresLast, PostgresLast
from tests.daemon.applications import Daemon
from tests.partners.pair import Pair
from tests.partners.waiting import until
from tests.programs import PUBLIC, NoServer
from tests.scratch import scratch

pytestmark = pytest.mark.slow
Q = r"private$\q"


def _pair(*, synchronous: bool) -> Iterator[Pair]:
    """A primary with its standby, or no test where there is no PostgreSQL."""
    try:
        pair = Pair(PUBLIC, synchronous=synchronous)
    except NoServer as error:
        pytest.skip(f"not run against PostgreSQL: {error}")
    with pair:
        yield pair


@pytest.fixture
def asynchronous() -> Iterator[Pair]:
    yield from _pair(synchronous=False)


@pytest.fixture
def synchronous() -> Iterator[Pair]:
    yield from _pair(synchronous=True)


@pytest.fixture
def qm(tmp_path: Path) -> Iterator[onceq.QueueManager]:
    with onceq.open(tmp_path / "m", create=True) as manager:
        manager.create_queue(Q, transactional=True)
        yield manager


def fill(pair: Pair, count: int) -> None:
    pair.primary.sql("CREATE TABLE jobs (id int PRIMARY KEY)")
    pair.primary.sql(f"INSERT INTO jobs SELECT generate_series(1, {count})")


TAKE = "DELETE FROM jobs WHERE id = (SELECT min(id) FROM jobs) RETURNING id"


def take(qm: onceq.QueueManager, db: psycopg.Connection[Any], count: int) -> None:
    """Take rows off the table, and send a message for each."""
    for _ in range(count):
        with qm.transaction() as tx:
            tx.enlist(PostgresLast(db))
            row = db.execute(TAKE).fetchone()
            assert row is not None
            tx.send(Q, str(row[0]))


def sent(qm: onceq.QueueManager) -> list[str]:
    return [message.text for message in qm.peek_many(Q, 100)]


def connected(pair: Pair) -> psycopg.Connection[Any]:
    return psycopg.connect(pair.conninfo)


def test_what_a_standby_lacks_is_told_before_it_is_sent_again(
    asynchronous: Pair, qm: onceq.QueueManager
) -> None:
    pair = asynchronous
    fill(pair, 10)
    with connected(pair) as db:
        take(qm, db, 5)
        pair.catch_up()
        pair.standby.crash()
        take(qm, db, 5)
    pair.fail_over()
    ten = [str(number) for number in range(1, 11)]
    for _ in range(2):
        with connected(pair) as db, pytest.raises(DatabaseRestored, match="set back"):
            take(qm, db, 1)
    assert sent(qm) == ten, "nothing was sent twice"

    with connected(pair) as db:
        last = PostgresLast(db)
        last.check()
        ManagerDecider(qm).rows(last.name, ROWS_ACCEPTED)
        take(qm, db, 5)
    assert sent(qm) == ten + ten[5:], "an operator has accepted it"


def test_tasks_are_told_as_well(asynchronous: Pair, tmp_path: Path) -> None:
    pair = asynchronous
    fill(pair, 4)

    async def take_one(manager: onceq.aio.AsyncQueueManager) -> None:
        connection = await psycopg.AsyncConnection.connect(pair.conninfo)
        async with connection as db, manager.transaction() as tx:
            await tx.enlist(AsyncPostgresLast(db))
            row = await (await db.execute(TAKE)).fetchone()
            assert row is not None
            await tx.send(Q, str(row[0]))

    async def work() -> None:
        async with await onceq.aio.open(tmp_path / "m", create=True) as manager:
            await manager.create_queue(Q, transactional=True)
            await take_one(manager)
            pair.catch_up()
            pair.standby.crash()
            await take_one(manager)
            pair.fail_over()
            with pytest.raises(DatabaseRestored, match="set back"):
                await take_one(manager)

    asyncio.run(work())


def test_nothing_is_lost_to_a_synchronous_standby(
    synchronous: Pair, qm: onceq.QueueManager
) -> None:
    """What was prepared when the primary died is settled at the address of the next connection."""
    pair = synchronous
    fill(pair, 6)
    with connected(pair) as db:
        take(qm, db, 2)
        with pytest.raises(InDoubt), qm.transaction() as tx:
            last = PostgresLast(db)
            tx.enlist(Dying(last, pair))
            db.execute(TAKE)
            tx.send(Q, "in doubt")
    assert [branch.phase for branch in qm.admin.branches()] == ["prepared"]
    with connected(pair) as db:
        take(qm, db, 3)
        until(lambda: not qm.admin.branches())
    assert sent(qm) == ["1", "2", "3", "4", "5"], "its row was lost with its server, and it with it"


class Dying:
    """A last agent whose server dies when it is to commit."""

    def __init__(self, last: PostgresLast, pair: Pair) -> None:
        self._last, self._pair = last, pair

    def __getattr__(self, name: str) -> Any:
        return getattr(self._last, name)

    def record(self, row: Row) -> None:
        self._pair.fail_over()
        self._last.record(row)


def test_a_daemon_that_knows_the_database_says_that_it_was_set_back(
    asynchronous: Pair, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Behind "gives no answer", which it says first."""
    pair = asynchronous
    fill(pair, 4)
    with scratch(tmp_path_factory, "failover") as folder:
        (folder / "m").mkdir()
        (folder / "m" / "onceq.toml").write_text(f'databases = ["{pair.conninfo}"]\n')
        daemon = Daemon(folder / "m", name="HOME")
        daemon.start()
        with onceq.connect(daemon.where) as qm, connected(pair) as db:
            qm.create_queue(Q, transactional=True)
            take(qm, db, 1)
            pair.catch_up()
            pair.standby.crash()
            take(qm, db, 1)
        pair.fail_over()
        log = folder / "m.log"
        until(lambda: "DatabaseRestored" in log.read_text())
        again = onceq.connect(daemon.where)
        with again as qm, connected(pair) as db, pytest.raises(DatabaseRestored):
            take(qm, db, 1)
        daemon.kill()
