"""Who notices the silence of the other side, after how long, on each kind of connection.

A computer that is gone without a word is noticed after SILENT_S at both ends of every TCP
connection, between queue managers as well as with applications: by keepalive while nothing is said,
by TCP_USER_TIMEOUT while something is. The system answers for a process that stands still, so an
application that waits for an answer asks the queue manager itself: after half of that time for a
sign of life, and after all of it the connection counts as lost. A call with a time-out gives up
GRACE_S behind that (finding K8). A process that ends is noticed at once on every kind of
connection.
"""

from __future__ import annotations

import socket
from typing import Final

from onceq.model.limits import SILENT_S as SILENT_S

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
