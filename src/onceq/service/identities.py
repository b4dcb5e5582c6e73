"""Who is at the other end of a connection: what is known of a queue manager (``Shown``; how, is the
matter of ``doors.py``), and of an application what the system says.

At the Unix socket the system tells the process that connected, and its account (SO_PEERCRED). Of a
TCP connection over loopback it can be looked up in the table of this computer's connections, where
there is one. Over TLS a certificate says it that was checked in the handshake. Nobody can say it
otherwise here; a token, which the hello of an application may bring, is looked at elsewhere
(``tokens.py``).

Upholds: I28.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import pwd
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from onceq.errors import InvalidParameter
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.loopback import is_loopback
from onceq.model.rights import ANYWHERE, HERE, NOBODY, Actor, ActorKind, actor_pattern
from onceq.service.admission import LOCAL
from onceq.tls.identity import guid_of, name_of

_CREDENTIALS: Final = struct.Struct("3i")
"""Of SO_PEERCRED: process, account, group."""
_TABLES: Final = {socket.AF_INET: "/proc/net/tcp", socket.AF_INET6: "/proc/net/tcp6"}
_ACCOUNT_COLUMN: Final = 7
"""Of the system's table of TCP connections."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What is known of the other side of a connection between queue managers.

    Attributes:
        guid: The queue manager that it has proven to be; NO_GUID: it has proven nothing.
        actor: Who it is for rights.
    """

    guid: bytes
    actor: Actor


ON_THIS_COMPUTER: Final = Shown(NO_GUID, HERE)
"""Nothing is asked of it."""


def account(uid: int) -> Actor:
    """The actor that an account is; the one that this process runs under may do everything, and so
    may the system's administrator."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    return Actor(ActorKind.ACCOUNT, name, free=uid in (os.geteuid(), 0))


def actor_of(transport: asyncio.BaseTransport | None) -> Actor:
    """Who has made a connection; NOBODY where that cannot be known."""
    own = transport.get_extra_info("socket") if transport is not None else None
    if transport is None or own is None:
        return NOBODY
    tls = transport.get_extra_info("ssl_object")
    shown = certified(tls.getpeercert()) if tls is not None else None
    if shown is not None:
        return shown
    uid = _at_unix(own) if own.family == socket.AF_UNIX else _over_loopback(own)
    return NOBODY if uid is None else account(uid)


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
    who = account(uid) if uid is not None else None
    return LOCAL if who is None or who.free else str(who)


def certified(certificate: Mapping[str, Any] | None) -> Actor | None:
    """Whom a certificate is for, as ``getpeercert`` returns one that was checked; None: for nobody.

    That of a queue manager names it by its GUID, and any other its holder by the common name. One
    whose name could be read as a pattern is for nobody.
    """
    guid = guid_of(certificate)
    if guid != NO_GUID:
        return Actor(ActorKind.PEER, guid_text(guid))
    name = name_of(certificate)
    try:
        known = actor_pattern(f"{ActorKind.CERTIFICATE.value}:{name}")
    except InvalidParameter:
        return None
    return Actor(ActorKind.CERTIFICATE, name) if ANYWHERE not in known else None


def is_private(transport: asyncio.BaseTransport | None) -> bool:
    """Whether nobody on the way can read what comes on a TCP connection."""
    own = transport.get_extra_info("socket") if transport is not None else None
    if transport is None or own is None:
        return False
    if transport.get_extra_info("ssl_object") is not None:
        return True
    try:
        return is_loopback(own.getpeername()[0])
    except (OSError, IndexError):
        return False


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


def _over_loopback(own: Any) -> int | None:
    """The account of the other end, if it is on this computer."""
    try:
        here, there = own.getsockname()[:2], own.getpeername()[:2]
        if not is_loopback(there[0]):
            return None
        with open(_TABLES[own.family]) as table:
            next(table)
            # Seen from the other end: its own address comes first.
            wanted = [_hexadecimal(*there), _hexadecimal(*here)]
            for line in table:
                columns = line.split()
                if columns[1:3] == wanted:
                    return int(columns[_ACCOUNT_COLUMN])
    except (OSError, KeyError, ValueError, StopIteration):
        pass  # no such table on this system, or the connection is gone
    return None


def _hexadecimal(host: str, port: int) -> str:
    """An address as the table writes it: words of the machine's own order, in hexadecimal."""
    packed = ipaddress.ip_address(host).packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
