"""A queue manager in the hands of a test: its time, its death, and what is there afterwards."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import onceq
from onceq.errors import ServiceNotAvailable, TransactionLost
from onceq.testing.managers import POINTS, Manager, MovableClock

Q = r"private$\q"
NOW = 0.0


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    with Manager(tmp_path / "m") as made:
        made.qm.create_queue(Q, transactional=True)
        yield made


def bodies(manager: Manager) -> list[bytes]:
    if not manager.qm.queue(Q)["messages"]:
        return []
    return manager.qm.peek_many(Q).bodies()


def test_it_is_the_product_and_takes_no_disk(manager: Manager, tmp_path: Path) -> None:
    manager.qm.send(Q, json={"n": 1}, transactional=True)
    assert manager.qm.receive(Q, timeout=NOW).json() == {"n": 1}
    assert sum(file.stat().st_size for file in tmp_path.rglob("*")) < 1 << 16


def test_time_is_put_forward_and_what_is_due_has_happened(manager: Manager) -> None:
    manager.qm.send(Q, b"x", transactional=True, time_to_be_received=3_600)
    manager.put_forward(3_590)
    assert bodies(manager) == [b"x"]
    manager.put_forward(20)
    assert bodies(manager) == []
    with pytest.raises(ValueError, match="not back"):
        manager.put_forward(-1)


def test_a_wait_ends_when_its_time_is_put_forward(manager: Manager) -> None:
    async def wait() -> None:
        async with await manager.connect() as qm:
            waiting = asyncio.create_task(qm.receive(Q, timeout=1_000_000.0))
            while not manager._host.engine.manager.waiting:
                await asyncio.sleep(0)
            await asyncio.to_thread(manager.put_forward, 1_000_001)
            with pytest.raises(onceq.ReceiveTimeout):
                await waiting

    asyncio.run(wait())


def test_after_a_crash_it_has_what_was_committed_and_nothing_else(manager: Manager) -> None:
    qm = manager.qm
    qm.send(Q, b"kept", transactional=True)
    open_ = qm.transaction()
    open_.receive(Q, timeout=NOW)
    open_.send(Q, b"never committed")
    before = manager.id
    manager.crash()
    assert not manager.running
    with pytest.raises(TransactionLost):
        open_.commit()
    manager.start()
    assert bodies(manager) == [b"kept"]
    assert (manager.id, manager.crashes) == (before, 1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("point", ["before-append", "after-append", "before-sync", "after-sync"])
def test_a_commit_that_it_dies_in_is_in_doubt_and_told_truly(
    manager: Manager, point: str, seed: int
) -> None:
    qm = manager.qm
    manager.die_at(point, seed=seed)
    tx = qm.transaction()
    tx.send(Q, b"x")
    with pytest.raises(onceq.InDoubt) as caught:
        tx.commit()
    assert not manager.running
    manager.start()
    became = qm.outcome(caught.value.transaction)
    assert bodies(manager) == ([b"x"] if became == "committed" else [])
    assert point != "after-sync" or became == "committed"
    assert point not in ("before-append", "after-append") or became == "aborted"


def test_it_dies_at_the_time_that_was_said(manager: Manager) -> None:
    manager.die_at("after-sync", count=2)
    manager.qm.send(Q, b"1", transactional=True)
    with pytest.raises(onceq.InDoubt):
        manager.qm.send(Q, b"2", transactional=True)
    manager.start()
    assert bodies(manager) == [b"1", b"2"]


def test_what_makes_no_sense_is_said(manager: Manager) -> None:
    with pytest.raises(ValueError, match=f"one of {POINTS[0]}"):
        manager.die_at("afer-sync")
    with pytest.raises(RuntimeError, match="runs"):
        manager.start()
    manager.crash()
    manager.crash()
    manager.start()


def test_tasks_find_their_way_back_too(manager: Manager) -> None:
    async def go() -> None:
        async with await manager.connect() as qm:
            await qm.send(Q, b"1", transactional=True)
            await asyncio.to_thread(manager.crash)
            await asyncio.to_thread(manager.start)
            assert (await qm.receive(Q, timeout=NOW)).body == b"1"

    asyncio.run(go())
    assert bodies(manager) == []


def test_who_asks_a_dead_one_hears_that(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onceq.client.link.RECONNECT_S", ())
    manager.crash()
    with pytest.raises(ServiceNotAvailable, match="was not started again"):
        manager.qm.queues()
    manager.put_forward(1)


def test_clocks_go_on_by_themselves() -> None:
    clock = MovableClock()
    before = clock.read()
    clock.put_forward(100)
    after = clock.read()
    assert after.mono_us - before.mono_us >= 100_000_000
    assert after.wall_us - before.wall_us >= 100_000_000


def test_nobody_loads_anything_for_a_plugin_that_is_not_used() -> None:
    code = (
        "import sys, pytest, onceq.testing.pytest\n"
        "assert not [name for name in sys.modules if name.startswith(('onceq.client', 'onceq.core',"
        " 'onceq.service', 'asyncio'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
