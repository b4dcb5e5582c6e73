"""What a connection is, in bytes that both of its ends know and nobody between can have.

A proof that is said on one connection holds for that one alone. Whoever takes a connection and
passes what is said on to another one (a program that listens where a queue manager did) has two
connections that differ in this, so what he passes on proves nothing.

In TLS it is what the handshake of this connection has ended with; without it the address and the
port that was connected to, which nobody listens at twice. At a Unix socket the system says who
listens, and there is nothing to add.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio
    import ssl

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
