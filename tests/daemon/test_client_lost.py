"""Connections that break, managers that are killed, and what applications then know.

Upholds: I3a (in doubt is decided once), I17 (a lost client gives everything back).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import aio, errors
from onceq.model import requests
from onceq.model.branches import Vote, Xid
from onceq.wire.app.frames import FrameCode
from tests.daemon.applications import ROOT, WAIT_S, Blocking, Daemon, _in, background_loop
from tests.daemon.cutting import AFTER, BEFORE, Relay

pytestmark = pytest.mark.slow
T = r"private$\orders"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "a") as made:
        with onceq.connect(made.where) as qm:
            qm.create_queue(T, transactional=True)
        yield made


@pytest.fixture
def relay(daemon: Daemon, tmp_path: Path) -> Iterator[Relay]:
    with Relay(tmp_path, daemon.path / "onceq.sock") as made:
        yield made


@pytest.fixture(params=["threads", "tasks"])
def qm(request: pytest.FixtureRequest, relay: Relay) -> Iterator[Any]:
    """A client behind the relay, for threads or for tasks."""
    if request.param == "threads":
        with onceq.connect(relay.where) as made:
            yield made
        return
    with (
        background_loop() as loop,
        Blocking(_in(loop, aio.connect(relay.where)), loop) as wrapped,
    ):
        yield wrapped


def found(daemon: Daemon) -> list[bytes]:
    """What stands in the queue, read by somebody else."""
    with onceq.connect(daemon.where) as other:
        settled(other)
        try:
            return other.peek_many(T, 10_000).bodies()
        except onceq.ReceiveTimeout:
            return []


def settled(qm: Any) -> None:
    """The manager has heard of every connection that was lost, and undone what was open there."""
    while qm.admin.transactions():
        pass


# ---- commits whose answer is lost ----------------------------------------------------------


@pytest.mark.parametrize(("when", "outcome"), [(BEFORE, "aborted"), (AFTER, "committed")])
@pytest.mark.parametrize("begun", [False, True])
def test_a_commit_in_doubt_is_settled_by_asking(
    daemon: Daemon, relay: Relay, qm: Any, when: str, outcome: str, begun: bool
) -> None:
    qm.send(T, b"there before", transactional=True)
    tx = qm.transaction()
    if begun:
        assert tx.receive(T, timeout=0).body == b"there before"
    tx.send(T, b"new")
    relay.cut(requests.Commit.code, when)
    with pytest.raises(onceq.InDoubt) as caught:
        tx.commit()
    assert caught.value.transaction == tx.id
    with pytest.raises(errors.TransactionOver, match="in doubt"):
        tx.commit()
    assert qm.outcome(tx.id) == outcome
    assert relay.connections == 2
    done = [b"new"] if begun else [b"there before", b"new"]
    assert found(daemon) == (done if outcome == "committed" else [b"there before"])
    for _ in range(2):
        daemon.kill()
        daemon.start()
        assert qm.outcome(tx.id) == outcome, "also after a restart"


@pytest.mark.parametrize(("when", "outcome"), [(BEFORE, "aborted"), (AFTER, "committed")])
def test_a_batch_in_doubt_is_settled_by_asking(
    daemon: Daemon, relay: Relay, qm: Any, when: str, outcome: str
) -> None:
    relay.cut(requests.Commit.code, when)
    with pytest.raises(onceq.InDoubt) as caught:
        qm.send_many(T, [b"1", b"2"], transactional=True)
    assert qm.outcome(caught.value.transaction) == outcome
    assert found(daemon) == ([b"1", b"2"] if outcome == "committed" else [])
    qm.send(T, b"3", transactional=True)
    assert found(daemon)[-1] == b"3"


def test_the_with_block_says_in_doubt_too(daemon: Daemon, relay: Relay, qm: Any) -> None:
    with pytest.raises(onceq.InDoubt), qm.transaction() as tx:
        tx.send(T, b"1")
        relay.cut(requests.Commit.code, AFTER)
    assert qm.outcome(tx.id) == "committed"
    assert found(daemon) == [b"1"]


@pytest.mark.parametrize("code", [requests.Begin.code, requests.Receive.code, requests.Commit.code])
@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_run_does_a_transaction_once_wherever_its_connection_breaks(
    daemon: Daemon, relay: Relay, qm: Any, code: FrameCode, when: str
) -> None:
    """Again where it has not happened, and not where it has: the outcome is asked for."""
    qm.send_many(T, [b"1", b"2"], transactional=True)
    seen: list[bytes] = []

    def work(tx: Any) -> bytes:
        body: bytes = tx.receive(T, timeout=WAIT_S).body
        seen.append(body)
        tx.send(T, b"of " + body)
        return body

    relay.cut(code, when)
    assert qm.run(work) == b"1"
    assert not relay.armed
    assert seen == [b"1"] * (2 if (code, when) == (requests.Commit.code, BEFORE) else 1)
    assert found(daemon) == [b"2", b"of 1"]


class Deadly:
    """A partner that is told of a decision while the manager that has decided dies."""

    name = "deadly:1"

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def check(self) -> None:
        pass

    def begin(self, xid: Xid) -> None:
        pass

    def prepare(self, xid: Xid) -> Vote:
        return Vote.PREPARED

    def commit(self, xid: Xid) -> None:
        self._daemon.kill()

    def commit_one_phase(self, xid: Xid) -> None:
        raise NotImplementedError

    rollback = forget = commit_one_phase

    def abandon(self) -> None:
        raise NotImplementedError

    def resource(self) -> None:
        pass


def test_a_manager_that_dies_after_its_decision_does_not_undo_it(
    daemon: Daemon, qm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onceq.client.link.RECONNECT_S", ())
    tx = qm.transaction()
    tx.enlist(Deadly(daemon))
    tx.send(T, b"1")
    tx.commit()
    assert tx.pending == []
    daemon.start()
    assert qm.outcome(tx.id) == "committed"
    assert found(daemon) == [b"1"]


def test_killed_in_the_middle_of_commits(daemon: Daemon) -> None:
    """The driver's own account against the queue, over several kills of the manager."""
    account: list[bytes] = []
    numbers = itertools.count()
    with onceq.connect(daemon.where) as qm:
        for round in range(6):
            last = 10 + 7 * round
            for step in itertools.count():
                bodies = [b"%d" % next(numbers) for _ in range(1 + step % 5)]
                if step == last:
                    threading.Timer(0.0, daemon.kill).start()
                try:
                    with qm.transaction() as tx:
                        tx.send_many(T, bodies)
                except onceq.InDoubt as doubt:
                    daemon.start()
                    outcome = qm.outcome(doubt.transaction)
                    assert outcome in ("committed", "aborted")
                    if outcome == "committed":
                        account += bodies
                    break
                except errors.ServiceNotAvailable:
                    # It was gone before the commit left: certainly not done.
                    daemon.start()
                    assert qm.admin.status()["name"] == "ALPHA"
                    break
                else:
                    account += bodies
    assert found(daemon) == account


def test_a_manager_that_is_paused_loses_nothing(daemon: Daemon) -> None:
    with onceq.connect(daemon.where) as qm:
        daemon.signal(signal.SIGSTOP)
        done: list[object] = []
        thread = threading.Thread(
            target=lambda: done.append(qm.send(T, b"slow", transactional=True))
        )
        thread.start()
        daemon.signal(signal.SIGCONT)
        thread.join(WAIT_S)
        assert len(done) == 1
    assert found(daemon) == [b"slow"]


# ---- transactions whose connection is lost ---------------------------------------------------


def test_open_transactions_are_over_when_their_connection_is(
    daemon: Daemon, relay: Relay, qm: Any
) -> None:
    qm.send_many(T, [b"1", b"2"], transactional=True)
    for step in ("receive", "commit", "remove"):
        tx = qm.transaction()
        assert tx.receive(T, timeout=0).body == b"1"
        relay.cut(requests.Look.code, BEFORE)
        qm.admin.status()  # Asked again on another connection.
        steps: dict[str, Callable[[], object]] = {
            "receive": partial(tx.receive, T, timeout=0),
            "commit": tx.commit,
            "remove": partial(tx.remove, T, 0, 1 << 60),
        }
        with pytest.raises(errors.TransactionLost, match=r"connection was lost"):
            steps[step]()
        settled(qm)
        tx_again = qm.transaction()
        message = tx_again.receive(T, timeout=0)
        assert message.body == b"1"
        tx_again.abort()


def test_a_connection_lost_in_a_receive_of_a_transaction(
    daemon: Daemon, relay: Relay, qm: Any
) -> None:
    qm.send(T, b"1", transactional=True)
    relay.cut(requests.Receive.code, AFTER)
    with pytest.raises(errors.TransactionLost, match="connection was lost"), qm.transaction() as tx:
        tx.receive(T, timeout=0)
    assert qm.receive(T, timeout=WAIT_S).abort_count == 1


def test_what_was_only_gathered_survives_a_lost_connection(
    daemon: Daemon, relay: Relay, qm: Any
) -> None:
    with qm.transaction() as tx:
        tx.send(T, b"1")
        relay.cut(requests.Look.code, BEFORE)
        qm.admin.status()
        tx.send(T, b"2")
    assert found(daemon) == [b"1", b"2"]


def test_the_error_of_the_block_is_not_hidden_by_a_lost_connection(relay: Relay, qm: Any) -> None:
    qm.send(T, b"1", transactional=True)
    with pytest.raises(RuntimeError, match="mine"), qm.transaction() as tx:
        tx.receive(T, timeout=0)
        relay.cut(requests.Abort.code, BEFORE)
        raise RuntimeError("mine")


def test_a_queue_held_open_is_not_held_on_another_connection(relay: Relay, qm: Any) -> None:
    held = qm.open_queue(T)
    relay.cut(requests.Look.code, BEFORE)
    qm.admin.status()
    with pytest.raises(errors.HandleLost):
        held.peek()
    held.close()


# ---- calls that need nothing but an answer ---------------------------------------------------


def test_questions_are_asked_again(relay: Relay, qm: Any) -> None:
    qm.send(T, b"1", transactional=True)
    for code, work in (
        (requests.Look.code, qm.admin.status),
        (requests.Look.code, qm.queues),
        (requests.Receive.code, lambda: qm.peek(T)),
    ):
        relay.cut(requests.Look.code, AFTER)
        relay.cut(code, BEFORE)
        assert work() is not None


def test_what_may_have_happened_is_not_asked_again(daemon: Daemon, relay: Relay, qm: Any) -> None:
    relay.cut(requests.PurgeQueue.code, AFTER)
    with pytest.raises(errors.LinkLost):
        qm.purge(T)
    qm.create_queue(r"private$\plain")
    relay.cut(requests.Send.code, AFTER)
    with pytest.raises(errors.LinkLost):
        qm.send(r"private$\plain", b"x", delivery="express")


def test_an_idle_client_does_not_notice_a_restart(daemon: Daemon) -> None:
    """It looks before it asks: no commit is in doubt only because nobody used the connection."""
    with onceq.connect(daemon.where) as qm:
        for number in range(3):
            daemon.kill()
            daemon.start()
            qm.send(T, b"%d" % number, transactional=True)
        with qm.transaction() as tx:
            tx.send(T, b"3")
            daemon.stop()
            daemon.start()
    assert found(daemon) == [b"0", b"1", b"2", b"3"]


def test_a_manager_that_stays_away_is_said_to_be(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onceq.client.link.RECONNECT_S", (0.0, 0.0))
    with onceq.connect(daemon.where) as qm:
        tx = qm.transaction()
        tx.send(T, b"patient")
        daemon.kill()
        for work in (qm.admin.status, tx.commit, lambda: qm.send(T, b"x", transactional=True)):
            with pytest.raises(errors.ServiceNotAvailable, match="running"):
                work()
        daemon.start()
        tx.commit()
    assert found(daemon) == [b"patient"]


def test_another_manager_at_the_same_place_is_refused(daemon: Daemon, tmp_path: Path) -> None:
    with onceq.connect(daemon.where) as qm:
        qm.send(T, b"1", transactional=True)
        daemon.stop()
        daemon.path.rename(tmp_path / "old")
        with (
            Daemon(daemon.path, name="OTHER"),
            pytest.raises(errors.ServiceNotAvailable, match="OTHER"),
        ):
            qm.admin.status()


# ---- clients that are lost -------------------------------------------------------------------


LOST_CLIENT = """
import sys, onceq
qm = onceq.connect(sys.argv[1])
tx = qm.transaction()
print(tx.receive(sys.argv[2], timeout=0).text, flush=True)
tx.send(sys.argv[2], b"never")
held = qm.open_queue(sys.argv[2], share="deny-receive")
sys.stdin.read()
"""


def test_a_killed_client_gives_everything_back(daemon: Daemon) -> None:
    with onceq.connect(daemon.where) as qm:
        qm.send(T, b"mine", transactional=True)
        # A fresh interpreter, with next to no environment.
        lost = subprocess.Popen(
            [sys.executable, "-c", LOST_CLIENT, daemon.where, T],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={"PYTHONPATH": str(ROOT / "src")},
        )  # fmt: skip
        assert lost.stdout is not None
        assert lost.stdin is not None
        assert lost.stdout.readline().strip() == "mine"
        with pytest.raises((onceq.ReceiveTimeout, errors.SharingViolation)):
            qm.receive(T, timeout=0)
        lost.kill()
        lost.wait(WAIT_S)
        lost.stdout.close()
        lost.stdin.close()
        message = received_when_shared(qm)
        assert (message.body, message.abort_count) == (b"mine", 1)
        assert qm.admin.transactions() == []
        with pytest.raises(onceq.ReceiveTimeout):
            qm.receive(T, timeout=0)


def received_when_shared(qm: onceq.QueueManager) -> onceq.Message:
    """Receive as soon as nobody holds the queue for himself."""
    for _ in range(10_000):
        with contextlib.suppress(errors.SharingViolation):
            return qm.receive(T, timeout=WAIT_S)
    raise AssertionError("the lost client's handle is still held")


def test_a_client_that_leaves_gives_everything_back(daemon: Daemon) -> None:
    with onceq.connect(daemon.where) as qm:
        qm.send(T, b"mine", transactional=True)
        with onceq.connect(daemon.where) as other:
            other.transaction().receive(T, timeout=0)
        assert qm.receive(T, timeout=WAIT_S).abort_count == 1


def test_a_manager_that_stops_ends_waits_in_order(daemon: Daemon) -> None:
    with onceq.connect(daemon.where) as qm:
        raised: list[BaseException] = []

        def wait() -> None:
            try:
                qm.receive(T)
            except onceq.OnceqError as error:
                raised.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        with onceq.connect(daemon.where) as other:
            while not other.admin.status()["waiting_readers"]:
                pass
        daemon.stop()
        thread.join(WAIT_S)
        (error,) = raised
        assert type(error) is errors.ManagerAway


def test_a_closed_client_says_so(daemon: Daemon) -> None:
    qm = onceq.connect(daemon.where)
    qm.close()
    qm.close()
    with pytest.raises(errors.ServiceNotAvailable, match="closed"):
        qm.admin.status()

    async def tasks() -> None:
        other = await aio.connect(daemon.where)
        await other.close()
        with pytest.raises(errors.ServiceNotAvailable, match="closed"):
            await other.admin.status()

    asyncio.run(tasks())
