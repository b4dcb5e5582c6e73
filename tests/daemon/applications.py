"""For tests of the client library: real daemons, and every kind of client with one face."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

import onceq
from onceq import aio
from onceq.client.tasks.running import AsyncManagerPart
from tests import nursery
from tests.scratch import scratch

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60.0
"""Longest wait for what must come; only a defect makes a test wait so long."""
KINDS = ("embedded", "daemon", "embedded-async", "daemon-async")


class Daemon:
    """A queue manager in a process of its own."""

    def __init__(self, path: Path, *, name: str = "ALPHA", tcp: bool | int = False) -> None:
        """Nothing runs yet.

        Args:
            tcp: Whether applications can connect over TCP, or the port where they can.
        """
        self.path = path
        self._name = name
        self._tcp = tcp
        self._process: subprocess.Popen[str] | None = None
        self.ready = ""

    def __enter__(self) -> Daemon:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it and wait until it is ready."""
        command = [
            sys.executable, "-m", "onceq.service.main", "--data", str(self.path), "--create",
            self._name, "--listen", "", "--client-listen",
            f"127.0.0.1:{0 if self._tcp is True else self._tcp}" if self._tcp else "",
        ]  # fmt: skip
        with open(self.path.parent / f"{self.path.name}.log", "a") as log:
            self._process = nursery.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )  # fmt: skip
        assert self._process.stdout is not None
        self.ready = self._process.stdout.readline()
        assert "ready" in self.ready, (self.path.parent / f"{self.path.name}.log").read_text()

    def admit_nobody(self) -> None:
        """Applications over TCP, which prove nothing here, may do everything."""
        with onceq.connect(self.where) as qm:
            qm.rights.grant("nobody", "administer")

    @property
    def where(self) -> str:
        """For ``connect``."""
        return str(self.path)

    @property
    def tcp(self) -> str:
        """For ``connect`` over TCP."""
        return "onceq://" + self.ready.rsplit(" ", 1)[1].strip()

    def signal(self, number: int) -> None:
        """Such as SIGSTOP."""
        assert self._process is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """SIGKILL: nothing is finished, nothing is flushed."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """In order."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            process.send_signal(number)
            process.wait(WAIT_S)
            assert process.stdout is not None
            process.stdout.close()


class Blocking:
    """An object of the async client with the face of the sync one."""

    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    def _wait(self, value: Any) -> Any:
        if inspect.isawaitable(value):
            return self._wait(_in(self._loop, value))
        if inspect.isasyncgen(value):
            return self._each(value)
        wrapped = (
            aio.AsyncQueueManager, aio.AsyncTransaction, aio.AsyncOpenQueue, aio.AsyncCursor,
            aio.AsyncTracked, aio.AsyncXa, AsyncManagerPart,
        )  # fmt: skip
        return Blocking(value, self._loop) if isinstance(value, wrapped) else value

    def _each(self, values: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    found = _in(self._loop, anext(values))
                except StopAsyncIteration:
                    return
                yield tuple(map(self._wait, found)) if isinstance(found, tuple) else found
        finally:
            _in(self._loop, values.aclose())

    def consume(self, queue: str, handler: Any, **options: Any) -> Any:
        """The handler is a plain function in both kinds of client."""

        async def call(tx: Any, *found: Any) -> None:
            await asyncio.to_thread(handler, Blocking(tx, self._loop), *found)

        return self._wait(self._inner.consume(queue, call, **options))

    def run(self, work: Any, **options: Any) -> Any:
        """The work is a plain function in both kinds of client."""

        async def call(tx: Any) -> Any:
            return await asyncio.to_thread(work, Blocking(tx, self._loop))

        return self._wait(self._inner.run(call, **options))

    def __repr__(self) -> str:
        return repr(self._inner)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return self._wait(found)
        return lambda *args, **options: self._wait(
            found(*args, **{name: self._bare(value) for name, value in options.items()})
        )

    @staticmethod
    def _bare(value: Any) -> Any:
        return value._inner if isinstance(value, Blocking) else value

    def __enter__(self) -> Blocking:
        _in(self._loop, self._inner.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _in(self._loop, self._inner.__aexit__(kind, error, trace))


def _in(loop: asyncio.AbstractEventLoop, awaitable: Any) -> Any:
    async def work() -> Any:
        return await awaitable

    return asyncio.run_coroutine_threadsafe(work(), loop).result(WAIT_S)


@contextmanager
def background_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_S)
        loop.close()


@contextmanager
def manager_with(
    kind: str, factory: pytest.TempPathFactory, *, transactional: Sequence[str] = (),
    plain: Sequence[str] = (),
) -> Iterator[Any]:  # fmt: skip
    """A client of that kind of a manager with these queues, for the tests of a module."""
    with scratch(factory, kind) as folder, client(kind, folder / "a") as qm:
        for queue in transactional:
            qm.create_queue(queue, transactional=True)
        for queue in plain:
            qm.create_queue(queue)
        yield qm


@contextmanager
def emptied(manager: Any) -> Iterator[Any]:
    """The manager with its queues empty, for one test."""
    for queue in manager.queues():
        manager.purge(queue["path"])
    yield manager
    assert not manager.admin.transactions(), "a test has left a transaction open"


@contextmanager
def client(kind: str, path: Path) -> Iterator[Any]:
    """A queue manager of one of ``KINDS``, all with the face of the sync client."""
    with background_loop() as loop:
        if kind == "embedded":
            with onceq.open(str(path), name="ALPHA", create=True) as qm:
                yield qm
        elif kind == "embedded-async":
            with Blocking(
                _in(loop, aio.open(str(path), name="ALPHA", create=True)), loop
            ) as wrapped:
                yield wrapped
        else:
            with Daemon(path) as daemon:
                if kind == "daemon":
                    with onceq.connect(daemon.where) as qm:
                        yield qm
                else:
                    with Blocking(_in(loop, aio.connect(daemon.where)), loop) as wrapped:
                        yield wrapped
