"""Everything that can happen to a queue manager, as values handed to ``Manager.step``.

What applications ask are the requests of ``model/requests``. Applications are *owners*: one number
for each connection (or embedded user), never used again while the process runs. Every request of an
owner carries a request number, which the one ``Answer`` repeats; request 0 asks for no answer.
Peers are *sessions*: one number for each MS-MQQB session, given by the engine.

Also here:

* What carries jobs out: which one is next, batches of them, and their ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onceq.errors import DamagedPiece
from onceq.model.directory import Snapshot
from onceq.model.identification import ON_THIS_COMPUTER, Identification
from onceq.model.requests import Request, SendItem
from onceq.model.resultcodes import ConnectionStatus
from onceq.model.rights import Actor, SharedRights
from onceq.model.run import Run
from onceq.model.settings import Settings
from onceq.model.views.managers import ScrubView
from onceq.packet.arrived import ArrivedRun

# ---- jobs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NextJob:
    """Which job is to be worked off. Answer: a Work (``core/state/job_table.py``), or None.

    A job needs what messages say, which the core does not have. So the service reads them, decides
    what becomes of each (``service/jobs.py``), and hands that in, a batch at a time. No application
    can: these are no requests.

    Attributes:
        behind: Those up to this number have had their turn.
    """

    behind: int
    owner: int = 0
    request: int = 0


@dataclass(frozen=True, slots=True)
class JobDeed:
    """What is to become of one message.

    Attributes:
        lookup: Its place.
        id: Message identifier, as text.
        item: What is sent in its place; None: nothing.
        transactional: Whether that is a transaction.
        together: Those with the same number, side by side and all there, are one transaction again;
            0: it is one of its own.
        apart: It was sent with others, and is sent without them: as a part of a transaction that
            nobody takes for complete.
    """

    lookup: int
    id: str
    item: SendItem | None = None
    transactional: bool = False
    together: int = 0
    apart: bool = False


@dataclass(frozen=True, slots=True)
class JobBatch:
    """The next messages of a job. Answer: a Work, where it goes on then; None: it is over.

    Attributes:
        at, before: Where the job has to be, or nothing happens: the index of its queue, and the
            lookup identifier behind which it goes on.
        to_at, after: Where it goes on then.
        looked: Messages that were looked at; of others than those of ``deeds`` and ``kept`` nothing
            is meant.
        kept: Pairs of a reason and how many messages stay for it.
        over: That was all; with ``more`` as far as its limit goes.
    """

    job: int
    at: int
    before: int
    to_at: int
    after: int
    looked: int
    deeds: tuple[JobDeed, ...] = ()
    kept: tuple[tuple[str, int], ...] = ()
    over: bool = False
    more: bool = False
    owner: int = 0
    request: int = 0


@dataclass(frozen=True, slots=True)
class JobFailed:
    """A job cannot go on, for that reason. Answer: None.

    Attributes:
        final: It is over; else it is tried again.
    """

    job: int
    why: str
    final: bool = True
    owner: int = 0
    request: int = 0


# ---- inputs --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PutBack:
    """The store was put back from a backup; once, before anybody else is heard.

    Attributes:
        taken_s, position: Of the backup.
        previous: GUID of the manager that it is of, if this one is another; empty if it is the
            same.
        instances: New identifiers for the public queues of another manager, one for each.
    """

    owner: int
    request: int
    taken_s: int
    position: int
    previous: bytes = b""
    instances: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Spoiled:
    """Stored bytes turned out not to be what was written (``core/management/damage.py``).

    Attributes:
        reader: The application that was about to get messages that lie there; 0: none was.
        unsent: (outgoing queue, lane, counter) of the messages that were about to be transmitted:
            messages behind that counter never left.
        gone: Messages among them that the same step received outside a transaction, and that are
            in no queue any more: (queue, lookup identifier, bytes, address) of each.
        untold: The reader's transaction that has taken messages without telling the reader of
            them; 0: none has.
    """

    pieces: tuple[DamagedPiece, ...]
    reader: int = 0
    unsent: tuple[tuple[int, int, int], ...] = ()
    gone: tuple[tuple[int, int, int, int], ...] = ()
    untold: int = 0


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """How far a scrub has come (``service/upkeep.py``); what it found came as ``Spoiled``."""

    view: ScrubView


@dataclass(frozen=True, slots=True)
class DirectoryChanged:
    """The directory was read, or cannot be read any more (DL-14).

    Attributes:
        snapshot: What it says; None: it was never read.
        trouble: Why it cannot be read now; "" if it can.
    """

    snapshot: Snapshot | None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class RightsRead:
    """The rights were read that a directory has for all who share it, or cannot be read.

    Attributes:
        book: What stands there; ``NO_RIGHTS``: this queue manager has no directory (any more).
            None: nothing is there, or it cannot be read.
        trouble: Why it cannot be read; "": nothing is there.
    """

    book: SharedRights | None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Settings, which manager passes messages on to which (GUID to computer name), and where the
    address book says that managers are."""

    settings: Settings
    routes: Mapping[bytes, str]
    peers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TellTrail:
    """How acts of administration are told outside the store, for the status.

    Attributes:
        trouble: Why acts wait that are to be told; "": none does.
        lost: Acts that went before they were told, since the start.
    """

    trouble: str = ""
    lost: int = 0


@dataclass(frozen=True, slots=True)
class TellDoors:
    """How other queue managers come in, for the status.

    Attributes:
        identity: Whether this one has an identity, and TLS with it.
        ends_s: Until when its certificate is good; 0: it is not, or there is none.
        problem: Why nobody believes the certificate; "": it is good, or there is none.
        plain_peers: Addresses that may speak without proving who they are.
        issued: Queue managers that were given a certificate here.
    """

    identity: bool = False
    ends_s: int = 0
    problem: str = ""
    plain_peers: tuple[str, ...] = ()
    issued: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class OwnerCame:
    """A client is there, and this is who it is; before anything that it asks.

    Attributes:
        proof: Of one that came with a token: what the queue manager keeps of that token's secret.
        where: Its address, or "local", with the process if that is known; "": as was said before.
    """

    owner: int
    actor: Actor
    proof: bytes = b""
    where: str = ""


@dataclass(frozen=True, slots=True)
class Witnessed:
    """Something was done to this queue manager that the core has no part in, such as that another
    one has joined its authority: it is noted in the trail (``core/state/audit_trail.py``).

    Attributes:
        owner, request: Who is told once it stands there; 0: nobody waits for that.
    """

    who: str
    where: str
    what: str
    about: str
    result: str = ""
    owner: int = 0
    request: int = 0


@dataclass(frozen=True, slots=True)
class OwnerGone:
    """A client is lost or has left: its open transactions abort, its waits and handles end."""

    owner: int


# ---- peers -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A session is ready in both directions.

    Attributes:
        peer: GUID of the other queue manager.
        address: Its address as text, without port.
        outgoing: The outgoing queue that it was opened for, or 0 if the peer opened it.
        extended: Whether both sides understand packets about doubts (CNF-22).
        delays: Whether the peer knows of messages that are delayed (``core/delays.py``).
        publics: Whether it can be asked about public queues
            (``core/transfer/abandoned_streams.py``).
        http: It is a connection over HTTP: the peer is not known, and each message is answered.
        life, stamp: What the peer tells of its life (``core/peers/lives.py``); empty if it tells
            nothing.
        who: Who that is: what is proven of it, or where it is.
        called: What the peer is called, where a name was connected to: that name, if it has it; "":
            it does not say.
        acts, digest: Number and digest of the last act of its trail; 0 and empty: it does not say.
    """

    session: int
    peer: bytes
    address: str
    outgoing: int
    extended: bool = False
    http: bool = False
    life: bytes = b""
    stamp: int = 0
    who: Identification = ON_THIS_COMPUTER
    delays: bool = False
    publics: bool = False
    called: str = ""
    acts: int = 0
    digest: bytes = b""


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """A session is over; what was under way on it counts as not sent.

    Attributes:
        idle: Whether it was closed because nothing had happened on it for long.
    """

    session: int
    reason: str
    idle: bool = False


@dataclass(frozen=True, slots=True)
class ConnectFailed:
    """A session asked for by ``Connect`` could not be made."""

    outgoing: int
    reason: str
    status: ConnectionStatus = ConnectionStatus.UNKNOWN_FAILURE


@dataclass(slots=True)
class Arrived:
    """A run of user messages, in the order of the session."""

    session: int
    run: ArrivedRun


@dataclass(slots=True)
class SessionAcked:
    """Absolute counts of this session: messages that the peer has got, and how many of the
    recoverable ones, from the first on, are durable there. ``refused``: the last of the messages,
    and no other, was refused for good (over HTTP, 400)."""

    session: int
    messages: int
    recoverable: int
    refused: bool = False


@dataclass(slots=True)
class Room:
    """The session can take this many messages and bytes now: which shall be transmitted?"""

    session: int
    messages: int
    bytes: int


# ---- the machine -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has come; see ``Manager.next_timer``."""


@dataclass(frozen=True, slots=True)
class SpaceChanged:
    """The disk has come to its reserve (low), or has room again."""

    low: bool


@dataclass(frozen=True, slots=True)
class Relocate:
    """Messages of an old segment, read by the engine, to be written again at the log's end.

    ``queue`` and ``counters`` are those of ``LiveMessages``.
    """

    queue: int
    lane: int
    counters: tuple[int, ...]
    packets: Run


@dataclass(frozen=True, slots=True)
class Compose:
    """Messages whose acknowledgments are owed, read by the engine
    (``core/ending/acknowledgments.py``), from one lane of the queue of those that are."""

    lane: int
    counters: tuple[int, ...]
    packets: Run


Input = (
    Request
    | OwnerCame
    | Witnessed
    | OwnerGone
    | DirectoryChanged
    | RightsRead
    | SessionOpened
    | SessionClosed
    | ConnectFailed
    | Arrived
    | SessionAcked
    | Room
    | Tick
    | SpaceChanged
    | Spoiled
    | Scrubbed
    | Relocate
    | JobBatch
    | JobFailed
    | NextJob
    | Compose
    | PutBack
    | Reconfigure
    | TellDoors
    | TellTrail
)
