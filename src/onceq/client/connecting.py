"""How a thread comes to a connection with a daemon, greeted and in TLS where the address says so.

TLS is loaded for those addresses alone: most connections are to a socket of this computer, and
a command that asks one thing would wait for it.
"""

from __future__ import annotations

import _socket
import math
import socket
import time
from typing import TYPE_CHECKING, TypeAlias

from onceq.client.address import ManagerAddress
from onceq.client.credentials import Credentials, check_protocol
from onceq.client.link import Greeting
from onceq.errors import InvalidParameter, MalformedPacket, ManagerAway, OnceqError, WrongAddress
from onceq.sockets.both_ends import watch
from onceq.wire.app import frames

if TYPE_CHECKING:
    from onceq.client.tls_socket import GreenSocket, TlsSocket

READ_BYTES_MIN = 1 << 16
HTTP_S = 1.0
"""So long an HTTP server has to say that it is one."""
HTTP_SHARE = 0.25
"""Of a time-out, at most, if that is less."""
SOON_S = 0.001
"""A socket waits at least so long: 0 has another meaning."""
UNGREETED = (WrongAddress, ManagerAway, MalformedPacket)
"""What is raised of one who has not said who it is."""
BUFFER_BYTES = 1 << 20
"""Wanted of the kernel in each direction; it may give less."""
Plain: TypeAlias = "socket.socket | GreenSocket"
Socket: TypeAlias = "Plain | TlsSocket"


def check_timeout(timeout: object) -> None:
    """Raises InvalidParameter if nobody can wait so long for a connection."""
    if not isinstance(timeout, (int, float)) or not 0 < timeout < math.inf:
        raise InvalidParameter(
            f"the timeout of a connection is a number of seconds above 0, not {timeout!r}"
        )


def connected(address: ManagerAddress, timeout: float, shown: Credentials) -> Socket:
    """A socket to a daemon, in seconds; raises ServiceNotAvailable, ConfigurationError."""
    check_timeout(timeout)
    # Before anybody is bothered: a file may be missing.
    context = shown.context() if address.tls else None
    plain = socket.socket(socket.AF_UNIX) if address.path else None
    made: Plain | None = plain
    try:
        if plain is not None:
            plain.settimeout(timeout)
            plain.connect(address.path)
        else:
            plain = socket.create_connection((address.host, address.port), timeout)
            made = plain
            # Each request is one write and waits for its answer: Nagle's algorithm would only hold
            # it back.
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            watch(plain)
        made = _usable(plain)
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


def _usable(plain: socket.socket) -> Plain:
    """The socket, or what makes one of it of which ``recv`` does not wait if it is told so."""
    if type(plain).recv is _socket.socket.recv:
        return plain
    from onceq.client.tls_socket import GreenSocket

    return GreenSocket(plain)


def kept_s(address: ManagerAddress, timeout: float) -> float:
    """How much of a time-out is kept to ask a silent one whether it is an HTTP server."""
    return 0.0 if address.path or address.tls else min(HTTP_S, timeout * HTTP_SHARE)


def greet(
    own: Socket, address: ManagerAddress, parser: frames.Parser, shown: Credentials, *,
    since: float, timeout: float,
) -> Greeting:  # fmt: skip
    """Say hello, and hear who answers.

    Args:
        since: When connecting began, by ``time.monotonic``.
        timeout: Seconds for all of it from then on.

    Raises:
        ServiceNotAvailable, UnknownVersion, AccessDenied: See ``SocketLink``.
    """
    try:
        return _greeted(own, address, parser, shown, since + timeout - kept_s(address, timeout))
    except UNGREETED as error:
        raise judge_ungreeted(address, error, since + timeout) from error


def judge_ungreeted(address: ManagerAddress, error: OnceqError, until: float) -> OnceqError:
    """The error about one who has taken the connection and has not greeted; another one if it is an
    HTTP server, which is asked (finding K12).

    Args:
        until: When the answer must be there, by ``time.monotonic``.
    """
    until = min(until, time.monotonic() + HTTP_S)
    if address.path or address.tls or until <= time.monotonic():
        return error
    try:
        with socket.create_connection((address.host, address.port), _left_s(until)) as asking:
            asking.sendall(f"HEAD / HTTP/1.1\r\nHost: {address.host}\r\n\r\n".encode())
            asking.settimeout(_left_s(until))
            return address.speaks_http() if asking.recv(5) == b"HTTP/" else error
    except OSError:
        return error


def _left_s(until: float) -> float:
    return max(until - time.monotonic(), SOON_S)


def _greeted(
    own: Socket, address: ManagerAddress, parser: frames.Parser, shown: Credentials, until: float
) -> Greeting:
    """Say hello, and hear who answers, up to a moment."""
    try:
        tls = own.tls if address.tls and not isinstance(own, socket.socket) else None
        hello = shown.hello(address, own, tls)
        own.sendall(b"".join(hello.first))
        while True:
            own.settimeout(_left_s(until))
            data = own.recv(READ_BYTES_MIN)
            if not data:
                raise address.closed_at_once()
            for _, code, head, _ in parser.feed(data):
                said = hello.read_answer(code, head)
                if isinstance(said, Greeting):
                    return said
                own.sendall(b"".join(said))
    except ConnectionError as error:
        raise address.broke_at_once(error) from error
    except OSError as error:
        if address.broke_in_tls(error):
            raise address.unreachable(error) from error
        raise ManagerAway(f"{address} does not answer: {error}") from error
