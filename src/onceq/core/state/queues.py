"""Queues with messages in them: those of this manager, and the outgoing queues for others.

Both are lanes of positions with a number that records refer to. The first part of each class is
durable, and only ``State.apply`` changes it; the rest belongs to the running process.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from onceq.core.state.audit_trail import NOBODY, ReportRequests
from onceq.core.state.log_space import Space
from onceq.core.state.positions import Lanes
from onceq.model.names import FormatName
from onceq.model.queue import QueueProperties
from onceq.model.requests import Access, Receive, Share

TRANSACTIONAL_LANE = 8
"""The lane of an outgoing queue's transactional messages; 0 to 7 are priorities of the others."""

LOOKUP_SHIFT = 56
COUNTER_MASK = (1 << LOOKUP_SHIFT) - 1


def lookup_id(lane: int, counter: int) -> int:
    """Lookup identifiers rise with position: 7 minus priority in the top byte (X-10)."""
    return ((7 - lane) & 0xFF) << LOOKUP_SHIFT | counter


def place_of(lookup: int) -> tuple[int, int]:
    """Lane and counter of a lookup identifier."""
    return (7 - (lookup >> LOOKUP_SHIFT)) & 0xFF, lookup & COUNTER_MASK


@dataclass(slots=True)
class QueueHandle:
    """A queue held open (MQOpenQueue). ``by``: the actor that opened it."""

    owner: int
    queue: int
    access: Access
    share: Share
    deleted: bool = False
    """The queue was deleted under it: it can only be closed (Q-37)."""
    who: str = ""
    """The owner's description of itself."""
    said: FormatName | None = None
    """Of one for sending to one queue: the name that its owner has used."""
    since_s: int = 0
    until_us: int = 0
    """When (monotonic us) it ends, if it is in somebody's way and was not renewed; 0: never."""
    cursors: dict[int, None] = field(default_factory=dict)
    """Cursors that were made with it."""
    by: str = ""


class AnyQueue:
    """Something with lanes and a number."""

    __slots__ = ("lanes", "number", "wanting")

    def __init__(self, number: int, space: Space) -> None:
        self.number = number
        self.lanes = Lanes(space)
        self.wanting: dict[int, ReportRequests] = {}

    def wants(self, index: int) -> ReportRequests:
        """Who wants to know how the messages of a lane end."""
        return self.wanting.get(index, NOBODY)

    def __len__(self) -> int:
        return sum(map(len, self.lanes.values()))

    def __bool__(self) -> bool:
        """It is there, however empty."""
        return True

    @property
    def bytes(self) -> int:
        """Packets held, in bytes."""
        total = 0
        for lane in self.lanes.values():
            total += lane.bytes
        return total


class Queue(AnyQueue):
    """A queue of this manager: application queue or system queue."""

    __slots__ = (
        "denying", "handles", "journal", "looking", "parent", "properties", "shown", "sub", "subs",
        "system", "turns", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        space: Space,
        properties: QueueProperties,
        *,
        system: bool = False,
        parent: Queue | None = None,
        sub: str = "",
    ) -> None:
        super().__init__(number, space)
        self.parent = parent
        self.sub = sub
        """Name of a subqueue; its properties are those of its parent (Q-31)."""
        self.subs: dict[str, Queue] = {}
        self.properties = properties
        self.journal: Queue | None = None
        """Where copies of received messages go, if its property says so (Q-11)."""
        self.system = system
        self.waiting: dict[tuple[int, int], Receive] = {}
        self.looking: dict[tuple[int, int], Receive] = {}
        """Those of them that only look."""
        self.handles: dict[int, QueueHandle] = {}
        self.denying: dict[int, QueueHandle] = {}
        """Those of them that deny others to receive from it."""
        self.turns = 0
        """How many have denied others to receive from it."""
        self.shown: set[tuple[int, int]] = set()
        """Lane and counter of what is locked, and may be peeked at all the same (RCV-9)."""

    @property
    def title(self) -> str:
        """Its name, with its subqueue's."""
        return f"{self.properties.name};{self.sub}" if self.sub else self.properties.name

    @property
    def available(self) -> int:
        """Messages that a receive could take now."""
        total = 0
        for lane in self.lanes.values():
            total += lane.available
        return total
