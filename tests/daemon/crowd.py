"""What must go on while a crowd of strangers is at a queue manager."""

from __future__ import annotations

import onceq
from tests.daemon.process import WAIT_S

Q = r"private$\q"
SEGMENT_BYTES = 16 << 20


def goes_on(here: onceq.QueueManager, there: onceq.QueueManager) -> None:
    """The store, the local socket and a known queue manager have what they need.

    Args:
        here: ALPHA, where the strangers are; it has ``Q``.
        there: Another one, which may send there.
    """
    body = bytes(1 << 20)
    for _ in range(3):  # the store opens more segments
        here.send_many(Q, [body] * (SEGMENT_BYTES >> 20), transactional=True)
    there.send(rf"DIRECT=OS:ALPHA\{Q}", "through the crowd", transactional=True)
    came: list[bytes] = []
    while len(came) < 3 * (SEGMENT_BYTES >> 20) + 1:
        came += [one.body for one in here.receive_many(Q, 8, timeout=WAIT_S)]
    assert [one for one in came if one != body] == [b"through the crowd"]
