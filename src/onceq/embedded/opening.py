"""``onceq.open``: a queue manager inside this process.

Its code is imported when one is opened: most applications only connect.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath

from onceq.client.threads.manager import QueueManager
from onceq.directory.contract import Directory
from onceq.model.settings import Settings


def open(
    path: str | PathLike[str],
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
        create: Make a new queue manager if the directory is not there, or empty. Without it that is
            an error: a mistyped name would become another queue manager, without messages.
        name: Its computer name when it is made; the computer's by default.
        listen: "host:port" to accept other queue managers at; None: as ``onceq.toml`` says, or
            nowhere.
        peers: Address book: computer name to "host:port", added to the one in ``onceq.toml``.
        settings: ``onceq.Settings`` in place of those of ``onceq.toml``.
        directory: Where public queues and distribution lists are found: a file
            (``onceq.directory.create`` makes one), or any ``onceq.directory.Directory``; None: as
            ``onceq.toml`` says, or nowhere.

    Raises:
        StoreLocked: It runs already, in this or another process.
        NotAStore: There is no queue manager in it (and ``create`` is false), or something else.
    """
    from onceq.embedded.host import EmbeddedLink, start

    host = start(
        fspath(path), name=name, create=create, listen=listen, peers=peers,
        settings=settings, directory=directory,
    )  # fmt: skip
    return QueueManager(lambda: EmbeddedLink(host), again=False)
