"""``onceq.connect`` and ``onceq.open``: the two ways to a queue manager."""

from __future__ import annotations

from collections.abc import Mapping

from onceq.client.address import parse
from onceq.client.socket_link import SocketLink
from onceq.client.threads.manager import QueueManager
from onceq.directory.contract import Directory
from onceq.model.limits import Settings


def connect(where: str = ".", *, timeout: float = 10.0) -> QueueManager:
    """Connect to a queue manager that runs as a daemon.

    Args:
        where: ``onceq://host:port``, ``unix:///path``, or its data directory.
        timeout: Seconds for connecting.

    Raises:
        ServiceNotAvailable: Nobody answers there.
    """
    return QueueManager(lambda: SocketLink(parse(where), timeout), again=True)


def connect_for_job(where: str, *, timeout: float) -> QueueManager:
    """The same for jobs, which must not wait for ever.

    Args:
        timeout: Seconds for connecting, and for each answer, the wait of a receive included; after
            that the connection counts as broken.
    """
    return QueueManager(lambda: SocketLink(parse(where), timeout, timeout), again=True)


def open(
    path: str,
    *,
    name: str | None = None,
    create: bool = False,
    listen: str | None = None,
    peers: Mapping[str, str] | None = None,
    settings: Settings | None = None,
    directory: str | Directory | None = None,
) -> QueueManager:
    """Run a queue manager inside this process.

    Args:
        path: Its data directory.
        create: Make a new queue manager if the directory is not there, or empty. Without it that
            is an error: a mistyped name would become another queue manager, without messages.
        name: Its computer name when it is made; the computer's by default.
        listen: "host:port" to accept other queue managers at; None: as ``onceq.toml`` says, or
            nowhere.
        peers: Address book: computer name to "host:port", added to that of ``onceq.toml``.
        settings: ``onceq.Settings`` in place of those of ``onceq.toml``.
        directory: Where public queues and distribution lists are found: a file
            (``onceq.directory.create`` makes one), or any ``onceq.directory.Directory``; None: as
            ``onceq.toml`` says, or nowhere.

    Raises:
        StoreLocked: It runs already, in this or another process.
        NotAStore: There is no queue manager in it (and ``create`` is false), or something else.
    """
    from onceq.client.embedded_link import EmbeddedLink
    from onceq.client.embedding import host

    made = host(
        path, name=name, create=create, listen=listen, peers=peers, settings=settings,
        directory=directory,
    )  # fmt: skip
    return QueueManager(lambda: EmbeddedLink(made), again=False)
