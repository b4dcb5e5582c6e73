"""Queues and outgoing queues as operators see them: one, and lists of them.

Also here:

* The contents of a range of positions: how many messages, and where the first locked one is.
* Readers as operators see them: which have read a queue, and removed what they had read.
* Views of incoming streams. Times are seconds since 1970, 0 meaning never.

Upholds: I24 (a list comes a page at a time), I28 (each actor sees what it may), I18 (a hole is no
message).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import compress
from typing import Final, TypeVar

from onceq.core import delays
from onceq.core.management import msmq_names
from onceq.core.management.msmq_names import format_name_of
from onceq.core.management.paging import PagedListing, PageOrder, Place, choice
from onceq.core.names import find_queue
from onceq.core.peers import lives
from onceq.core.peers.duplicate_identity import found_of
from onceq.core.peers.strangers import unanswered, who_answers
from onceq.core.peers.trust import STAMP_SHIFT
from onceq.core.receive.lookup import ordered
from onceq.core.receive.poison import holds_poison
from onceq.core.rights import MONITOR, may, place_of, to_see_properties
from onceq.core.state.client_memory import Reading
from onceq.core.state.outgoing_queues import ConnectionAttempt, OutgoingQueue
from onceq.core.state.peer_table import Progress
from onceq.core.state.position_block import AVAILABLE, KEPT, LOCKED, REMOVED, PositionBlock
from onceq.core.state.positions import Positions
from onceq.core.state.queue_tables import title_of
from onceq.core.state.queues import AnyQueue, Queue, lookup_id
from onceq.core.step.step import Step
from onceq.core.transfer.outgoing_queue import LOCAL_CONNECTION, locked, state_of
from onceq.model.identity import guid_text
from onceq.model.marks import NEVER_S
from onceq.model.queue import QUOTA_UNLIMITED_KB
from onceq.model.requests import Look
from onceq.model.resultcodes import is_refused_there
from onceq.model.run import total_of
from onceq.model.views.queues import (
    QUOTA_WARN,
    REFUSALS_SHOWN_S,
    ConnectionView,
    EndingView,
    LateRefusalView,
    OutgoingView,
    QueueView,
    RangeAsked,
    RangeView,
    ReaderView,
    StreamView,
)
from onceq.model.views.view import copy_by_name

# ---- queue views ---------------------------------------------------------------------------------


Q = TypeVar("Q", Queue, OutgoingQueue)


def queue_view(step: Step, queue: Queue) -> QueueView:
    """Return the view of one queue."""
    properties = queue.properties
    delayed, due_s = delays.waiting(queue)
    lookups = [
        lookup_id(index, counter)
        for index, lane in queue.lanes.items()
        if len(lane)
        for counter in (lane.head, lane.last)
    ]
    return copy_by_name(
        QueueView,
        properties,
        queue,
        name=queue.title,
        path=f"private$\\{queue.title}" if properties.private else queue.title,
        number=queue.number,
        messages=len(queue),
        locked=sum(lane.locked for lane in queue.lanes.values()),
        first_lookup=min(lookups, default=0),
        last_lookup=max(lookups, default=0),
        readers_waiting=len(queue.waiting),
        instance=properties.instance.hex(),
        format_name=msmq_names.format_name(step, queue),
        type=guid_text(properties.type),
        state=LOCAL_CONNECTION,
        xact="YES" if properties.transactional else "NO",
        foreign="NO",
        parent=properties.name if queue.sub else "",
        put_back=None,
        delayed=delayed,
        delayed_until=due_s,
        in_subqueues=sum(map(len, queue.subs.values())),
        bytes_in_subqueues=sum(sub.bytes for sub in queue.subs.values()),
        poison=sum(map(len, filter(holds_poison, queue.subs.values()))),
        paused_since=0 if queue.parent else properties.paused_since,  # subqueues are open
        oldest=oldest_s(queue),
        quota_used=quota_used(step, queue),
    )


def connection_view(attempt: ConnectionAttempt) -> ConnectionView:
    """Return the view of one attempt to connect."""
    status = attempt.status
    return ConnectionView(
        int(status), status.name.lower().replace("_", " "), attempt.at_s, status.hresult,
        attempt.address, attempt.reason,
    )  # fmt: skip


def outgoing_view(step: Step, outgoing: OutgoingQueue) -> OutgoingView:
    """Return the view of one outgoing queue."""
    lane = outgoing.ordered_lane
    now, pace, trouble = step.now, outgoing.pace, outgoing.trouble
    head = outgoing.head
    ranges = list(lane.ranges(AVAILABLE, lane.head, end=head.end + 1))
    first = ranges[0][0] if ranges else 0
    last = sum(ranges[-1]) - 1 if ranges else 0
    sent = min(outgoing.ever_sent, lane.next - 1)
    unheard = sum(count for _, count in lane.ranges(AVAILABLE, lane.head, end=sent + 1))
    peer = step.sessions.peers.get(outgoing.session)
    resend_in = (pace.due_us - now.mono_us) / 1e6 if pace.due_us else -1.0
    goes_on = outgoing.numbers_given(step.state.stamp) > 0
    return copy_by_name(
        OutgoingView,
        outgoing,
        destination=str(outgoing.name),
        state=state_of(step, outgoing),
        messages=len(outgoing),
        awaiting_final=lane.awaiting,
        peer=guid_text(peer.peer) if peer is not None else "",
        paused_since=outgoing.paused_s,
        connected_since=outgoing.connected_s,
        trouble=trouble.reason,
        trouble_since=trouble.since_s if trouble.reason else 0,
        trouble_last=trouble.last_s if trouble.reason else 0,
        attempts=trouble.attempts,
        retry_in_s=(outgoing.retry_us - now.mono_us) / 1e6 if outgoing.retry_us else -1.0,
        stream=head.stream,
        behind_stream=outgoing.unacknowledged - sum(count for _, count in ranges),
        first_unacked=outgoing.number_of(first) if first else 0,
        last_unacked=outgoing.number_of(last) if last else 0,
        last_unacked_previous=outgoing.previous_of(last) if last else 0,
        next_number=outgoing.number_of(lane.next) if goes_on else 1,
        last_ack_stream=outgoing.last_ack[0],
        last_ack=outgoing.last_ack[1],
        last_ack_time=outgoing.last_ack_s,
        last_ack_count=outgoing.last_ack_count,
        no_ack_count=unheard,
        no_read_count=lane.awaiting,
        transmitted=outgoing.ever_sent,
        resend_at=now.wall_s + round(resend_in) if pace.due_us else 0,
        resend_in_s=resend_in,
        resend_interval_s=step.settings.resend_wait_s(pace.timeouts),
        resend_count=pace.timeouts,
        expires_next=min(lane.next_expiry for lane in outgoing.lanes.values()),
        unprocessed=lane.awaiting,
        unsent=len(outgoing) - lane.awaiting,
        in_doubt=step.state.doubts.unsettled(outgoing.number),
        endings=_endings(outgoing),
        late_refusals=tuple(
            LateRefusalView(one.id, one.message_class, one.at_s) for one in outgoing.endings.late
        ),
        turned_away=outgoing.turned_away[0] if outgoing.turned_away else "",
        turned_away_for=outgoing.turned_away[1] if outgoing.turned_away else 0,
        turned_away_at=outgoing.turned_away[2] if outgoing.turned_away else 0,
        offline_since=step.state.offline_s,
        xact="UNKNOWN",
        foreign="NO",
        next_hops=msmq_names.next_hops(step, outgoing),
        history=tuple(map(connection_view, outgoing.history)),
        clash=found_of(step, step.identity.guid),
        answered_by=who_answers(step, outgoing),
        stranded_since=outgoing.stranded_s,
        unanswered=unanswered(step, outgoing),
        put_back=lives.of_outgoing(step, outgoing),
        elsewhere=_elsewhere(outgoing),
        oldest=oldest_waiting_s(outgoing),
    )


def _endings(outgoing: OutgoingQueue) -> tuple[EndingView, ...]:
    """Return how its messages have ended, a row for each way."""
    return tuple(
        EndingView(one.message_class, one.cause, one.messages, one.letters, one.at_s, one.late)
        for one in outgoing.endings
    )


def _elsewhere(outgoing: OutgoingQueue) -> int:
    """Return how many messages have not left here, but may have left a manager with this name."""
    return sum(
        count
        for index, last in outgoing.elsewhere.items()
        for _, count in outgoing.lanes[index].ranges(
            AVAILABLE, outgoing.transmitted.get(index, 0) + 1, end=last + 1
        )
    )


# ---- ages --------------------------------------------------------------------------------------


def oldest_s(queue: Queue) -> int:
    """Return when the oldest message came that is still in a queue; 0: it is empty."""
    return min((_since(lane) for lane in queue.lanes.values() if len(lane)), default=0)


def oldest_waiting_s(outgoing: OutgoingQueue) -> int:
    """Return the same for what waits in an outgoing queue to be acknowledged."""
    return min(
        (lane.arrived(lane.first_available(), 1)[0]
         for lane in outgoing.lanes.values() if lane.available),
        default=0,
    )  # fmt: skip


def _since(lane: Positions) -> int:
    at = lane.head
    if lane.state(at) == REMOVED:
        at = min(lane.first(state, at, lane.next) for state in KEPT)
    return lane.arrived(at, 1)[0]


def quota_used(step: Step, queue: Queue) -> float:
    """Return how much of its quota a queue has used; a subqueue has none of its own."""
    quota_kb = queue.properties.quota_kb
    if quota_kb == QUOTA_UNLIMITED_KB or queue.parent is not None or queue.system:
        return 0.0
    return ratio_of(step.holding(queue), quota_kb << 10)


def ratio_of(used: int, most: int) -> float:
    """Return a share; if nothing is allowed, anything uses all of it."""
    return used / most if most else float(used > 0)


# ---- lists -------------------------------------------------------------------------------------


def is_stuck(step: Step, outgoing: OutgoingQueue) -> bool:
    """Return whether an operator should look at an outgoing queue: it is paused, or something waits
    in it and cannot leave. That the whole queue manager is off the network is reported once."""
    if outgoing.paused_s:
        return True
    return bool(len(outgoing)) and bool(
        outgoing.trouble.reason or outgoing.turned_away or outgoing.stranded_s
        or found_of(step, step.identity.guid) or locked(step, outgoing)
        or state_of(step, outgoing) == "NEED VALIDATION"
    )  # fmt: skip


def _refused_last_s(outgoing: OutgoingQueue) -> int:
    """Return when its destination last refused a message; 0: never."""
    return max(
        (one.at_s for one in outgoing.endings if is_refused_there(one.message_class)), default=0
    )


def _has_refused(step: Step, outgoing: OutgoingQueue) -> bool:
    return _refused_last_s(outgoing) > step.now.wall_s - REFUSALS_SHOWN_S


Test = Callable[[Step, Q], bool]
_QUEUES_ONLY: Final[Mapping[str, Test[Queue]]] = {
    "": lambda step, one: True,
    "used": lambda step, one: bool(len(one)) or not one.system,
    "busy": lambda step, one: bool(len(one) or (one.properties.paused_since and not one.parent)),
    "paused": lambda step, one: bool(one.properties.paused_since and not one.parent),
    "poison": lambda step, one: bool(len(one)) and holds_poison(one),
    "full": lambda step, one: quota_used(step, one) >= QUOTA_WARN,
}
"""Parts of the list of queues: all but empty system queues; those that are not empty, or are
paused; those that an operator has paused; those with poison messages; those whose quota is nearly
used up."""
_OUTGOING_ONLY: Final[Mapping[str, Test[OutgoingQueue]]] = {
    "": lambda step, one: True,
    "busy": lambda step, one: bool(len(one)),
    "stuck": is_stuck,
    "refused": _has_refused,
    "noted": lambda step, one: bool(len(one)) or is_stuck(step, one) or _has_refused(step, one),
    "unanswered": lambda step, one: bool(len(one)) and unanswered(step, one),
}
"""Parts of the list of outgoing queues: those that are not empty; that cannot move; whose
destinations have refused something lately; all three of these; that wait for strangers."""


def _spelled(name: str) -> str:
    """Return a name with its slashes and letters as they are compared."""
    return name.replace("/", "\\").casefold()


def _chosen(
    only: Mapping[str, Test[Q]], sees: Callable[[Step, Look], Callable[[Q], bool]] | None
) -> Callable[[Step, Look], Callable[[Q], bool]]:
    def fits(step: Step, item: Look) -> Callable[[Q], bool]:
        test = only[choice(item.only, only, "there is no such part of the list:")]
        part = _spelled(item.part)
        seen = sees(step, item) if sees is not None else None

        def fit(one: Q) -> bool:
            if not test(step, one) or (part and part not in _spelled(title_of(one))):
                return False
            return seen is None or seen(one)

        return fit

    return fits


def _orders(oldest: Callable[[Q], int]) -> dict[str, PageOrder[Q]]:
    return {
        "number": PageOrder(lambda step, one: (one.number,), (int,)),
        "name": PageOrder(lambda step, one: (title_of(one).casefold(), one.number), (str, int)),
        "messages": PageOrder(lambda step, one: (-len(one), one.number), (int, int)),
        "bytes": PageOrder(lambda step, one: (-one.bytes, one.number), (int, int)),
        "oldest": PageOrder(
            lambda step, one: (oldest(one) or NEVER_S, -len(one), one.number), (int, int, int)
        ),
    }


def _numbered(step: Step, numbers: Iterable[int], kind: type[Q]) -> Iterator[Q]:
    """Yield queues by their numbers, those that exist when their turn comes."""
    for number in numbers:
        one = step.state.all_queues.get(number)
        if isinstance(one, kind):
            yield one


def _local(step: Step, place: Place) -> Iterator[Queue]:
    return _numbered(step, step.state.queue_numbers.behind(place[0] if place else 0), Queue)


def _far(step: Step, place: Place) -> Iterator[OutgoingQueue]:
    numbers = step.state.outgoing_numbers.behind(place[0] if place else 0)
    return _numbered(step, numbers, OutgoingQueue)


def _is_there(step: Step, one: AnyQueue) -> bool:
    return step.state.all_queues.get(one.number) is one


QUEUES: Final[PagedListing[Queue, QueueView]] = PagedListing(
    lambda step, item: _local(step, ()),
    queue_view,
    _orders(oldest_s),
    _chosen(
        _QUEUES_ONLY,
        # Who may monitor the queue manager looks at each queue without being asked again.
        lambda step, item: (
            (lambda one: True)
            if may(step, item.owner, (MONITOR,))
            else lambda one: may(step, item.owner, (to_see_properties(place_of(one)),))
        ),
    ),
    _local,
    _is_there,
)
"""Queues with their subqueues, system queues among them."""
OUTGOING: Final[PagedListing[OutgoingQueue, OutgoingView]] = PagedListing(
    lambda step, item: _far(step, ()),
    outgoing_view,
    _orders(oldest_waiting_s)
    | {"refused": PageOrder(lambda step, one: (-_refused_last_s(one), one.number), (int, int))},
    _chosen(_OUTGOING_ONLY, None),
    _far,
    _is_there,
)
"""Outgoing queues."""


# ---- range views ---------------------------------------------------------------------------------


TABLES_AT_ONCE: Final = 256
"""Tables of states that one answer counts: a million messages, in less than a millisecond..."""
SIZES_AT_ONCE: Final = 32
"""... and this number if the sizes of their messages are added up."""

_IS_AVAILABLE: Final = bytes(int(state == AVAILABLE) for state in range(256))


class _Count:
    """The counts until now, and the rest of the budget."""

    def __init__(self, asked: RangeAsked) -> None:
        self.messages_left = asked.messages or 1 << 62
        self.bytes_left = asked.bytes
        self.sized = asked.bytes > 0
        self.tables_left = SIZES_AT_ONCE if self.sized else TABLES_AT_ONCE
        self.messages = self.bytes = 0
        self.full = self.more = False
        self.locked = 0

    def lane(self, lane: Positions, first: int, stop: int) -> int:
        """Count a part of a lane; return the counter behind the last counted position."""
        at = first
        for block, a, b in lane.tables(first, stop):
            if not self.messages_left:
                self.full = True
                return at
            if not self.tables_left:
                self.more = True
                return at
            self.tables_left -= 1
            held = block.states.find(LOCKED, a, b) if lane.locked else -1
            if held >= 0:
                self.locked, self.full, b = block.base + held, True, held
            at = self._table(block, a, b)
            if self.full:
                return at
        return stop

    def _table(self, block: PositionBlock, a: int, b: int) -> int:
        """Count a part of a table; return the same."""
        count, end = block.states.count(AVAILABLE, a, b), b
        if count > self.messages_left:
            count, end = self.messages_left, _behind(block.states, a, self.messages_left)
        if self.sized:
            size = _size(block, a, end)
            if size > self.bytes_left:
                return self._fitting(block, a, end)
            self.bytes_left -= size
            self.bytes += size
        self.messages += count
        self.messages_left -= count
        if end < b:
            self.full, self.locked = True, 0
        return block.base + end

    def _fitting(self, block: PositionBlock, a: int, end: int) -> int:
        """Count the messages of the last table that fit: some, and at least one."""
        self.full, self.locked, at = True, 0, a
        for index in range(a, end):
            if block.states[index] != AVAILABLE:
                continue
            size = block.lengths[index]
            if size > self.bytes_left and self.messages:
                break
            self.bytes_left -= size
            self.bytes += size
            self.messages += 1
            at = index + 1
        return block.base + at


def range_view(step: Step, name: str) -> RangeView:
    """Return a range in its present state (``RangeAsked`` says which).

    A queue of ten million messages has a table of states for each 4,096 of them, and each table is
    counted as a whole. One answer examines a bounded number of tables, no matter how full the queue
    is; a client that wants more asks again behind the last position (``RangeView.more``). Tables in
    which nothing is left do not exist, so long empty stretches cost nothing.
    """
    asked = RangeAsked.of(name)
    queue = find_queue(step, asked.queue)
    count, to = _Count(asked), asked.to
    ended: dict[str, int] = {}
    for index, lane in ordered(queue):
        base = lookup_id(index, 0)
        first, stop = max(asked.after + 1 - base, lane.head), min(asked.to + 1 - base, lane.next)
        if stop > first:
            end = count.lane(lane, first, stop)
            if count.full or count.more:
                to = base + end - 1
        if (low := max(asked.after + 1 - base, 0)) < (high := min(to + 1 - base, lane.next)):
            for how, size in step.ended.count(queue.number, index, low, high).items():
                ended[how] = ended.get(how, 0) + size
        if count.full or count.more:
            if count.locked:
                count.locked += base
            break
    return RangeView(to, count.messages, count.bytes, count.locked, count.more, ended)


def _size(block: PositionBlock, a: int, b: int) -> int:
    """Return the bytes of the packets of what is available in a part of a table."""
    states, lengths = block.states[a:b], block.lengths[a:b]
    if states.count(AVAILABLE) == b - a:
        return total_of(lengths)
    return sum(compress(lengths, states.translate(_IS_AVAILABLE)))


def _behind(states: bytearray, a: int, count: int) -> int:
    """Return the index behind ``count`` available messages from index ``a`` on."""
    for _ in range(count):
        a = states.index(AVAILABLE, a) + 1
    return a


# ---- reader views --------------------------------------------------------------------------------


Row = tuple[int, str, Reading]


def _of(step: Step, item: Look) -> Iterator[Row]:
    table = step.state.readings
    numbers = [find_queue(step, item.name).number] if item.name else table.queues()
    return ((number, *one) for number in numbers for one in list(table.of(number).items()))


def _view(step: Step, row: Row) -> ReaderView:
    number, reader, one = row
    queue = title_of(step.state.all_queues[number])
    return copy_by_name(ReaderView, one, queue=queue, reader=reader, since=one.at_s)


READERS: Final[PagedListing[Row, ReaderView]] = PagedListing(
    _of,
    _view,
    {"queue": PageOrder(lambda step, row: row[:2], (int, str))},
    there=lambda step, row: row[0] in step.state.all_queues,
)
"""The readers of a queue, or of all."""


# ---- stream views --------------------------------------------------------------------------------


def people_call(step: Step, progress: Progress) -> str:
    """Return the queue of a stream as its sender names it, in a form that people can write."""
    return format_name_of(step, progress).removeprefix("DIRECT=")


def stream_view(step: Step, progress: Progress) -> StreamView:
    """Return the view of one incoming stream."""
    reset = progress.reset
    return copy_by_name(
        StreamView,
        progress,
        queue=progress.key,
        source=guid_text(progress.source),
        sender=step.name_of(progress.source),
        number=progress.last,
        connected=progress.source in step.sessions.of,
        begun=progress.stream >> STAMP_SHIFT,
        stale_at=progress.stale_s if progress.stale_stream else 0,
        reset_at=reset.at_s if reset is not None else 0,
        reset_reason=reset.reason if reset is not None else "",
        reset_from=reset.stream if reset is not None else 0,
        clash=found_of(step, progress.source),
        name=people_call(step, progress),
    )


STREAMS: Final[PagedListing[Progress, StreamView]] = PagedListing(
    lambda step, item: list(step.state.progress.values()),
    stream_view,
    {"name": PageOrder(lambda step, one: (one.key, one.source.hex()), (str, str))},
)
"""Incoming streams."""
