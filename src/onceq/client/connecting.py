"""How a thread comes to a connection with a daemon, greeted and in TLS where the address says so.

TLS is loaded for those addresses alone: most connections are to a socket of this computer, and
a command that asks one thing would wait for it.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, TypeAlias

from onceq.client.address import Address
from onceq.client.credentials import Credentials, check_protocol
from onceq.client.greetings import Greeting, greeting
from onceq.errors import ManagerAway
from onceq.wire.app import frames
from onceq.wire.app.frames import ANSWER, FAILED, Code, failure

if TYPE_CHECKING:
    from onceq.client.tls_socket import TlsSocket

READ_BYTES_MIN = 1 << 16
BUFFER_BYTES = 1 << 20
"""Wanted of the kernel in each direction; it may give less."""
Socket: TypeAlias = "socket.socket | TlsSocket"


def connected(address: Address, timeout: float, shown: Credentials) -> Socket:
    """A socket to a daemon, in seconds; raises ServiceNotAvailable, ConfigurationError."""
    # Before anybody is bothered: a file may be missing.
    context = shown.context() if address.tls else None
    made = socket.socket(socket.AF_UNIX) if address.path else None
    try:
        if made is not None:
            made.settimeout(timeout)
            made.connect(address.path)
        else:
            made = socket.create_connection((address.host, address.port), timeout)
            # Each request is one write and waits for its answer: Nagle's algorithm would only hold
            # it back.
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        if context is None:
            return made
        from onceq.client.tls_socket import TlsSocket

        tls = TlsSocket(made, context, address.host)
        check_protocol(address, tls.protocol())
    except OSError as error:
        if made is not None:
            made.close()
        raise address.unreachable(error) from error
    except BaseException:
        if made is not None:
            made.close()
        raise
    return tls


def greet(own: Socket, address: Address, parser: frames.Parser, shown: Credentials) -> Greeting:
    """Say hello, and hear who answers.

    Raises:
        ServiceNotAvailable, UnknownVersion, AccessDenied: See ``SocketLink``.
    """
    try:
        peer = "" if address.path else str(own.getpeername()[0])
        proof = own.certificate() if address.tls and not isinstance(own, socket.socket) else None
        hello = shown.greeting(address, peer, proof)
        own.sendall(b"".join(frames.frame(1, Code.HELLO, hello.head)))
        while True:
            data = own.recv(READ_BYTES_MIN)
            if not data:
                raise address.closed_at_once()
            for _, code, head, _ in parser.feed(data):
                if code & FAILED:
                    raise hello.refused(failure(head))
                if code == Code.HELLO | ANSWER:
                    return hello.accepted(greeting(head))
    except ConnectionError as error:
        raise address.broke_at_once(error) from error
    except OSError as error:
        if address.broke_in_tls(error):
            raise address.unreachable(error) from error
        raise ManagerAway(f"{address} does not answer: {error}") from error
