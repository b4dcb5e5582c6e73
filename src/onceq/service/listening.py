"""Listening sockets that know when to stop accepting.

It also gives the Unix socket to the group of ``socket_group``, and to no other account.

When the system has no descriptor left, the loop's own servers try again at once, for every
connection that waits, and log a line each time: that alone keeps a processor and a disk busy. Here
accepting pauses, and goes on when there may be room again. A client is checked before anything is
made for it.
"""

from __future__ import annotations

import asyncio
import errno
import grp
import logging
import os
import socket
import stat
from collections.abc import Callable
from typing import Any, Final

from onceq.errors import AccessDenied, ConfigurationError
from onceq.file_access import SOCKET_FILE
from onceq.model.limits import ACCEPT_PAUSE_S, ACCEPTS_AT_ONCE
from onceq.service.data_directory import check_socket
from onceq.service.logs import event

# ---- listening -----------------------------------------------------------------------------------


BACKLOG = 1_024
"""Connections that may wait to be accepted."""
_OVER = frozenset((errno.EBADF, errno.EINVAL, errno.ENOTSOCK))
"""The socket was closed meanwhile."""

Take = Callable[[socket.socket, str], None]
"""Takes a connection and the address of its other side."""


class Listener:
    """Accepts at one socket, on one loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        own: socket.socket,
        take: Take,
        short: Callable[[OSError], None],
    ) -> None:
        """Begin.

        Args:
            own: Bound; it belongs to the listener now.
            take: Gets each connection.
            short: Called when the system has no room for another one; accepting pauses then.
        """
        self._loop = loop
        self._socket = own
        self._take = take
        self._short = short
        self._pause: asyncio.TimerHandle | None = None
        own.setblocking(False)
        own.listen(BACKLOG)
        loop.add_reader(own.fileno(), self._ready)

    @property
    def where(self) -> str:
        """Return the address, with its real port."""
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def descriptor(self) -> int:
        """Return the descriptor of its socket; -1 if it is closed."""
        return self._socket.fileno()

    def close(self) -> None:
        """Stop accepting."""
        if self._socket.fileno() < 0:
            return
        if self._pause is None:
            self._loop.remove_reader(self._socket.fileno())
        else:
            self._pause.cancel()
        self._socket.close()

    def _ready(self) -> None:
        """Accept a few waiting connections, so that existing ones have their turn as well."""
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                made, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # gone before it was accepted
            except OSError as error:
                if error.errno not in _OVER:
                    # Waiting clients go on waiting.
                    self._loop.remove_reader(self._socket.fileno())
                    self._pause = self._loop.call_later(ACCEPT_PAUSE_S, self._go_on)
                    self._short(error)
                return
            made.setblocking(False)
            self._take(made, str(peer[0]).partition("%")[0] if isinstance(peer, tuple) else "")
            if self._socket.fileno() < 0:
                return

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._socket.fileno(), self._ready)


async def addresses(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[tuple[int, Any]]:
    """Return where to listen: family and address, each once; raises OSError."""
    try:
        # An address needs no thread that looks it up.
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


def bound(family: int, address: Any) -> socket.socket:
    """Return a socket at an address; raises OSError."""
    own = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family != socket.AF_UNIX:
            # Else a restart would be refused the port while connections of the last life end
            # (TIME_WAIT).
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # The same port is bound for IPv4 on a socket of its own, which would be refused
            # otherwise.
            own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        own.bind(address)
    except OSError:
        own.close()
        raise
    return own


def bound_for_owner(path: str, group: int | None = None) -> socket.socket:
    """Return a Unix socket that only its owner may use; it replaces an earlier one.

    Args:
        group: Number of a group whose members may, too.

    Raises:
        ConfigurationError: The path is too long.
        OSError: It cannot be made.
    """
    check_socket(path)
    # By the umask, because between `bind` and a later `chmod` anybody could connect.
    old = os.umask(0o177)
    try:
        if os.path.exists(path):
            os.unlink(path)
        made = bound(socket.AF_UNIX, path)
    finally:
        os.umask(old)
    if group is not None:
        try:
            os.chown(path, -1, group)
            os.chmod(path, 0o660)
        except OSError:
            made.close()
            raise
    return made


# ---- socket group --------------------------------------------------------------------------------
#
# Other accounts of this computer at the Unix socket: the group of `socket_group`, and no more.


OPEN: Final = 0o710
"""Mode of a data directory that the group may pass through."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def opened(path: str, group: str) -> int | None:
    """Open a data directory to a group, or close it again if none is named ("").

    Returns:
        The group's number, for the socket; None: there is none.

    Raises:
        ConfigurationError: There is no such group, or this account is not in it.
        AccessDenied: Something in the directory is readable for others, and belongs to another
            account.
    """
    if not group:
        if stat.S_IMODE(os.stat(path).st_mode) == OPEN:
            os.chmod(path, stat.S_IRWXU)
        return None
    number = _number(group)
    _close_files(path)
    try:
        os.chown(path, -1, number)
    except PermissionError:
        raise ConfigurationError(
            f"socket_group: this account is not a member of {group}, and so cannot give it the "
            f"socket: 'usermod -aG {group} ACCOUNT' makes it one, at its next login"
        ) from None
    os.chmod(path, OPEN)
    # The group may not even get as far as the data directory.
    above = os.path.abspath(path)
    while above != os.path.dirname(above):
        above = os.path.dirname(above)
        at = os.stat(above)
        through = stat.S_IXGRP if at.st_gid == number else stat.S_IXOTH
        if not at.st_mode & through:
            event(
                "the group does not reach the socket", level=logging.WARNING, socket_group=group,
                directory=above, cure=f"chmod o+x {above}, or a data directory elsewhere",
            )  # fmt: skip
    return number


def _number(group: str) -> int:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise ConfigurationError(
            f"socket_group: there is no group {group!r} here; 'groupadd {group}' makes it"
        ) from None


def _close_files(path: str) -> None:
    """Restrict files that others could read once they may pass through the directory."""
    with os.scandir(path) as found:
        for one in found:
            at = one.stat(follow_symlinks=False)
            if one.name == SOCKET_FILE or one.is_symlink() or not at.st_mode & _OTHERS:
                continue
            mode = stat.S_IMODE(at.st_mode)
            try:
                os.chmod(one.path, mode & ~_OTHERS)
            except PermissionError:
                raise AccessDenied(
                    f"socket_group: {one.path} (mode {mode:04o}) would be readable for the group, "
                    f"and belongs to another account: 'chmod go= {one.path}' closes it"
                ) from None
            event("closed to others", level=logging.WARNING, file=one.name, mode=f"{mode:04o}")
