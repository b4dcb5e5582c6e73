"""What both ends of a connection, the client library and the service, do with sockets alike.

They notice a silent peer, and they know bytes of the connection that nobody between them can have.
A computer that disappears is noticed after SILENT_S at both ends of every TCP connection: by
keepalive while nothing is sent, by TCP_USER_TIMEOUT while something is. The system answers for a
process that hangs, so an application that waits for an answer asks the queue manager itself: after
half of that time for a sign of life, and after all of it the connection counts as lost. A call with
a time-out gives up GRACE_S after that (finding K8).

A program in the middle that passes a proof on has two connections, and their bytes differ. In TLS
they come from the handshake; without it they are the address and the port that was connected to.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final

from onceq.model.limits import SILENT_S as SILENT_S

if TYPE_CHECKING:
    import asyncio
    import ssl

GRACE_S: Final = 10.0
"""How long a call waits behind its time-out for the answer that nothing has come."""
_IDLE_S: Final = SILENT_S // 2
_PROBES: Final = 4
KEEPALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPIDLE", 4), _IDLE_S),
    (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPINTVL", 5), (SILENT_S - _IDLE_S) // _PROBES),
    (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPCNT", 6), _PROBES),
    (socket.IPPROTO_TCP, getattr(socket, "TCP_USER_TIMEOUT", 18), SILENT_S * 1000),
)
"""The same for both ends; milliseconds in the last one."""


def watch(plain: socket.socket) -> None:
    """Let the system notice a computer that is lost: of a connection over TCP."""
    for level, option, value in KEEPALIVE:
        plain.setsockopt(level, option, value)


TLS_BINDING: Final = "tls-unique"
"""With TLS 1.3, too, OpenSSL says by this name what the client's handshake has ended with."""
_MAPPED: Final = "::ffff:"


def bound_to(tls: ssl.SSLObject | None, address: Any) -> bytes:
    """What a proof on a connection is bound to.

    Args:
        tls: TLS of the connection; None: it has none.
        address: Of the side that was connected to, as ``getsockname`` says it there and
            ``getpeername`` at the other end.
    """
    if tls is not None:
        return b"tls\0" + (tls.get_channel_binding(TLS_BINDING) or b"")
    if not isinstance(address, tuple):
        return b"unix\0"
    host, port = address[:2]
    return f"tcp\0{host.partition('%')[0].removeprefix(_MAPPED)}\0{port}".encode()


def bound_at(transport: asyncio.BaseTransport | None) -> bytes:
    """The same at the side that was connected to; nothing of a connection that is gone."""
    if transport is None:
        return b""
    said = transport.get_extra_info
    return bound_to(said("ssl_object"), said("sockname"))


def listener(own: socket.socket) -> int | None:
    """The account of the process that listens at a Unix socket; None: the system does not say."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    import struct

    layout = struct.Struct("3i")
    return int(layout.unpack(own.getsockopt(socket.SOL_SOCKET, option, layout.size))[1])
