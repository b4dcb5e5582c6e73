"""What systemd hears, that it hears nothing of a loop that hangs, and when signals count."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceq.service import daemon
from onceq.service.config import PID_FILE, Configuration
from onceq.service.daemon import ALIVE, READY, Watchdog, notify, watchdog_s
from onceq.service.data_directory import init


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The supervisor's end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        own.bind(str(tmp_path / "notify"))
        own.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield own


def all_of(own: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(own.recv(100).decode())
        except BlockingIOError:
            return found


def test_whoever_wants_to_know_is_told(heard: socket.socket) -> None:
    notify(READY)
    assert all_of(heard) == ["READY=1"]


def test_without_anybody_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify(READY)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    notify(READY)


@pytest.mark.parametrize(
    ("wait", "pid", "every_s"),
    [
        ("60000000", "", 30.0),
        ("60000000", "own", 30.0),
        ("60000000", "1", 0.0),
        ("", "", 0.0),
        ("nonsense", "", 0.0),
        ("-5", "", 0.0),
    ],
)
def test_how_often_it_must_be_said(
    monkeypatch: pytest.MonkeyPatch, wait: str, pid: str, every_s: float
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", wait)
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "own" else pid)
    assert watchdog_s() == every_s


class Loop:
    """Time that is told when to pass."""

    def __init__(self) -> None:
        self.due: list[object] = []

    def call_later(self, seconds: float, work: object) -> asyncio.TimerHandle:
        self.due = [work]
        return Handle(self)  # type: ignore[return-value]

    def ring(self) -> None:
        (work,) = self.due
        assert callable(work)
        work()


class Handle:
    def __init__(self, loop: Loop) -> None:
        self.loop = loop

    def cancel(self) -> None:
        self.loop.due = []


def test_a_loop_that_works_is_alive_and_one_that_hangs_is_not(
    heard: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "watchdog_s", lambda: 30.0)
    loop, turns, idle = Loop(), [0], [True]
    dog = Watchdog(loop, lambda: turns[0], lambda: idle[0])  # type: ignore[arg-type]
    dog.start()
    assert all_of(heard) == [ALIVE]
    loop.ring()
    assert all_of(heard) == [ALIVE], "nothing is to be done"
    idle[0] = False
    loop.ring()
    assert all_of(heard) == [], "there is work, and nobody has done any"
    turns[0] += 1
    loop.ring()
    assert all_of(heard) == [ALIVE], "it has been done"
    dog.stop()
    assert loop.due == []


def test_nobody_waits_and_nothing_is_said(
    heard: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    dog = Watchdog(Loop(), lambda: 0, lambda: True)  # type: ignore[arg-type]
    dog.start()
    dog.stop()
    assert all_of(heard) == []


def test_signals_count_from_the_moment_its_process_id_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def note(self: daemon.ManagerDaemon, name: str, text: str) -> None:
        if name == PID_FILE:
            for number in (signal.SIGTERM, signal.SIGHUP):
                assert signal.getsignal(number) is not signal.SIG_DFL
                os.kill(os.getpid(), number)

    monkeypatch.setattr(daemon.ManagerDaemon, "_note", note)
    store = init(str(tmp_path), name="ALPHA")
    daemon.run(str(tmp_path), store, Configuration(listen=""), lambda started: None)
