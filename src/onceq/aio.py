"""onceq for ``async`` code: the same names, awaited.

async with await onceq.aio.connect("./alpha") as qm:
    async with qm.transaction() as tx:
        order = await tx.receive(r"private$\\orders", timeout=5.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath

from onceq.client.address import meant
from onceq.client.async_link import AsyncLink, in_thread
from onceq.client.credentials import Credentials, Tls
from onceq.client.opening import connect as _connect
from onceq.client.tasks import letters
from onceq.client.tasks.administration import (
    AsyncManagerAdmin,
    AsyncManagerJobs,
    AsyncManagerLists,
    AsyncManagerRights,
    AsyncManagerTokens,
)
from onceq.client.tasks.manager import AsyncCursor, AsyncOpenQueue, AsyncQueueManager
from onceq.client.tasks.transaction import (
    AsyncBranch,
    AsyncGroups,
    AsyncTracked,
    AsyncTransaction,
    AsyncXa,
)
from onceq.directory import Directory
from onceq.embedded.opening import open as _open
from onceq.model.settings import Settings

__all__ = [
    "AsyncBranch",
    "AsyncCursor",
    "AsyncGroups",
    "AsyncManagerAdmin",
    "AsyncManagerJobs",
    "AsyncManagerLists",
    "AsyncManagerRights",
    "AsyncManagerTokens",
    "AsyncOpenQueue",
    "AsyncQueueManager",
    "AsyncTracked",
    "AsyncTransaction",
    "AsyncXa",
    "connect",
    "letters",
    "open",
]


async def connect(
    where: str | PathLike[str] | None = None,
    *,
    timeout: float = 10.0,
    token: str | None = None,
    token_file: str | PathLike[str] | None = None,
    tls: Tls | None = None,
) -> AsyncQueueManager:
    """Connect to a queue manager that runs as a daemon, as ``onceq.connect`` does."""
    shown = Credentials(token=token, token_file=token_file, tls=tls)

    async def again() -> AsyncLink:
        return await AsyncLink.connect(meant(where), timeout, credentials=shown)

    return AsyncQueueManager(await again(), again)


async def open(
    path: str | PathLike[str],
    *,
    name: str | None = None,
    create: bool = False,
    listen: str | None = None,
    peers: Mapping[str, str] | None = None,
    settings: Settings | None = None,
    directory: str | Directory | None = None,
) -> AsyncQueueManager:
    """Run a queue manager inside this process, as ``onceq.open`` does."""
    from onceq.embedded.host import AsyncEmbeddedLink, start

    def started() -> AsyncEmbeddedLink:
        return AsyncEmbeddedLink(
            start(
                fspath(path), name=name, create=create, listen=listen, peers=peers,
                settings=settings, directory=directory,
            )
        )  # fmt: skip

    link = await in_thread(started)
    return AsyncQueueManager(link, None)


connect.__doc__, open.__doc__ = _connect.__doc__, _open.__doc__
