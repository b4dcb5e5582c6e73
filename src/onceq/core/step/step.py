"""What every rule of the core works with: the durable state, the running tables, one decision.

The rules stand in the rooms above as functions that take the step. ``record`` is the only way to
change the durable state: it puts the record into the decision and applies it at once, so that no
change is without its record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappush

from onceq.core.decision import Action, Answer, Decision, Notice, Record
from onceq.core.inputs.damage import ScrubView
from onceq.core.inputs.inputs import Receive, SendItem
from onceq.core.state.branch_table import Branch, StoredPackets
from onceq.core.state.commit_outcomes import Fences
from onceq.core.state.position_states import GIVES_BACK
from onceq.core.state.queues import Handle, OutgoingQueue, Peer, Queue
from onceq.core.state.records import Change, RangeChange, Setup
from onceq.core.state.state import Identity, State
from onceq.core.step.identity_watch import Watch
from onceq.errors import OnceqError, SendFailed
from onceq.model.branch import Phase
from onceq.model.directory import Snapshot
from onceq.model.identity import guid_text
from onceq.model.limits import NOTICE_EVERY_S, NOTICES_MAX, RETURN_ADDRESSES_MAX, Settings
from onceq.model.log import FRAME_HEADER, frame_size
from onceq.model.run import Buffer
from onceq.model.time import NEVER_S, Now
from onceq.model.xid import Xid
from onceq.packet.templates import Template


class Mode(IntEnum):
    """What there is of a directory (DL-14)."""

    WORKGROUP = 0
    """None was configured."""
    OFFLINE = 1
    """It cannot be read now."""
    ONLINE = 2


class Timer(IntEnum):
    """What a timer is for; among equal times the first named goes first."""

    RECEIVE = 1
    ORDER_ACK = 2
    RESEND = 3
    CONNECT = 4
    INQUIRE = 5
    RETRY = 6
    IDLE = 7
    UNDECIDED = 8
    ENDS = 9


@dataclass(slots=True)
class Target:
    """One destination of a send: a queue here, or an outgoing queue."""

    holder: Queue | OutgoingQueue
    text: str


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


@dataclass(slots=True)
class CheckedBatch:
    """A batch that was checked and resolved, ready to become packets, or written as such."""

    item: SendItem
    targets: tuple[Target, ...]
    templates: tuple[Template, ...]
    expires: int
    receive_by: int
    size: int
    confirm_by: int
    """Second at which a sender has waited long enough for the news of an end (EOD-42)."""
    dead_letter_queue: int = 0
    """Number of the sender's own dead-letter queue; 0: the system's."""
    once: bool = False
    """One attempt to deliver them, no second (CNF-4)."""
    written: StoredBatch | None = None
    """Of ``item`` only the number of messages counts then."""

    def size_at(self, index: int) -> int:
        """Bytes for one destination: packets differ in the names in their headers."""
        if len(self.targets) == 1:
            return self.size
        count = len(self.item.bodies)
        headers = [count * (made.overhead + 3) for made in self.templates]
        return (self.size - sum(headers)) // len(headers) + headers[index]


@dataclass(slots=True)
class HeldRange(RangeChange):
    """A range that a transaction holds, and what its commit does with it.

    ``to``: move it there; ``reason``: end it so; neither: it is received.

    Attributes:
        keep: Put what ends into the dead-letter queue of this computer, too.
    """

    keep: bool = False


@dataclass(slots=True)
class Cursor:
    """A place in a queue: lookup identifier of the message that it stands at, or of the one that
    was received through it; 0 and 0: fresh."""

    owner: int
    queue: int
    handle: int
    at: int = 0
    behind: int = 0


@dataclass(slots=True)
class Transaction:
    """A unit of work that is not decided yet; it does not survive (SND-8), unless it is a branch
    of an external transaction and prepared.

    Attributes:
        targets: Numbers of the queues to which it moves messages.
        xid: The branch that it is; None: it is this manager's own.
        failed: It can only be rolled back.
        doomed: The send that was refused, if one was: its commit does nothing and says so.
        branch: Number of the durable branch, once it is prepared.
        gtrid: Of the external transaction that its commit decides; empty: it decides for itself.
        partners: Who is to be told of that decision.
        used_us: When (monotonic us) something happened in it last.
    """

    owner: int
    number: int
    began_s: int
    sends: list[CheckedBatch] = field(default_factory=list)
    receives: list[HeldRange] = field(default_factory=list)
    targets: set[int] = field(default_factory=set)
    gtrid: bytes = b""
    bytes: int = 0
    messages: int = 0
    lifetimes: tuple[int, int] | None = None
    xid: Xid | None = None
    phase: Phase = Phase.ACTIVE
    failed: bool = False
    doomed: SendFailed | None = None
    branch: int = 0
    partners: tuple[str, ...] = ()
    used_us: int = 0


class Step:
    """The durable state (``state``), what runs on it, and the decision being made."""

    computer_guids: frozenset[bytes] = frozenset()
    """Managers that stand in the directory."""
    directory_trouble = ""
    space_low = False
    scrub = ScrubView()
    """How far the last look at every stored byte has come."""
    _passing = 0

    def __init__(
        self,
        identity: Identity,
        settings: Settings,
        addresses: frozenset[str],
        routes: Mapping[bytes, str],
    ) -> None:
        self.identity = identity
        self.settings = settings
        self.own_names = {".", "localhost", identity.name.casefold()} | {
            address.casefold() for address in addresses
        }
        self.addresses = tuple(sorted(addresses))
        self.routes_to = routes
        """GUID of a manager to the computer name of the one that passes messages on to it."""
        self.state = State(identity)
        self.position, self.now = 0, Now(0, 0)
        self.decision = Decision()
        self.transactions: dict[tuple[int, int], Transaction] = {}
        self.branches: dict[Xid, Transaction] = {}
        """Transactions that are branches: at work, suspended, ended or prepared."""
        self.deciding: dict[bytes, Transaction] = {}
        """Open transactions that will decide for partners, by global identifier."""
        self.telling: dict[bytes, int] = {}
        """Decisions that an application is telling to its partners, and its owner number."""
        self.refused: dict[tuple[int, int] | Xid | bytes, OnceqError] = {}
        """Why transactions could not be begun, or they or groups (by prefix) are over, for
        whatever is asked of them next."""
        self.watching: set[Timer] = set()
        """Kinds of timers that are set, of those of which one serves all: IDLE, UNDECIDED."""
        self.open_bytes = 0
        self.promised: dict[int, int] = {}
        """Bytes that open transactions will put into queues of this manager: they count towards
        the quota at send, so that a commit never fails for it (Q-21)."""
        self.waiting: dict[tuple[int, int], Receive] = {}
        self.timers: list[tuple[int, Timer, object]] = []
        """Heap of (monotonic us, what, whom); whoever it wakes looks whether it still holds."""
        self.handles: dict[int, Handle] = {}
        self.next_handle = 1
        self.cursors: dict[int, Cursor] = {}
        self.retries: dict[int, int] = {}
        """When (monotonic us) the next message of a queue has waited long enough in ``;retry``."""
        self.emptied: dict[int, None] = {}
        """Numbers of subqueues that may have become empty, or unused."""
        self.peers: dict[int, Peer] = {}
        self.disbelieved: Counter[str] = Counter()  # see core/peers/trust.py
        self.watch = Watch()
        self.sessions_of: dict[bytes, set[int]] = {}
        self.fences = Fences()
        self.targets: dict[str, tuple[Target, ...]] = {}
        self.sources: dict[str, Queue] = {}
        self.routes: dict[object, tuple[tuple[Target, ...], tuple[Template, ...]]] = {}
        self.by_guid: dict[bytes, list[OutgoingQueue]] = {}
        """Outgoing queues whose manager is known by GUID: any session with it serves them."""
        self.touched: dict[int, None] = {}
        """Numbers of queues and outgoing queues in which something has become available."""
        self.names: dict[bytes, str] = {}
        """Computer names of other managers, as far as a session has shown them."""
        self.return_to: dict[bytes, str] = {}
        """Address of the session with a manager whose messages came under direct names."""
        self.passed_on: dict[tuple[bytes, int, int], tuple[int, int]] = {}
        """By source, message number and second of sending: outgoing queue and counter of what came
        over HTTP and waits here for another host."""
        self.mode = Mode.WORKGROUP
        self.directory: Snapshot | None = None
        """What the directory said when it was last read."""
        self.places: dict[str, OutgoingQueue] = {}
        """The outgoing queue of each place: all names that lead there share it (EOD-3)."""
        self.told: dict[tuple[str, str], int] = {}
        """What the operator was told of, and until when he is not told of it again."""

    # ---- the decision -------------------------------------------------------------------

    def record(self, change: Change, *, forced: bool = True) -> None:
        """Put a change on record and apply it."""
        parts, offsets = change.encode()
        head = next(filter(None, offsets), 0)
        position = self._append(parts, head, forced=forced)
        self.state.apply(change, position, offsets)
        for put in change.puts:
            self.touched[put.holder] = None
        if self.state.subqueues:
            for move in change.moves:
                if move.holder in self.state.subqueues:
                    self.emptied[move.holder] = None
        for move in change.moves:
            if move.to:
                self.touched[move.to] = None
            if move.op in GIVES_BACK:
                self.touched[move.holder] = None

    def prepared(self, branch: Branch) -> None:
        """Put a promise on record."""
        parts, head = branch.record(self.position + FRAME_HEADER)
        position = self._append(parts, head, forced=True)
        self.state.apply_branch(branch, position)

    def setup(self, what: str, *, forced: bool = True, **values: object) -> None:
        """Put a rare change on record and apply it."""
        setup = Setup(what, dict(values))
        self._append([setup.encode()], 0, forced=forced)
        self.state.apply_setup(setup)

    def _append(self, parts: Sequence[Buffer], head: int, *, forced: bool) -> int:
        position = self.position
        size = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        self.position = position + frame_size(size, head)
        self.decision.records.append(Record(tuple(parts), position, forced, head))
        return position

    def act(self, action: Action) -> None:
        """Something to do once the records are durable."""
        self.decision.actions.append(action)

    def answer(self, owner: int, request: int, result: object) -> None:
        """Answer a request, if an answer was asked for."""
        if request:
            self.decision.actions.append(Answer(owner, request, result))

    def notice(self, what: str, about: str = "", **values: object) -> None:
        """Tell the operator of something that may come again and again: at most once in
        NOTICE_EVERY_S for the same thing (PIT-11)."""
        told, now_s = self.told, self.now.wall_s
        if now_s < told.get((what, about), 0):
            return
        if len(told) >= NOTICES_MAX:
            told.clear()
        told[what, about] = now_s + NOTICE_EVERY_S
        self.act(Notice(what, values))

    def act_notice(self, what: str, **values: object) -> None:
        """Tell the operator of something that an operator did."""
        self.act(Notice(what, values))

    def units(self) -> Iterator[Transaction]:
        """Every unit of work that is not over, whether anybody is at work in it or not."""
        yield from self.transactions.values()
        for tx in self.branches.values():
            if tx.phase is not Phase.ACTIVE:
                yield tx

    def holding(self, queue: Queue) -> int:
        """Bytes in a queue and its subqueues (Q-31), and those promised to it."""
        bytes = queue.bytes + self.promised.get(queue.number, 0)
        return bytes + sum(sub.bytes for sub in queue.subs.values()) if queue.subs else bytes

    def promise(self, sends: Sequence[CheckedBatch], sign: int) -> None:
        """Count sends to local queues as promised (1), or not any more (-1)."""
        for prepared in sends:
            for index, target in enumerate(prepared.targets):
                if isinstance(target.holder, Queue):
                    number = target.holder.number
                    left = self.promised.get(number, 0) + sign * prepared.size_at(index)
                    if left:
                        self.promised[number] = left
                    else:
                        self.promised.pop(number, None)

    def name_of(self, guid: bytes) -> str:
        """Computer name of a manager, or "" where it is not known."""
        return self.identity.name if guid == self.identity.guid else self.names.get(guid, "")

    def is_called(self, guid: bytes, who: str) -> bool:
        """Whether an operator means a manager: by its name, or by the beginning of its GUID."""
        said = who.casefold()
        return bool(said) and (
            guid_text(guid).startswith(said) or self.name_of(guid).casefold() == said
        )

    def came_from(self, source: bytes, address: str) -> None:
        """Note where acknowledgments to a manager go: an address, or "" for its identity only."""
        known = self.return_to
        if known.get(source, "") == address:
            return
        if not address:
            del known[source]
            return
        if len(known) >= RETURN_ADDRESSES_MAX:
            del known[next(iter(known))]
        known[source] = address

    def passing_number(self) -> int:
        """A message number for what is never stored: unlike any other of the last weeks.

        Numbers of stored messages stay in the lower half, so a clock is good enough here, and no
        record is needed for an order acknowledgment (EOD-36).
        """
        clock = self.now.wall_us // 1_000 & 0x7FFF_FFFF
        self._passing = max(self._passing + 1, clock) if self._passing <= clock + 60_000 else clock
        return 0x8000_0000 | self._passing & 0x7FFF_FFFF

    # ---- timers -------------------------------------------------------------------------

    def reach_by_s(self) -> int:
        """Second by which what says nothing of its time must have arrived (LongLiveTime)."""
        return min(self.now.wall_s + self.settings.time_to_reach_queue_s, NEVER_S - 1)

    def timer(self, at_us: int, what: Timer, whom: object) -> None:
        """Wake somebody at a monotonic time."""
        heappush(self.timers, (at_us, what, whom))

    def later_us(self, seconds: float) -> int:
        """Monotonic time so many seconds from now."""
        return self.now.mono_us + int(seconds * 1_000_000)
