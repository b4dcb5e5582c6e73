"""Connections between processes: each through a relay in this process, by TCP on both sides."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.conformance.link import Link, Wire

if TYPE_CHECKING:
    from tests.conformance.processes import ProcessNode, ProcessWorld

WAIT_S = 60.0
"""Longest wait for what must come; only a defect makes a test wait so long."""
CHUNK_BYTES = 1 << 20


class Door:
    """A port at which connections are taken, or refused; it stays ours meanwhile."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._held = self._bound(0)
        self.port: int = self._held.getsockname()[1]
        self.listener: socket.socket | None = None

    def _bound(self, port: int) -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind((self.host, port))
        return made

    def open(self) -> socket.socket:
        """Take connections."""
        self.listener = self._bound(self.port)
        self.listener.listen()
        self.listener.setblocking(False)
        return self.listener

    def shut(self) -> None:
        """Refuse them."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None

    def close(self) -> None:
        """Give the port back."""
        self.shut()
        self._held.close()


class End:
    """This side of a connection with one queue manager."""

    def __init__(self, node: ProcessNode, made: socket.socket, took: Callable[[bytes], None],
                 over: Callable[[], None]) -> None:  # fmt: skip
        self.node, self.socket, self._took, self._over = node, made, took, over
        self.ports = (made.getpeername()[1], made.getsockname()[1])
        self.read = self.written = 0
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.settimeout(WAIT_S)
        node.ends[self.ports] = self
        node.restless = True
        node.world.watch(made, self.take)

    def take(self) -> None:
        """There is something to read."""
        try:
            data = self.socket.recv(CHUNK_BYTES)
        except ConnectionError:
            data = b""
        if data:
            self.read += len(data)
            self._took(data)
        else:
            self.close()
            self._over()

    def write(self, data: bytes) -> None:
        """Send to the queue manager, by the time it is now."""
        if self.node.ends.get(self.ports) is self and self.node.told():
            self.node.restless = True
            self.written += len(data)
            with contextlib.suppress(ConnectionError):  # then its end can be read, too
                self.socket.sendall(data)

    def close(self) -> None:
        """End it."""
        if self.node.ends.pop(self.ports, None) is not None:
            self.node.told()
            self.node.world.unwatch(self.socket)
            self.socket.close()
            self.node.restless = True


class SocketWire(Wire):
    """Between two processes."""

    def __init__(
        self, world: ProcessWorld, nodes: tuple[ProcessNode, ProcessNode], link: Link,
        accepted: socket.socket,
    ) -> None:  # fmt: skip
        one, other = (node.identity for node in nodes)
        super().__init__(world, (one.name, other.name), (one.guid, other.guid), link)
        self.ends: list[End] = []
        nodes[1].told()
        host, port = nodes[1].peers_at.rsplit(":", 1)
        made = socket.create_connection((host, int(port)), WAIT_S, (nodes[0].address, 0))
        for side, connection in enumerate((accepted, made)):
            self.ends.append(End(nodes[side], connection, self._taker(side), self._ended))
        self.move()

    def _taker(self, side: int) -> Callable[[bytes], None]:
        return lambda data: self.sent(side, data)

    def _ended(self) -> None:
        self.world.after(
            self.world.turn.latency_us, lambda: self.break_("closed by the other side")
        )

    def deliver(self, side: int, data: bytes) -> None:
        self.ends[side].write(data)

    def lost(self, side: int, reason: str) -> None:
        if side < len(self.ends):
            self.ends[side].close()
