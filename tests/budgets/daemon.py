"""A client of the real library at the application's end of a daemon's connection, without sockets.

What the client writes is taken on and worked off at once, in its thread, as a daemon does that was
asleep: all that comes in one write is one turn of its loop. So round trips, frames and pumps are
the same in every run.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence

import pytest

from onceq.client import socket_link
from onceq.client.address import ManagerAddress
from onceq.client.socket_link import SocketLink
from onceq.client.threads.manager import QueueManager
from onceq.model.run import Buffer
from onceq.service.api import ApiConnection
from tests.conformance.world import Node


class Wire:
    """The socket of a client, and the transport of its daemon."""

    unread_bytes = 0

    def __init__(self, node: Node) -> None:
        self.node = node
        self._said = bytearray()
        self._api = ApiConnection(node.running, self, random=bytes)

    # ---- the client's socket ----------------------------------------------------------------

    def sendmsg(self, pieces: Sequence[Buffer]) -> int:
        """One write of the client: what is there when the daemon's loop goes on."""
        data = b"".join(pieces)
        self._api.data_received(data)
        self.node.pump()
        return len(data)

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        """Nothing here waits for a kernel."""

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        """The daemon runs under the account of its client."""
        return struct.pack("3i", os.getpid(), os.geteuid(), os.getegid())

    def sendall(self, data: Buffer) -> None:
        """Only the hello is sent so."""
        self.sendmsg([data])

    def recv(self, size: int, flags: int = 0) -> bytes:
        """What the daemon has said."""
        if not self._said:
            raise BlockingIOError
        data = bytes(self._said[:size])
        if not flags & socket.MSG_PEEK:
            del self._said[:size]
        return data

    def settimeout(self, seconds: float | None) -> None:
        """Nobody waits here."""

    def shutdown(self, how: int) -> None:
        """See ``close``."""

    def fileno(self) -> int:
        """None: whoever would wait for more fails."""
        return -1

    # ---- the daemon's transport ---------------------------------------------------------------

    def writelines(self, pieces: Sequence[Buffer]) -> None:
        """An answer."""
        for piece in pieces:
            self._said += piece

    def reading_changed(self) -> None:
        """Nothing here is too much."""

    def refuse(self, reason: str) -> None:
        """It never is."""
        raise AssertionError(reason)

    def close(self) -> None:
        """Of either end."""


def client(node: Node, patch: pytest.MonkeyPatch) -> QueueManager:
    """An application that is connected to a daemon."""
    patch.setattr(socket_link, "connected", lambda address, timeout, shown: Wire(node))
    return QueueManager(lambda: SocketLink(ManagerAddress("here"), 1.0), again=False)
