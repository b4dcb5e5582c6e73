"""Reading queues through every kind of client: by place, by identifier, cursors, subqueues."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from typing import Any

import pytest

import onceq
from onceq import aio, errors
from onceq.model.identity import MessageId
from tests.daemon.applications import KINDS, manager_with

T = r"private$\orders"
N = r"private$\plain"
NOW = 0.0
ID = b"I" * 20
DEAD = r"system$;deadxact"


@pytest.fixture(scope="module", params=KINDS)
def manager(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with manager_with(request.param, tmp_path_factory) as qm:
        yield qm


@pytest.fixture
def qm(manager: Any) -> Iterator[Any]:
    """A manager with new queues."""
    manager.purge(DEAD)
    manager.create_queue(T, transactional=True)
    manager.create_queue(N)
    yield manager
    manager.delete_queue(T)
    manager.delete_queue(N)
    assert not manager.admin.transactions(), "a test has left a transaction open"


@pytest.fixture
def three(qm: Any) -> Any:
    qm.send_many(T, [b"m1", b"m2", b"m3"], transactional=True)
    return qm


def there(qm: Any, queue: str = T) -> list[bytes]:
    try:
        found: list[bytes] = qm.peek_many(queue, 10_000).bodies()
    except onceq.ReceiveTimeout:
        return []
    return found


def test_by_place(three: Any) -> None:
    ids = list(three.peek_many(T).lookup_ids)
    assert three.peek(T, lookup_id=ids[1]).body == b"m2"
    assert three.peek(T, lookup_id=ids[1], seek="next").body == b"m3"
    assert three.peek(T, lookup_id=ids[1], seek="previous").body == b"m1"
    assert three.peek(T, seek="last").body == b"m3"
    assert three.receive(T, seek="last").body == b"m3"
    assert three.receive(T, seek="first").body == b"m1"
    assert three.receive(T, lookup_id=ids[1]).body == b"m2"
    with pytest.raises(errors.MessageNotFound):
        three.receive(T, seek="first", timeout=60.0)


def test_in_a_transaction_by_place(three: Any) -> None:
    ids = list(three.peek_many(T).lookup_ids)
    with three.transaction() as tx:
        assert tx.receive(T, lookup_id=ids[1], allow_peek=True).body == b"m2"
        assert tx.receive(T, seek="last").body == b"m3"
        assert there(three) == [b"m1", b"m2"]
        with pytest.raises(errors.TransactionUsage):
            tx.receive(T, callback=print)
    assert there(three) == [b"m1"]


@pytest.mark.parametrize(
    "choice",
    [
        {"seek": "sideways"},
        {"lookup_id": 1, "message_id": "x\\1"},
        {"correlation_id": b"short"},
        {"message_id": "nonsense"},
    ],
)
def test_choices_that_make_no_sense(qm: Any, choice: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidParameter):
        qm.receive(T, timeout=NOW, **choice)


def test_by_correlation_identifier(qm: Any) -> None:
    qm.send_many(T, [b"a", b"b"], transactional=True)
    qm.send(T, b"c" + ID, transactional=True)
    qm.send_many(T, [b"answer", b"another"], transactional=True, correlation_id=ID)
    assert qm.peek(T, correlation_id=ID).body == b"answer"
    assert qm.receive(T, correlation_id=ID, timeout=NOW).body == b"answer"
    with qm.transaction() as tx:
        assert tx.receive(T, correlation_id=ID, timeout=NOW).body == b"another"
    with pytest.raises(onceq.ReceiveTimeout):
        qm.receive(T, correlation_id=ID, timeout=NOW)
    assert there(qm) == [b"a", b"b", b"c" + ID]


def test_by_message_identifier(qm: Any) -> None:
    ids = qm.send_many(T, [b"m%d" % n for n in range(5)], transactional=True)
    assert qm.receive(T, message_id=ids[3], timeout=NOW).body == b"m3"
    assert qm.receive(T, message_id=str(ids[0]), timeout=NOW).body == b"m0"
    with pytest.raises(onceq.ReceiveTimeout):
        qm.receive(T, message_id=ids[3], timeout=NOW)
    with pytest.raises(onceq.ReceiveTimeout):
        qm.peek(T, message_id=MessageId(b"\0" * 16, ids[1].number))


def test_a_search_through_many_pages(qm: Any) -> None:
    qm.send_many(T, [b"%d" % n for n in range(25_000)], transactional=True)
    qm.send(T, b"found", transactional=True, correlation_id=ID)
    assert qm.receive(T, correlation_id=ID, timeout=NOW).body == b"found"


def test_a_search_waits_for_what_comes(qm: Any) -> None:
    qm.send(T, b"before", transactional=True)
    with qm.transaction() as tx:
        tx.send(T, b"wanted", correlation_id=ID)
    assert qm.receive(T, correlation_id=ID, timeout=5.0).body == b"wanted"


def test_cursors(three: Any) -> None:
    with three.cursor(T) as cursor:
        with pytest.raises(errors.IllegalCursorAction):
            cursor.peek_next()
        assert cursor.peek_current().body == b"m1"
        assert cursor.peek_next().body == b"m2"
        assert cursor.peek_previous().body == b"m1"
        assert cursor.peek_last().body == b"m3"
        assert cursor.peek_first().body == b"m1"
        three.receive(T, timeout=NOW)
        with pytest.raises(errors.MessageAlreadyReceived):
            cursor.receive_current(timeout=NOW)
        assert cursor.peek_next().body == b"m2"
        assert cursor.receive_current(timeout=NOW).body == b"m2"
        with three.transaction() as tx:
            assert cursor.receive_current(timeout=NOW, transaction=tx).body == b"m3"
        with pytest.raises(onceq.ReceiveTimeout):
            cursor.peek_next()
    assert there(three) == []
    with pytest.raises(errors.InvalidHandle):
        cursor.peek_first()


def test_subqueues(three: Any) -> None:
    first = three.peek(T)
    assert three.move(T, first, ";retry") > 0
    assert there(three, T + ";retry") == [b"m1"]
    with three.transaction() as tx:
        second = tx.receive(T, timeout=NOW)
        tx.move(second, ";poison")
        tx.move(three.peek(T + ";retry"), ";poison", queue=T + ";retry")
    assert there(three) == [b"m3"]
    assert there(three, T + ";poison") == [b"m2", b"m1"]
    moved = three.peek(T + ";poison", seek="last")
    assert (moved.move_count, moved.abort_count) == (2, 0)
    assert abs(moved.last_move_time - time.time()) < 600
    three.move(T + ";poison", moved, "")
    assert there(three) == [b"m3", b"m1"]
    with pytest.raises(errors.InvalidParameter):
        three.move(T, three.peek(T), N)


def test_rejecting(qm: Any) -> None:
    qm.send_many(T, [b"good", b"bad"], transactional=True, journal=onceq.Journal.DEADLETTER)
    with qm.transaction() as tx:
        for message in tx.receive_many(T, timeout=NOW):
            if message.body == b"bad":
                tx.reject(message)
        with pytest.raises(errors.TransactionUsage):
            tx.reject(message, queue=N)
    assert there(qm) == []
    (dead,) = qm.peek_many(DEAD)
    assert (dead.body, dead.message_class) == (b"bad", 0xC004)


def test_from_several_queues(three: Any) -> None:
    """Places of different queues may be equal: then it must be said which one is meant."""
    other = r"private$\other"
    three.create_queue(other, transactional=True)
    three.send(other, b"o1", transactional=True)
    with three.transaction() as tx:
        with pytest.raises(errors.InvalidParameter):
            tx.move(three.peek(T), ";x")
        mine, theirs = tx.receive(T, timeout=NOW), tx.receive(other, timeout=NOW)
        assert mine.lookup_id == theirs.lookup_id
        with pytest.raises(errors.InvalidParameter):
            tx.move(mine, ";x")
        tx.move(mine, ";x", queue=T)
        tx.move(theirs, ";x", queue=other)
    assert (there(three, T + ";x"), there(three, other + ";x")) == ([b"m1"], [b"o1"])
    three.delete_queue(other)


def test_poison_policy_in_one_line(three: Any) -> None:
    made = three.set_poison_policy(T, attempts=2)
    assert (made["poison_attempts"], made["poison_then"]) == (2, "move:poison")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), three.transaction() as tx:
            tx.receive(T, timeout=NOW)
            raise ZeroDivisionError
    assert there(three) == [b"m2", b"m3"]
    assert there(three, T + ";poison") == [b"m1"]
    three.set_poison_policy(T, attempts=0)
    with pytest.raises(errors.IllegalPropertyValue):
        three.set_poison_policy(T, then="somewhere")
    with pytest.raises(errors.IllegalPropertyValue):
        three.set_poison_policy(N)


# ---- whole transactions of a sender ---------------------------------------------------------


def test_a_whole_transaction(qm: Any) -> None:
    qm.send_many(T, [b"a1", b"a2", b"a3"], transactional=True)
    qm.send_many(T, [b"b1"], transactional=True)
    with qm.transaction() as tx:
        first = tx.receive_transaction(T, timeout=NOW)
        assert (first.bodies(), first.complete) == ([b"a1", b"a2", b"a3"], True)
        assert there(qm) == [b"b1"]
        second = tx.receive_transaction(T, timeout=NOW)
        assert second.bodies() == [b"b1"]
        assert second.transaction != first.transaction
        with pytest.raises(onceq.ReceiveTimeout):
            tx.receive_transaction(T, timeout=NOW)
    assert there(qm) == []


def test_a_transaction_of_which_something_is_missing(qm: Any) -> None:
    qm.send_many(T, [b"a1", b"a2", b"a3"], transactional=True)
    qm.receive(T, lookup_id=qm.peek_many(T).lookup_ids[1])
    qm.send_many(T, [b"b1", b"b2"], transactional=True)
    with qm.transaction() as tx:
        assert tx.receive_transaction(T, timeout=NOW).bodies() == [b"b1", b"b2"]
    with qm.transaction() as tx:
        with pytest.raises(onceq.ReceiveTimeout):
            tx.receive_transaction(T, timeout=NOW)
        with pytest.raises(onceq.ReceiveTimeout):
            tx.receive_transaction(T, timeout=NOW, deadline=3600, incomplete="give")
        given = tx.receive_transaction(T, timeout=NOW, deadline=-3600, incomplete="give")
        assert (given.bodies(), given.complete) == ([b"a1", b"a3"], False)
        tx.abort()
    with qm.transaction() as tx, pytest.raises(onceq.ReceiveTimeout):
        tx.receive_transaction(T, timeout=NOW, deadline=-3600, incomplete="dead-letter")
    assert there(qm) == []
    assert [(m.body, m.message_class) for m in qm.peek_many(DEAD)] == [
        (b"a1", 0xC004), (b"a3", 0xC004)
    ]  # fmt: skip


def test_a_transaction_larger_than_an_answer(qm: Any) -> None:
    body = b"x" * 3_000_000
    qm.send_many(T, [body] * 6, transactional=True)
    with qm.transaction() as tx:
        assert [len(b) for b in tx.receive_transaction(T, timeout=NOW).bodies()] == [3_000_000] * 6


# ---- both kinds of client -------------------------------------------------------------------


def test_tasks_and_threads_have_the_same_calls() -> None:
    for one, other in (
        (onceq.QueueManager, aio.AsyncQueueManager),
        (onceq.Transaction, aio.AsyncTransaction),
        (onceq.OpenQueue, aio.AsyncOpenQueue),
        (onceq.Cursor, aio.AsyncCursor),
    ):
        calls = [
            {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}
            for kind in (one, other)
        ]
        assert calls[0] == calls[1]
