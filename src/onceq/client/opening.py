"""``onceq.connect``: the way to a queue manager that runs as a daemon."""

from __future__ import annotations

from onceq.client.address import parse
from onceq.client.socket_link import SocketLink
from onceq.client.threads.manager import QueueManager


def connect(where: str = ".", *, timeout: float = 10.0) -> QueueManager:
    """Connect to a queue manager that runs as a daemon.

    Args:
        where: ``onceq://host:port``, ``unix:///path``, or its data directory.
        timeout: Seconds for connecting.

    Raises:
        ServiceNotAvailable: Nobody answers there.
    """
    return QueueManager(lambda: SocketLink(parse(where), timeout), again=True)


def connect_for_job(
    where: str, *, timeout: float, answers: float | None = None
) -> QueueManager:  # fmt: skip
    """The same for jobs, which must not wait for ever.

    Args:
        timeout: Seconds for connecting.
        answers: Seconds for each answer, the wait of a receive included; after that the connection
            counts as broken. None: as many.
    """
    seconds = timeout if answers is None else answers
    return QueueManager(lambda: SocketLink(parse(where), timeout, seconds), again=True)
