"""Read what the other end of a connection has shown (``Shown``) from its transport.

At the Unix socket the system names the process that connected, and its account (SO_PEERCRED). A TLS
connection has a certificate that the handshake has checked. A TCP connection has its address, and
nothing else. ``model/identification.py`` alone decides who that is, and what it may speak for.
``tokens.py`` checks a token, which the hello of an application may bring.

Upholds: I28.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import struct
from typing import Any, Final

from onceq.model.identification import Account, Over, Shown, application
from onceq.service.admission import LOCAL
from onceq.tls.identity import claims_of

_CREDENTIALS: Final = struct.Struct("3i")
"""The value of SO_PEERCRED: process, account, group."""


def shown_on(transport: asyncio.BaseTransport | None, *, http: bool = False) -> Shown:
    """Return what the other side of a connection has shown.

    Args:
        http: Whether HTTP is spoken on it.
    """
    if transport is None:
        return Shown(Over.HTTP if http else Over.TCP)
    own = transport.get_extra_info("socket")
    if own is not None and own.family == socket.AF_UNIX:
        uid = _at_unix(own)
        return Shown(Over.SOCKET, account=None if uid is None else account(uid))
    tls = transport.get_extra_info("ssl_object")
    if tls is None:
        return Shown(Over.HTTP if http else Over.TCP, _address(transport))
    claims = claims_of(tls.getpeercert())
    return Shown(Over.HTTPS if http else Over.TLS, _address(transport), claims)


def account(uid: int) -> Account:
    """Return an account of this computer; the account of this process may do everything, and so
    may the system's administrator."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    return Account(name, free=uid in (os.geteuid(), 0))


def process_of(transport: asyncio.BaseTransport | None) -> int:
    """Return the process that has connected at the Unix socket; 0 if the system does not say, or
    means one that cannot be seen from here (in another container)."""
    own = transport.get_extra_info("socket") if transport is not None else None
    if own is None or own.family != socket.AF_UNIX:
        return 0
    found = _credentials(own)
    return 0 if found is None else found[0]


def at_socket(own: socket.socket) -> str:
    """Return the account with which a connection at the Unix socket is counted; LOCAL is our
    own."""
    uid = _at_unix(own)
    if uid is None:
        return LOCAL
    who = application(Shown(Over.SOCKET, account=account(uid))).actor
    return LOCAL if who.free else str(who)


def _address(transport: asyncio.BaseTransport) -> str:
    """Return the address of the other end; "" if it has none."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]).partition("%")[0] if isinstance(peer, tuple) else ""


def _at_unix(own: Any) -> int | None:
    """Return the account of the process at the other end."""
    found = _credentials(own)
    return None if found is None else found[1]


def _credentials(own: Any) -> tuple[int, int] | None:
    """Return the process that has connected, and its account; None if the system does not say."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    try:
        raw = own.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    except OSError:
        return None
    process, uid, _ = _CREDENTIALS.unpack(raw)
    return int(process), int(uid)
