"""One client used by many: threads, tasks, waits that cross, cancelling, and back-pressure."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import aio, errors
from onceq.model import requests
from onceq.model.limits import CLIENT_RECEIVES_MAX
from onceq.wire.app import frames
from onceq.wire.app.frames import ANSWER, FAILED, FrameCode, written
from tests.daemon.applications import WAIT_S, Daemon
from tests.scratch import scratch

pytestmark = pytest.mark.slow
T = r"private$\orders"
N = r"private$\plain"
THREADS = 16
EACH = 25


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with scratch(tmp_path_factory, "many") as folder, Daemon(folder / "a", tcp=True) as made:
        with onceq.connect(made.where) as qm:
            qm.create_queue(T, transactional=True)
            qm.create_queue(N)
        made.admit_nobody()
        yield made


@pytest.fixture(params=["embedded", "socket", "tcp"])
def qm(
    request: pytest.FixtureRequest, daemon: Daemon, tmp_path: Path
) -> Iterator[onceq.QueueManager]:
    if request.param == "embedded":
        with onceq.open(str(tmp_path / "e"), name="ALPHA", create=True) as made:
            made.create_queue(T, transactional=True)
            made.create_queue(N)
            yield made
        return
    with onceq.connect(daemon.where if request.param == "socket" else daemon.tcp) as made:
        made.purge(T)
        made.purge(N)
        yield made


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run it in so many threads at once; the first error is raised here."""
    raised: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised again below
            raised.append(error)

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
        if thread.is_alive():
            assert not raised, f"a thread hangs, maybe because of this: {raised[0]!r}"
            pytest.fail("a thread hangs")
    if raised:
        raise raised[0]


# ---- threads ---------------------------------------------------------------------------------


def test_sixteen_threads_send_and_receive_through_one_client(qm: onceq.QueueManager) -> None:
    taken: list[bytes] = []
    lock = threading.Lock()

    def work(number: int) -> None:
        for step in range(EACH):
            with qm.transaction() as tx:
                tx.send(T, b"%d %d" % (number, step))
            with qm.transaction() as tx:
                body = tx.receive(T, timeout=WAIT_S).body
            with lock:
                taken.append(body)

    in_threads(THREADS, work)
    expected = Counter(b"%d %d" % (n, s) for n in range(THREADS) for s in range(EACH))
    assert Counter(taken) == expected


def test_each_threads_messages_keep_their_order(qm: onceq.QueueManager) -> None:
    def work(number: int) -> None:
        for step in range(EACH):
            qm.send(T, b"%d %d" % (number, step), transactional=True)

    in_threads(THREADS, work)
    seen: dict[int, list[int]] = {}
    for body in qm.receive_many(T, 10_000, timeout=0).bodies():
        number, step = map(int, body.split())
        seen.setdefault(number, []).append(step)
    assert seen == {number: list(range(EACH)) for number in range(THREADS)}


def test_waiting_readers_get_one_message_each(qm: onceq.QueueManager) -> None:
    """The receives wait on the same connection over which the messages are sent."""
    taken: list[bytes] = []
    lock = threading.Lock()

    def work(number: int) -> None:
        if number == THREADS:
            while qm.admin.status().waiting_readers < THREADS:
                pass
            qm.send_many(T, [b"%d" % n for n in range(THREADS)], transactional=True)
            return
        body = qm.receive(T, timeout=WAIT_S).body
        with lock:
            taken.append(body)

    in_threads(THREADS + 1, work)
    assert sorted(taken, key=int) == [b"%d" % n for n in range(THREADS)]


def test_a_closed_handle_ends_its_waits(qm: onceq.QueueManager) -> None:
    """RCV-4."""
    held = qm.open_queue(N)

    def work(number: int) -> None:
        if number:
            with pytest.raises(errors.OperationCancelled):
                held.receive()
        else:
            while qm.admin.status().waiting_readers < 3:
                pass
            held.close()

    in_threads(4, work)


def test_large_answers_and_large_requests_cross(qm: onceq.QueueManager) -> None:
    """Nobody may stand still because everybody writes and nobody reads."""
    large = [bytes([n]) * (1 << 20) for n in range(4)]

    def work(number: int) -> None:
        for _ in range(3):
            qm.send_many(N, large, delivery="express")
            got = 0
            while got < 4:
                got += len(qm.receive_many(N, 4 - got, timeout=WAIT_S))

    in_threads(6, work)
    with pytest.raises(onceq.ReceiveTimeout):
        qm.receive(N, timeout=0)


# ---- tasks -----------------------------------------------------------------------------------


def for_tasks(daemon: Daemon, work: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with await aio.connect(daemon.where) as qm:
            await qm.purge(T)
            await qm.purge(N)
            async with asyncio.timeout(WAIT_S):
                await work(qm)

    asyncio.run(main())


def test_a_hundred_tasks_share_one_client(daemon: Daemon) -> None:
    async def work(qm: aio.AsyncQueueManager) -> None:
        taken: list[bytes] = []

        async def one(number: int) -> None:
            async with qm.transaction() as tx:
                await tx.send(T, b"%d" % number)
            async with qm.transaction() as tx:
                taken.append((await tx.receive(T, timeout=WAIT_S)).body)

        await asyncio.gather(*(one(n) for n in range(100)))
        assert sorted(taken, key=int) == [b"%d" % n for n in range(100)]

    for_tasks(daemon, work)


def test_receives_wait_for_what_the_same_client_sends(daemon: Daemon) -> None:
    async def work(qm: aio.AsyncQueueManager) -> None:
        waiting = [asyncio.create_task(qm.receive(N)) for _ in range(200)]
        while (await qm.admin.status()).waiting_readers < 200:
            pass
        await qm.send_many(N, [b"%d" % n for n in range(200)])
        got = await asyncio.gather(*waiting)
        assert [m.body for m in got] == [b"%d" % n for n in range(200)], "served as they came"

    for_tasks(daemon, work)


def test_a_cancelled_wait_takes_nothing(daemon: Daemon) -> None:
    async def work(qm: aio.AsyncQueueManager) -> None:
        waiting = asyncio.create_task(qm.receive(N))
        while not (await qm.admin.status()).waiting_readers:
            pass
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        while (await qm.admin.status()).waiting_readers:
            pass
        await qm.send(N, b"stays")
        assert (await qm.queue(N))["available"] == 1

    for_tasks(daemon, work)


def test_no_message_is_lost_by_cancelling(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled at any moment: before the request is out, while it waits, when it is answered."""
    monkeypatch.setattr("onceq.client.async_link.CANCEL_S_MAX", WAIT_S)  # A busy disk is no fault.

    async def work(qm: aio.AsyncQueueManager) -> None:
        await qm.send_many(N, [b"%d" % n for n in range(300)])
        taken: list[bytes] = []

        async def one() -> None:
            taken.append((await qm.receive(N, timeout=WAIT_S)).body)

        turns = 0
        while len(taken) < 300:
            task = asyncio.create_task(one())
            for _ in range(turns % 9):
                await asyncio.sleep(0)
            turns += 1
            if turns % 2 and task.cancel():
                await asyncio.wait([task])
            else:
                await task
        assert sorted(map(int, taken)) == list(range(300))

    for_tasks(daemon, work)


def test_a_cancelled_receive_aborts_its_transaction(daemon: Daemon) -> None:
    async def work(qm: aio.AsyncQueueManager) -> None:
        await qm.send(T, b"first", transactional=True)
        tx = qm.transaction()
        assert (await tx.receive(T)).body == b"first"
        waiting = asyncio.create_task(tx.receive(T))
        while not (await qm.admin.status()).waiting_readers:
            pass
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(errors.TransactionOver, match="given up"):
            await tx.commit()
        assert (await qm.receive(T, timeout=WAIT_S)).abort_count == 1
        assert await qm.admin.transactions() == []

    for_tasks(daemon, work)


def test_a_cancelled_commit_has_an_outcome(daemon: Daemon) -> None:
    async def work(qm: aio.AsyncQueueManager) -> None:
        tx = qm.transaction()
        await tx.send(T, b"x")
        task = asyncio.create_task(tx.commit())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        outcome = await qm.outcome(tx.id)
        assert outcome == "committed", "the request had been sent, and nothing was in its way"
        assert (await qm.receive(T, timeout=0)).body == b"x"

    for_tasks(daemon, work)


def test_timeouts_of_asyncio_abort_the_block(daemon: Daemon) -> None:
    async def work(qm: aio.AsyncQueueManager) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02), qm.transaction() as tx:
                await tx.send(T, b"never")
                await tx.receive(T)
        assert await qm.admin.transactions() == []
        with pytest.raises(onceq.ReceiveTimeout):
            await qm.receive(T, timeout=0)

    for_tasks(daemon, work)


# ---- a client that misbehaves ----------------------------------------------------------------


class Raw:
    """A connection without the library."""

    def __init__(self, daemon: Daemon) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WAIT_S)
        self.socket.connect(str(daemon.path / "onceq.sock"))
        self.parser = frames.Parser()
        self.send(1, FrameCode.HELLO, frames.Hello(frames.VERSION))
        assert self.read()[0][1] == FrameCode.HELLO | ANSWER

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *exc: object) -> None:
        self.socket.close()

    def send(self, request: int, code: int, head: object, *data: bytes) -> None:
        self.socket.sendall(b"".join(frames.frame(request, code, head, *data)))

    def read(self) -> list[tuple[int, int, memoryview, memoryview]]:
        while True:
            raw = self.socket.recv(1 << 20)
            if not raw:
                return []
            if found := self.parser.feed(raw):
                return found


def test_nonsense_ends_only_the_connection_it_came_on(daemon: Daemon) -> None:
    with onceq.connect(daemon.where) as qm, Raw(daemon) as raw:
        raw.send(2, requests.Begin.code, [1])
        raw.read()
        assert len(qm.admin.transactions()) == 1
        raw.socket.sendall(b"\xff" * 100)
        ((request, code, head, _),) = raw.read()
        assert (request, code) == (0, FAILED)
        assert frames.decode_head(head, frames.Failure).code == "malformed-packet"
        assert raw.read() == []
        assert qm.admin.transactions() == []


def test_one_that_reads_nothing_is_not_read(daemon: Daemon) -> None:
    """Its questions pile up on its own side, and the others go on."""
    with onceq.connect(daemon.where) as qm, Raw(daemon) as raw:
        qm.purge(N)
        qm.send_many(N, [bytes(1 << 20)] * 4, delivery="express")
        peek = requests.Receive(N, 0, 10, 8 << 20, peek=True)
        raw.socket.settimeout(1.0)
        asked = 0
        question = b"".join(written(2, peek)) + bytes(0)
        with pytest.raises(TimeoutError):
            for asked in range(1, 1_000_000):
                frame = bytearray(question)
                frame[4:8] = (asked + 1).to_bytes(4, "little")
                raw.socket.sendall(frame)
        assert asked < 900_000
        assert qm.peek(N).body == bytes(1 << 20)
        answered = {number for number, _, _, _ in raw.read()}
        assert answered, "what it asked is answered once it reads"


def test_too_many_receives_on_one_connection_are_refused(daemon: Daemon) -> None:
    with Raw(daemon) as raw:
        waits = requests.Receive(N, wait_ms=-1)
        with onceq.connect(daemon.where) as qm:
            qm.purge(N)
        for number in range(2, CLIENT_RECEIVES_MAX + 3):
            raw.socket.sendall(b"".join(written(number, waits)))
        ((request, code, _, _),) = raw.read()
        assert (request, code) == (CLIENT_RECEIVES_MAX + 2, requests.Receive.code | FAILED)
