"""A connection whose socket is one of greenlets, such as ``gevent.monkey.patch_all`` makes all.

Below such a socket nothing blocks, and so its ``recv`` waits although it is told not to, and the
kernel's time-out of a write is none (finding K11). Here both are as on any other socket: a call
that waits lets other greenlets run, in ``select.poll``, which is theirs, too.
"""

from __future__ import annotations

import select
import socket
import struct
from typing import Any

from onceq.client.owners import drop_descriptor


class GreenSocket:
    """See the module; everything else is as the socket has it."""

    def __init__(self, plain: socket.socket) -> None:
        self._plain = plain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def recv(self, size: int, flags: int = 0) -> bytes:
        """What has come; raises BlockingIOError if nothing has, and the flags say not to wait."""
        if flags & socket.MSG_DONTWAIT:
            poll = select.poll()
            poll.register(self._plain.fileno(), select.POLLIN)
            if not poll.poll(0):
                raise BlockingIOError
        return self._plain.recv(size, flags)

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        """An option; the time-out of writes is the one of the socket, as no read waits in it."""
        if (level, option) == (socket.SOL_SOCKET, socket.SO_SNDTIMEO) and isinstance(value, bytes):
            seconds, microseconds = struct.unpack("@ll", value)
            self._plain.settimeout(seconds + microseconds / 1_000_000)
        else:
            self._plain.setsockopt(level, option, value)

    def forked(self) -> None:
        """This is a child now: nothing more is said on it."""
        drop_descriptor(self._plain.fileno())
