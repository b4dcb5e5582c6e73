"""What is no failure of a message is not counted as one (findings K2, K3, K7, K9)."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import errors
from onceq.client import handlers, loops
from onceq.partners.sqlite import SqliteLast
from tests.daemon.applications import KINDS, Blocking, emptied, manager_with

T = r"private$\orders"
DONE = r"private$\done"


@pytest.fixture(scope="module", params=KINDS)
def manager(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with manager_with(request.param, tmp_path_factory, transactional=[T, DONE]) as qm:
        yield qm


@pytest.fixture
def qm(manager: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A manager whose queues are empty and have a poison policy; pauses are short."""
    monkeypatch.setattr(handlers, "PAUSES_S", (0.001, 0.002))
    monkeypatch.setattr(loops, "AWAY_S", (0.001,))
    monkeypatch.setattr(loops, "TIMED_OUT_S", 0.001)
    with emptied(manager):
        manager.set_poison_policy(T, attempts=3, retry_after=0, then="move:poison")
        yield manager
        manager.set_poison_policy(T, attempts=0)


def there(qm: Any, queue: str) -> list[tuple[str, int]]:
    """What is in a queue, and how often it was given back."""
    try:
        return [(m.text, m.abort_count) for m in qm.peek_many(queue)]
    except onceq.ReceiveTimeout:
        return []


def consume(qm: Any, handler: Any, queue: str = T, **options: Any) -> Any:
    """Consume with a handler as it is, of the face of the client."""
    if isinstance(qm, Blocking):
        return qm._wait(qm._inner.consume(queue, handler, timeout=0.0, **options))
    return qm.consume(T, handler, timeout=0.0, **options)


# ---- what cannot have run ---------------------------------------------------------------------


async def coroutine(tx: Any, message: Any) -> None: ...


def plain(tx: Any, message: Any) -> None: ...


def generator(tx: Any, message: Any) -> Any:
    yield tx.send(DONE, message.body)


async def async_generator(tx: Any, message: Any) -> Any:
    yield await tx.send(DONE, message.body)


def _called(handler: Any, tx: Any, message: Any) -> Any:
    return handler(tx, message)


def narrow(tx: Any) -> None: ...


async def narrow_coroutine(tx: Any) -> None: ...


@pytest.mark.parametrize(
    "handler",
    [generator, async_generator, narrow, narrow_coroutine, 17],
    ids=["generator", "async generator", "narrow", "narrow coroutine", "number"],
)
def test_what_cannot_run_is_refused_before_a_message_is_taken(qm: Any, handler: Any) -> None:
    qm.send(T, "one")
    wrong = (errors.NotCarriedOut, errors.InvalidParameter)
    for options in ({}, {"concurrency": 2}, {"concurrency": 2, "order": "stream"}):
        with pytest.raises(wrong):
            consume(qm, handler, **options)
    with pytest.raises(wrong):
        qm.consumer(T)(handler)
    with pytest.raises(errors.InvalidParameter, match="a database"):
        consume(qm, coroutine if isinstance(qm, Blocking) else plain, database=lambda: None)
    assert there(qm, T) == [("one", 0)]


def test_a_handler_of_the_other_face_is_refused_and_counted_against_nobody(qm: Any) -> None:
    qm.send(T, "one")
    with pytest.raises(errors.NotCarriedOut, match="async"):
        consume(qm, plain if isinstance(qm, Blocking) else coroutine)
    for _ in range(4):
        with pytest.raises(errors.NotCarriedOut):
            consume(qm, plain if isinstance(qm, Blocking) else partial(_called, coroutine))
    assert there(qm, T) == [("one", 0)]


@pytest.mark.parametrize(
    "given", [lambda: (n for n in range(2)), Future, lambda: partial(print), lambda: print],
    ids=["generator", "future", "partial", "function"],
)  # fmt: skip
def test_what_a_handler_gives_back_says_that_it_has_not_run(
    qm: Any, given: Callable[[], object]
) -> None:
    async def task(tx: Any, message: Any) -> object:
        return given()

    def thread(tx: Any, message: Any) -> object:
        return given()

    qm.send(T, "one")
    with pytest.raises(errors.NotCarriedOut, match="a handler has returned"):
        consume(qm, task if isinstance(qm, Blocking) else thread)
    assert there(qm, T) == [("one", 0)]


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("name", ["send", "send_many", "send_tracked"])
def test_a_send_that_was_not_awaited_keeps_all_of_its_transaction_back(qm: Any, name: str) -> None:
    if not isinstance(qm, Blocking):
        pytest.skip("threads await nothing")

    async def forget(tx: Any, message: Any) -> None:
        await tx.send(DONE, "made")
        getattr(tx, name)(DONE, "forgotten")

    async def block() -> None:
        async with qm._inner.transaction() as tx:
            await forget(tx, None)

    qm.send(T, "one")
    with pytest.raises(errors.NotCarriedOut, match=f"{name} of this transaction"):
        consume(qm, forget)
    with pytest.raises(errors.NotCarriedOut, match=f"{name} of this transaction"):
        qm._wait(block())
    assert there(qm, T) == [("one", 0)]
    assert there(qm, DONE) == []


# ---- what a database refuses ------------------------------------------------------------------


def test_a_database_that_can_take_part_in_nothing_ends_the_loop(qm: Any, tmp_path: Path) -> None:
    if isinstance(qm, Blocking):
        pytest.skip("sqlite3 takes part in what threads do")

    def busy() -> sqlite3.Connection:
        db = sqlite3.connect(tmp_path / "shop.db", check_same_thread=False)
        db.execute("CREATE TABLE IF NOT EXISTS orders (id)")
        db.execute("INSERT INTO orders VALUES (1)")  # which nobody has committed
        return db

    calls: list[str] = []
    qm.send_many(T, ["one", "two", "three"])
    for options in ({}, {"concurrency": 2}, {"concurrency": 2, "order": "stream"}):
        with pytest.raises(errors.EnlistRefused):
            consume(qm, lambda tx, m, db: calls.append(m.text), database=busy, **options)
    assert calls == []
    assert there(qm, T) == [("one", 0), ("two", 0), ("three", 0)]


def test_a_database_that_is_away_when_it_is_enlisted_is_waited_for(
    qm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(qm, Blocking):
        pytest.skip("sqlite3 takes part in what threads do")
    away = iter([sqlite3.OperationalError("database is locked")] * 5)
    begin = SqliteLast.begin

    def begin_later(self: Any, xid: Any) -> Any:
        error = next(away, None)
        if error is not None:
            raise error
        return begin(self, xid)

    monkeypatch.setattr(SqliteLast, "begin", begin_later)
    calls: list[tuple[str, int]] = []
    qm.send_many(T, ["one", "two"])
    handled = consume(
        qm, lambda tx, m, db: calls.append((m.text, m.abort_count)),
        database=lambda: sqlite3.connect(tmp_path / "shop.db", check_same_thread=False),
    )  # fmt: skip
    assert handled == 2
    assert calls == [("one", 0), ("two", 0)]


# ---- what fails for all messages ---------------------------------------------------------------


class Failing:
    """A handler that fails so often, and then does its work."""

    def __init__(self, times: int, error: Exception, bad: frozenset[str] = frozenset()) -> None:
        self._left = times
        self._error = error
        self._bad = bad
        self._lock = threading.Lock()
        self.handled: list[str] = []

    def __call__(self, tx: Any, found: Any) -> None:
        messages = found if isinstance(found, onceq.Batch) else [found]
        for message in messages:
            self._handle(tx, message)
        self.handled += [message.text for message in messages]

    def _handle(self, tx: Any, message: Any) -> None:
        with self._lock:
            self._left -= 1
            if self._left >= 0 or (message.text in self._bad and len(self.handled) < 3):
                raise self._error
        tx.send(DONE, message.text)


@pytest.mark.parametrize(
    "options", [{}, {"concurrency": 4}, {"batch": 10}, {"concurrency": 4, "order": "stream"}],
    ids=str,
)  # fmt: skip
def test_what_fails_for_all_is_counted_against_few(
    qm: Any, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    bodies = [f"{n:03}" for n in range(40)]
    qm.send_many(T, bodies)
    handler = Failing(100, ConnectionError("the other service is away"))
    qm.consume(T, handler, timeout=0.0, **options)
    aside = [text for text, _ in there(qm, T + ";poison")]
    assert len(aside) < handlers.DIFFERENT
    assert sorted(handler.handled + aside) == bodies
    assert there(qm, T) == []
    assert "every message fails" in caplog.text
    assert "going on" in caplog.text


def test_what_fails_for_all_is_seen_beside_who_works_on_the_queue(qm: Any) -> None:
    seen: list[str] = []

    def fail(tx: Any, message: Any) -> None:
        seen.extend(one["says"] for one in qm.consumers(T) if one["says"])
        if not seen:
            raise ConnectionError("away")

    qm.send_many(T, [str(n) for n in range(10)])
    qm.consume(T, fail, timeout=0.0)
    assert "every message fails" in seen[0]
    assert "ConnectionError: away" in seen[0]
    assert not any(one["says"] for one in qm.consumers(T))


@pytest.mark.parametrize("options", [{}, {"concurrency": 2}], ids=str)
def test_bad_messages_among_good_ones_are_still_poison(qm: Any, options: dict[str, Any]) -> None:
    """Also where more of them stand together than the loop takes for bad ones at first."""
    bad = frozenset(f"bad {n}" for n in range(6))
    qm.send_many(T, [*sorted(bad), "good 0", "good 1", "bad 6", "good 2"])
    handler = Failing(0, ValueError("no number"), bad | {"bad 6"})
    qm.consume(T, handler, **options, timeout=0.0)
    assert sorted(text for text in handler.handled if "good" in text) == [
        "good 0", "good 1", "good 2",
    ]  # fmt: skip
    aside = [text for text, _ in there(qm, T + ";poison")]
    assert aside
    assert set(aside) <= bad


@pytest.mark.parametrize("policy", [True, False])
def test_an_error_that_was_named_pauses_and_counts_against_nobody(qm: Any, policy: bool) -> None:
    if not policy:
        qm.set_poison_policy(T, attempts=0)
    qm.send_many(T, ["one", "two"])
    handler = Failing(9, ConnectionError("away"))
    qm.consume(T, handler, timeout=0.0, pauses={ConnectionError: 0.001})
    assert sorted(handler.handled) == ["one", "two"]
    for wrong in ({int: 1.0}, {ConnectionError: -1}, {ConnectionError: "1"}):
        with pytest.raises(errors.InvalidParameter):
            qm.consume(T, handler, timeout=0.0, pauses=wrong)


# ---- time ----------------------------------------------------------------------------------


def test_a_handler_that_takes_too_long_is_no_failure_of_its_message(
    qm: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Its transaction is rolled back after the limit that the consumer has given."""
    caplog.set_level(logging.WARNING)
    counts: list[int] = []

    def handle(tx: Any, message: Any) -> None:
        counts.append(message.abort_count)
        while len(counts) < 5 and qm.admin.transactions():
            pass

    qm.send(T, "one")
    assert qm.consume(T, handle, timeout=0.0, limit=1) == 1
    assert counts == [0] * 5
    assert "took too long" in caplog.text
    for wrong in (0, -1, "1", True):
        with pytest.raises(errors.InvalidParameter):
            qm.consume(T, handle, timeout=0.0, limit=wrong)


def test_a_transaction_that_time_has_ended_is_done_again(qm: Any) -> None:
    qm.send(T, "one")
    tries: list[int] = []

    def work(tx: Any) -> str:
        message = tx.receive(T, timeout=0.0)
        tries.append(message.abort_count)
        if len(tries) == 1:
            raise errors.RolledBackByTime("as its manager says it")
        return str(message.text)

    assert qm.run(work) == "one"
    assert tries[0] == 0
