"""Loops over queues with every kind of client: what a loop has not finished goes back."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import errors
from tests import nursery
from tests.daemon.applications import KINDS, Blocking, Daemon, emptied, manager_with

T = r"private$\orders"
N = r"private$\plain"
DONE = r"private$\done"


@pytest.fixture(scope="module", params=KINDS)
def manager(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with manager_with(request.param, tmp_path_factory, transactional=[T, DONE], plain=[N]) as qm:
        yield qm


@pytest.fixture
def qm(manager: Any) -> Iterator[Any]:
    """A manager whose queues are empty."""
    with emptied(manager):
        yield manager


def fill(qm: Any, queue: str, count: int = 5) -> None:
    qm.send_many(queue, [b"%d" % n for n in range(count)], transactional=queue != N)


def there(qm: Any, queue: str) -> list[tuple[bytes, int]]:
    """What is in a queue, and how often it was given back."""
    try:
        return [(m.body, m.abort_count) for m in qm.peek_many(queue)]
    except onceq.ReceiveTimeout:
        return []


@pytest.mark.parametrize("queue", [T, N])
def test_a_loop_that_raises_gives_back_what_it_had_at_hand(qm: Any, queue: str) -> None:
    fill(qm, queue)
    with pytest.raises(KeyError):
        for message in qm.messages(queue):
            if message.body == b"2":
                raise KeyError
    assert there(qm, queue) == [(b"2", 1), (b"3", 0), (b"4", 0)]


@pytest.mark.parametrize("queue", [T, N])
def test_what_a_loop_has_finished_is_gone_before_the_next_is_handed_out(
    qm: Any, queue: str
) -> None:
    fill(qm, queue, 3)
    for message in qm.messages(queue):
        left = [body for body, _ in there(qm, queue)]
        assert left == [b"%d" % n for n in range(int(message.body) + 1, 3)]
        assert qm.queue(queue)["messages"] == len(left) + 1, "this one is held, and no other"
    assert there(qm, queue) == []


def test_a_loop_that_is_left_gives_back_what_it_had_at_hand(qm: Any) -> None:
    fill(qm, T)
    for message in qm.messages(T):
        if message.body == b"1":
            break
    del message
    loop = qm.messages(T)
    assert next(loop).body == b"1"
    loop.close()
    assert there(qm, T) == [(b"1", 2), (b"2", 0), (b"3", 0), (b"4", 0)]


def test_express_messages_are_held_like_others(qm: Any) -> None:
    for n in range(3):
        qm.send(N, b"%d" % n, delivery="express")
    assert next(qm.messages(N)).body == b"0"
    assert there(qm, N) == [(b"0", 1), (b"1", 0), (b"2", 0)]
    assert [m.body for m in qm.messages(N)] == [b"0", b"1", b"2"]


def test_a_transaction_of_the_application_takes_from_transactional_queues_only(qm: Any) -> None:
    fill(qm, N)
    tx = qm.transaction()
    with pytest.raises(errors.TransactionUsage):
        tx.receive(N, timeout=0)
    tx.abort()


def test_work_commits_what_its_body_has_sent_with_the_message(qm: Any) -> None:
    fill(qm, T, 3)
    with pytest.raises(KeyError):
        for tx, message in qm.work(T, timeout=0):
            tx.send(DONE, message.body)
            if message.body == b"1":
                raise KeyError
    assert there(qm, DONE) == [(b"0", 0)]
    assert there(qm, T) == [(b"1", 1), (b"2", 0)]


def test_the_body_of_work_may_end_its_transaction(qm: Any) -> None:
    fill(qm, T, 3)
    for tx, message in qm.work(T, timeout=0):
        if message.abort_count:
            tx.commit()
            break
        tx.abort()
    assert there(qm, T) == [(b"1", 0), (b"2", 0)]


def test_a_call_that_aborts_is_not_handled(qm: Any) -> None:
    """The handler's own abort puts the message back; it was counted all the same (finding P6)."""
    fill(qm, T, 2)

    def handler(tx: Any, message: Any) -> None:
        if not message.abort_count:
            tx.abort()

    assert qm.consume(T, handler, timeout=0) == 2
    assert there(qm, T) == []


def test_work_says_that_a_send_of_its_body_was_refused(qm: Any) -> None:
    qm.create_queue("private$/tight", transactional=True, quota_kb=1)
    fill(qm, T, 1)
    with pytest.raises(errors.SendFailed):
        for tx, _ in qm.work(T, timeout=0):
            tx.send("private$/tight", bytes(5_000))
    qm.delete_queue("private$/tight")
    assert there(qm, T) == [(b"0", 1)]


def test_a_poison_policy_takes_a_message_out_of_the_way_of_work(qm: Any) -> None:
    qm.set_poison_policy(T, attempts=2, then="move:poison")
    fill(qm, T, 2)
    for _ in range(2):
        with pytest.raises(KeyError):
            for _ in qm.work(T, timeout=0):
                raise KeyError
    assert [m.body for m in qm.messages(T)] == [b"1"]
    assert there(qm, T + ";poison") == [(b"0", 0)]
    qm.receive(T + ";poison", timeout=0)
    qm.set_poison_policy(T, attempts=0)


def test_consume_calls_its_handler_for_each_message(qm: Any) -> None:
    fill(qm, T, 3)
    seen: list[bytes] = []

    def handler(tx: Any, message: onceq.Message) -> None:
        seen.append(message.body)
        tx.send(DONE, message.body)

    assert qm.consume(T, handler, timeout=0) == 3
    assert seen == [b"0", b"1", b"2"]
    assert len(there(qm, DONE)) == 3


@pytest.mark.parametrize("queue", [T, N])
def test_consume_takes_batches(qm: Any, queue: str) -> None:
    fill(qm, queue, 7)
    seen: list[list[bytes]] = []

    def handler(tx: Any, batch: onceq.Batch) -> None:
        seen.append(batch.bodies())
        if len(seen) == 3:
            raise KeyError("the third")

    with pytest.raises(KeyError, match="the third"):
        qm.consume(queue, handler, batch=3, timeout=0)
    assert seen == [[b"0", b"1", b"2"], [b"3", b"4", b"5"], [b"6"]]
    assert there(qm, queue) == [(b"6", 1)]


def test_consume_goes_on_where_the_queue_says_what_becomes_of_a_message(
    qm: Any, caplog: pytest.LogCaptureFixture
) -> None:
    qm.set_poison_policy(T, attempts=3, then="move:poison")
    fill(qm, T, 3)
    seen: list[bytes] = []

    def handler(tx: Any, message: onceq.Message) -> None:
        seen.append(message.body)
        if message.body == b"1":
            raise KeyError("cannot")

    assert qm.consume(T, handler, timeout=0) == 2
    assert seen == [b"0", b"1", b"1", b"1", b"2"]
    assert [line.partition(": KeyError")[0] for line in caplog.messages if "handler" in line] == [
        f"queue={T}: handler failed; message returned to the queue (attempt 1 of 3)",
        f"queue={T}: handler failed; message returned to the queue (attempt 2 of 3)",
        f"queue={T}: handler failed; message left to its poison policy (attempt 3 of 3)",
    ]
    qm.receive(T + ";poison", timeout=0)
    qm.set_poison_policy(T, attempts=0)


def test_consume_stops_in_order(qm: Any) -> None:
    fill(qm, T, 5)
    stop: Any = asyncio.Event() if isinstance(qm, Blocking) else threading.Event()

    def handler(tx: Any, message: onceq.Message) -> None:
        if message.body == b"2":
            stop.set()

    assert qm.consume(T, handler, stop=stop) == 3
    assert [body for body, _ in there(qm, T)] == [b"3", b"4"]
    assert list(qm.work(T, stop=stop)) == []


def test_a_batch_of_none_is_refused(qm: Any) -> None:
    with pytest.raises(errors.InvalidParameter):
        qm.consume(T, print, batch=0)
    with pytest.raises(errors.InvalidParameter):
        qm.consume(T, print, timeout=float("nan"))


LOGS = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
"""
PROGRAM = f"""{LOGS}
import onceq
with onceq.connect(sys.argv[1]) as qm, onceq.stopping() as stop:
    def handler(tx, message):
        print(message.text, flush=True)
        sys.stdin.readline()
    print(qm.consume(sys.argv[2], handler, stop=stop), "handled", flush=True)
"""
ALONE = PROGRAM.replace(", onceq.stopping() as stop", "").replace(", stop=stop", "")
"""A program that says nothing of signals."""
IN_TASKS = f"""{LOGS}
import asyncio, onceq.aio
async def main():
    async with await onceq.aio.connect(sys.argv[1]) as qm:
        async def handler(tx, message):
            print(message.text, flush=True)
            await asyncio.to_thread(sys.stdin.readline)
        print(await qm.consume(sys.argv[2], handler), "handled", flush=True)
asyncio.run(main())
"""
WORKERS = ALONE.replace("handler)", "handler, concurrency=2, order=lambda m: 1)")


@contextlib.contextmanager
def consumer(
    daemon: Daemon, program: str = PROGRAM
) -> Iterator[tuple[subprocess.Popen[str], Callable[[], str]]]:
    process = nursery.Popen(
        [sys.executable, "-c", program, daemon.where, T], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_consumer_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    with Daemon(tmp_path / "a") as daemon, onceq.connect(daemon.where) as qm:
        qm.create_queue(T, transactional=True)
        fill(qm, T)
        with consumer(daemon) as (process, line):
            for n in range(3):
                assert line() == f"{n}\n"
                if n < 2:
                    assert process.stdin is not None
                    process.stdin.write("\n")
                    process.stdin.flush()
            process.kill()
            process.wait()
        while qm.admin.transactions():
            pass  # The daemon hears of its end when it reads from the connection again.
        assert there(qm, T) == [(b"2", 1), (b"3", 0), (b"4", 0)]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "program", [PROGRAM, ALONE, IN_TASKS, WORKERS], ids=["stopping", "alone", "tasks", "workers"]
)
def test_a_signal_lets_a_consumer_finish_what_it_has_begun(
    tmp_path: Path, number: int, program: str
) -> None:
    with Daemon(tmp_path / "a") as daemon, onceq.connect(daemon.where) as qm:
        qm.create_queue(T, transactional=True)
        fill(qm, T)
        with consumer(daemon, program) as (process, line):
            assert line() == "0\n"
            process.send_signal(number)
            # A worker that is quicker than the signal would begin the next message, and may.
            assert line() == f"{signal.Signals(number).name}: what is at hand is finished\n"
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
            assert line() == "1 handled\n"
        assert [body for body, _ in there(qm, T)] == [b"1", b"2", b"3", b"4"]
