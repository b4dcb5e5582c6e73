"""An event loop and a clock whose time is set by hand, and that say when nothing is left to do.

The loop is asyncio's own with real sockets; only its time stands still until somebody sets it.
When nothing can be done any more before time goes on or something arrives, it says so: the holder
of the clock then knows that all consequences of earlier steps are there.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
from collections.abc import Callable, Sequence
from typing import Any

from onceq.model.marks import Now
from onceq.model.run import Buffer
from onceq.testing import disk as at
from onceq.testing.disk import Points

Idle = Callable[[float | None], None]
"""Called with the seconds to the next timer, or None."""


class HandClock:
    """Both clocks of a computer, set by hand."""

    def __init__(self, now: Now) -> None:
        self._now = now

    def read(self) -> Now:
        """See Clock."""
        return self._now

    def set(self, now: Now) -> None:
        """Time goes on: the monotonic clock must not go back, the wall clock may."""
        assert now.mono_us >= self._now.mono_us, "a monotonic clock never goes back"
        self._now = now


class _Selector(selectors.DefaultSelector):
    """Never waits for time to pass, because it does not."""

    def __init__(self, idle: Idle) -> None:
        super().__init__()
        self._idle = idle

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        self._idle(timeout)
        return super().select(None)


class Counted:
    """A connection of this process, and how much has passed over it in each direction."""

    def __init__(self, protocol: Any, points: Points, names: tuple[str, str]) -> None:
        self._points = points
        self._before, self._after = names
        self._transport: Any = None
        self.ports = (0, 0)
        """Of this side and the other one; zeros over a Unix socket."""
        self.read = 0
        self.written = 0
        self._made = protocol.connection_made
        self._data = protocol.data_received
        protocol.connection_made = self._connection_made
        protocol.data_received = self._data_received

    def _connection_made(self, transport: Any) -> None:
        self._transport = transport
        own, peer = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        if isinstance(own, tuple) and isinstance(peer, tuple):
            self.ports = (own[1], peer[1])
        self._made(self)

    def _data_received(self, data: bytes) -> None:
        self.read += len(data)
        self._data(data)

    def writelines(self, pieces: Sequence[Buffer]) -> None:
        """See asyncio.WriteTransport."""
        self._points.reach(self._before)
        self.written += sum(map(len, pieces))
        self._transport.writelines(pieces)
        self._points.reach(self._after)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self, clock: HandClock, idle: Idle, points: Points) -> None:
        self._hand = clock
        self._points = points
        self.peers: set[Counted] = set()
        """Connections with other queue managers that are open."""
        super().__init__(_Selector(idle))

    def time(self) -> float:
        """See asyncio: seconds of the monotonic clock."""
        return self._hand.read().mono_us / 1e6

    def _peer(self, factory: Callable[[], Any]) -> Callable[[], Any]:
        def make() -> Any:
            protocol = factory()
            counted = Counted(protocol, self._points, (at.BEFORE_PACKET, at.AFTER_PACKET))
            self.peers.add(counted)
            lost = protocol.connection_lost

            def connection_lost(error: Exception | None) -> None:
                self.peers.discard(counted)
                lost(error)

            protocol.connection_lost = connection_lost
            return protocol

        return make

    def _application(self, factory: Callable[[], Any]) -> Callable[[], Any]:
        def make() -> Any:
            protocol = factory()
            Counted(protocol, self._points, (at.BEFORE_ANSWER, at.AFTER_ANSWER))
            return protocol

        return make

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """See asyncio: to another queue manager."""
        return super().create_connection(self._peer(args[0]), *args[1:], **kwargs)

    def connect_accepted_socket(self, *args: Any, **kwargs: Any) -> Any:
        """See asyncio: from another queue manager, or from an application."""
        local = args[1].family == socket.AF_UNIX
        wrap = self._application if local else self._peer
        return super().connect_accepted_socket(wrap(args[0]), *args[1:], **kwargs)
