"""State of other managers: sessions, progress of their streams, and addresses of receipts.

A session may serve thousands of outgoing queues. ``ReadyQueues`` has the queues that may transmit,
so that an acknowledgment does not examine all of them.

A number at or below the last one accepted is a repetition only if the message has the identifier of
the one that was accepted under it. With another identifier, two managers give numbers as one: a
copy, or a backup that goes on with the numbers of another life. ``Accepted`` notices that: to
acknowledge such a message would lose it.

Also here:

* The lives of a queue manager: which stream identifiers each of them may have given.
* Which queue manager answers under which name or address, and which have proven who they are.

Upholds: I7, I9 (what was not accepted is not acknowledged), I24 (small entries, in bounded tables),
I25, I26 (each ready queue gets its turn), I10, I28.
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from onceq.core.state import setups
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queues import TRANSACTIONAL_LANE
from onceq.model import limits
from onceq.model.identification import ON_THIS_COMPUTER, Identification
from onceq.model.identity import NO_GUID
from onceq.model.record import Record
from onceq.model.rights import Actor

# ---- peer table ----------------------------------------------------------------------------------


class ReadyQueues:
    """Numbers of the outgoing queues that may transmit, each once."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def note(self, number: int) -> None:
        """Something of a queue may leave: it comes behind the others, unless it is here."""
        self._numbers.setdefault(number)

    def next(self) -> int:
        """The queue whose turn it is; it is not noted any more."""
        number = next(iter(self._numbers))
        del self._numbers[number]
        return number

    def drop(self, number: int) -> None:
        """A queue is not served by this session any more."""
        self._numbers.pop(number, None)


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

    def apply(self, setup: setups.ClockBelieved) -> None:
        """Apply a setup."""
        self._accepted[setup.source] = AcceptedClock(setup.until_s, setup.at_s, setup.reason)

    def dump(self) -> list[list[Any]]:
        """The rows of a checkpoint."""
        return [[guid, *setups.row_of(clock)] for guid, clock in self._accepted.items()]

    def load(self, rows: Iterable[list[Any]]) -> None:
        """Take the rows of a checkpoint."""
        for guid, *row in rows:
            self._accepted[bytes.fromhex(guid)] = setups.read_row(AcceptedClock, row)


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
    """A stream that was left, and has sent something since the last message was accepted, and the
    time: running, for operators."""
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
    turns: ReadyQueues = field(default_factory=ReadyQueues)
    """The outgoing queues that may transmit."""
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
    """When (monotonic us) it may be told again which messages' ends it will be told."""
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


@dataclass(slots=True)
class _Recent:
    """Message numbers of consecutive sequence numbers from ``first`` on; 0: none was accepted."""

    stream: int
    first: int
    messages: array[int]


class Accepted:
    """Identifiers of the messages that were accepted last, by stream and number."""

    def __init__(self) -> None:
        self._recent: OrderedDict[tuple[bytes, str], _Recent] = OrderedDict()

    def note(self, source: bytes, key: str, stream: int, number: int, messages: array[int]) -> None:
        """These messages were accepted under consecutive numbers from ``number`` on."""
        recent = self._recent.get((source, key))
        gap = number - recent.first - len(recent.messages) if recent is not None else 0
        if recent is None or recent.stream != stream or not 0 <= gap <= limits.ACCEPTED_NUMBERS_MAX:
            recent = _Recent(stream, number, array("I"))
            self._recent[source, key] = recent
        # Numbers that were passed over: no message had them.
        elif gap:
            recent.messages.frombytes(bytes(gap * recent.messages.itemsize))
        recent.messages += messages
        over = len(recent.messages) - limits.ACCEPTED_NUMBERS_MAX
        # At twice the number, not at one more: else each message would move all the others.
        if over >= limits.ACCEPTED_NUMBERS_MAX:
            del recent.messages[:over]
            recent.first += over
        self._recent.move_to_end((source, key))
        if len(self._recent) > limits.ACCEPTED_STREAMS_MAX:
            self._recent.popitem(last=False)

    def contradict(self, progress: Progress, number: int, messages: array[int]) -> bool:
        """Whether other messages than these were accepted under the numbers from ``number`` on;
        not if nobody remembers."""
        at = progress.last - number
        if progress.message and 0 <= at < len(messages) and messages[at] != progress.message:
            return True
        recent = self._recent.get((progress.source, progress.key))
        if recent is None or recent.stream != progress.stream:
            return False
        start = max(number, recent.first)
        end = min(number + len(messages), recent.first + len(recent.messages))
        known = recent.messages[start - recent.first : max(end - recent.first, 0)]
        come = messages[start - number : max(end - number, 0)]
        return known != come and any(a and a != b for a, b in zip(known, come, strict=True))


class Receipts:
    """Direct names for receipts, and of the destination queue, by source and stream."""

    def __init__(self) -> None:
        self._names: OrderedDict[tuple[bytes, int], tuple[str, str]] = OrderedDict()
        self._streams: dict[tuple[bytes, str], int] = {}
        self._latest: dict[bytes, int] = {}
        """By source: the stream whose address was learned last."""

    def __len__(self) -> int:
        return len(self._names)

    def apply(self, setup: setups.ReceiptsTo) -> None:
        """Apply a setup."""
        self.learn(setup.source, setup.stream, setup.name, left=setup.left, queue=setup.queue)

    def learn(
        self, source: bytes, stream: int, name: str, *, left: int = 0, queue: str = ""
    ) -> None:
        """Receipts of a stream go to ``name``; ``left`` is the stream to the same queue that it
        takes the place of, ``queue`` the URL of that queue ("" in records of older versions)."""
        if left != stream:
            self._drop(source, left)
        self._names[source, stream] = (name, queue)
        self._streams[source, queue] = stream
        self._names.move_to_end((source, stream))
        self._latest[source] = stream
        if len(self._names) > limits.STREAMS_MAX:
            oldest, number = next(iter(self._names))
            self._drop(oldest, number)
            if self._latest[oldest] == number:
                del self._latest[oldest]

    def _drop(self, source: bytes, stream: int) -> None:
        known = self._names.pop((source, stream), None)
        if known is not None and self._streams.get((source, known[1])) == stream:
            del self._streams[source, known[1]]

    def of_stream(self, source: bytes, stream: int) -> str | None:
        """Where receipts of a stream go; None if it has not said so."""
        found = self._names.get((source, stream))
        return None if found is None else found[0]

    def queue_of(self, source: bytes, stream: int) -> str:
        """The URL of the destination queue of a stream; "" if it is not known."""
        return self._names.get((source, stream), ("", ""))[1]

    def stream_to(self, source: bytes, queue: str) -> int:
        """The stream of a sender to a queue that was learned last; 0 if none was."""
        return self._streams.get((source, queue), 0)

    def of_source(self, source: bytes) -> str | None:
        """The address that a sender has announced last; None if it has announced none."""
        return self.of_stream(source, self._latest.get(source, 0))

    def dump(self) -> list[list[Any]]:
        """For a checkpoint, the one learned last at the end."""
        return [
            [source, stream, name, queue] for (source, stream), (name, queue) in self._names.items()
        ]

    def load(self, values: Iterable[Sequence[Any]]) -> None:
        """From a checkpoint; those of older versions know no queues."""
        for source, stream, name, *queue in values:
            self.learn(bytes.fromhex(source), stream, name, queue="".join(queue))


# ---- life table ----------------------------------------------------------------------------------


class Given(Record, frozen=True):
    """Identifiers that were given: this stamp with the ordinals from ``first`` to before
    ``end``.

    A life begins with each start of the process. Its stream identifiers have a stamp of their own
    in the high half, above the stamp of every life before it, and its ordinals (the low half) begin
    at random. So other identifiers come from a life that went on from a copy of this store, or from
    a life that a restored backup has undone; and an identifier that is none of those here was given
    by such a life.

    A durable table of ``State``, changed by ``apply_setup`` only; the rules are in
    ``core/peers/lives.py``.
    """

    stamp: int
    first: int
    end: int


class Lives:
    """The lives of a queue manager: which streams each of them may have given.

    Attributes:
        id: Of the present life: random, told to other onceq managers.
        message: Message number with which the present life has begun.
        first: Ordinal with which the present stamp has begun.
        made_ns: When the directory was made that the present life was started in; 0: not known.
    """

    def __init__(self) -> None:
        self.id = bytes(16)
        self.message = 1
        self.first = 1
        self.made_ns = 0
        self._before: list[Given] = []

    def enter(self, life: setups.LifeBegun, stamp: int, end: int) -> bool:
        """A life begins; the last one had that stamp, and gave the ordinals before ``end``.

        Returns:
            Whether the directory was copied since.
        """
        copied = self.copied(life.made_ns)
        self.leave(stamp, end, life.ordinal)
        self.id, self.message = life.id, life.message
        self.made_ns = life.made_ns or self.made_ns
        return copied

    def leave(self, stamp: int, end: int, first: int) -> None:
        """Another stamp begins, with the ordinal ``first``; of the last one the ordinals before
        ``end`` were given."""
        # One that has begun no stream has given nothing.
        if end > self.first:
            self._before = [*self._before[1 - limits.LIVES_MAX :], Given(stamp, self.first, end)]
        self.first = first

    def gave(self, stream: int, stamp: int, end: int) -> bool:
        """Whether one of these lives has given a stream identifier, or one so long ago that it is
        not remembered.

        Args:
            stamp, end: The present stamp, and the ordinal that it gives next.
        """
        high, low = stream >> 32, stream & 0xFFFF_FFFF
        if high == stamp:
            return self.first <= low < end
        before = self._before
        if len(before) == limits.LIVES_MAX and high < before[0].stamp:
            return True
        return any(g.stamp == high and g.first <= low < g.end for g in before)

    def copied(self, made_ns: int) -> bool:
        """Whether a directory that was made then is not the directory of the present life."""
        return 0 < self.made_ns != made_ns > 0

    def dump(self) -> dict[str, Any]:
        """The member of a checkpoint."""
        return {
            "id": self.id, "message": self.message, "first": self.first, "given": self._before,
            "made_ns": self.made_ns,
        }  # fmt: skip

    def load(self, values: dict[str, Any]) -> None:
        """Take the member of a checkpoint."""
        self.id = bytes.fromhex(values["id"])
        self.message, self.first = values["message"], values["first"]
        self.made_ns = values.get("made_ns", 0)
        self._before = [setups.read_row(Given, row) for row in values["given"]]


# ---- peer bindings -------------------------------------------------------------------------------


class Binding(Record, frozen=True):
    r"""Who answers under a name.

    A format name such as ``DIRECT=OS:BETA\private$\q`` says where to connect, not which manager is
    there. The GUID of the manager that answered first is remembered, so that only its word counts
    about what was transmitted to that name (``core/peers/trust.py``), also after a restart and on
    another session. A manager that has once shown a certificate is believed with a certificate
    alone from then on. An address that is believed without proof (``plain_peers``) is the manager
    that it first claimed to be (``model/identification.py`` judges by both).

    Attributes:
        guid: Of the manager.
        since_s: Second since which it is so.
        by_hand: An operator has said so.
    """

    guid: bytes
    since_s: int
    by_hand: bool = False


class Bindings:
    """Managers by the name that is connected to, such as ``os:beta``
    (``OutgoingQueue.bound_name``)."""

    def __init__(self) -> None:
        self._names: dict[str, Binding] = {}
        self._count: Counter[bytes] = Counter()

    def __len__(self) -> int:
        return len(self._names)

    def get(self, name: str) -> Binding | None:
        """Who answers under a name; None: nobody has yet."""
        return self._names.get(name)

    def guid_of(self, name: str) -> bytes:
        """The same as a GUID; empty if nobody has."""
        found = self._names.get(name)
        return found.guid if found is not None else b""

    def named(self, guid: bytes) -> list[str]:
        """Names under which a manager answers."""
        return [name for name, binding in self._names.items() if binding.guid == guid]

    def items(self) -> Iterable[tuple[str, Binding]]:
        """Every name."""
        return self._names.items()

    @property
    def full(self) -> bool:
        """Whether no further name is remembered."""
        return len(self._names) >= limits.BOUND_NAMES_MAX

    def bind(self, name: str, binding: Binding) -> bytes:
        """Remember it; gives the GUID that was bound before, or an empty one."""
        before = self.guid_of(name)
        if before:
            self.forget(name)
        self._names[name] = binding
        self._count[binding.guid] += 1
        return before

    def known(self, guid: bytes) -> bool:
        """Whether a manager answers under any name."""
        return guid in self._count

    def forget(self, name: str) -> None:
        """Bind the name to the manager that answers next."""
        gone = self._names.pop(name, None)
        if gone is not None:
            self._count[gone.guid] -= 1
            if not self._count[gone.guid]:
                del self._count[gone.guid]

    def dump(self) -> list[list[Any]]:
        """The rows of a checkpoint."""
        return [[name, *setups.row_of(binding)] for name, binding in self._names.items()]

    def load(self, rows: Iterable[list[Any]]) -> None:
        """Take the rows of a checkpoint."""
        for name, *row in rows:
            self.bind(name, setups.read_row(Binding, row))


def holders(outgoing: OutgoingQueue, now: bytes, counter: int | None = None) -> tuple[bytes, ...]:
    """The managers that a message of an outgoing queue may have been transmitted to; none if nobody
    was known to answer there, or it is reached over HTTP.

    Args:
        now: The one that answers under its name; empty if nobody does.
        counter: Of the message; None: any message.
    """
    if outgoing.over_http:
        return ()
    if not outgoing.bound_name:
        return (outgoing.name.guid,)
    found = [
        guid
        for guid, first, end in outgoing.served_before
        if counter is None or first <= counter < end
    ]
    if now and (counter is None or counter >= outgoing.served_from):
        found.append(now)
    return tuple(dict.fromkeys(found))


def hand_over(outgoing: OutgoingQueue, before: bytes, sent: int | None) -> None:
    """Another manager serves an outgoing queue from now on.

    Of what was transmitted until now the one before may still tell; of what is not acknowledged,
    and of all that comes, the new one.

    Args:
        sent: The last counter that was transmitted, where that is less than all.
    """
    lane = outgoing.lanes.get(TRANSACTIONAL_LANE)
    if lane is None:
        return
    outgoing.served_before = (
        *outgoing.served_before[1 - limits.OWNERS_MAX :],
        (before, outgoing.served_from, lane.next if sent is None else sent + 1),
    )
    outgoing.served_from = lane.first_available()


PREFIX: Final = "address:"
"""Before an address, among the names of managers."""


class Proofs:
    """Which queue managers have proven who they are, and where one answered."""

    def __init__(self) -> None:
        self._proven: dict[bytes, None] = {}
        self._addresses: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._proven) + len(self._addresses)

    def proven(self, guid: bytes) -> bool:
        """Whether a queue manager has ever shown a certificate here."""
        return guid in self._proven

    def at(self, address: str) -> bytes:
        """The queue manager that an address is; empty: it has said nothing yet."""
        return self._addresses.get(address, b"")

    @property
    def addresses(self) -> Mapping[str, bytes]:
        """All addresses that are somebody."""
        return self._addresses

    @property
    def full(self) -> bool:
        """Whether no further one is remembered."""
        return len(self) >= limits.BOUND_NAMES_MAX

    def apply(self, setup: setups.Setup) -> None:
        """Apply a setup."""
        match setup:
            case setups.PeerProven(guid):
                self.prove(guid)
            case setups.AddressBound(address, guid) if guid == NO_GUID:
                self.forget(address)
            case setups.AddressBound(address, guid):
                self.bind(address, guid)

    def prove(self, guid: bytes) -> None:
        """A queue manager has shown its certificate."""
        self._proven[guid] = None

    def bind(self, address: str, guid: bytes) -> None:
        """An address is that queue manager from now on."""
        self._addresses[address] = guid

    def forget(self, address: str) -> None:
        """The next one that speaks there is it."""
        self._addresses.pop(address, None)

    def dump(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {
            "proven": list(self._proven),
            "addresses": list(self._addresses.items()),
        }

    def load(self, values: Mapping[str, Any]) -> None:
        """From a checkpoint; older ones have nothing of it."""
        proven: Iterable[str] = values.get("proven", ())
        addresses: Iterable[tuple[str, str]] = values.get("addresses", ())
        self._proven = {bytes.fromhex(guid): None for guid in proven}
        self._addresses = {address: bytes.fromhex(guid) for address, guid in addresses}
