"""Batches of messages on their way from a send to their packets."""

from __future__ import annotations

from dataclasses import dataclass

from onceq.core.state.branch_table import StoredPackets
from onceq.core.state.queues import OutgoingQueue, Queue
from onceq.core.state.records import Put
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
