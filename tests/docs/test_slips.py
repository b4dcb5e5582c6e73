"""The page of slips has the texts that are printed, and these name the cause and the cure."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import onceq
import onceq.aio
from onceq.client.async_link import AsyncLink
from onceq.errors import NotCarriedOut, OnceqError, WrongProcess
from onceq.partners.postgresql import check_server

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "first-slips.md").read_text()


@pytest.fixture
def qm(tmp_path: Path) -> Iterator[onceq.QueueManager]:
    with onceq.open(str(tmp_path / "a"), name="ALPHA", create=True) as manager:
        manager.create_queue(r"private$\plain")
        manager.create_queue(r"private$\orders", transactional=True)
        manager.create_queue(r"private$\small", transactional=True, quota_kb=1)
        yield manager


def in_transaction(qm: onceq.QueueManager) -> None:
    with qm.transaction() as tx:
        tx.send(r"private$\plain", "two bicycles")


def received(qm: onceq.QueueManager) -> None:
    with qm.transaction() as tx:
        tx.receive(r"private$\plain", timeout=0)


def in_child(call: Callable[[], object]) -> str:
    """What a forked child is told."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "another error, or none"
        try:
            call()
        except WrongProcess as error:
            said = str(error)
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    with open(reading) as end:
        said = end.read()
    os.waitpid(child, 0)
    return said


SLIPS: dict[str, Callable[[onceq.QueueManager], object]] = {
    "send in a transaction": in_transaction,
    "receive in a transaction": received,
    "send outside": lambda qm: qm.send(r"private$\orders", "a bell", transactional=False),
    "without private$": lambda qm: qm.send("orders", "a bell"),
    "a wrong letter": lambda qm: qm.send(r"private$\ordesr", "a bell"),
    "full": lambda qm: qm.send(r"private$\small", bytes(5_000)),
    "no promise": lambda qm: check_server(0, False, "shop"),
}


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_is_told_as_the_page_has_it(qm: onceq.QueueManager, name: str) -> None:
    with pytest.raises(OnceqError) as refused:
        SLIPS[name](qm)
    assert str(refused.value) in PAGE


def test_forks_are_told_as_the_page_has_it(qm: onceq.QueueManager) -> None:
    assert in_child(lambda: qm.send(r"private$\orders", "a bell")) in PAGE
    with qm.transaction() as tx:
        assert in_child(lambda: tx.send(r"private$\orders", "a bell")) in PAGE


def test_a_fork_in_a_running_loop_is_told_as_the_page_has_it() -> None:
    async def work() -> str:
        return in_child(lambda: AsyncLink(None))  # type: ignore[arg-type]

    said = asyncio.run(work())
    assert "inside of a running event loop" in said
    assert said in PAGE


def test_awaits_are_told_as_the_page_has_it(qm: onceq.QueueManager, tmp_path: Path) -> None:
    async def work() -> None:
        async with await onceq.aio.open(str(tmp_path / "b"), name="BETA", create=True) as manager:
            await manager.create_queue(r"private$\orders", transactional=True)
            with pytest.raises(NotCarriedOut) as plain, manager:
                pass
            assert str(plain.value) in PAGE
            for_tasks = pytest.raises(NotCarriedOut, match="AsyncTransaction is for tasks")
            with for_tasks, manager.transaction():
                pass
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                with pytest.raises(NotCarriedOut) as owed:
                    async with manager.transaction() as tx:
                        tx.send(r"private$\orders", "a bell")  # type: ignore[unused-coroutine]
            assert str(owed.value) in PAGE
            assert "coroutine 'send' was never awaited" in str(said[0].message)

    asyncio.run(work())
