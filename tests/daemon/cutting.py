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

BEFORE = "before"
"""The request never arrives."""
AFTER = "after"
"""The request is carried out; its answer is never heard."""
HALF = "half"
"""The same, and the queue manager does not hear that the connection has ended, until it has refused
something on another one."""
LATE = "late"
"""The request arrives when the queue manager has refused something on another connection, and only
behind it the end of this one."""
LATER = "later"
"""The same, and it hears of the end only when it has refused one thing more: meanwhile what has
arrived late is at work."""
LATE_S_MAX = 30.0


class Relay:
    """Listens at a Unix socket and passes everything on to another."""

    def __init__(self, folder: Path, to: Path) -> None:
        self.where = f"unix://{folder / 'relay.sock'}"
        self._to = to
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(folder / "relay.sock"))
        self._server.listen()
        self._cut: tuple[int, str] | None = None
        self._number = 0
        self._held: list[_Passing] = []
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.close()

    def cut(self, code: int, when: str) -> None:
        """Break the connection at the next request with that code."""
        self._cut = (code, when)

    def cut_number(self, number: int, when: str) -> None:
        """Break the connection at a request of any kind, counted from now, from 1."""
        self._cut, self._number = (0, when), number

    @property
    def armed(self) -> bool:
        """Whether it has still to break one."""
        return self._cut is not None

    def due(self, code: int) -> str:
        """Whether a connection breaks at this request, and how."""
        if self._cut is None or self._cut[0] not in (0, code):
            return ""
        self._number -= 1
        if not self._cut[0] and self._number > 0:
            return ""
        (_, when), self._cut = self._cut, None
        return when

    def hold(self, passing: _Passing) -> None:
        """Leave the queue manager's end of it open until something is refused."""
        self._held.append(passing)

    def refused(self) -> None:
        """The queue manager has refused something: pass on what is late, and close."""
        held, self._held = self._held, []
        self._held += [passing for passing in held if not passing.finish()]

    def let_go(self) -> None:
        """Close all of those now."""
        while self._held:
            self.refused()

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
        self._half = self._stays = False
        self._late: tuple[int, int, bytes, bytes] | None = None
        self._answered = threading.Event()

    def requests(self) -> None:
        parser = frames.Parser()
        with contextlib.suppress(OSError):
            while raw := self._near.recv(1 << 16):
                for request, code, head, data in parser.feed(raw):
                    when = self._relay.due(code)
                    if when in (LATE, LATER):
                        self._stays = when == LATER
                        self._late, self._deaf = (request, code, bytes(head), bytes(data)), request
                        self._half_closed()
                        return
                    if when == BEFORE:
                        self.close()
                        return
                    if when:
                        self._deaf, self._half = request, when == HALF
                    self._pass(self._far, request, code, head, data)
        if not self._half:
            self.close()

    def answers(self) -> None:
        parser = frames.Parser()
        with contextlib.suppress(OSError):
            while raw := self._far.recv(1 << 16):
                for request, code, head, data in parser.feed(raw):
                    if request == self._deaf:
                        self._answered.set()
                        if self._late:
                            return
                        if self._half:
                            self._half_closed()
                        else:
                            self.close()
                        return
                    if code & frames.FAILED:
                        self._relay.refused()
                    self._pass(self._near, request, code, head, data)
        self.close()

    @staticmethod
    def _pass(
        to: socket.socket, request: int, code: int, head: memoryview, data: memoryview
    ) -> None:
        size = frames.HEADER.size - 4 + len(head) + len(data)
        header = frames.HEADER.pack(size, request, code, 0, len(head))
        to.sendall(b"".join((header, head, data)))

    def _half_closed(self) -> None:
        self._half = True
        self._relay.hold(self)
        _ended(self._near)

    def finish(self) -> bool:
        """Pass on what is late, and close the other end, too; False: that has still to be done."""
        if self._late is not None and not self._answered.is_set():
            request, code, head, data = self._late
            with contextlib.suppress(OSError):
                self._pass(self._far, request, code, memoryview(head), memoryview(data))
                self._answered.wait(LATE_S_MAX if request else 0.0)
            self._answered.set()
            if self._stays:
                return False
        _ended(self._far)
        return True

    def close(self) -> None:
        for end in (self._near, self._far):
            _ended(end)


def _ended(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


__all__ = ["AFTER", "BEFORE", "HALF", "LATE", "LATER", "Relay"]
