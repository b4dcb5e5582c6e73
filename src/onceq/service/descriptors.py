"""How many files and connections this process may have open, and who of them gets how many.

The limit is the system's (``ulimit -n``). A daemon raises its own as far as it is allowed to; a
queue manager inside an application leaves it alone and takes a small share. The numbers of
descriptors say the rest: the system gives the lowest that is free, so one that is high tells that
everything below it is in use, by whomever.

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
"""Taken for a limit that is none."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How many connections there may be.

    Attributes:
        far: Descriptor number from which on nobody from elsewhere is let in.
        local: And nobody of this computer.
        peers, applications, local_applications, made: Connections of each kind: accepted from
            managers, from applications over TCP and at the socket, and made to managers.
        strangers: Of the peers, those that nothing was ever exchanged with.
        handshakes: Connections that have not said who they are.
        watchers: Connections of those who look at metrics and health.
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
        # Half is the application's own, whatever it has opened already.
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
    """That of a daemon, which raises its own limit first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * CONNECTIONS_MAX + 4 * DESCRIPTORS_RESERVED
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return budget(_finite(soft), embedded=False)


def shared_process() -> Budget:
    """That of a queue manager inside an application."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return budget(_finite(soft), embedded=True)


def _finite(limit: int) -> int:
    return UNLIMITED if limit == resource.RLIM_INFINITY else min(limit, UNLIMITED)
