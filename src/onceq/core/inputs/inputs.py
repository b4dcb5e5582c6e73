"""Everything that can happen to a queue manager, as values handed to ``Manager.step``.

Applications are *owners*: one number for each connection (or embedded user), never reused while
the process runs. Every request of an owner carries a request number, which the one ``Answer``
repeats; request 0 asks for no answer. Transactions are numbered by their owner.

Peers are *sessions*: one number for each MS-MQQB session, given by the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from onceq.core.inputs import backup, damage, directory, peers, settings, single_messages, xa
from onceq.core.inputs.batch import SendItem as SendItem
from onceq.core.inputs.steering import Steer as Steer
from onceq.core.inputs.steering import SteerOutgoing as SteerOutgoing
from onceq.model.connection import ConnectionStatus
from onceq.model.identity import TransactionId
from onceq.model.queue import QueueProperties
from onceq.model.run import Run
from onceq.packet.arrived import ArrivedRun


class Access(IntEnum):
    """What a queue is opened for (Q-41)."""

    RECEIVE = 1
    SEND = 2
    MOVE = 4
    PEEK = 0x20


class Share(IntEnum):
    """Whether others may receive meanwhile."""

    DENY_NONE = 0
    DENY_RECEIVE = 1


# ---- applications ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenQueue:
    """Check that a queue may be used so, and hold it (MQOpenQueue). Answer: ``Opened``.

    Attributes:
        note: Who holds it, for those who are refused because of that.
    """

    owner: int
    request: int
    name: str
    access: Access
    share: Share = Share.DENY_NONE
    note: str = ""


@dataclass(frozen=True, slots=True)
class CloseQueue:
    """Give a handle back. Answer: None."""

    owner: int
    request: int
    handle: int


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin a transaction numbered by its owner. Answer: None."""

    owner: int
    request: int
    transaction: int


@dataclass(slots=True)
class Send:
    """Send batches: inside a transaction, or now and non-transactionally (transaction 0).

    All items or none. Answer inside a transaction: None. Outside: ``Sent``, after the messages
    are durable (express ones: after they are queued).
    """

    owner: int
    request: int
    transaction: int
    items: tuple[SendItem, ...]


@dataclass(slots=True)
class Commit:
    """Add the items, then commit. Answer: ``Sent``, once durable.

    Transaction 0 commits the items alone, as one transaction. If an item is wrong in itself
    nothing happens: the answer is the error and the transaction stays open as it was. If a send
    of the transaction was refused because of the state of things (``prepared_all``), now or
    before, the transaction is undone: the answer is SendFailed.

    Attributes:
        id: Under which the outcome can be asked for; its number rises with each commit of the
            session. None: nobody will ask.
    """

    owner: int
    request: int
    transaction: int
    items: tuple[SendItem, ...] = ()
    id: TransactionId | None = None


@dataclass(frozen=True, slots=True)
class Abort:
    """Undo a transaction: nothing is sent, received messages go back (SND-4). Answer: None."""

    owner: int
    request: int
    transaction: int


@dataclass(slots=True)
class Receive:
    """Take messages, or look at them. Answer: ``Handed`` with at least one message, or
    ReceiveTimeout.

    Attributes:
        queue: Name of a local queue (any form), or of an outgoing queue for peek.
        transaction: 0 takes them at once and for good.
        wait_until_us: Monotonic time until which to wait when nothing is there; 0: not at all.
        peek: Leave them where they are.
        after: Peek only messages behind this lookup identifier (a cursor); 0: from the front.
        lookup: Exactly this message, or as ``seek`` says from it on; 0: in order. Never waits
            (RCV-8).
        handle: Opened before, or 0.
        seek: With a lookup identifier or a cursor. FIRST and LAST need neither.
        cursor: Opened before, or 0.
        allow_peek: Others may still peek at it until the transaction ends (RCV-9).
        pick: Of what a peek has found, hand out less; None: all of it.
        hold: In a transaction, from whatever kind of queue: what is taken is held until the
            outcome. Without it a transaction takes from transactional queues only (RCV-11).
    """

    owner: int
    request: int
    queue: str
    transaction: int = 0
    count_max: int = 1
    bytes_max: int = 1 << 22
    wait_until_us: int = 0
    peek: bool = False
    after: int = 0
    lookup: int = 0
    handle: int = 0
    seek: single_messages.Seek = single_messages.Seek.CURRENT
    cursor: int = 0
    allow_peek: bool = False
    pick: single_messages.Pick | None = None
    hold: bool = False


@dataclass(frozen=True, slots=True)
class Remove:
    """Receive a whole range without its bytes (for readers that peeked it). Answer: how many.

    Attributes:
        first, last: Lookup identifiers, both included; what is locked or gone is passed over.
        transaction: 0 removes at once and for good.
    """

    owner: int
    request: int
    queue: str
    transaction: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class CancelReceive:
    """Stop waiting: the receive of that request number is answered with OperationCancelled."""

    owner: int
    request: int
    waiting: int


@dataclass(frozen=True, slots=True)
class AskOutcome:
    """What became of a commit. Answer: ``Outcome``; from then on it cannot change (I3a)."""

    owner: int
    request: int
    id: TransactionId


@dataclass(frozen=True, slots=True)
class OwnerGone:
    """A client is lost or has left: its open transactions abort, its waits and handles end."""

    owner: int


# ---- operators ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateQueue:
    """Make a queue; ``properties.number`` and times are filled in. Answer: QueueProperties."""

    owner: int
    request: int
    properties: QueueProperties
    instance: bytes


@dataclass(frozen=True, slots=True)
class SetQueue:
    """Change properties of a queue (PRP-7). Answer: QueueProperties.

    Attributes:
        values: Names of ``QueueProperties`` with their new values; all of them or none.
    """

    owner: int
    request: int
    name: str
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class DeleteQueue:
    """Delete a queue and what is in it. Answer: number of messages removed."""

    owner: int
    request: int
    name: str


@dataclass(frozen=True, slots=True)
class PurgeQueue:
    """Remove the messages of a queue (or of an outgoing queue). Answer: number removed."""

    owner: int
    request: int
    name: str


@dataclass(frozen=True, slots=True)
class Look:
    """Read the state. Answer: the view named (``core/management/views.py``).

    ``what``: status, queues, queue, outgoing, outgoing-queue, streams, transactions, eod-send,
    eod-receive, management, lists, list, resolve, copies, branches, decisions.
    """

    owner: int
    request: int
    what: str
    name: str = ""


# ---- peers -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A session is ready in both directions.

    Attributes:
        peer: GUID of the other queue manager.
        address: Its address as text, without port.
        outgoing: The outgoing queue that it was opened for, or 0 if the peer opened it.
        extended: Whether both sides understand packets about doubts (CNF-22).
        http: It is a connection over HTTP: the peer is not known, and each message is answered.
        life, stamp: What the peer tells of its life (``core/peers/lives.py``); empty if it tells
            nothing.
    """

    session: int
    peer: bytes
    address: str
    outgoing: int
    extended: bool = False
    http: bool = False
    life: bytes = b""
    stamp: int = 0


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
    """The session can take so many messages and bytes now: what shall be transmitted?"""

    session: int
    messages: int
    bytes: int


# ---- the machine -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has come; see ``Manager.next_timer``."""


@dataclass(frozen=True, slots=True)
class Space:
    """The disk has come to its reserve (low), or has room again."""

    low: bool


@dataclass(frozen=True, slots=True)
class Relocate:
    """Messages of an old segment, read by the engine, to be written again at the log's end.

    ``holder`` and ``counters`` are those of ``core.space.Live``.
    """

    holder: int
    lane: int
    counters: tuple[int, ...]
    packets: Run


@dataclass(frozen=True, slots=True)
class Compose:
    """Messages whose acknowledgments are owed, read by the engine
    (``core/ending/acknowledgments.py``)."""

    counters: tuple[int, ...]
    packets: Run


Input = (
    OpenQueue
    | CloseQueue
    | Begin
    | Send
    | Commit
    | Abort
    | Receive
    | single_messages.OpenCursor
    | single_messages.CloseCursor
    | single_messages.MoveMessage
    | single_messages.Reject
    | single_messages.Claim
    | single_messages.Fetch
    | Remove
    | CancelReceive
    | AskOutcome
    | xa.StartBranch
    | xa.EndBranch
    | xa.PrepareBranch
    | xa.CommitBranch
    | xa.RollbackBranch
    | xa.ForgetBranch
    | xa.CommitGroup
    | xa.RollbackGroup
    | xa.ForgetGroup
    | xa.Enlist
    | xa.AskDecision
    | xa.LeaveDecision
    | xa.DecisionDone
    | OwnerGone
    | CreateQueue
    | SetQueue
    | DeleteQueue
    | PurgeQueue
    | SteerOutgoing
    | peers.ResetStream
    | peers.ForgetPeer
    | peers.AcceptClock
    | Look
    | directory.EditDirectory
    | directory.DirectoryChanged
    | SessionOpened
    | SessionClosed
    | ConnectFailed
    | Arrived
    | SessionAcked
    | Room
    | Tick
    | Space
    | damage.Spoiled
    | damage.Scrubbed
    | Relocate
    | Compose
    | backup.HoldLog
    | backup.PutBack
    | settings.Reconfigure
)
