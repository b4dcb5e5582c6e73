"""One connection of an application, spoken by hand: any request, whatever the client library would
say of it, under any identity."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable
from typing import Any

from onceq.errors import LinkLost, OnceqError
from onceq.model.requests import Request
from onceq.sockets.both_ends import bound_to
from onceq.wire.app import frames
from onceq.wire.app.frames import ANSWER, FAILED, FrameCode, decode, failure, written
from tests.proofs import asks, hello

WAIT_S = 60.0
"""Longest wait for an answer; only a defect makes a test wait so long."""


class Line:
    """A connection that has said hello.

    Attributes:
        refused: Why it was turned away; None: it was not.
    """

    def __init__(self, own: socket.socket, token: str = "") -> None:
        self.socket = own
        own.settimeout(WAIT_S)
        self._parser = frames.Parser()
        self._number = 1
        self.refused: OnceqError | None = None
        said = frames.Hello(frames.VERSION, "matrix")
        if token:
            own.sendall(b"".join(frames.frame(1, FrameCode.PROVE, asks(token))))
            _, _, head, _ = self._frame()
            tls: Any = own if isinstance(own, ssl.SSLSocket) else None
            known = frames.decode_head(head, frames.ProofAnswer)
            said = hello(token, known, bound_to(tls, own.getpeername()))
        own.sendall(b"".join(frames.frame(1, FrameCode.HELLO, said)))
        _, code, head, _ = self._frame()
        if code & FAILED:
            self.refused = failure(head)
            assert own.recv(1) == b"", "whoever is refused is cut"

    def ask(self, request: Request) -> object:
        """The answer, or the error that is one."""
        self._number += 1
        self.socket.sendall(b"".join(map(bytes, written(self._number, request))))
        number, code, head, data = self._frame()
        assert number in (0, self._number), "one is asked after the other"
        if not number:
            return failure(head)
        assert code & (ANSWER | FAILED)
        return decode(request.answer_type(), code, head, data)

    def _frame(self) -> tuple[int, int, memoryview, memoryview]:
        while True:
            data = self.socket.recv(1 << 16)
            if not data:
                raise LinkLost("the queue manager has cut the connection")
            for found in self._parser.feed(data):
                return found

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def unix(path: str) -> socket.socket:
    """A connection at the socket of a data directory."""
    own = socket.socket(socket.AF_UNIX)
    own.connect(path)
    return own


def as_account(uid: int, gid: int, folder: str, connect: Callable[[], socket.socket]) -> (
    socket.socket
):  # fmt: skip
    """A connection that another account has made, in its own process; only root can ask for it.

    Args:
        folder: Where that process works: the socket's own folder, so that the folders above it
            need not be open to the account.
    """
    here, there = socket.socketpair()
    child = os.fork()
    if not child:
        try:
            os.chdir(folder)
            os.setgroups([gid])
            os.setgid(gid)
            os.setuid(uid)
            own = connect()
            socket.send_fds(there, [b"x"], [own.fileno()])
        except OSError as error:
            os.write(2, f"account {uid}: {error}\n".encode())
        finally:
            os._exit(0)
    there.close()
    os.waitpid(child, 0)
    with here:
        _, found, _, _ = socket.recv_fds(here, 1, 1)
    assert found, f"account {uid} has not reached the queue manager"
    return socket.socket(fileno=found[0])
