"""Whatever comes in the middle of a call of its own thread, at any line of it (K5).

A trace function stands for what runs there: a signal handler, ``__del__``, the callback of a weak
reference. Each line of a call has its turn.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq.client.stopping import StopEvent
from onceq.errors import CallInCall, OnceqError, ReceiveTimeout, ServiceNotAvailable
from proof.torture.hosts.deeds import AtLine, Broken
from tests.daemon.applications import Daemon
from tests.scratch import scratch

pytestmark = pytest.mark.slow
Q, OUT = r"private$\orders", r"private$\out"
KINDS = ("daemon", "embedded")
WAIT_S = 20.0
"""Longest wait for what must come; only a defect makes a test wait so long."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with scratch(tmp_path_factory, "calls") as folder, Daemon(folder / "a") as made:
        with onceq.connect(made.where) as qm:
            qm.create_queue(Q, transactional=True)
            qm.create_queue(OUT, transactional=True)
        yield made


@pytest.fixture(params=KINDS)
def make(
    request: pytest.FixtureRequest, daemon: Daemon, tmp_path: Path
) -> Callable[[], onceq.QueueManager]:
    """Connects, or opens."""

    def embedded() -> onceq.QueueManager:
        qm = onceq.open(tmp_path / "a", name="A", create=True)
        for queue in (Q, OUT):
            qm.create_queue(queue, transactional=True, exist_ok=True)
        return qm

    return embedded if request.param == "embedded" else lambda: onceq.connect(daemon.where)


def block(qm: Any, queue: str) -> None:
    with qm.transaction() as tx:
        tx.send(queue, b"outer")


def lines_of(do: Callable[[], object]) -> int:
    with AtLine(0, lambda: None) as at:
        do()
    return at.seen


@pytest.fixture
def bodies(daemon: Daemon) -> Callable[[], list[bytes]]:
    """What stands in the queue for results."""

    def found() -> list[bytes]:
        with onceq.connect(daemon.where) as other:
            try:
                return sorted(other.peek_many(OUT, 10_000).bodies())
            except ReceiveTimeout:
                return []

    with onceq.connect(daemon.where) as other:
        other.purge(OUT)
        other.purge(Q)
    return found


def test_a_call_at_any_line_of_another_one_is_refused_or_happens(
    daemon: Daemon, bodies: Callable[[], list[bytes]]
) -> None:
    refused, happened = 0, 0
    said: list[str] = []
    with onceq.connect(daemon.where) as qm:
        block(qm, OUT)
        for line in range(1, lines_of(lambda: block(qm, OUT)) + 1):

            def call() -> None:
                nonlocal refused, happened
                try:
                    qm.send(OUT, b"inner", transactional=True)
                    happened += 1
                except CallInCall as error:
                    said.append(error.text)
                    refused += 1

            with AtLine(line, call):
                block(qm, OUT)
        found = bodies()
    assert refused > 20
    assert all("onceq.stopping()" in text for text in said)
    assert found.count(b"inner") == happened
    assert found.count(b"outer") == line + 2


def test_a_send_at_any_line_of_a_commit_goes_along_or_is_refused(
    daemon: Daemon, bodies: Callable[[], list[bytes]]
) -> None:
    """It used to be taken, and lost, while the answer to the commit was awaited."""
    with onceq.connect(daemon.where) as qm:
        block(qm, OUT)
        taken = refused = 0
        for line in range(1, 200):
            tx = qm.transaction()
            tx.send(OUT, b"outer")
            inner = 0

            def call(tx: Any = tx) -> None:
                nonlocal inner, refused
                try:
                    tx.send(OUT, b"inner")
                    inner += 1
                except OnceqError:
                    refused += 1

            with AtLine(line, call) as at:
                tx.commit()
            taken += inner
            if not at.done:
                break
        found = bodies()
    assert refused > 10
    assert (found.count(b"inner"), found.count(b"outer")) == (taken, line + 1)


def test_bodies_keep_their_lengths_whatever_comes_between(
    daemon: Daemon, bodies: Callable[[], list[bytes]]
) -> None:
    with onceq.connect(daemon.where) as qm:
        block(qm, OUT)
        sent = [b"outer"]
        for line in range(1, 80):
            with qm.transaction() as tx:
                tx.send(OUT, b"first")
                with AtLine(line, lambda: tx.send(OUT, b"by a handler")) as at:
                    tx.send(OUT, b"2")
                sent += [b"first", b"2"] + [b"by a handler"] * bool(at.done)
        assert bodies() == sorted(sent)


def test_close_at_any_line_ends_the_call(
    make: Callable[[], onceq.QueueManager], request: pytest.FixtureRequest
) -> None:
    """A receive, and ``close`` in the middle of it."""
    embedded = "embedded" in request.node.name
    for line in range(1, 400, 17 if embedded else 1):
        qm = make()
        with AtLine(line, qm.close) as at, pytest.raises(OnceqError):
            qm.receive(Q, timeout=WAIT_S if line < 4 else 0.05)
        if at.done:
            with pytest.raises(ServiceNotAvailable, match="closed"):
                qm.send(Q, b"m", transactional=True)
        qm.close()
        if not at.done:
            break
    assert line > 30


def test_close_in_a_signal_handler_ends_a_receive(make: Callable[[], onceq.QueueManager]) -> None:
    qm = make()
    qm.admin.status()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: qm.close())
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises((ServiceNotAvailable, onceq.errors.OperationCancelled)):
            qm.receive(Q)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
        qm.close()


def test_a_loop_that_is_collected_in_a_call_gives_its_message_back(
    daemon: Daemon, bodies: Callable[[], list[bytes]]
) -> None:
    with onceq.connect(daemon.where) as qm:
        block(qm, OUT)
        for line in range(1, 120, 2):
            qm.send(Q, b"m", transactional=True)
            left = [qm.work(Q)]
            next(left[0])
            with AtLine(line, left.clear):
                block(qm, OUT)
            assert qm.receive(Q, timeout=5.0).body == b"m"


def test_an_error_of_a_handler_leaves_no_other_call_waiting(daemon: Daemon) -> None:
    """It may come while this thread takes the answers for all."""
    with onceq.connect(daemon.where) as qm:
        link: Any = qm._link
        for line in range(1, 60):
            answered: list[object] = []

            def other(answered: list[object] = answered) -> None:
                with contextlib.suppress(ServiceNotAvailable):
                    qm.receive(Q, timeout=0.01)
                answered.append(True)

            thread = threading.Thread(target=_quietly, args=(other,))
            thread.start()

            def broken() -> None:
                raise Broken

            with contextlib.suppress(Broken, OnceqError), AtLine(line, broken):
                qm.queue(Q)
            thread.join(20)
            assert not thread.is_alive()
        assert link is not None


def _quietly(do: Callable[[], object]) -> None:
    with contextlib.suppress(ReceiveTimeout):
        do()


# ---- the event of stopping() ---------------------------------------------------------------------


def test_an_event_may_be_set_at_any_line_of_its_own_wait() -> None:
    """``threading.Event`` takes a lock in both, and waits for itself."""
    for line in range(1, 40):
        event = StopEvent()
        with AtLine(line, event.set) as at:
            event.wait(0.001)
        if not at.done:
            break
        assert event.is_set()
        assert event.wait()
    assert line > 3


def test_an_event_wakes_who_waits_in_other_threads_and_can_be_used_again() -> None:
    event = StopEvent()
    woken = threading.Thread(target=event.wait)
    woken.start()
    event.set()
    woken.join(20)
    assert not woken.is_alive()
    event.clear()
    assert not event.wait(0.001)


def test_the_event_of_a_parent_is_not_set_by_its_child() -> None:
    event = StopEvent()
    child = os.fork()
    if not child:
        signal.alarm(60)
        event.set()
        os._exit(0 if event.wait(0.001) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not event.wait(0.001)
