"""How a connection is cut from outside: by its socket, which may be done from any thread.

Drivers' own ``close`` takes a lock that a running statement holds, or frees what that statement is
using. A socket that is shut down makes both sides notice: the driver raises, the server rolls back
what is not prepared and lets others end what is.
"""

from __future__ import annotations

import contextlib
import os
import socket


def cut(descriptor: int) -> None:
    """Shut the socket with this descriptor down, in both directions; its owner closes it.

    Never raises.
    """
    with (
        contextlib.suppress(OSError, ValueError),
        # A copy of the descriptor: closing it leaves that of the driver open.
        socket.socket(fileno=os.dup(descriptor)) as shared,
    ):
        shared.shutdown(socket.SHUT_RDWR)
