"""What is known of other managers: sessions with them, and how far their streams have come.

Upholds: I24 (small entries, in bounded tables).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from onceq.core.state.rows import read_row, row_of
from onceq.core.state.setups import ClockBelieved
from onceq.core.state.turns import Turns
from onceq.model.identification import ON_THIS_COMPUTER, Identification
from onceq.model.record import Record
from onceq.model.rights import Actor


class Reset(Record, frozen=True):
    """An operator has set an incoming stream back: when, why, and from where."""

    at_s: int
    reason: str
    stream: int
    number: int


class AcceptedClock(Record, frozen=True):
    """An operator takes the streams of a manager that begin no later than ``until_s``."""

    until_s: int
    at_s: int
    reason: str


class ClocksAhead:
    """Managers whose clock was ahead when they started, as an operator has said
    (``core/peers/trust.py``)."""

    def __init__(self) -> None:
        self._accepted: dict[bytes, AcceptedClock] = {}

    def __len__(self) -> int:
        return len(self._accepted)

    def until_s(self, guid: bytes) -> int:
        """The last second in which a stream of a manager may begin; 0: nobody has said."""
        found = self._accepted.get(guid)
        return 0 if found is None else found.until_s

    def apply(self, setup: ClockBelieved) -> None:
        """Apply a setup."""
        self._accepted[setup.source] = AcceptedClock(setup.until_s, setup.at_s, setup.reason)

    def dump(self) -> list[list[Any]]:
        """The rows of a checkpoint."""
        return [[guid, *row_of(clock)] for guid, clock in self._accepted.items()]

    def load(self, rows: Iterable[list[Any]]) -> None:
        """Take the rows of a checkpoint."""
        for guid, *row in rows:
            self._accepted[bytes.fromhex(guid)] = read_row(AcceptedClock, row)


@dataclass(slots=True)
class Progress:
    """What this receiver knows of one sender's messages to one queue.

    ``stream``, ``last``, ``since``, ``passed``, ``message`` and ``vague`` are durable (EOD-21,
    CNF-22); the rest is for the order acknowledgment and for operators (EOD-48).
    """

    source: bytes
    key: str
    stream: int = 0
    last: int = 0
    rejects: int = 0
    duplicates: int = 0
    gaps: int = 0
    stale: int = 0
    last_access_s: int = 0
    session: int = 0
    direct: bool = True
    leads_to: int = 0
    """Number of the queue that its last message was for, since the start; a redirection may have
    led it there, which the key does not tell."""
    due_us: int = 0
    acked_us: int = 0
    since_ack: int = 0
    since: int = 1
    """In the stream that it is in, everything from this number on is remembered."""
    passed: tuple[tuple[int, int], ...] = ()
    """Ranges (both ends included) of numbers that were never accepted and never will be."""
    stale_stream: int = 0
    """A stream left behind of which something came since the last message was accepted, and when:
    running, for operators."""
    stale_s: int = 0
    reset: Reset | None = None
    """The last time that an operator set it back."""
    message: int = 0
    """Message number of the last message accepted; 0: not known."""
    conflicts: int = 0
    """Messages that came under numbers which others had been accepted under."""
    vague: bool = False
    """The store was restored from a backup: what came between is not known."""


@dataclass(slots=True)
class Peer:
    """One open session, as the core sees it."""

    session: int
    peer: bytes
    address: str
    who: Identification = ON_THIS_COMPUTER
    outgoing: set[int] = field(default_factory=set)
    turns: Turns = field(default_factory=Turns)
    """Those of them of which something may leave."""
    messages: int = 0
    recoverable: int = 0
    acks: dict[tuple[bytes, str], None] = field(default_factory=dict)
    extended: bool = False
    http: bool = False
    delays: bool = False
    """Whether it knows of messages that are delayed (``core/delays.py``)."""
    publics: bool = False
    """Whether it can be asked about queues that are named by their GUID."""
    turned: dict[tuple[bytes, int], int] = field(default_factory=dict)
    """When (monotonic us) it may be told again that messages of a stream are turned away."""
    ends_told_us: int = 0
    """When (monotonic us) it may be told again of which messages it will be told the end."""
    telling: bool = False
    """Whether the queues are looked through for such an answer."""
    life: bytes = b""
    """Of its process, and the high half of the streams that it begins; empty: not told."""
    stamp: int = 0
    superseded: int = -1
    """How many packets had been sent to it when a later life of the same manager was met."""
    notes: deque[bytes] = field(default_factory=deque)
    """Packets about doubts that wait to be sent."""
    warning: bytes = b""
    """A packet that waits to be sent: that it has met its own identity elsewhere."""
    plain: deque[tuple[int, int, int, int, int, int]] = field(default_factory=deque)
    """(messages so far, recoverable so far, outgoing, lane, first, count) of what was sent
    outside transactions, oldest first; both counts include the range. Where the second is -1 the
    first one decides: express messages, and each message over HTTP."""
    posts: deque[tuple[int, int, int, int, int]] = field(default_factory=deque)
    """Over HTTP: (messages before it, outgoing, lane, first, count) of what was handed over, and
    may not have begun to leave."""
    answered: int = 0
    """How many messages it has acknowledged."""
    actor: Actor = field(init=False)
    """Who it is for rights."""

    def __post_init__(self) -> None:
        self.actor = self.who.actor
