"""What a step of the core decides: first the records, only then the actions.

No action may be performed before every *forced* record of this decision, and of every decision
before it, is durable. This one rule makes an acknowledgment true, so there is no way to request an
action without it. A record that is not forced (``lazy``) has its position in the log, becomes
durable by the next sync for any reason, and promises nothing: it can be learned again (a received
order acknowledgment) or is a mere count. Between the two is a record that is *held*: it can be
learned again, but others see its effects. It is durable before the next action for anyone, and
after a moment in any case.

The values made for every message run are not frozen, because making a frozen one costs five times
as much; they are still never changed.

Upholds: I1 (no loss after commit), I9 (acknowledgments are truthful).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from onceq.model.directory import Computer, DistributionList, PublicQueue
from onceq.model.requests import Pick
from onceq.model.rights import Regrant
from onceq.model.run import Extent
from onceq.model.views.view import MetricsView

Piece = Extent | bytes
"""Bytes to send or hand out: still in the log, or made by the core itself."""


@dataclass(slots=True)
class LogRecord:
    """One record for the log, and the position that its frame must get.

    Attributes:
        head: Bytes of the payload before its packets; 0: it brings none.
        held: Not forced, but no action of a later decision comes before it is durable, either.
    """

    payload: bytes
    position: int
    forced: bool = True
    head: int = 0
    held: bool = False


# ---- answers -----------------------------------------------------------------------------


@dataclass(slots=True)
class Handed:
    """Messages received or peeked: the positions of their packets.

    Attributes:
        pieces: Extents whose bytes, joined, are the packets one after another.
        lengths: Length of each packet.
        lookups: Lookup identifier of each.
        arrived: Seconds since 1970 of each arrival.
        aborts: Abort count of each.
        classes: (index, message class) of those whose class is no longer the one in the packet:
            dead letters, whose class is the reason (Q-15).
        moves: (index, count, second of the last) of those that were moved to or from subqueues.
        notes: (index, note) of dead letters that have a note beside the class.
        failures: (index, how often, why) of those whose receives failed at places before.
        pick: Hand out less than these (RCV-10); None: all.
        queue: Number of the queue that they are in, or were.
        asked: What to ask again if none of them can be read.
    """

    pieces: tuple[Piece, ...]
    lengths: array[int]
    lookups: array[int]
    arrived: array[int]
    aborts: array[int]
    classes: tuple[tuple[int, int], ...] = ()
    moves: tuple[tuple[int, int, int], ...] = ()
    notes: tuple[tuple[int, int], ...] = ()
    failures: tuple[tuple[int, int, str], ...] = ()
    pick: Pick | None = None
    queue: int = 0
    asked: object = None


# ---- actions -----------------------------------------------------------------------------


@dataclass(slots=True)
class Answer:
    """Tell an owner the result of a request: a value, or an OnceqError to raise."""

    owner: int
    request: int
    result: object


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a session for an outgoing queue.

    Attributes:
        outgoing: Its identifier; repeat it in SessionOpened or ConnectFailed.
        protocol: "OS", "TCP", "HTTP", "HTTPS" or "" for a manager known by GUID only.
        host: Name or address as in the format name; "" with a GUID.
        peer: GUID to expect; zero for direct names.
        url: Of the queue, with HTTP and HTTPS.
        homes: IP addresses that it may be opened to (``core/peers/answer_addresses.py``); None:
            any.
    """

    outgoing: int
    protocol: str
    host: str
    peer: bytes
    url: str = ""
    homes: tuple[str, ...] | None = None


@dataclass(slots=True)
class Ready:
    """Something is ready to transmit on this session: send ``Room`` when there is room."""

    session: int


@dataclass(slots=True)
class Transmit:
    """Send user packets on a session, unchanged except for some previous numbers.

    Attributes:
        pieces: Their bytes, joined, are ``count`` packets.
        recoverable: How many of them have delivery mode 1.
        relink: (byte offset of the packet in the joined bytes, previous number to write there):
            the head of what is unacknowledged carries 0, the successor of an expired message
            the number before it (EOD-6, EOD-7).
        renumber: (byte offset of the first, how many packets, stream, number and previous number
            to write into that; each further one has the next): packets moved to another stream
            (``core/transfer/abandoned_streams.py``).
        more: Whether the core has more for this session when there is more room.
        before: (outgoing queue, lane, counter): up to where each had been transmitted before.
    """

    session: int
    pieces: tuple[Piece, ...]
    count: int
    recoverable: int
    relink: tuple[tuple[int, int], ...] = ()
    renumber: tuple[tuple[int, int, int, int, int], ...] = ()
    more: bool = False
    before: tuple[tuple[int, int, int], ...] = ()


@dataclass(slots=True)
class Persisted:
    """Count ``recoverable`` more received messages of a session as durable or settled."""

    session: int
    recoverable: int


@dataclass(frozen=True, slots=True)
class Declined:
    """The last message over HTTP was refused: answer that status (400 permanently, 500 for now)."""

    session: int
    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class CloseSession:
    """End a session; the reason is logged and shown by ``why``."""

    session: int
    reason: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Notify the operator in the log, with the same words for the same kind of event."""

    what: str
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TellAct:
    """An act of administration is in the trail: export it, and those before it."""

    number: int


@dataclass(frozen=True, slots=True)
class Register:
    """Register this computer and its public queues in the directory.

    If the directory cannot be reached, the service that performs this repeats it later.
    """

    computer: Computer
    queues: tuple[PublicQueue, ...]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Put a list into the directory, replacing the one with its GUID, or remove it; then answer the
    request with the present list, or with a DirectoryError."""

    owner: int
    request: int
    after: DistributionList | None
    before: DistributionList | None


@dataclass(frozen=True, slots=True)
class RewriteRights:
    """Change the shared rights in the directory; then answer the request with None, or with a
    DirectoryError."""

    owner: int
    request: int
    change: Regrant


@dataclass(frozen=True, slots=True)
class Hold:
    """Hold the files of the log for a backup, keep them, or release them (``begin``, ``keep``,
    ``end``); then answer the request."""

    owner: int
    request: int
    grip: str
    number: int


@dataclass(frozen=True, slots=True)
class Reload:
    """Read the configuration again; then answer the request."""

    owner: int
    request: int


@dataclass(frozen=True, slots=True)
class RunJobs:
    """There is a job to carry out (``core/inputs.py``)."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The core's counts: add what only the service knows; then answer the request."""

    owner: int
    request: int
    view: MetricsView


@dataclass(frozen=True, slots=True)
class Scrub:
    """Read every stored byte, ``bytes_s`` of them a second; 0: stop."""

    bytes_s: int


class Sight(Enum):
    """What happens to messages without a record."""

    TRANSMITTED = "transmitted"
    DUPLICATE = "duplicate"
    GAP = "gap"
    STALE_STREAM = "stale-stream"
    CONFLICT = "conflict"


@dataclass(slots=True)
class Observed:
    """An event without a record, for the history (setting ``history``): consecutive messages of a
    stream were transmitted, or came and were not next in order.

    Attributes:
        key: Key of the stream's destination at the manager that reports it.
        source: GUID of the sender.
        number: Number of the first in the stream; the others follow.
    """

    what: Sight
    key: str
    source: bytes
    stream: int
    number: int
    count: int


@dataclass(slots=True)
class HistoryWanted:
    """A client waits for the history up to now."""


Action = (
    Answer
    | Connect
    | Ready
    | Transmit
    | Persisted
    | Declined
    | CloseSession
    | Notice
    | Observed
    | HistoryWanted
    | Register
    | Rewrite
    | RewriteRights
    | Hold
    | Reload
    | RunJobs
    | Measured
    | Scrub
    | TellAct
)


@dataclass(slots=True)
class Decision:
    """The result of one step.

    Attributes:
        records: For the log, in order.
        actions: To be performed after all forced records up to here are durable, in order.
    """

    records: list[LogRecord] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
