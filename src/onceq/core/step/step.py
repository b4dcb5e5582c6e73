"""What every rule of the core works with: the durable state, the running tables, one decision.

The rules are functions of the rooms above, which take the step. ``record`` and ``setup`` are the
only ways to change the durable state: they put the record into the decision and apply it at once,
so that no change is without its record.

Some tables have one limit for all applications, and using them takes no right. So that no
application fills one and keeps all others from working, every place that counts asks ``refusal`` or
``check`` here whether an owner may have one more (``model/shares.py``). How many an owner has is
kept with the things themselves.

Also here:

* A change under construction: what it does already to each queue, and which numbers it takes.
* Acts of administration become audit entries: records of what was done, by whom and from where.
* ``rule_for``, by which a rule names the input or request that it decides.

Upholds: I24 (per-application limits on shared tables), I7 (a message number is given once), I18
(counters rise by one), I19 (a quota counts what the same record brings), I28 (every act is
attributed).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from heapq import heappush
from typing import Any, Final, TypeVar

from onceq.core.decision import Action, Answer, Decision, LogRecord, Notice, TellAct
from onceq.core.inputs import TellDoors, TellTrail
from onceq.core.state.branch_table import PreparedBranch
from onceq.core.state.positions import GIVES_BACK
from onceq.core.state.queues import AnyQueue, Queue
from onceq.core.state.records import Change, Put, RangeChange
from onceq.core.state.setups import ActRepeated, Noted, NumbersReserved, Setup
from onceq.core.state.state import State
from onceq.core.step.connections import NameTable, PeerSessions
from onceq.core.step.units import UNRECEIVED, Counts, Readers, RecentEndings, Units
from onceq.errors import InsufficientResources
from onceq.model.audit_trail import BEGIN
from onceq.model.identity import NO_GUID, Identity, TransactionId, guid_text
from onceq.model.limits import MESSAGE_NUMBER_MAX, NOTICE_EVERY_S, NOTICES_MAX, TRAIL_CHARS_MAX
from onceq.model.log import FRAME_HEADER, frame_size
from onceq.model.marks import FOR_EVER_US, NEVER_S, Now
from onceq.model.record import Record as PlainRecord
from onceq.model.rights import Actor, ActorKind, Right
from onceq.model.run import Run, total_of
from onceq.model.settings import Settings
from onceq.model.shares import TABLE, OwnerCounts, Thing, why_not
from onceq.model.views.managers import ScrubView

# ---- step ----------------------------------------------------------------------------------------


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
    CONTACT = 10
    TOKENS = 11


class Step:
    """The durable state (``state``), what runs on it, and the decision being made.

    Attributes:
        state: What is durable; only ``record``, ``prepared`` and ``setup`` change it.
        units, readers, sessions, names: What is running, each written by the rooms that its module
            names.
        actors, places: Actor and address of each owner that is not this process itself.
        limited: Owners that may not do everything.
        who: Names of these, as they are kept and counted.
        tokens_due_us: When connections whose tokens expire are checked.
        position: Where the next record will begin.
        timers: Heap of (monotonic us, kind, object); the code that a timer wakes checks whether it
            still applies.
        touched: Numbers of queues and outgoing queues in which something has become available.
        emptied: Numbers of subqueues that may have become empty, or unused.
        watching: Kinds of set timers, among the kinds that need one timer only: UNDECIDED.
        works: Works under way that take more than one step; each goes on in its turn.
        expired: Whether the last portion ended expired messages, and other works come before the
            next.
        ended: The last ends of messages that nobody received.
        counts: Counts of events since the start, for metrics.
        job_troubles: What running jobs wait for, by number.
        told: What the operator was told of, and until when (seconds) not again.
        scrub: How far the last look at every stored byte has come.
        space_low: Whether the disk is nearly full.
        doors: How other queue managers come in.
        started_s: When this process was started.
    """

    def __init__(
        self,
        identity: Identity,
        settings: Settings,
        addresses: frozenset[str],
        routes: Mapping[bytes, str],
        peers: Mapping[str, str],
    ) -> None:
        self.identity = identity
        self.settings = settings
        self.state = State(identity)
        self.units = Units()
        self.readers = Readers()
        self.sessions = PeerSessions()
        self.names = NameTable(identity, addresses, routes, peers)
        self.actors: dict[int, Actor] = {}
        self.limited: dict[int, Actor] = {}
        self.who: dict[int, str] = {}
        self.places: dict[int, str] = {}
        self.tokens_due_us = FOR_EVER_US
        self.position, self.now = 0, Now(0, 0)
        self.decision = Decision()
        self.timers: list[tuple[int, Timer, object]] = []
        self.touched: dict[int, None] = {}
        self.emptied: dict[int, None] = {}
        self.watching: set[Timer] = set()
        self.works: deque[Iterator[None]] = deque()
        self.expired = False
        self.ended = RecentEndings()
        self.counts = Counts()
        self.job_troubles: dict[int, str] = {}
        self.told: dict[tuple[str, str], int] = {}
        self.scrub = ScrubView()
        self.space_low = False
        self.doors = TellDoors()
        self.trail = TellTrail()
        self.started_s = 0
        self._passing = 0

    # ---- the decision -------------------------------------------------------------------

    def record(self, change: Change, *, forced: bool = True, held: bool = False) -> None:
        """Put a change on record and apply it, if there is anything in it."""
        if change.empty:
            return
        payload, offsets = change.encode()
        head = next(filter(None, offsets), 0)
        position = self._append(payload, head, forced=forced, held=held)
        self.state.apply(change, position, offsets)
        touched, subqueues = self.touched, self.state.subqueues
        full_windows = self.sessions.full_windows
        for put in change.puts:
            touched[put.queue] = None
        for move in change.moves:
            if move.queue in subqueues:
                self.emptied[move.queue] = None
            if move.to:
                touched[move.to] = None
            for number, _, _ in move.copies_to:
                touched[number] = None
            # Each end of a message makes room for the next one.
            if move.op in GIVES_BACK or move.queue in full_windows:
                touched[move.queue] = None
            if move.op in UNRECEIVED and isinstance(self.state.all_queues[move.queue], Queue):
                self.ended.note(move)

    def prepared(self, branch: PreparedBranch) -> None:
        """Put a promise on record."""
        payload, head = branch.record(self.position + FRAME_HEADER)
        position = self._append(payload, head, forced=True)
        self.state.apply_branch(branch, position)

    def setup(self, setup: Setup, *, forced: bool = True) -> None:
        """Put a rare change on record and apply it."""
        self._append(setup.encode(), 0, forced=forced)
        self.state.apply_setup(setup)

    def _append(self, payload: bytes, head: int, *, forced: bool, held: bool = False) -> int:
        position = self.position
        self.position = position + frame_size(len(payload), head)
        self.decision.records.append(LogRecord(payload, position, forced, head, held))
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
        if self.first_time(what, about):
            self.act(Notice(what, values))

    def first_time(self, what: str, about: str) -> bool:
        """Whether something that may come again and again has not come for NOTICE_EVERY_S."""
        told, now_s = self.told, self.now.wall_s
        if now_s < told.get((what, about), 0):
            return False
        # To forget all of them repeats some notices; to look for old ones would cost more.
        if len(told) >= NOTICES_MAX:
            told.clear()
        told[what, about] = now_s + NOTICE_EVERY_S
        return True

    def act_notice(self, what: str, **values: object) -> None:
        """Tell the operator of something that an operator did."""
        self.act(Notice(what, values))

    def holding(self, queue: Queue) -> int:
        """Bytes in a queue and its subqueues (Q-31), and those promised to it."""
        bytes = queue.bytes + self.units.promised.get(queue.number, 0)
        return bytes + sum(sub.bytes for sub in queue.subs.values()) if queue.subs else bytes

    def name_of(self, guid: bytes) -> str:
        """Computer name of a manager, or "" where it is not known."""
        return (
            self.identity.name
            if guid == self.identity.guid
            else self.sessions.computer_names.get(guid, "")
        )

    def is_called(self, guid: bytes, who: str) -> bool:
        """Whether an operator means a manager: by its name, or by the beginning of its GUID."""
        said = who.casefold()
        return bool(said) and (
            guid_text(guid).startswith(said) or self.name_of(guid).casefold() == said
        )

    def passing_number(self) -> int:
        """A message number for what is never stored: unlike any other of the last weeks.

        Numbers of stored messages stay in the lower half, so a clock is good enough here, and no
        record is needed for an order acknowledgment (EOD-36).
        """
        clock = self.now.wall_us // 1_000 & 0x7FFF_FFFF
        self._passing = max(self._passing + 1, clock) if self._passing <= clock + 60_000 else clock
        return 0x8000_0000 | self._passing & 0x7FFF_FFFF

    # ---- works that take several steps ----------------------------------------------------

    def begin(self, work: Iterator[None]) -> None:
        """Do something that may be long: up to where it yields now, and on in later steps."""
        if _goes_on(work):
            self.works.append(work)

    def go_on(self) -> None:
        """One portion of the work whose turn it is. All others are served before the next one."""
        work = self.works.popleft()
        if _goes_on(work):
            self.works.append(work)

    # ---- who asks -------------------------------------------------------------------------

    def known_as(self, owner: int, actor: Actor) -> None:
        """An owner is somebody from now on."""
        self.actors[owner] = actor
        if actor.free:
            self.limited.pop(owner, None)
            self.who.pop(owner, None)
        else:
            self.limited[owner] = actor
            self.who[owner] = str(actor)

    def known_by(self, owner: int) -> str:
        """Return the name of an owner for records; "" for the account that runs the manager."""
        return self.who.get(owner, "")

    # ---- timers -------------------------------------------------------------------------

    def reach_by_s(self) -> int:
        """Second by which what says nothing of its time must have arrived (LongLiveTime)."""
        return min(self.now.wall_s + self.settings.time_to_reach_queue_s, NEVER_S - 1)

    def timer(self, at_us: int, what: Timer, whom: object) -> None:
        """Wake somebody at a monotonic time."""
        heappush(self.timers, (at_us, what, whom))

    def later_us(self, seconds: float) -> int:
        """Return the monotonic time in microseconds, ``seconds`` from now."""
        return self.now.mono_us + int(seconds * 1_000_000)


def _goes_on(work: Iterator[None]) -> bool:
    """Do a portion of a work; whether there is more of it."""
    return next(work, work) is None


def refusal(
    step: Step, by: str, thing: Thing, own: int, total: int, *, more: int = 1
) -> str:  # fmt: skip
    """Why an owner may not have one more; "": it may. See ``model.shares.why_not``.

    Args:
        by: Who it is, as ``Step.known_by`` or ``answered`` says it.
    """
    if total + more <= TABLE[thing].plenty:
        return ""
    kind, _, name = by.partition(":")
    # Whether it may use what is kept for administrators.
    administers = not by or step.state.policy.allows(Actor(ActorKind(kind), name), Right.ADMINISTER)
    return why_not(thing, by, own, total, administers=administers, more=more)


def check(step: Step, by: str, thing: Thing, counts: OwnerCounts) -> None:
    """Raises InsufficientResources if an owner may not have one more."""
    text = refusal(step, by, thing, counts.of(by), counts.total)
    if text:
        raise InsufficientResources(text)


def answered(source: bytes) -> str:
    """Return the actor for which answers to a queue manager's messages are made: that manager, this
    one too, so that requests for answers cannot use the reserve."""
    return str(Actor(ActorKind.PEER, guid_text(source)))


# ---- change builder ------------------------------------------------------------------------------


class ChangeBuilder:
    """A change under construction. It is not in effect before ``Step.record`` is given it.

    One record may bring messages to many queues, end others, and leave dead letters, journal copies
    and acknowledgments of them, in any order and by several rules. Nothing of it is in effect
    before the record is whole, so the durable state does not have it. But each rule must know two
    things: the counter that the next message of a queue will get, which recovery compares with what
    it finds (I18); and how many bytes the change brings to a queue already, without which ten
    messages would each find room for one (I19). If every rule counted for itself, one would forget
    what another has added; if the sum were made again each time, a purge would take the square of
    its messages. Here both are kept as the change grows, so a change of many messages costs as much
    for each of them as one of few.

    ``State.apply`` puts first and moves then. So a counter depends on what was put before it, and
    never on the packets that a move hands on.
    """

    __slots__ = ("_coming", "_next", "change", "step", "streams")

    def __init__(self, step: Step, outcome: TransactionId | None = None) -> None:
        self.step = step
        self.change = Change(step.now.wall_s, outcome)
        self._next: dict[tuple[int, int], int] = {}
        """Queue and lane to the counter behind what is put there."""
        self._coming: dict[int, int] = {}
        """Queue to the bytes that come there, put or handed on."""
        self.streams: dict[int, tuple[int, int]] = {}
        """Outgoing queue to the stream that it goes on with, and the base of its numbers."""

    # ---- what comes in ------------------------------------------------------------------------

    def next_counter(self, queue: AnyQueue, lane: int) -> int:
        """The counter that the next message gets in a lane."""
        return self._next.get((queue.number, lane)) or queue.lanes[lane].next

    def put(self, put: Put) -> None:
        """Messages come into a queue; ``put.first`` is what ``next_counter`` said."""
        packets, number = put.packets, put.queue
        self.change.puts.append(put)
        self._next[number, put.lane] = put.first + len(packets.lengths)
        # Of packets that a prepare has written already only the lengths are here.
        part = put.address or put.rest_of is not None
        size = total_of(packets.lengths) if part else len(packets.data)
        self._coming[number] = self._coming.get(number, 0) + size

    def put_copy(
        self, number: int, packets: Run, *, reason: int = 0, flags: int = 0, message: int = 0,
        stream: int = 0, first_number: int = 0, address: int = 0, source: bytes = NO_GUID,
        expires: int = NEVER_S, lane: int = 0, due: int = 0,
    ) -> None:  # fmt: skip
        """Packets that are at hand come into a queue that nobody names: a dead-letter queue, a
        journal, or the outgoing queue for an acknowledgment."""
        first = self.next_counter(self.step.state.all_queues[number], lane)
        self.put(
            Put(
                number, lane, first, packets, stream, first_number, expires, NEVER_S, flags,
                reason, message, source, 0, address, due=due,
            )
        )  # fmt: skip

    # ---- what moves on ------------------------------------------------------------------------

    def move(self, move: RangeChange) -> None:
        """Something happens to a range; neighbours with the same fate are one."""
        if move.to or move.copies_to:
            size = self.size(move)
            targets = [copy[0] for copy in move.copies_to]
            for number in (*targets, move.to) if move.to else targets:
                self._coming[number] = self._coming.get(number, 0) + size
        moves = self.change.moves
        last = moves[-1] if moves else None
        if (
            last is not None and last.first + last.count == move.first and last.op == move.op
            and last.queue == move.queue and last.lane == move.lane
            and last.reason == move.reason and last.to == move.to
            and last.to_lane == move.to_lane and last.copies_to == move.copies_to
            and last.note == move.note
        ):  # fmt: skip
            last.count += move.count
        else:
            moves.append(move)

    def size(self, move: RangeChange) -> int:
        """Bytes of the packets of a range."""
        lane = self.step.state.all_queues[move.queue].lanes[move.lane]
        return lane.size(move.first, move.count)

    # ---- room ---------------------------------------------------------------------------------

    def coming(self, number: int) -> int:
        """Bytes that the change brings to a queue already."""
        return self._coming.get(number, 0)

    def holding(self, queue: Queue) -> int:
        """Bytes in a queue, those promised to it, and those that the change brings."""
        return self.step.holding(queue) + self._coming.get(queue.number, 0)


NUMBERS_RESERVED = 1 << 16
"""Message numbers that one durable reservation covers."""


def take_numbers(step: Step, change: Change, count: int) -> int:
    """The first of ``count`` consecutive message numbers, which a change takes.

    Zero means "not assigned" on the wire, so a block never contains it.
    """
    state = step.state
    first = change.next_message or state.next_message
    if first + count - 1 > MESSAGE_NUMBER_MAX:
        first = 1
        # They begin again, and the ceiling of the round before would allow them all at once.
        state.number_ceiling = 0
    after = first + count
    if after > state.number_ceiling:
        # No record that anybody waits for has express messages, but their numbers must
        # not come again: the receiver would take the next message for a repetition.
        step.setup(NumbersReserved(ceiling=after + NUMBERS_RESERVED))
    change.next_message = after if after <= MESSAGE_NUMBER_MAX else 1
    return first


# ---- audit entries -------------------------------------------------------------------------------


class AuditEntry(PlainRecord, frozen=True):
    """What was done.

    Attributes:
        what: The act in a few words, such as ``purge``.
        about: Of what: a queue, a name, what was granted.
    """

    what: str
    about: str = ""


WHOLE: Final = "(queue manager)"
"""What acts are about that concern nothing smaller."""
NO_ENTRY: Final = AuditEntry("")
"""Nothing that is noted."""


def note_act(
    step: Step, owner: int, deed: AuditEntry, result: str = "", *, idle: bool = False
) -> None:
    """An owner that is somebody did this, or was refused it; see ``record_act``."""
    actor = step.actors.get(owner)
    if actor is not None:
        record_act(step, str(actor), step.places.get(owner, ""), deed, result, idle=idle)


def record_act(
    step: Step, who: str, where: str, deed: AuditEntry, result: str = "", *, idle: bool = False
) -> None:
    """Put an act on record, behind the records of this decision that it has made.

    Args:
        result: "" for done or begun; else the code of the error.
        idle: Whether it has changed nothing: if it was done a short time ago, it is counted there,
            and gets no number.
    """
    trail, now_s, about = step.state.trail, step.now.wall_s, deed.about[:TRAIL_CHARS_MAX]
    again = trail.find_recent(who, where, deed.what, about, result, now_s) if idle else 0
    if again:
        step.setup(ActRepeated(again, now_s), forced=False)
        return
    records = step.decision.records
    since = records[0].position if records else step.position
    step.act(TellAct(trail.next))
    step.setup(
        Noted(
            trail.next, now_s, who, where, deed.what, about, result, since, trail.head or BEGIN
        )
    )  # fmt: skip


# ---- rules ---------------------------------------------------------------------------------------


A = TypeVar("A")
RULES: Final[dict[type[Any], Callable[[Step, Any], None]]] = {}
"""The rule for each input and each request; ``core/manager.py`` imports all modules with rules."""


def rule_for(kind: type[A]) -> Callable[[Callable[[Step, A], None]], Callable[[Step, A], None]]:
    """Enter the function below as the one rule for an input or a request."""

    def enter(rule: Callable[[Step, A], None]) -> Callable[[Step, A], None]:
        assert RULES.setdefault(kind, rule) is rule, f"two rules for {kind.__name__}"
        return rule

    return enter
