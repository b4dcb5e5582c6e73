"""The one way in which messages end: keep and report what the table says, in one record.

A message ends by being received, expired, purged, deleted with its queue, refused, or given up. The
record that ends it also makes the reports that were asked for, so that a crash never leaves one
without the other, and two ends can never both happen (I11). ``end_range`` does that for ranges of a
queue, ``end_at_hand`` for packets that no queue has yet: both look up what is due in
``core/ending/table.py``. A range leaves its packets where they are; dead-letter queues, journals
and the hidden queue of acknowledgments that are owed take them over there (``RangeChange.to``,
``copies_to``).

Also here:

* The queues that keep ended messages: whether there is room, and what happens without room.
* Portions of long works: which messages one step ends, so that no other request waits long.
* The reports that a send asks for, as flags of its puts.

Upholds: I11 (one end), I12 (one dead letter), I13, I14, I24 (no step is longer the more there is).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from onceq.core.ending.acknowledgments import asked_by, on_arrival, tell_end, tell_sender
from onceq.core.ending.table import FATES, Ending, Fate, Side, When
from onceq.core.names import is_local, local_queue, one_name
from onceq.core.state.audit_trail import ReportRequest
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import PURGING, Range
from onceq.core.state.queue_tables import ACKS_OWED, DEAD_LETTER, DEAD_XACT, DOUBTS_KEPT, JOURNAL
from onceq.core.state.queues import TRANSACTIONAL_LANE, AnyQueue, Queue
from onceq.core.state.records import (
    PUT_ACK_RECEIVE,
    PUT_ACKS,
    PUT_DEADLETTER,
    PUT_EXPRESS,
    PUT_FINAL,
    PUT_JOURNAL,
    PUT_NACK_ARRIVAL,
    PUT_NACK_RECEIVE,
    PUT_ONCE,
    PUT_WANTS,
    Op,
    RangeChange,
)
from onceq.core.state.state import IN_DOUBT, State
from onceq.core.step.connections import Target
from onceq.core.step.step import ChangeBuilder, Step
from onceq.core.step.units import LETTERS, REFUSED_HERE, REFUSED_THERE
from onceq.errors import BadDeadLetterQueue, InsufficientProperties, InvalidParameter, OnceqError
from onceq.model.identity import NO_GUID
from onceq.model.message import PRIORITY_DEFAULT, Acknowledge, Delivery, Journal, Properties
from onceq.model.queue import QUOTA_UNLIMITED_KB
from onceq.model.resultcodes import REFUSALS, SECOND_LETTER, MessageClass
from onceq.model.run import Run, total_of
from onceq.model.settings import KEEP_ASKED, Settings

# ---- dead letters --------------------------------------------------------------------------------


CopyTo = tuple[int, int, int]


def own_or_system(build: ChangeBuilder, number: int, size: int, *, without: int = 0) -> int:
    """Return a sender's own dead-letter queue, or the system's if that cannot be used (CNF-16).

    A dead letter is never dropped: if the sender's own dead-letter queue cannot be used, the
    system's takes it (CNF-16). A journal copy is dropped silently where the journal is full (Q-14).

    Args:
        number: Number of the own queue; 0: there is none.
        size: Bytes that it is to take, beside what the change already brings to it.
        without: Number of a queue that is being deleted.
    """
    if not number:
        return DEAD_XACT
    step = build.step
    queue = step.state.all_queues.get(number)
    if not isinstance(queue, Queue) or number == without:
        about, problem = str(number), "it was deleted"
    elif build.holding(queue) + size > queue.properties.quota_bytes:
        about, problem = queue.properties.name, "it is full"
    else:
        return number
    step.notice(
        "a sender's own dead-letter queue cannot be used: the system's takes its messages",
        about, queue=about, reason=problem,
    )  # fmt: skip
    return DEAD_XACT


def queue_being_deleted(step: Step, part: RangeChange, reason: int) -> int:
    """Return the queue whose deletion ends a range and that might also take it; else 0."""
    if reason != MessageClass.NACK_QUEUE_DELETED:
        return 0
    here = step.state.all_queues[part.queue]
    return here.parent.number if isinstance(here, Queue) and here.parent else here.number


def own_dead_letter_queue(step: Step, properties: Properties, *, transactional: bool) -> int:
    """Return the number of the dead-letter queue that a sender names; 0 if it names none.

    Raises:
        InvalidParameter: Outside a transaction (CNF-15).
        InsufficientProperties: Without asking for dead letters.
        BadDeadLetterQueue: It is no transactional queue of this manager.
    """
    text = properties.dead_letter_queue
    if not text:
        return 0
    if not transactional:
        raise InvalidParameter("dead_letter_queue is for messages of transactions only")
    if not properties.journal & Journal.DEADLETTER:
        raise InsufficientProperties(
            "dead_letter_queue needs journal=DEADLETTER: without it there are no dead letters"
        )
    try:
        (name,) = one_name(text)
        queue = local_queue(step, name) if is_local(step, name) else None
    except OnceqError as error:
        raise BadDeadLetterQueue(f"dead_letter_queue {text}: {error.text}") from None
    if queue is None or queue.system or queue.sub or not queue.properties.transactional:
        raise BadDeadLetterQueue(
            f"dead_letter_queue {text} is not a transactional queue of {step.identity.name}"
        )
    return queue.number


# ---- journals -------------------------------------------------------------------------------


def journal_copy(
    build: ChangeBuilder, queue: Queue, move: RangeChange, *, in_any_case: bool
) -> tuple[CopyTo, ...]:
    """Return the journal that takes a copy of what is received from a queue (Q-11), if the queue
    keeps one and it has room (Q-14).

    What belongs together here is copied together or not at all.

    Args:
        in_any_case: Whether its room was checked before (``core/receive/receive.py``).
    """
    journal = (queue.parent or queue).journal
    if journal is None:
        return ()
    quota_kb = journal.properties.quota_kb
    if (
        not in_any_case
        and quota_kb < QUOTA_UNLIMITED_KB
        and (build.holding(journal) + build.size(move) > quota_kb << 10)
    ):
        build.step.notice("journal full: copies dropped", queue.properties.name,
                          queue=queue.properties.name)  # fmt: skip
        return ()
    return ((journal.number, 0, 0),)


def journal_room(build: ChangeBuilder, size: int) -> bool:
    """Return whether the journal of this computer has room for ``size`` more bytes (Q-12, Q-14)."""
    step = build.step
    quota_kb = step.settings.computer_journal_quota_kb
    if quota_kb >= QUOTA_UNLIMITED_KB:
        return True
    journal = step.state.all_queues[JOURNAL]
    if journal.bytes + build.coming(JOURNAL) + size <= quota_kb << 10:
        return True
    step.notice("journal full: copies dropped", "the journal of this computer",
                computer_journal_quota_kb=quota_kb)  # fmt: skip
    return False


# ---- ending --------------------------------------------------------------------------------------


_LATER = (
    (Acknowledge.POSITIVE_RECEIVE, PUT_ACK_RECEIVE),
    (Acknowledge.NEGATIVE_RECEIVE, PUT_NACK_RECEIVE),
    (Acknowledge.NEGATIVE_ARRIVAL, PUT_NACK_ARRIVAL),
)


def ack_flags(level: int, *, arrived: bool) -> int:
    """Return a put's flags for an acknowledgment level: the bits for ends that are still to come.

    Args:
        level: ``Acknowledge``; 0 where no administration queue is named (ACK-1).
    """
    flags = 0
    for bit, flag in _LATER:
        if level & bit and not (arrived and flag == PUT_NACK_ARRIVAL):
            flags |= flag
    return flags | PUT_WANTS if flags else 0


# ---- ranges of a queue ------------------------------------------------------------------------


def end_range(
    build: ChangeBuilder, move: RangeChange, ending: Ending, reason: int, *, copied: bool = False
) -> None:
    """End a range of a queue: put the move into the change, and keep and report what is due.

    Args:
        reason: The class that says how it ends; other managers may report their own classes.
        copied: Whether the journal of the queue always keeps copies.
    """
    queue, counts = build.step.state.all_queues[move.queue], build.step.counts
    wanting = queue.wanting.get(move.lane)
    if ending is Ending.RECEIVED:
        counts.received += move.count
    elif ending is Ending.HANDED_OVER:
        counts.acknowledged += move.count
    else:
        counts.ended[reason] += move.count
        if reason in REFUSALS and isinstance(queue, OutgoingQueue):
            counts.note(REFUSED_THERE, reason, move.count, str(queue.name))
    # This manager's side of the messages; without requests, source and target keep the same.
    if isinstance(queue, Queue):
        here, transactional = Side.BOTH, queue.properties.transactional
        if ending is Ending.RECEIVED and (copied or queue.properties.journal):
            move.copies_to = journal_copy(build, queue, move, in_any_case=copied)
    else:
        here, transactional = Side.SOURCE, move.lane == TRANSACTIONAL_LANE
    parts: list[tuple[ReportRequest | None, int, int]] = [(None, move.first, move.count)]
    if wanting is not None:
        parts = wanting.parts(move.first, move.count)
    for w, first, count in parts:
        part = move
        if count != move.count:
            part = RangeChange(
                move.op, move.queue, move.lane, first, count, move.reason, 0, 0,
                move.copies_to, move.note,
            )  # fmt: skip
        came = here is Side.BOTH and w is not None and w.source != NO_GUID
        fate = FATES[Side.TARGET if came else here, transactional, ending]
        if fate.awaits and w is not None and w.flags & PUT_FINAL:
            part.op = Op.AWAIT
        elif w is not None or fate.kept or fate.told is When.ALWAYS or _keeps(build, fate, reason):
            _carry_out(build, fate, w, part, reason, transactional=transactional)
        build.move(part)


def _carry_out(
    build: ChangeBuilder, fate: Fate, w: ReportRequest | None, part: RangeChange, reason: int, *,
    transactional: bool,
) -> None:  # fmt: skip
    """Leave what the row says of a part of a range; one send has made the part's requests."""
    told = fate.told is When.ALWAYS
    if fate.told is When.ASKED and w is not None and w.flags & PUT_ACKS:
        asked = asked_by(MessageClass(reason))
        told = any(asked & bit and w.flags & flag for bit, flag in _LATER)
    if told:
        part.copies_to = (*part.copies_to, (ACKS_OWED, 0, reason))
    if w is not None and fate.final is not When.NEVER:
        tell_end(build, w, part.first, part.count, MessageClass(reason))
    elif w is not None:
        part.reason = reason
    # The queue that takes the packets over for their sender; 0 for none.
    flags = w.flags if w is not None else 0
    letter = fate.dead_letter is not When.NEVER and flags & PUT_DEADLETTER
    if fate.journal:
        kept = flags & PUT_JOURNAL and journal_room(build, build.size(part))
        part.to = JOURNAL if kept else 0
    elif letter or _keeps(build, fate, reason):
        if not transactional:
            part.to = DEAD_LETTER
        elif w is None or not w.dead_letter_queue:
            part.to = DEAD_XACT
        else:
            deleted = queue_being_deleted(build.step, part, reason)
            part.to = own_or_system(build, w.dead_letter_queue, build.size(part), without=deleted)
    else:
        hidden = fate.hidden and flags & (PUT_NACK_ARRIVAL | PUT_JOURNAL)
        part.to = DOUBTS_KEPT if hidden else 0
    if fate.kept:
        here = DEAD_XACT if transactional else DEAD_LETTER
        if part.to and part.to != here:
            # Two dead letters of one message: its sender's is the one to return.
            part.copies_to = (*part.copies_to, (part.to, 0, reason))
            part.note = SECOND_LETTER
        part.to, part.reason = here, reason
    if part.to not in (0, JOURNAL, DOUBTS_KEPT):
        queue = build.step.state.all_queues[part.queue]
        name = queue.title if isinstance(queue, Queue) else ""
        if isinstance(queue, OutgoingQueue):
            name = str(queue.name)
        build.step.counts.note(LETTERS, reason, part.count, name)


def _keeps(build: ChangeBuilder, fate: Fate, reason: int) -> bool:
    """Return whether a dead letter is kept although its sender has asked for none."""
    if fate.dead_letter is When.ALWAYS:
        return True
    return fate.dead_letter is When.SETTING and keeps_refusal(build.step.settings, reason)


def keeps_refusal(settings: Settings, reason: int) -> bool:
    """Return whether a transactional message refused with this class is kept, though its sender has
    asked for no dead letter."""
    return reason in REFUSALS and settings.xact_dead_letter != KEEP_ASKED


def gave_up(
    build: ChangeBuilder, outgoing: OutgoingQueue, lane: int, first: int, count: int,
    reason: MessageClass,
) -> None:  # fmt: skip
    """End a range in its outgoing queue when the destination has not reported its end (CNF-21).

    A message that was never transmitted is certainly not delivered, for this reason. One that may
    have been transmitted may have arrived, and been received: it is in doubt, no matter what ends
    the wait for it here (CNF-12), and nothing else is reported before its doubt is settled (I11,
    I13).
    """
    left = min(max(outgoing.may_have_left(lane) + 1 - first, 0), count)
    if left:
        move = RangeChange(Op.END, outgoing.number, lane, first, left, IN_DOUBT, note=reason)
        end_range(build, move, Ending.IN_DOUBT, IN_DOUBT)
    if left < count:
        move = RangeChange(Op.END, outgoing.number, lane, first + left, count - left, reason)
        end_range(build, move, Ending.NOT_DELIVERED, reason)


def purged_meanwhile(build: ChangeBuilder, lock: RangeChange) -> None:
    """End what was purged while the transaction that now aborts held it (X-19)."""
    lane = build.step.state.all_queues[lock.queue].lanes[lock.lane]
    purged: list[Range] = list(lane.ranges(PURGING, lock.first, end=lock.first + lock.count))
    for first, count in purged:
        move = RangeChange(Op.END, lock.queue, lock.lane, first, count)
        end_range(build, move, Ending.NOT_RECEIVED, MessageClass.NACK_QUEUE_PURGED)


# ---- packets at hand ----------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class AtHand:
    """Packets that come into a queue here, or are refused, with their sender's requests.

    Attributes:
        asked: The requested journaling (the bits ``PUT_...``).
        level: Acknowledgment messages; 0 where they name no administration queue.
        own: Number of the sender's own dead-letter queue; 0: the system's.
        message, address: Of what was sent here: number of the first message; where the packets are,
            if a prepare has written them.
        source, stream, number, messages, http: Of what came in a stream: its sender, the number
            of the first in the stream, all message numbers, and whether it came over HTTP.
        later: Where acknowledgment messages of a unit of work are kept until all its sends have
            their positions.
        queue: The name of their queue, for the log.
    """

    side: Side
    transactional: bool
    packets: Run
    asked: int = 0
    level: int = 0
    express: bool = False
    own: int = 0
    message: int = 0
    address: int = 0
    source: bytes = NO_GUID
    stream: int = 0
    number: int = 0
    messages: Sequence[int] = ()
    http: bool = False
    later: list[tuple[Run, int, int]] | None = None
    queue: str = ""


def end_at_hand(build: ChangeBuilder, what: AtHand, ending: Ending, reason: int = 0) -> None:
    """Store (for reason 0) or refuse packets in this change: keep and report what is due."""
    fate, packets = FATES[what.side, what.transactional, ending], what.packets
    size = total_of(packets.lengths)
    if reason:
        build.step.counts.ended[reason] += len(packets.lengths)
        if reason in REFUSALS:
            build.step.counts.note(REFUSED_HERE, reason, len(packets.lengths), what.queue)
    if fate.journal and what.asked & PUT_JOURNAL and journal_room(build, size):
        build.put_copy(JOURNAL, packets, message=what.message)
    # If this computer is both ends of a message, its share as the target (S0) and the one as the
    # source are one dead letter if one queue has both.
    letters: list[int] = []
    asked = fate.dead_letter is not When.NEVER and what.asked & PUT_DEADLETTER
    asked = asked or _keeps(build, fate, reason)
    if len(what.packets) and (asked or fate.kept):
        letters = [DEAD_LETTER]
        if what.transactional:
            found = {DEAD_XACT} if fate.kept else set()
            if asked:
                found.add(own_or_system(build, what.own, size))
            letters = sorted(found)
    if letters:
        build.step.counts.note(LETTERS, reason, len(packets.lengths), what.queue)
    for number in letters:
        build.put_copy(
            number, packets, reason=reason, flags=PUT_EXPRESS if what.express else 0,
            message=what.message, address=what.address, stream=what.stream,
            first_number=what.number,
        )  # fmt: skip
    if fate.final is not When.NEVER:
        tell_sender(
            build, what.source, MessageClass(reason), stream=what.stream, number=what.number,
            messages=what.messages, http=what.http,
        )  # fmt: skip
    if fate.told is When.NEVER or not what.level:
        return
    if what.later is not None:
        what.later.append((packets, what.level, reason))
    else:
        on_arrival(build, packets, what.level, reason)


# ---- portions ------------------------------------------------------------------------------------


ENDED_AT_ONCE: Final = 512
"""Messages that end in one step of a long work, if a report of their end was asked for..."""
UNASKED_FOR_ONE: Final = 8
"""... and for each of these, this number of messages without such a request."""
QUEUES_AT_ONCE: Final = 512
"""Outgoing queues that one step processes, if many are concerned."""


def some_at_a_time(
    state: State, queues: Iterable[AnyQueue | None], work: Callable[[list[OutgoingQueue]], None]
) -> Iterator[None]:
    """Apply work to many outgoing queues, some in each step; skip those that are gone by then.

    A purge, a deletion or a mass expiry may concern millions of messages. A step ends a bounded
    number of them, in one record, and the next step continues (``Step.begin``). Meanwhile other
    requests are served. What happens to a message between two portions counts: a client that
    receives it keeps it.
    """
    todo, there = list(queues), state.all_queues
    for at in range(0, len(todo), QUEUES_AT_ONCE):
        if at:
            yield
        work([
            one for one in todo[at : at + QUEUES_AT_ONCE]
            if isinstance(one, OutgoingQueue) and there.get(one.number) is one
        ])  # fmt: skip


def numbered(state: State, numbers: Iterable[int]) -> Iterator[AnyQueue | None]:
    """Yield queues by their numbers; None for those that are gone."""
    return map(state.all_queues.get, numbers)


def share_of(queue: AnyQueue, index: int) -> int:
    """Return how many messages of a lane cost as much as one whose sender asks for its end."""
    # Such a message costs as much as one that is sent, and so does one that may be in doubt.
    return 1 if index in queue.wanting or isinstance(queue, OutgoingQueue) else UNASKED_FOR_ONE


class Portion:
    """The budget of what one step may still end."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = ENDED_AT_ONCE

    def ranges(self, queue: AnyQueue, index: int, state: int, end: int) -> Iterator[Range]:
        """Yield ranges of a lane in a state, before a counter, as far as the portion goes."""
        share = share_of(queue, index)
        if self.left > 0:
            most = self.left * share
            for first, count in queue.lanes[index].ranges(state, 0, end=end, count_max=most):
                yield first, count
                # Each range is a part of the record, even with few messages.
                self.left -= -(-count // share)
                if self.left <= 0:
                    return


# ---- report flags --------------------------------------------------------------------------------


SYSTEM_NAMES = frozenset(("admin_queue$", "notify_queue$", "order_queue$"))
"""Queues that managers use among themselves."""


def lane_of(properties: Properties) -> int:
    """Return the lane of messages outside transactions; transactional ones have priority 0
    (Q-23)."""
    return PRIORITY_DEFAULT if properties.priority is None else properties.priority


def quiet(step: Step, name: str) -> bool:
    """Return whether messages to a queue are never acknowledged or source-journaled (Q-17).

    Args:
        name: Name of the queue, without computer and ``private$``.
    """
    return step.settings.quiet_system_queues and name.casefold() in SYSTEM_NAMES


def without_quiet_queues(step: Step, target: Target, properties: Properties) -> Properties:
    """Return the properties of messages for a target, without reports that it does not make."""
    if not step.settings.quiet_system_queues or not quiet(step, target.name.queue):
        return properties
    return replace(properties, acknowledge=Acknowledge.NONE, journal=Journal.NONE)


def flags_of(
    properties: Properties, target: Target, *, transactional: bool, once: bool = False
) -> int:
    """Return the flags of a put of a batch for one of its targets."""
    flags = 0
    local = isinstance(target.queue, Queue)
    if properties.acknowledge and properties.admin_queue:
        flags |= ack_flags(properties.acknowledge, arrived=local)
        if not local:
            flags &= PUT_WANTS | PUT_NACK_ARRIVAL
            flags = flags if flags & PUT_NACK_ARRIVAL else 0
    if once and not local:
        flags |= PUT_ONCE | PUT_WANTS
    if not transactional and properties.delivery == Delivery.EXPRESS:
        flags |= PUT_EXPRESS
    if properties.journal & Journal.DEADLETTER:
        flags |= PUT_WANTS | PUT_DEADLETTER
    if properties.journal & Journal.JOURNAL and (transactional or not local):
        flags |= PUT_WANTS | PUT_JOURNAL
    # Over HTTP only dead-lettering asks how a message ends (HTTP-4); the stream receipt makes a
    # journal copy (HTTP-13).
    over_http = isinstance(target.queue, OutgoingQueue) and target.queue.over_http
    if transactional and properties.journal & (Journal.DEADLETTER if over_http else Journal(3)):
        flags |= PUT_FINAL
    return flags
