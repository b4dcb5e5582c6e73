"""What is shown at the other end of a connection (``Shown``), read from its transport.

At the Unix socket the system tells the process that connected, and its account (SO_PEERCRED). Over
TLS a certificate is shown that was checked in the handshake. A TCP connection shows its address,
and nothing else. Who that is, and what it may speak for, is decided in ``model/identification.py``
alone; a token, which the hello of an application may bring, is looked at in ``tokens.py``.

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
"""Of SO_PEERCRED: process, account, group."""


def shown_on(transport: asyncio.BaseTransport | None, *, http: bool = False) -> Shown:
    """What the other side of a connection has shown.

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
    """An account of this computer; the one that this process runs under may do everything, and so
    may the system's administrator."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    return Account(name, free=uid in (os.geteuid(), 0))


def process_of(transport: asyncio.BaseTransport | None) -> int:
    """The process that has connected at the Unix socket; 0: the system does not say, or means one
    that cannot be seen from here (in another container)."""
    own = transport.get_extra_info("socket") if transport is not None else None
    if own is None or own.family != socket.AF_UNIX:
        return 0
    found = _credentials(own)
    return 0 if found is None else found[0]


def at_socket(own: socket.socket) -> str:
    """Whose connections one at the Unix socket is counted with; LOCAL: with our own."""
    uid = _at_unix(own)
    if uid is None:
        return LOCAL
    who = application(Shown(Over.SOCKET, account=account(uid))).actor
    return LOCAL if who.free else str(who)


def _address(transport: asyncio.BaseTransport) -> str:
    """Of the other end; "": it has none."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]).partition("%")[0] if isinstance(peer, tuple) else ""


def _at_unix(own: Any) -> int | None:
    """The account of the process at the other end."""
    found = _credentials(own)
    return None if found is None else found[1]


def _credentials(own: Any) -> tuple[int, int] | None:
    """The process that has connected, and its account; None: the system does not say."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    try:
        raw = own.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    except OSError:
        return None
    process, uid, _ = _CREDENTIALS.unpack(raw)
    return int(process), int(uid)
