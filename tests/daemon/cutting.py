"""A relay between an application and its queue manager that loses chosen frames and connections.

It knows frames, not what they mean for anybody, so that a test decides exactly where a connection
breaks: before a commit has arrived, or after it has been done and before its answer is heard.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

from onceq.wire.app import frames
from onceq.wire.app.frames import Code

BEFORE = "before"
"""The request never arrives."""
AFTER = "after"
"""The request is carried out; its answer is never heard."""


class Relay:
    """Listens at a Unix socket and passes everything on to another."""

    def __init__(self, folder: Path, to: Path) -> None:
        self.where = f"unix://{folder / 'relay.sock'}"
        self._to = to
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(folder / "relay.sock"))
        self._server.listen()
        self._cut: tuple[int, str] | None = None
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.close()

    def cut(self, code: int, when: str) -> None:
        """Break the connection at the next request with that code."""
        self._cut = (code, when)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                self.connections += 1
                far = socket.socket(socket.AF_UNIX)
                try:
                    far.connect(str(self._to))
                except OSError:
                    near.close()
                    far.close()
                    continue
                passing = _Passing(self, near, far)
                threading.Thread(target=passing.requests, daemon=True).start()
                threading.Thread(target=passing.answers, daemon=True).start()


class _Passing:
    """One connection through a relay."""

    def __init__(self, relay: Relay, near: socket.socket, far: socket.socket) -> None:
        self._relay = relay
        self._near = near
        self._far = far
        self._deaf: int | None = None

    def requests(self) -> None:
        parser = frames.Parser()
        with contextlib.suppress(OSError):
            while raw := self._near.recv(1 << 16):
                for request, code, head, data in parser.feed(raw):
                    cut = self._relay._cut
                    if cut is not None and cut[0] == code:
                        self._relay._cut = None
                        if cut[1] == BEFORE:
                            self.close()
                            return
                        self._deaf = request
                    self._pass(self._far, request, code, head, data)
        self.close()

    def answers(self) -> None:
        parser = frames.Parser()
        with contextlib.suppress(OSError):
            while raw := self._far.recv(1 << 16):
                for request, code, head, data in parser.feed(raw):
                    if request == self._deaf:
                        self.close()
                        return
                    self._pass(self._near, request, code, head, data)
        self.close()

    @staticmethod
    def _pass(
        to: socket.socket, request: int, code: int, head: memoryview, data: memoryview
    ) -> None:
        size = frames.HEADER.size - 4 + len(head) + len(data)
        header = frames.HEADER.pack(size, request, code, 0, len(head))
        to.sendall(b"".join((header, head, data)))

    def close(self) -> None:
        for end in (self._near, self._far):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


__all__ = ["AFTER", "BEFORE", "Code", "Relay"]
