"""Admission: connections are counted by kind, by address, and by whether they have spoken.

It also counts the open files of this process: their limit, and how it is shared out.

A connection that has not identified itself costs a stranger nothing, so few of those are allowed.
Above their number the oldest one goes, of the address that has most of them: a client that opens
thousands displaces itself. An identified connection counts as known or as a stranger. Strangers get
half of the places, so that managers with which messages were exchanged find one. The descriptors of
the store and of the local socket are reserved. At the socket other accounts,
which a group lets in, have what the account of the queue manager leaves.

Everything here is counting; sockets are the caller's matter.

Upholds: I24.
"""

from __future__ import annotations

import resource
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from onceq.model.addresses import is_loopback
from onceq.model.limits import (
    ADDRESS_CONNECTIONS_MAX,
    ADDRESS_HANDSHAKES_MAX,
    CONNECTIONS_MAX,
    DESCRIPTORS_LOCAL,
    DESCRIPTORS_RESERVED,
    EMBEDDED_CONNECTIONS_MAX,
    HANDSHAKES_MAX,
    WATCHERS_MAX,
)

# ---- descriptors ---------------------------------------------------------------------------------
#
# Limits of open files and connections of this process, and how they are shared out.


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


# ---- admission -----------------------------------------------------------------------------------


LOCAL = "local"
"""Replaces an address: at the Unix socket, under the account of this process or the system's
administrator. Other accounts appear there by their own name."""
SHORT_OF_DESCRIPTORS = "this process has too many files open"


class Kind(Enum):
    """What connects, or is connected to."""

    PEER = "peers"
    APPLICATION = "applications"
    LOCAL_APPLICATION = "local_applications"
    WATCHER = "watchers"
    MADE = "made"


GOING_MAX = 8
"""Connections that may be cut to make room for remote ones and still have their descriptors:
fewer than ``DESCRIPTORS_LOCAL``."""
_MAKE_ROOM = (Kind.PEER, Kind.WATCHER)
"""Kinds whose oldest unidentified connection goes when there are too many."""


class AdmittedConnection:
    """One connection that was admitted.

    Attributes:
        cut: Ends it at once.
        opened: Whether it has identified itself.
        stranger: Whether it takes one of the places of strangers.
        going: Whether it was cut to make room.
    """

    __slots__ = ("address", "cut", "going", "gone", "kind", "opened", "stranger")

    def __init__(self, kind: Kind, address: str, cut: Callable[[], None]) -> None:
        self.kind = kind
        self.address = address
        self.cut = cut
        self.opened = False
        self.stranger = False
        self.going = False
        self.gone = False


class Admission:
    """All connections of one queue manager."""

    def __init__(
        self, budget: Budget, known: Callable[[str], bool] = lambda address: False
    ) -> None:
        """Begin with none.

        Args:
            known: Whether an address belongs to a manager with which messages were exchanged, or
                which is configured.
        """
        self.budget = budget
        self._known = known
        self._count: Counter[Kind] = Counter()
        self._of_address: Counter[str] = Counter()
        self._strangers = 0
        self._guests = 0
        """Connections of other accounts at the socket."""
        self._half: OrderedDict[str, OrderedDict[AdmittedConnection, None]] = OrderedDict()
        """Connections that have not identified themselves, by address, the oldest first."""
        self._halves = 0
        self._going = 0
        """Connections that were cut to make room, and have their descriptors still."""

    def enter(
        self, kind: Kind, address: str, number: int, cut: Callable[[], None]
    ) -> AdmittedConnection | str:
        """Admit a connection, or return the reason to refuse it; another one may be cut for it.

        Args:
            number: Its descriptor.
            cut: Ends it later, if it has to make room.
        """
        limits = self.budget
        here = kind is Kind.LOCAL_APPLICATION
        own = here and address == LOCAL
        # The system gives the lowest free number, so a high one says that all below it are in use.
        if number >= (limits.local if own else limits.far):
            # A cut connection keeps its descriptor for a moment. In a burst those would add up, and
            # take the ones reserved for the store and the local socket.
            if self._going >= GOING_MAX and not own:
                return SHORT_OF_DESCRIPTORS
            if not self.relieve():
                return SHORT_OF_DESCRIPTORS
        if here and not own:
            if self._of_address[address] >= limits.local_applications // 2:
                return f"this account has {limits.local_applications // 2} connections already"
            if self._guests >= limits.local_applications * 3 // 4:
                return f"other accounts have {self._guests} connections already"
        most = getattr(limits, kind.value)
        if self._count[kind] >= most and not (kind in _MAKE_ROOM and self._cut_half(kind)):
            return f"there are {most} such connections already"
        if not here and kind is not Kind.MADE and not is_loopback(address):
            if self._of_address[address] >= ADDRESS_CONNECTIONS_MAX and not self._known(address):
                return f"this address has {ADDRESS_CONNECTIONS_MAX} connections already"
            if len(self._half.get(address, ())) >= ADDRESS_HANDSHAKES_MAX:
                self._cut_oldest(address)
        place = AdmittedConnection(kind, address, cut)
        self._count[kind] += 1
        self._of_address[address] += 1
        self._guests += here and not own
        if kind is Kind.MADE or here:
            place.opened = True
        else:
            if self._halves >= limits.handshakes:
                self.relieve()
            self._half.setdefault(address, OrderedDict())[place] = None
            self._halves += 1
        return place

    def speaks(self, place: AdmittedConnection, *, known: bool) -> str:
        """Note that a connection has identified itself; return the reason to refuse it, or "".

        Args:
            known: Whether messages were exchanged with the manager that it claims to be.
        """
        if place.opened:
            return ""
        place.opened = True
        self._forget_half(place)
        if place.kind is Kind.PEER and not known and not self._known(place.address):
            if self._strangers >= self.budget.strangers:
                return f"there are {self.budget.strangers} connections of strangers already"
            place.stranger = True
            self._strangers += 1
        return ""

    def leave(self, place: AdmittedConnection) -> None:
        """Remove a connection that is gone; repeated calls do no harm."""
        if place.gone:
            return
        place.gone = True
        self._count[place.kind] -= 1
        self._of_address[place.address] -= 1
        if not self._of_address[place.address]:
            del self._of_address[place.address]
        self._strangers -= place.stranger
        self._going -= place.going
        self._guests -= place.kind is Kind.LOCAL_APPLICATION and place.address != LOCAL
        if not place.opened:
            self._forget_half(place)

    def relieve(self) -> bool:
        """Cut the oldest connection that has not identified itself; return False if there is none.

        It belongs to the address that has most of them: a client that opens many pays for it.
        """
        if not self._half:
            return False
        self._cut_oldest(max(self._half, key=lambda address: len(self._half[address])))
        return True

    def _cut_half(self, kind: Kind) -> bool:
        crowded = max(
            self._half,
            key=lambda address: sum(place.kind is kind for place in self._half[address]),
            default=None,
        )
        if crowded is None:
            return False
        for place in self._half[crowded]:
            if place.kind is kind:
                self._cut(place)
                return True
        return False

    def _cut_oldest(self, address: str) -> None:
        self._cut(next(iter(self._half[address])))

    def _cut(self, place: AdmittedConnection) -> None:
        """Cut it: it leaves the unidentified ones now, and all other counts when it ends."""
        self._forget_half(place)
        place.opened = place.going = True
        self._going += 1
        place.cut()

    def _forget_half(self, place: AdmittedConnection) -> None:
        of_address = self._half.get(place.address)
        if of_address is not None and of_address.pop(place, 0) is None:
            self._halves -= 1
            if not of_address:
                del self._half[place.address]
