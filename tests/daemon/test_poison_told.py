"""A poison message is told of as a dead letter is, with what its receiver has said (finding U2)."""

from __future__ import annotations

import asyncio
import json
import logging
import threading

import pytest

import onceq
from onceq import aio
from onceq.client.threads.letters import DEAD_XACT
from onceq.console import letters as console
from onceq.console import reading
from onceq.console.guard import FormValues
from onceq.console.reading import Told
from onceq.model.limits import FAILURE_CHARS_MAX
from tests.daemon.shell import Shell
from tests.daemon.two import WAIT, Q, Two

pytestmark = pytest.mark.slow

WORN = "private$\\worn"
SAID = "ValueError: there is no customer 7"


def fail(message: object, *more: object) -> None:
    raise ValueError("there is no customer 7")


def consumed(qm: onceq.QueueManager, queue: str = Q, *, times: int = 1) -> None:
    """A consumer fails so often."""
    stop, called = threading.Event(), []

    def handler(message: object, tx: object) -> None:
        called.append(message)
        if len(called) == times:
            stop.set()
        fail(message)

    qm.consume(queue, handler, stop=stop, timeout=10.0)


def test_it_is_in_every_list(onceq_: Shell) -> None:
    with onceq.connect(str(onceq_.alpha)) as qm:
        qm.create_queue(WORN, transactional=True)
        qm.set_poison_policy(WORN, attempts=2)
        qm.send(WORN, b"order", transactional=True)
        consumed(qm, WORN, times=2)
    assert "1 message moved aside: delivery attempts used up" in onceq_("qm", "status")
    assert "1: onceq dead list" in onceq_("queue", "show", WORN)
    (row,) = json.loads(onceq_("dead", "list", "--reason", "poison", "--json"))
    assert (row["attempts"], row["failure"]) == (2, SAID)
    assert row["why"] == (
        f"its queue has moved it aside; received 2 times in vain, the last time: {SAID}"
    )
    assert "poison" in onceq_("dead", "list")
    assert SAID in onceq_("dead", "show", row["id"])
    assert "onceq_poison_messages 1.0" in onceq_("qm", "metrics")
    overview, dead = asyncio.run(looked(onceq_))
    assert overview["poison_messages"] == 1
    assert [(one["reason"], one["failure"]) for one in dead["letters"]] == [("poison", SAID)]
    assert "1 dead letter would be returned" in onceq_("dead", "return", "--dry-run")
    assert "1 dead letter returned" in onceq_("dead", "return", "--reason", "poison")
    assert onceq_.pipe("receive", WORN) == b"order\n"
    assert "delivery attempts" not in onceq_("qm", "status")


async def looked(shell: Shell) -> tuple[Told, Told]:
    async with await aio.connect(str(shell.alpha)) as qm:
        overview = await reading.numbers(qm, 0)
        return overview.shown, await console.dead(qm, FormValues({}), 0)


@pytest.mark.parametrize("then", ["move:poison", "dead-letter"])
def test_what_its_receiver_said_survives_a_restart(two: Two, then: str) -> None:
    qm = two.alpha
    qm.set_poison_policy(Q, attempts=2, retry_after=1, retries=1, then=then)
    qm.send(Q, b"order", transactional=True)
    consumed(qm, times=4)  # two, a while in ;retry, and two
    aside = DEAD_XACT if then == "dead-letter" else f"{Q};poison"
    found = qm.peek(aside, timeout=WAIT)
    assert (found.attempts, found.failure) == (4, SAID)
    qm.close()
    with onceq.open(str(two.path / "ALPHA")) as again:
        found = again.peek(aside, timeout=WAIT)
        assert (found.attempts, found.failure) == (4, SAID)


def test_whoever_gives_it_back_or_refuses_it_says_why(two: Two) -> None:
    qm = two.alpha
    for body in (b"back", b"refused", b"left", b"silent"):
        qm.send(Q, body, transactional=True, journal=onceq.Journal.DEADLETTER)
    for why, told in (("the till is closed", "the till is closed"), ("x" * 1000, "x" * 300)):
        tx = qm.transaction()
        tx.receive(Q, timeout=WAIT)
        tx.abort(why)
        assert qm.peek(Q, timeout=WAIT).failure == told
        assert len(told) <= FAILURE_CHARS_MAX
    qm.receive(Q, timeout=WAIT)
    with qm.transaction() as tx:
        tx.reject(tx.receive(Q, timeout=WAIT), "a refund is no order")
    dead = qm.peek(DEAD_XACT, timeout=WAIT)
    assert (dead.body, dead.failure, dead.attempts) == (b"refused", "a refund is no order", 0)
    with pytest.raises(ValueError, match="no customer"), qm.transaction() as tx:
        tx.receive(Q, timeout=WAIT)
        fail(None)
    left = qm.receive(Q, timeout=WAIT)
    assert (left.body, left.failure, left.attempts) == (b"left", SAID, 1)
    silent = qm.receive(Q, timeout=WAIT)
    assert (silent.failure, silent.attempts) == ("", 0)


def test_a_consumer_logs_where_it_failed(two: Two, caplog: pytest.LogCaptureFixture) -> None:
    two.alpha.set_poison_policy(Q, attempts=1)
    two.alpha.send(Q, b"order", transactional=True)
    with caplog.at_level(logging.WARNING, logger="onceq"):
        consumed(two.alpha)
    (line,) = [one for one in caplog.records if "handler failed" in one.getMessage()]
    assert line.exc_info is not None
    assert "in fail" in (line.exc_text or logging.Formatter().formatException(line.exc_info))


def test_tasks_say_it_alike(two: Two) -> None:
    async def work() -> str:
        async with await aio.open(str(two.path / "ALPHA")) as qm:
            await qm.send(Q, b"order", transactional=True)
            tx = qm.transaction()
            await tx.receive(Q, timeout=WAIT)
            await tx.abort("the till is closed")
            return (await qm.peek(Q, timeout=WAIT)).failure

    two.alpha.close()
    assert asyncio.run(work()) == "the till is closed"
