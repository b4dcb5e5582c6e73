"""Limits of open files and connections of this process, and how they are shared out.

The limit is the system's (``ulimit -n``). A daemon raises its own as far as it may. A queue manager
inside an application leaves it unchanged and takes a small share. The numbers of descriptors show
the usage: the system gives the lowest free number, so a high one means that everything below it is
in use, by this manager or others.

Upholds: I24 (what strangers open is bounded; the store and the local socket keep theirs).
"""

from __future__ import annotations

import resource
from dataclasses import dataclass

from onceq.model.limits import (
    CONNECTIONS_MAX,
    DESCRIPTORS_LOCAL,
    DESCRIPTORS_RESERVED,
    EMBEDDED_CONNECTIONS_MAX,
    HANDSHAKES_MAX,
    WATCHERS_MAX,
)

UNLIMITED = 1 << 20
"""Stands for no limit."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How many connections there may be.

    Attributes:
        far: Descriptor number from which on no remote connection is admitted.
        local: The same for connections of this computer.
        peers, applications, local_applications, made: Connections of each kind: accepted from
            managers, from applications over TCP and at the socket, and made to managers.
        strangers: Of the peers, those that nothing was ever exchanged with.
        handshakes: Connections that have not identified themselves.
        watchers: Connections of monitoring clients.
    """

    far: int
    local: int
    peers: int
    applications: int
    local_applications: int
    made: int
    strangers: int
    handshakes: int
    watchers: int = WATCHERS_MAX


def budget(limit: int, *, embedded: bool) -> Budget:
    """Share out what a limit of open files allows."""
    reserved = min(DESCRIPTORS_RESERVED, limit // 4)
    far = limit - reserved
    local = far + min(DESCRIPTORS_LOCAL, reserved // 4)
    if embedded:
        # Half is the application's own, however many it has opened already.
        far = local = limit // 2
    most = min(CONNECTIONS_MAX, far)
    if embedded:
        most = min(EMBEDDED_CONNECTIONS_MAX, limit // 8)
    peers = max(min(most, far // 2), 1)
    return Budget(
        far=far,
        local=local,
        peers=peers,
        applications=max(min(most, far // 4), 1),
        local_applications=max(min(most, far // 2), 1),
        made=max(min(most, far // 2), 1),
        strangers=max(peers // 2, 1),
        handshakes=max(min(HANDSHAKES_MAX, most // 4, far // 4), 1),
    )


def own_process() -> Budget:
    """Return the budget of a daemon, which raises its own limit first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * CONNECTIONS_MAX + 4 * DESCRIPTORS_RESERVED
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return budget(_finite(soft), embedded=False)


def shared_process() -> Budget:
    """Return the budget of a queue manager inside an application."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return budget(_finite(soft), embedded=True)


def _finite(limit: int) -> int:
    return UNLIMITED if limit == resource.RLIM_INFINITY else min(limit, UNLIMITED)
