"""Requests and replies through every kind of client: each its own, once, and told what is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

import onceq
from onceq.client.retry import REPLIES
from onceq.errors import (
    InvalidParameter,
    QueueNotFound,
    ReplyTimeout,
    RequestFailed,
    WrongQueueKind,
)
from onceq.model import limits
from tests.daemon.applications import KINDS, WAIT_S, emptied, manager_with
from tests.daemon.two import HERE, NOWHERE, THERE, Two

T = r"private$\orders"
N = r"private$\plain"
OWN = r"private$\answers"
NOW = 0.0
SOON = 0.05


@pytest.fixture(scope="module", params=KINDS)
def managers(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Any]:
    queues = {"transactional": [T], "plain": [N, OWN]}
    with manager_with(request.param, tmp_path_factory, **queues) as qm:
        yield qm


@pytest.fixture
def qm(managers: Any) -> Iterator[Any]:
    with emptied(managers) as qm:
        yield qm


Answer = Callable[[Any, onceq.Message], None]


@contextmanager
def serving(qm: Any, answer: Answer, count: int = 1) -> Iterator[None]:
    """Answer so many requests in another thread."""

    def serve() -> None:
        for _ in range(count):
            with qm.transaction() as tx:
                answer(tx, tx.receive(T, timeout=WAIT_S))

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(serve)
        yield
        done.result(WAIT_S)


def ask(qm: Any, body: Any, **more: Any) -> Any:
    return qm.request(T, json=body, transactional=True, **{"timeout": WAIT_S, **more})


def double(tx: Any, message: onceq.Message) -> None:
    tx.reply(message, json=2 * message.json())


def test_a_request_is_answered_and_nothing_is_left(qm: Any) -> None:
    with serving(qm, double):
        reply = ask(qm, 21)
    assert reply.json() == 42
    assert reply.correlation_id != bytes(20)
    assert qm.queue(REPLIES)["messages"] == qm.queue(T)["messages"] == 0


def test_many_requesters_get_each_his_own(qm: Any) -> None:
    with serving(qm, double, 20), ThreadPoolExecutor(5) as pool:
        found = list(pool.map(lambda n: ask(qm, n).json(), range(20)))
    assert found == [2 * n for n in range(20)]
    assert qm.queue(REPLIES)["messages"] == 0


def test_a_late_reply_confuses_no_later_request(qm: Any) -> None:
    with pytest.raises(ReplyTimeout, match="it is in its queue, and nobody has received it"):
        ask(qm, "first", timeout=SOON)
    with qm.transaction() as tx:
        tx.reply(tx.receive(T, timeout=NOW), json="of the first")
    with serving(qm, double):
        assert ask(qm, 4).json() == 8
    (late,) = qm.peek_many(REPLIES)
    assert late.json() == "of the first"


def test_an_aborted_reply_is_never_seen(qm: Any) -> None:
    def failing(tx: Any, message: onceq.Message) -> None:
        tx.reply(message, json="half done")
        tx.abort()

    with serving(qm, failing), pytest.raises(ReplyTimeout):
        ask(qm, 1, timeout=SOON)
    assert qm.queue(REPLIES)["messages"] == 0


def test_what_was_received_and_not_answered_is_told(qm: Any) -> None:
    received = threading.Event()

    def silent(tx: Any, message: onceq.Message) -> None:
        received.set()

    with serving(qm, silent), pytest.raises(ReplyTimeout) as caught:
        ask(qm, 1, timeout=1.0)
    assert received.is_set()
    assert "it was received" in caught.value.text
    assert caught.value.request in caught.value.text


def test_a_queue_of_ones_own_for_replies(qm: Any) -> None:
    def plainly(tx: Any, message: onceq.Message) -> None:
        qm.reply(message, "now", transactional=False)

    with serving(qm, plainly):
        assert ask(qm, 1, reply_to=OWN).text == "now"
    with pytest.raises(QueueNotFound):
        ask(qm, 1, reply_to=r"private$\none")
    assert qm.queue(T)["messages"] == 0


def test_a_request_that_ends_otherwise_fails_at_once(qm: Any) -> None:
    with pytest.raises(WrongQueueKind):
        qm.request(T, b"x", timeout=None, transactional=False)
    with pytest.raises(RequestFailed, match=r"purged|removed"), ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, qm, 1, timeout=None)
        qm.peek(T, timeout=WAIT_S)
        qm.purge(T)
        asked.result(WAIT_S)


@pytest.mark.parametrize(
    ("queue", "values"),
    [
        (T, {"response_queue": OWN}),
        (T, {"acknowledge": 1}),
        (f"{T},{N}", {}),
        (T, {"timeout": float("nan")}),
    ],
)
def test_calls_that_make_no_sense_send_nothing(qm: Any, queue: str, values: Any) -> None:
    with pytest.raises((InvalidParameter, onceq.OnceqError)):
        qm.request(queue, b"x", **values)
    assert qm.queue(T)["messages"] == qm.queue(N)["messages"] == 0


def test_who_wants_no_reply_gets_none(qm: Any) -> None:
    qm.send(N, b"x")
    message = qm.receive(N, timeout=NOW)
    for reply in (qm.reply, qm.transaction().reply):
        with pytest.raises(InvalidParameter, match="names no queue for a reply"):
            reply(message, b"y")
        with pytest.raises(InvalidParameter, match="answers a message"):
            reply(message.id, b"y")
    with pytest.raises(InvalidParameter, match="correlation"):
        with_queue = onceq.Message(b"", message.id, response_queue=N)
        qm.reply(with_queue, b"y", correlation_id=bytes(20)[:-1] + b"1")


# ---- between two managers ----------------------------------------------------------------------


def test_a_request_to_another_manager_and_back(two: Two) -> None:
    def serve() -> None:
        with two.beta.transaction() as tx:
            tx.reply(tx.receive(HERE.replace("ALPHA", "BETA"), timeout=WAIT_S), b"from beta")

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(serve)
        reply = two.alpha.request(THERE, b"?", transactional=True, timeout=WAIT_S)
        done.result(WAIT_S)
    assert reply.body == b"from beta"


def test_what_is_known_of_a_request_to_another_manager(two: Two) -> None:
    with pytest.raises(RequestFailed, match="there is no such queue"):
        two.alpha.request(NOWHERE, b"?", transactional=True, timeout=WAIT_S)
    with pytest.raises(ReplyTimeout, match="has left this computer"):
        two.alpha.request(THERE, b"?", transactional=True, timeout=1.0)
    two.beta.close()
    with pytest.raises(ReplyTimeout, match="has not left this computer"):
        two.alpha.request(THERE, b"?", transactional=True, timeout=0.5)


def test_old_replies_are_removed_when_the_next_one_asks(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    alpha = two.alpha
    with pytest.raises(ReplyTimeout):
        alpha.request(HERE, b"?", transactional=True, timeout=NOW)
    with alpha.transaction() as tx:
        tx.reply(tx.receive(HERE, timeout=NOW), b"late")
    assert alpha.queue(REPLIES)["messages"] == 1
    monkeypatch.setattr(limits, "REPLIES_TIDY_S", 0)
    monkeypatch.setattr(limits, "REPLIES_AGE_S", -60)
    with pytest.raises(ReplyTimeout):
        alpha.request(HERE, b"?", transactional=True, timeout=NOW)
    assert alpha.queue(REPLIES)["messages"] == 0
