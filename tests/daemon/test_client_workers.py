"""Several workers on a queue, with every kind of client: orders, failures, stops, databases."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import aio, errors
from tests.daemon.applications import KINDS, WAIT_S, Blocking, emptied, manager_with

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


def fill(qm: Any, queue: str, *bodies: str) -> None:
    qm.send_many(queue, list(bodies), transactional=queue != N)


def there(qm: Any, queue: str) -> list[tuple[str, int]]:
    """What is in a queue, and how often it was given back."""
    try:
        return [(m.text, m.abort_count) for m in qm.peek_many(queue)]
    except onceq.ReceiveTimeout:
        return []


class Seen:
    """A handler that notes what it was given, and how many calls there were at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.texts: list[str] = []
        self.now = self.most = 0

    def __call__(self, tx: Any, message: onceq.Message) -> None:
        with self.lock:
            self.texts.append(message.text)
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            self.work(tx, message)
        finally:
            with self.lock:
                self.now -= 1

    def work(self, tx: Any, message: onceq.Message) -> None:
        """What a test does besides."""


@pytest.mark.parametrize("queue", [T, N])
@pytest.mark.parametrize("order", [None, "stream", lambda m: m.text[0]])
def test_every_message_is_handled_once(qm: Any, queue: str, order: Any) -> None:
    bodies = [f"{key}{n}" for n in range(8) for key in "abc"]
    fill(qm, queue, *bodies)
    seen = Seen()
    assert qm.consume(queue, seen, concurrency=4, order=order, timeout=0) == 24
    assert sorted(seen.texts) == sorted(bodies)
    assert there(qm, queue) == []


class Meeting(Seen):
    """Its first calls wait for each other."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.met = threading.Barrier(count)
        self.left = count

    def work(self, tx: Any, message: onceq.Message) -> None:
        with self.lock:
            self.left -= 1
            waits = self.left >= 0
        if waits:
            self.met.wait(WAIT_S)


@pytest.mark.parametrize("order", [None, lambda m: m.text[0]])
def test_so_many_are_at_work_at_once(qm: Any, order: Any) -> None:
    fill(qm, T, *[f"{key}{n}" for n in range(3) for key in "abc"])
    seen = Meeting(3)
    assert qm.consume(T, seen, concurrency=3, order=order, timeout=0) == 9
    assert seen.most == 3


class Keyed(Seen):
    """Notes which keys are at work, and never two calls of one."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: set[str] = set()
        self.done: list[str] = []

    def work(self, tx: Any, message: onceq.Message) -> None:
        key = message.text[0]
        with self.lock:
            assert key not in self.keys, "two of a key at once"
            self.keys.add(key)
        try:
            tx.send(DONE, message.body)
            self.fail(message)
        finally:
            with self.lock:
                self.keys.remove(key)
                self.done.append(message.text)

    def fail(self, message: onceq.Message) -> None:
        """What a test lets fail."""


def test_messages_with_one_key_stay_in_their_order(qm: Any) -> None:
    bodies = [f"{key}{n}" for n in range(10) for key in "abc"]
    fill(qm, T, *bodies)
    seen = Keyed()
    assert qm.consume(T, seen, concurrency=3, order=lambda m: m.text[0], timeout=0) == 30
    sent = [text for text, _ in there(qm, DONE)]
    for key in "abc":
        assert [text for text in sent if text[0] == key] == [f"{key}{n}" for n in range(10)]


def test_what_fails_keeps_its_place_among_those_of_its_key(qm: Any) -> None:
    """It comes again before the others of its key, until the policy takes it away."""
    qm.set_poison_policy(T, attempts=3, then="move:poison")
    fill(qm, T, "a0", "b0", "a1", "b1", "a2")

    class Failing(Keyed):
        def fail(self, message: onceq.Message) -> None:
            if message.text == "a1" or (message.text == "b0" and not message.abort_count):
                raise KeyError(message.text)

    seen = Failing()
    assert qm.consume(T, seen, concurrency=2, order=lambda m: m.text[0], timeout=0) == 4
    assert [t for t in seen.texts if t[0] == "a"] == ["a0", "a1", "a1", "a1", "a2"]
    assert [t for t in seen.texts if t[0] == "b"] == ["b0", "b0", "b1"]
    assert there(qm, T + ";poison") == [("a1", 0)]
    qm.receive(T + ";poison", timeout=0)
    qm.set_poison_policy(T, attempts=0)


@pytest.mark.parametrize("order", [None, lambda m: m.text[0]])
def test_the_failure_of_one_lets_the_others_finish(qm: Any, order: Any) -> None:
    fill(qm, T, "a0", "b0", "a1", "b1")
    met = threading.Barrier(2)
    failed = threading.Event()

    def handler(tx: Any, message: onceq.Message) -> None:
        if message.abort_count:  # The other one was quick enough to be given it as well.
            raise KeyError("a0")
        if message.text in ("a0", "b0"):
            met.wait(WAIT_S)
            if message.text == "a0":
                failed.set()
                raise KeyError("a0")
            assert failed.wait(WAIT_S)

    with pytest.raises(KeyError, match="a0"):
        qm.consume(T, handler, concurrency=2, order=order)
    left = dict(there(qm, T))
    assert left["a0"] >= 1
    assert "b0" not in left, "it was at hand, and was finished"


def test_no_message_but_the_one_at_hand_counts_as_given_back(qm: Any) -> None:
    """Workers with an order hold nothing ahead: a stop is not an attempt at what waits."""
    fill(qm, T, *[f"a{n}" for n in range(5)], "b0")
    with pytest.raises(KeyError):
        qm.consume(T, _raises, concurrency=2, order=lambda m: m.text[0])
    assert [count for text, count in there(qm, T) if text not in ("a0", "b0")] == [0] * 4


def _raises(tx: Any, message: onceq.Message) -> None:
    raise KeyError(message.text)


def test_a_stop_lets_all_finish(qm: Any) -> None:
    fill(qm, T, *[f"{n}" for n in range(9)])
    stop: Any = asyncio.Event() if isinstance(qm, Blocking) else threading.Event()
    seen = Meeting(3)

    def handler(tx: Any, message: onceq.Message) -> None:
        seen(tx, message)
        stop.set()

    handled = qm.consume(T, handler, concurrency=3, stop=stop)
    assert handled == len(seen.texts) == 9 - len(there(qm, T))
    assert all(not count for _, count in there(qm, T))


def test_a_retryable_failure_is_tried_again_without_a_policy(qm: Any) -> None:
    fill(qm, T, "1", "2")
    calls: list[str] = []

    def handler(tx: Any, message: onceq.Message) -> None:
        calls.append(message.text)
        if len(calls) < 3:
            raise errors.MessageLocked("somebody holds it")

    assert qm.consume(T, handler, timeout=0) == 2
    assert calls == ["1", "1", "1", "2"]


# ---- a database that takes part -------------------------------------------------------------


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    path = tmp_path / "sales.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE sales (text)")
        db.commit()
    return path


def sold(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return [text for (text,) in db.execute("SELECT text FROM sales ORDER BY rowid")]


def opens(path: Path) -> Any:
    """Tests call handlers of tasks in other threads."""
    return lambda: sqlite3.connect(path, check_same_thread=False)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_database_commits_with_each_message(qm: Any, sales: Path, batch: int) -> None:
    fill(qm, T, "1", "2", "3")

    def handler(tx: Any, found: Any, db: sqlite3.Connection) -> None:
        for message in [found] if batch == 1 else found:
            db.execute("INSERT INTO sales VALUES (?)", (message.text,))
            tx.send(DONE, message.body)
            if message.text == "3":
                raise KeyError("3")

    with pytest.raises(KeyError):
        qm.consume(T, handler, batch=batch, database=opens(sales))
    assert sold(sales) == ["1", "2"]
    assert [text for text, _ in there(qm, DONE)] == ["1", "2"]
    assert there(qm, T) == [("3", 1)]


def test_a_connection_is_opened_anew_after_a_failure(qm: Any, sales: Path) -> None:
    fill(qm, T, "1", "2")
    qm.set_poison_policy(T, attempts=2, then="move:poison")
    opened: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        opened.append(sqlite3.connect(sales, check_same_thread=False))
        return opened[-1]

    def handler(tx: Any, message: onceq.Message, db: sqlite3.Connection) -> None:
        assert db is opened[-1]
        db.execute("INSERT INTO sales VALUES (?)", (message.text,))
        if message.text == "1":
            raise KeyError("1")

    assert qm.consume(T, handler, database=connect, timeout=0) == 1
    assert sold(sales) == ["2"]
    assert len(opened) == 3
    qm.receive(T + ";poison", timeout=0)
    qm.set_poison_policy(T, attempts=0)


def test_a_database_that_was_never_there_is_said_at_once(qm: Any) -> None:
    fill(qm, T, "1")

    def connect() -> object:
        raise sqlite3.OperationalError("unable to open database file")

    with pytest.raises(sqlite3.OperationalError, match="unable"):
        qm.consume(T, print, database=connect)
    assert there(qm, T) == [("1", 0)]


def test_a_database_that_goes_away_is_waited_for(
    qm: Any, sales: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onceq.client.loops.AWAY_S", (0.0,))
    fill(qm, T, "1")
    tries: list[int] = []

    def connect() -> sqlite3.Connection:
        tries.append(len(tries))
        if 1 <= len(tries) - 1 <= 3:
            raise sqlite3.OperationalError("it starts")
        return sqlite3.connect(sales, check_same_thread=False)

    def handler(tx: Any, message: onceq.Message, db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO sales VALUES (?)", (message.text,))
        if len(tries) == 1:
            raise errors.PartnerLost("it ends")

    assert qm.consume(T, handler, database=connect, timeout=0) == 1
    assert sold(sales) == ["1"]
    assert caplog.text.count("it starts") == 0, "said once, when it went"
    assert caplog.text.count("it ends; what was at hand comes again") == 1
    assert caplog.text.count("going on") == 1


# ---- decorated ------------------------------------------------------------------------------


def test_decorated_consumers_run_side_by_side(tmp_path: Path) -> None:
    seen: list[str] = []
    with onceq.open(tmp_path / "a", create=True) as qm:
        for queue in (T, DONE):
            qm.create_queue(queue, transactional=True)
        with pytest.raises(errors.InvalidParameter, match="nothing to serve"):
            qm.serve()
        with pytest.raises(errors.InvalidParameter, match="concurrency"):
            qm.consumer(T, concurrency=0)

        @qm.consumer(T, concurrency=2)
        def order(tx: Any, message: onceq.Message) -> None:
            tx.send(DONE, message.body)

        assert qm.serve(timeout=0) == 0

        @qm.consumer(DONE)
        def done(tx: Any, message: onceq.Message) -> None:
            seen.append(message.text)
            if len(seen) == 3:
                stop.set()

        fill(qm, T, "1", "2", "3")
        stop = threading.Event()
        assert qm.serve(stop=stop) == 6
        assert sorted(seen) == ["1", "2", "3"]
        with qm.transaction() as tx:
            order(tx, onceq.Message(b"by hand", onceq.MessageId(bytes(16), 1)))
        assert qm.receive(DONE, timeout=0).text == "by hand", "it is still a function"


def test_decorated_consumers_of_tasks(tmp_path: Path) -> None:
    seen: list[str] = []

    async def main() -> int:
        async with await aio.open(tmp_path / "a", create=True) as qm:
            for queue in (T, DONE):
                await qm.create_queue(queue, transactional=True)
            stop = asyncio.Event()

            @qm.consumer(T, concurrency=2, order="stream")
            async def order(tx: Any, message: onceq.Message) -> None:
                await tx.send(DONE, message.body)

            @qm.consumer(DONE)
            async def done(tx: Any, message: onceq.Message) -> None:
                seen.append(message.text)
                if len(seen) == 3:
                    stop.set()

            await qm.send_many(T, ["1", "2", "3"], transactional=True)
            return await qm.serve(stop=stop)

    assert asyncio.run(main()) == 6
    assert seen == ["1", "2", "3"]


def test_an_async_handler_of_a_manager_for_threads_is_refused(tmp_path: Path) -> None:
    async def handler(tx: Any, message: onceq.Message) -> None: ...

    work: Any = partial(handler, message=onceq.Message(b"", onceq.MessageId(bytes(16), 1)))
    with onceq.open(tmp_path / "a", create=True) as qm:
        qm.create_queue(T, transactional=True)
        fill(qm, T, "1")
        with pytest.raises(errors.NotCarriedOut, match="awaits nothing"):
            qm.consume(T, handler)  # type: ignore[arg-type]
        with pytest.raises(errors.NotCarriedOut, match="awaits nothing"):
            qm.run(work)
        assert there(qm, T) == [("1", 0)]


def test_a_manager_that_was_closed_ends_a_consumer(tmp_path: Path) -> None:
    with onceq.open(tmp_path / "a", create=True) as qm:
        qm.create_queue(T, transactional=True)
        fill(qm, T, "1")
        with pytest.raises(errors.ServiceNotAvailable):
            qm.consume(T, lambda tx, message: qm.close())
