"""A signal ends every wait of the main thread, also one that comes just before the wait begins.

The moment is hit each time: what the wait calls is replaced by a chain of two calls in C, first the
signal, then the wait itself, with no step of the interpreter between them in which it would look.
"""

from __future__ import annotations

import ctypes
import operator
import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

import onceq
from onceq.client import stopping as pause_module
from onceq.client.stopping import acquire, pause, wait_readable

TIMES = 200
LATE: list[int] = []
RESCUE_S = 8.0
"""What was not heard by then would be heard an hour later."""
RAISE: Callable[[int], int] = ctypes.CDLL(None)["raise"]


class Chained:
    """A poll object in whose ``poll`` the signal comes before the waiting begins."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        self._real = select.poll()
        self._number = number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def poll(self, *arguments: Any) -> Any:
        steps: tuple[partial[Any], ...] = (
            partial(RAISE, self._number), partial(self._real.poll, *arguments)
        )  # fmt: skip
        return list(map(operator.call, steps))[1]


class FakeSelect:
    """In place of the module, for one test."""

    POLLIN = select.POLLIN
    number: int = signal.SIGINT

    @classmethod
    def poll(cls) -> Chained:
        return Chained(cls.number)


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Whoever does not hear is told again, so that the test ends; but it has failed."""
    LATE.clear()

    def rescue() -> None:
        LATE.append(1)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(RESCUE_S, rescue)
    timer.daemon = True
    timer.start()
    yield
    timer.cancel()
    signal.signal(signal.SIGINT, before)
    assert not LATE, "the signal was not heard"


@contextmanager
def just_before(monkeypatch: pytest.MonkeyPatch, number: int = signal.SIGINT) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(FakeSelect, "number", number)
        patch.setattr(pause_module, "select", FakeSelect)
        yield


def test_a_signal_just_before_a_pause_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with just_before(monkeypatch):
        for _ in range(TIMES):
            with pytest.raises(KeyboardInterrupt):
                pause(3_600)
            assert not LATE


def test_a_signal_just_before_a_wait_for_an_answer_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, just_before(monkeypatch):
        for _ in range(TIMES):
            with pytest.raises(KeyboardInterrupt):
                wait_readable(ours.fileno(), None)
            assert not LATE


def test_a_receive_that_waits_for_ever_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """As ``onceq receive`` waits, or any program in its main thread."""
    with onceq.open(str(tmp_path / "a"), name="A", create=True) as qm:
        network = qm._link._host._network  # type: ignore[attr-defined]
        path = str(tmp_path / "s")
        qm._link._host._await(network.listen_socket(path))  # type: ignore[attr-defined]
        qm.create_queue(r"private$\q")
        with (
            onceq.connect(f"unix://{path}") as there,
            just_before(monkeypatch),
            pytest.raises(KeyboardInterrupt),
        ):
            there.receive(r"private$\q")


def test_a_handler_that_does_not_raise_ends_a_pause_that_has_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    try:
        with just_before(monkeypatch, signal.SIGTERM):
            for count in range(1, TIMES):
                pause(3_600, lambda: len(asked) >= count)  # noqa: B023 - it is called at once
                assert len(asked) == count
    finally:
        signal.signal(signal.SIGTERM, before)


def test_without_a_signal_it_takes_its_time_and_no_longer() -> None:
    pause(0.01)
    pause(0.0)
    pause(-1.0)
    assert not wait_readable(None, 0.001)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"x")
        assert wait_readable(ours.fileno(), None)


def test_other_threads_may_pause() -> None:
    done: list[bool] = []

    def work() -> None:
        pause(0.001)
        done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def test_the_descriptor_of_a_loop_is_left_alone() -> None:
    """An application's event loop has its own; the wait goes on in slices then."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        before = signal.set_wakeup_fd(ours.fileno())
        try:
            pause(0.01)
            assert signal.set_wakeup_fd(ours.fileno()) == ours.fileno()
        finally:
            signal.set_wakeup_fd(before)


def test_locks_are_waited_for_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pause_module, "LOCK_SLICE_S", 0.01)
    slices: list[float] = []

    class Lock:
        def acquire(self, timeout: float = -1) -> bool:
            slices.append(timeout)
            return len(slices) > 3

    acquire(Lock())  # type: ignore[arg-type]
    assert slices == [0.01] * 4


def test_a_fork_has_a_descriptor_of_its_own() -> None:
    # Not ``pause``: on a busy machine its time may be over before it begins to wait.
    wait_readable(None, 0.001)
    first = pause_module._pair
    assert first is not None
    child = os.fork()
    if not child:
        wait_readable(None, 0.001)
        os._exit(0 if pause_module._pair is not None and pause_module._pair != first else 1)
    assert os.waitpid(child, 0)[1] == 0
