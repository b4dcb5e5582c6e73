"""A manager of tasks belongs to the loop that made it; another one is told so, and nothing of its
call happens (K6)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import aio
from onceq.errors import ReceiveTimeout, WrongLoop
from tests.daemon.applications import _in, background_loop
from tests.hosts.places import PLAIN, Q, placed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["unix", "tls"])
def where(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with placed(tmp_path_factory, "loops") as made:
        yield made.where(request.param)


def there(where: str, queue: str) -> list[bytes]:
    with onceq.connect(where) as qm:
        try:
            return qm.receive_many(queue, timeout=0.0).bodies()
        except ReceiveTimeout:
            return []


async def transact(qm: Any) -> None:
    async with qm.transaction() as tx:
        await tx.send(Q, b"elsewhere")


async def work(qm: Any) -> None:
    async for _ in qm.work(Q, timeout=0.0):
        pass


async def consume(qm: Any) -> None:
    async def handle(tx: Any, message: Any) -> None:
        raise AssertionError("there is nothing to handle")

    await qm.consume(Q, handle, timeout=0.0)


CALLS: dict[str, Callable[[Any], Any]] = {
    "send": lambda qm: qm.send(PLAIN, b"elsewhere"),
    "transaction": transact,
    "receive": lambda qm: qm.receive(PLAIN, timeout=0.0),
    "look": lambda qm: qm.admin.status(),
    "open": lambda qm: qm.open_queue(PLAIN),
    "work": work,
    "consume": consume,
    "tracked": lambda qm: qm.send_tracked(PLAIN, b"elsewhere"),
    "request": lambda qm: qm.request(PLAIN, b"elsewhere", timeout=0.1),
    "close": lambda qm: qm.close(),
}


async def refused(qm: Any, state: str, names: list[str]) -> None:
    for name in names:
        with pytest.raises(WrongLoop, match=f"loop that it was made in .*which {state}"):
            await CALLS[name](qm)


def test_another_loop_at_the_same_time_is_refused_and_nothing_happens(where: str) -> None:
    with background_loop() as loop:
        qm = _in(loop, aio.connect(where))
        asyncio.run(refused(qm, "runs", list(CALLS)))
        _in(loop, qm.send(PLAIN, b"at home"))
        _in(loop, qm.close())
    assert there(where, PLAIN) == [b"at home"]
    assert there(where, Q) == []


def test_a_second_asyncio_run_hears_whose_the_manager_is(where: str) -> None:
    """A client of the module, and ``asyncio.run`` for each request."""

    async def first() -> Any:
        qm = await aio.connect(where)
        await qm.send(PLAIN, b"at home")
        return qm

    qm = asyncio.run(first())
    asyncio.run(refused(qm, "is closed", [name for name in CALLS if name != "close"]))
    asyncio.run(qm.close())
    assert there(where, PLAIN) == [b"at home"]


def test_what_another_loop_gathered_is_not_lost_without_a_word(where: str) -> None:
    """A transaction that was begun at home, and is committed elsewhere, is still open there."""
    with background_loop() as loop:
        qm = _in(loop, aio.connect(where))
        tx = qm.transaction()
        _in(loop, tx.send(Q, b"at home"))

        async def commit() -> None:
            with pytest.raises(WrongLoop):
                await tx.commit()

        asyncio.run(commit())
        _in(loop, tx.commit())
        _in(loop, qm.close())
    assert there(where, Q) == [b"at home"]


def test_two_loops_with_a_manager_each(where: str) -> None:
    async def use(number: int) -> None:
        async with await aio.connect(where) as qm:
            await qm.send(PLAIN, str(number))

    threads = [threading.Thread(target=asyncio.run, args=(use(number),)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(there(where, PLAIN)) == [b"0", b"1"]


def test_an_embedded_manager_may_be_used_from_any_loop(tmp_path: Path) -> None:
    async def first() -> Any:
        qm = await aio.open(tmp_path / "a", name="A", create=True)
        await qm.create_queue(PLAIN)
        return qm

    async def second(qm: Any) -> bytes:
        await qm.send(PLAIN, b"m")
        found: bytes = (await qm.receive(PLAIN, timeout=0.0)).body
        await qm.close()
        return found

    qm = asyncio.run(first())
    assert asyncio.run(second(qm)) == b"m"
