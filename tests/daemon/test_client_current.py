"""The current transaction of a thread or task (MQ_MTS_TRANSACTION, SND-25)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import aio

T = r"private$\orders"
N = r"private$\plain"
NOW = 0.0


@pytest.fixture
def qm(tmp_path: Path) -> Iterator[onceq.QueueManager]:
    with onceq.open(str(tmp_path / "a"), create=True) as qm:
        qm.create_queue(T, transactional=True)
        qm.create_queue(N)
        yield qm


def bodies(qm: Any, queue: str = T) -> list[bytes]:
    try:
        found: list[bytes] = qm.receive_many(queue, 10_000, timeout=NOW).bodies()
    except onceq.ReceiveTimeout:
        return []
    return found


def test_case_129_the_current_transaction_is_joined_where_there_is_one(
    qm: onceq.QueueManager,
) -> None:
    with qm.transaction() as tx:
        assert qm.send_current(T, b"in it") is None
        assert bodies(qm) == [], "sent with the commit, not before"
        tx.send(T, b"too")
    assert bodies(qm) == [b"in it", b"too"]
    with pytest.raises(KeyError), qm.transaction():
        qm.send_current(T, b"aborted")
        raise KeyError
    assert bodies(qm) == []


def test_case_129_without_one_the_message_is_sent_at_once_as_the_queue_takes_it(
    qm: onceq.QueueManager,
) -> None:
    assert qm.send_current(N, b"now") is not None
    assert bodies(qm, N) == [b"now"]
    assert qm.send_current(T, b"too") is not None
    assert bodies(qm) == [b"too"]


def test_blocks_are_nested_and_what_is_over_is_not_current(
    qm: onceq.QueueManager, tmp_path: Path
) -> None:
    with qm.transaction() as tx:
        tx.abort()
        assert qm.send_current(N, b"over: outside of it") is not None
    assert bodies(qm, N) == [b"over: outside of it"]
    with onceq.open(str(tmp_path / "b"), create=True) as other, qm.transaction():
        other.create_queue(N)
        assert other.send_current(N, b"another manager's") is not None
        with qm.transaction():
            qm.send_current(T, b"inner")
        assert bodies(qm) == [b"inner"]
        qm.send_current(T, b"outer")
    assert bodies(qm) == [b"outer"]


def test_another_thread_is_in_no_transaction(qm: onceq.QueueManager) -> None:
    with qm.transaction() as tx:
        thread = threading.Thread(target=qm.send_current, args=(N, b"from a thread"))
        thread.start()
        thread.join()
        assert bodies(qm, N) == [b"from a thread"]
        tx.abort()


def test_tasks_have_theirs(tmp_path: Path) -> None:
    async def work() -> list[bytes]:
        async with await aio.open(str(tmp_path / "a"), create=True) as qm:
            await qm.create_queue(T, transactional=True)
            await qm.create_queue(N)

            async def one(number: int) -> None:
                async with qm.transaction() as tx:
                    assert await qm.send_current(T, b"%d" % number) is None
                    if number % 2:
                        await tx.abort()

            await asyncio.gather(*map(one, range(6)))
            assert await qm.send_current(N, b"outside") is not None
            return (await qm.receive_many(T, timeout=NOW)).bodies()

    assert sorted(asyncio.run(work())) == [b"0", b"2", b"4"]
