"""The judge's books as tables: queues, units of work, messages, and what is known of each.

The watchers of a world read them; ``ledger.py`` enters requests and answers, and checks them
against the tables. Every body carries an identifier of its own, so each copy of each message can be
followed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from onceq.model.identity import TransactionId
from onceq.model.message import Properties
from onceq.model.results import Outcome
from proof.sim.base.kernel import Kernel
from proof.sim.base.pair import Pair

Key = tuple[int, str]
"""Computer and name of a queue."""
ADMIN: Final = "private$\\acks"
"""The administration queue of each manager."""
OWN_DEAD: Final = "private$\\failed"
"""A dead-letter queue of the senders' own, on each manager."""
OWN: Final = "OWN"
"""How the books call that queue."""
NOWHERE: Final = "os:nowhere"
"""In names that lead to no computer."""


class Reading(NamedTuple):
    """The memory of a reader of a queue: which of its lives has removed, and up to where."""

    query: str
    to: int


class Status(Enum):
    """What the books say about a unit of work."""

    OPEN = "open"
    ASKED = "commit asked for"
    COMMITTED = "committed"
    ABORTED = "aborted"
    DOUBT = "in doubt"


@dataclass(slots=True)
class Place:
    """One queue as the books see it; ``node`` -1 is a computer that does not exist.

    Attributes:
        spellings: Format names by which managers address it.
        created_us, deleted_us: When it came into being (-1: never) and went away.
        purged_us: When somebody last asked for a purge.
        leaks: Messages that may have been taken by receives whose answer was lost.
        slack: Receives in transactions whose answer was lost: they may have counted as aborts.
    """

    node: int
    name: str
    spellings: list[str]
    transactional: bool = True
    quota_kb: int = 0
    created_us: int = -1
    deleted_us: int = -1
    late: bool = False
    journal: bool = False
    parent: Place | None = None
    """Of a subqueue: the queue that it is a part of."""
    parts: list[Place] = field(default_factory=list)
    poison: bool = False
    """Whether what is given back too often is moved to a subqueue."""
    retry_s: int = 0
    """How long it waits before it comes back and is tried again."""
    purged_us: int = -1
    leaks: int = 0
    slack: int = 0
    number: int = 0
    instance: bytes = b""
    """The GUID of a public queue; empty for a private one."""
    lookups: dict[int, int] = field(default_factory=dict)
    ever: dict[int, int] = field(default_factory=dict)
    """By lookup identifier: the message that it named first, in lives that are undone, too."""
    held: dict[int, Unit] = field(default_factory=dict)
    doubtful: dict[int, list[Unit]] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    sure: dict[int, int] = field(default_factory=dict)
    """By lookup identifier: aborts that no crash may lose, because a commit was answered since."""
    aborts: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By lookup identifier: how many aborts, and the life of the process in the first of them
    (-1: not known of one of them). Locks and aborts are written lazily, so a crash may forget
    some."""
    readings: dict[str, Reading] = field(default_factory=dict)
    """By name of a reader: what its manager remembers of it (``memories.py``)."""
    removing: dict[str, Reading] = field(default_factory=dict)
    """Likewise: what it may remember, because a removal is under way, or its answer was lost."""
    removing_us: dict[str, int] = field(default_factory=dict)
    """When that was asked for."""
    read_us: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Between which times each has removed last: when it was asked for, and when it was known."""
    forgotten: set[str] = field(default_factory=set)
    """Readers that an operator may have let it forget."""
    keeps: bool = False
    """Whether a reader has wanted copies of removed messages in the queue's journal."""

    @property
    def key(self) -> tuple[int, str]:
        """Which queue it is."""
        return self.node, self.name

    @property
    def home(self) -> Place:
        """The queue that messages were sent to: itself, unless it is a subqueue."""
        return self.parent or self

    def __str__(self) -> str:
        return f"M{self.node}\\{self.name}"


@dataclass(slots=True, eq=False)
class Unit:
    """One unit of work of an application: what it sends and what it takes."""

    node: int
    began_us: int
    status: Status = Status.OPEN
    order: int = 0
    """Place among all commits asked for at that manager; its inbox keeps the order."""
    sends: list[Message] = field(default_factory=list)
    takes: list[tuple[Place, int, int]] = field(default_factory=list)
    moves: dict[tuple[tuple[int, str], int], Place] = field(default_factory=dict)
    """(queue, lookup identifier) of what it took, and where it moves that to."""
    rejects: set[tuple[tuple[int, str], int]] = field(default_factory=set)
    """(queue, lookup identifier) of what it took and refused."""
    seen: bool = False
    """Something of it was visible before its outcome was known: it must have committed."""
    returned: bool = False
    """Something it took was seen again: it must not have committed."""
    vague: bool = False
    """Its commit was asked for more than once: its place among others is not known."""
    doomed: bool = False
    """A send of it was refused, and not because it was wrong in itself: it must not commit."""
    undone: bool = False
    """A restore of its manager has undone it, in any state (``restores.py``)."""
    was_undone: bool = False
    """It is, or was until another copy of the directory took its turn, which has it."""
    told: Outcome | None = None
    id: TransactionId | None = None


@dataclass(slots=True, eq=False)
class Copy:
    """What is known of one message at one destination."""

    lookup: int = 0
    seen: bool = False
    received: int = 0
    rejected: int = 0
    moved: bool = False
    """It was to be moved to a subqueue or back: its place changes."""
    aside: bool = False
    """It was seen where a poison policy sets aside for people: its time does not count any more."""
    journaled: int = 0
    """Copies of it in the journal of its queue."""
    kept: bool = False
    """Whether it was removed by a reader who wants a copy there."""
    letters: list[tuple[int, str, int]] = field(default_factory=list)
    """(manager, system queue, class) where it was found in the end."""
    waiting: bool = False
    worked: bool = False
    """Whether a job was about it (``worked.py``)."""
    own: int = 1
    """0: it was not sent here; a job has moved it."""
    more: int = 0
    perhaps_more: int = 0
    """So often a job has sent it again, and may have."""
    fewer: int = 0
    perhaps_fewer: int = 0
    """How many letters of it a job has taken away, and may have."""

    @property
    def lives(self) -> int:
        """How often it may come to an end of its own, at most."""
        return self.own + self.more + self.perhaps_more - self.fewer


@dataclass(slots=True, eq=False)
class Message:
    """One send; ``unit`` is None outside transactions."""

    uid: int
    node: int
    unit: Unit | None
    index: int
    properties: Properties
    body: bytes
    sent_us: int
    copies: dict[tuple[int, str], Copy]
    names: dict[tuple[int, str], str]
    """Format name by which each destination was addressed: each has a stream of its own."""
    places: tuple[Place, ...]
    done: bool = False
    """Outside transactions: the send was answered."""
    refused: bool = False
    label: str = ""
    """Its own, where each message of its batch has one."""


@dataclass(slots=True)
class Snapshot:
    """What the judge knew of one computer at some moment."""

    places: list[tuple[Place, Place]] = field(default_factory=list)
    """A queue (or a part of one), and it as it was then."""
    copies: dict[tuple[int, Key], Copy] = field(default_factory=dict)
    accepted: dict[tuple[int, Key], dict[int, int]] = field(default_factory=dict)
    units: set[Unit] = field(default_factory=set)
    """Units of work of which the outcome was known."""
    open: list[Unit] = field(default_factory=list)
    sent: set[int] = field(default_factory=set)
    """Messages outside transactions of which the send was answered."""
    standing: set[tuple[int, Key]] = field(default_factory=set)
    """Messages in its queues."""
    life: int = 0

    @property
    def fixed(self) -> tuple[object, ...]:
        """Which queues there are."""
        return tuple((place.key, old.created_us, old.deleted_us) for place, old in self.places)


class Books:
    """See the module."""

    def __init__(self, kernel: Kernel, pair: Pair) -> None:
        self._kernel, self._pair = kernel, pair
        self.messages: dict[int, Message] = {}
        self.places: dict[Key, Place] = {}
        self.lists: dict[str, tuple[Place, ...]] = {}
        """Format names of distribution lists, and what they stand for."""
        self.members: dict[Key, str] = {}
        """By queue: how they name it."""
        self.units: list[Unit] = []
        """All units of work, in the order in which they began."""
        self.accepted: dict[tuple[int, Key], dict[int, int]] = {}
        """(message, queue): when each of its lookup identifiers arrived, by its receiver's clock"""
        self.letter_queues_gone: set[int] = set()
        """Managers whose applications have deleted their own dead-letter queue."""
        self.purged: dict[tuple[int, Key], int] = {}
        """(sender, destination): when an operator last purged that outgoing queue."""
        self.answers_given_up: dict[int, int] = {}
        """Manager: when its operator last gave up acknowledgment messages for strangers."""
        self.rotten: set[int] = set()
        """Messages that may be set aside as damaged (``faults/rot.py``)."""
        self.listening: dict[int, int] = {}
        """By manager: since when its administration queue is there."""

    def everywhere(self) -> list[Place]:
        """All queues, and behind each its subqueues."""
        return [part for place in self.places.values() for part in (place, *place.parts)]

    def deleted_at(self, node: int) -> bool:
        """Whether a queue of that manager was deleted."""
        return any(p.node == node and p.deleted_us >= 0 for p in self.places.values())

    def place_of(self, message: Message, destination: str) -> Place:
        """Which of its destinations a copy went to, by the name in its packet."""
        given = destination.casefold()
        host, _, path = given.partition("\\")
        host = host.rpartition(":")[2]
        for place in message.places:
            hosts = {f"m{self._pair.identity(place.node)}", f"10.0.0.{place.node + 1}"}
            if place.node == message.node:
                hosts.add(".")
            spellings = {message.names[place.key], *map(str.casefold, place.spellings)}
            if given in spellings or (path == place.name and host in hosts):
                return place
        return self._kernel.wrong(
            f"message {message.uid} went to {destination}, where nobody sent it"
        )
