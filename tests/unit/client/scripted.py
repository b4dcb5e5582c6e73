"""The manager's end of a client connection, in the hands of a test."""

from __future__ import annotations

import socket
import threading
from array import array
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from onceq.client.address import ManagerAddress
from onceq.model import requests
from onceq.model.run import Run
from onceq.wire.app import frames
from onceq.wire.app.frames import ANSWER, FAILED, FrameCode, read

T = TypeVar("T")
WAIT_S = 20.0
"""Longest wait for what must come; only a defect makes a test wait so long."""


def begun(work: Callable[[], T]) -> Future[T]:
    """Do something in a thread."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asks for it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


GREETING: dict[int, type] = {FrameCode.HELLO: frames.Hello, FrameCode.PROVE: frames.Prove}
"""What comes before requests."""


class Scripted:
    """Listens at a Unix socket; takes one connection after another."""

    def __init__(self, folder: Path) -> None:
        self.address = ManagerAddress(path=str(folder / "app.sock"))
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.address.path)
        self._server.listen()
        self._server.settimeout(WAIT_S)
        self.peer: socket.socket | None = None
        self._parser = frames.Parser()
        self._ready: list[tuple[int, int, Any, bytes]] = []

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *exc: object) -> None:
        self.hang_up()
        self._server.close()

    def accept(self) -> None:
        """The next connection, its hello not read yet."""
        self.hang_up()
        self.peer, _ = self._server.accept()
        self.peer.settimeout(WAIT_S)
        self._parser = frames.Parser()
        self._ready.clear()

    def greet(
        self, *, name: str = "ALPHA", id: bytes = bytes(16), now_s: int = 1_000
    ) -> None:  # fmt: skip
        """Accept and answer the hello."""
        self.accept()
        request, code, _, _ = self.read()
        assert code == FrameCode.HELLO
        self.write(request, code | ANSWER, frames.Welcome(frames.VERSION, name, id, now_s))

    def read(self) -> tuple[int, int, Any, bytes]:
        """The next request."""
        assert self.peer is not None
        while not self._ready:
            raw = self.peer.recv(1 << 16)
            assert raw, "the client closed the connection"
            for request, code, head, data in self._parser.feed(raw):
                kind = GREETING.get(code)
                decoded = frames.decode_head(head, kind) if kind else read(code, head, data)
                self._ready.append((request, code, decoded, bytes(data)))
        return self._ready.pop(0)

    def write(self, request: int, code: int, head: object, *data: bytes) -> None:
        """An answer."""
        assert self.peer is not None
        self.peer.sendall(b"".join(frames.frame(request, code, head, *data)))

    def say(self, request: int, value: object, code: int = requests.SetQueue.code) -> None:
        """A plain value as the answer of a request."""
        self.write(request, code | ANSWER, value)

    def fail(
        self, request: int, error: str, text: str = "", code: int = requests.SetQueue.code
    ) -> None:
        """An error as the answer; request 0 ends the connection."""
        self.write(request, code | FAILED, frames.Failure(error, text))

    def hand(self, request: int, *bodies: bytes) -> None:
        """Messages as the answer of a receive (bodies where packets would stand)."""
        count = len(bodies)
        numbers = array("I", [0] * count).tobytes()
        head = frames.HandedHead(count, array("Q", range(count)).tobytes(), numbers, numbers)
        pieces = frames.pack_runs([Run.of(list(bodies))])
        self.write(request, requests.Receive.code | ANSWER, head, *(bytes(p) for p in pieces))

    def hang_up(self) -> None:
        """End the connection."""
        if self.peer is not None:
            self.peer.close()
            self.peer = None
