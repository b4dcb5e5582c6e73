"""Where sends go: what names mean, routes found before, and batches on their way to packets.

Running tables, written by the rooms ``names`` and ``management``. What was found for a name holds
until queues, routes or the directory change: whoever changes one of them calls
``Names.changed``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from onceq.core.state.branch_table import StoredPackets
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queues import Queue
from onceq.core.state.records import Put
from onceq.model.directory import Snapshot
from onceq.model.hosts import HERE, AddressBook, means_itself, name_for_others
from onceq.model.manager_identity import Identity
from onceq.model.names import FormatName
from onceq.model.requests import SendItem
from onceq.packet.templates import Template


@dataclass(slots=True)
class Target:
    """One destination of a send.

    Attributes:
        queue: Of this manager, or an outgoing queue.
        name: The name that packets have. Names of one place share an outgoing queue, and have the
            name under which that was opened.
        said: The name that the sender has used, by which its rights are judged.
    """

    queue: Queue | OutgoingQueue
    name: FormatName
    said: FormatName

    @property
    def text(self) -> str:
        """The name, printed."""
        return str(self.name)


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch that stands in the log already, as packets (``core/send/packets_at_prepare.py``).

    Attributes:
        message: Number of the first message.
        transaction: Number of the transaction that its packets name.
        bytes: Of the bodies.
        runs: For each destination its packets.
    """

    message: int
    transaction: int
    bytes: int
    runs: tuple[StoredPackets, ...]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """When messages are over, in seconds since 1970.

    Attributes:
        expires: They must have reached their queue, and be received.
        receive_by: They must be received.
        confirm_by: Their sender has waited long enough for the news of their end (EOD-42).
        once: One attempt to deliver them, no second (CNF-4).
    """

    expires: int
    receive_by: int
    confirm_by: int
    once: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """What batches of one second with the same properties have in common: where they go, the
    packet headers for each place, and when they are over."""

    targets: tuple[Target, ...]
    templates: tuple[Template, ...]
    deadlines: Deadlines
    one_rest: bool = False
    """Whether all packets of a message are the same from their properties on."""


@dataclass(slots=True)
class CheckedBatch:
    """A batch that was checked and resolved, ready to become packets, or written as such."""

    item: SendItem
    targets: tuple[Target, ...]
    templates: tuple[Template, ...]
    deadlines: Deadlines
    size: int
    dead_letter_queue: int = 0
    """Number of the sender's own dead-letter queue; 0: the system's."""
    written: StoredBatch | None = None
    """Of ``item`` only the number of messages counts then."""
    one_rest: bool = False
    """See Route."""
    whole: Put | None = None
    """Of a batch with one rest: the put for its first target, as soon as there is one."""
    whole_at: int = 0
    """Index of that put in the change."""
    whole_index: int = 0
    """Index of its target."""

    def size_at(self, index: int) -> int:
        """Bytes for one destination: packets differ in the names in their headers."""
        if len(self.targets) == 1:
            return self.size
        count = len(self.item.bodies)
        headers = [count * (made.overhead + 3) for made in self.templates]
        return (self.size - sum(headers)) // len(headers) + headers[index]


ROUTES_MAX = 1_024
"""Routes of sends that are remembered; when there are more, all are found anew."""


class Mode(IntEnum):
    """What there is of a directory (DL-14)."""

    WORKGROUP = 0
    """None was configured."""
    OFFLINE = 1
    """It cannot be read now."""
    ONLINE = 2


class Names:
    """See the module."""

    def __init__(
        self, identity: Identity, addresses: frozenset[str], routes: Mapping[bytes, str],
        peers: Mapping[str, str],
    ) -> None:  # fmt: skip
        self.own_names = HERE | {name.casefold() for name in (identity.name, *addresses)}
        """Names and addresses under which this computer is known, folded."""
        self.called = name_for_others(identity.name, addresses)
        """How this computer is named where others read it."""
        self.everybody = HERE | (
            {identity.name.casefold()} if means_itself(identity.name) else set()
        )
        """Names of this computer that mean another one where others read them."""
        self.addresses = tuple(sorted(addresses))
        self.book = AddressBook.of(peers, {})
        """Where other managers are, to say it: connections are made by whoever has a network."""
        self.routes_to = routes
        """GUID of a manager to the computer name of the one that passes messages on to it."""
        self.mode = Mode.WORKGROUP
        self.directory: Snapshot | None = None
        """What the directory said when it was last read."""
        self.directory_trouble = ""
        """Why it cannot be read now."""
        self.rights_trouble = ""
        """Why what the directory says of rights is not followed."""
        self.computer_guids: frozenset[bytes] = frozenset()
        """Managers that stand in the directory."""
        self.places: dict[str, OutgoingQueue] = {}
        """The outgoing queue of each place: all names that lead there share it (EOD-3)."""
        self.by_guid: dict[bytes, list[OutgoingQueue]] = {}
        """Outgoing queues whose manager is known by GUID: any session with it serves them."""
        self.ending: set[int] = set()
        """Outgoing queues of which messages are ended, because their queues have left the
        directory."""
        self.targets: dict[str, tuple[Target, ...]] = {}
        """What was found for a name to send to."""
        self.sources: dict[str, Queue] = {}
        """What was found for a name to receive from."""
        self.routes: dict[object, Route] = {}
        """What was found for sends with the same properties."""

    def changed(self) -> None:
        """Queues, routes or the directory have changed: look for every name anew."""
        self.targets.clear()
        self.sources.clear()
        self.routes.clear()

    def keep_route(self, key: object, route: Route) -> None:
        """Remember where sends with the same properties go."""
        if len(self.routes) >= ROUTES_MAX:
            self.routes.clear()
        self.routes[key] = route
