"""Port 1801 of this computer is closed to tests, also if something listens there.

It is where a queue manager is asked for under an address without a port. A test that has started
nothing there would otherwise put its messages into the queue manager of the machine's owner.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Any, Final

PORT: Final = 1801


def close_port() -> None:
    """Refuse connections to it in this process and in its forks."""
    sys.addaudithook(_refuse)


def _refuse(event: str, given: tuple[Any, ...]) -> None:
    if event != "socket.connect":
        return
    _, address = given
    if isinstance(address, tuple) and address[1] == PORT and _is_here(address[0]):
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


def _is_here(host: object) -> bool:
    return isinstance(host, str) and (host.startswith("127.") or host in ("localhost", "::1"))
