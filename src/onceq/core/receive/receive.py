"""Receive messages from queues, peek at them, and wait for them.

A receive inside a transaction locks what it hands out: no other reader sees it until the outcome
(I16). The lock is in the log, lazily, only so that a crash counts as an abort (SND-24); handing out
does not depend on it. A receive outside a transaction removes at once, and is answered when the
removal is durable (RCV-14).

Waiting readers are served in the order in which they came; a message goes to those that only peek
and then to the first that takes it (RCV-3).

Also here:

* End messages in their queue that were not received in time.
* Readers that peek at messages, write them elsewhere, and remove them when that is done.

Upholds: I3, I4 (at most one committed receive), I15 (never after its time), I16, I18, I24 (no step
is longer the more has expired), I2.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heapify
from itertools import islice
from typing import Final

from onceq import errors
from onceq.core.ending.ending import ENDED_AT_ONCE, end_range, share_of
from onceq.core.ending.table import Ending
from onceq.core.names import find_queue, find_source, is_local, one_name
from onceq.core.receive import entrance, lookup, poison
from onceq.core.receive.entrance import (
    Why,
    check_alive,
    check_receive_from,
    check_taking,
    handle_of,
    nothing,
    paused,
    take,
)
from onceq.core.receive.lookup import Place, handed, ordered, visible, with_shown
from onceq.core.receive.lookup import find as find_place
from onceq.core.receive.poison import alone
from onceq.core.state.branch_table import Marks
from onceq.core.state.client_memory import Read
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE, REMOVED
from onceq.core.state.queues import AnyQueue, Queue, lookup_id, place_of
from onceq.core.state.records import Op, RangeChange
from onceq.core.state.setups import ReaderForgotten
from onceq.core.step.step import ChangeBuilder, Step, Timer, rule_for
from onceq.core.step.step import check as check_share
from onceq.core.step.units import CopiedRange, HeldRange
from onceq.model import requests
from onceq.model.limits import RECEIVE_BYTES_MAX, RECEIVE_MESSAGES_MAX
from onceq.model.marks import FOR_EVER_US
from onceq.model.queue import QUOTA_UNLIMITED_KB
from onceq.model.resultcodes import MessageClass
from onceq.model.run import Extent
from onceq.model.shares import Thing

# ---- expiry --------------------------------------------------------------------------------------


def expire(step: Step, queue: Queue) -> bool:
    """End what was not received in time (TTBR), before a receive from the queue: as much as one
    step may; locked messages wait for their outcome.

    Those of one moment may be millions, and end in portions (``core/management/jobs.py``). Until
    the last of them has ended, nothing is handed out of their queue: the message at its head may be
    over. A receive that comes meanwhile is put off, and is answered, with a message or with none,
    as soon as they are gone.

    Returns:
        Whether no expired message is left.
    """
    left = ENDED_AT_ONCE
    for index, lane in list(queue.lanes.items()):
        if lane.next_expiry <= step.now.wall_s:
            share = share_of(queue, index)
            left -= expire_some(step, queue, index, max(left, 1) * share) // share
            if lane.next_expiry <= step.now.wall_s:
                return False
    return True


def expire_at(step: Step, queue: Queue, index: int, counter: int) -> None:
    """End one message if it was not received in time."""
    lane = queue.lanes.get(index)
    if (
        lane is not None and lane.next_expiry <= step.now.wall_s
        and lane.state(counter) == AVAILABLE and lane.expires(counter) <= step.now.wall_s
    ):  # fmt: skip
        build = ChangeBuilder(step)
        _end(build, queue, index, counter, 1)
        step.record(build.change)


def expire_some(step: Step, queue: Queue, index: int, count_max: int) -> int:
    """End at most ``count_max`` messages of a lane that were not received in time; return how many
    these are."""
    build, total = ChangeBuilder(step), 0
    if queue.sub:
        count_max = min(count_max, ENDED_AT_ONCE)  # They may be set aside, one by one.
    for first, count in queue.lanes[index].expired(step.now.wall_s, (AVAILABLE,), count_max):
        _end(build, queue, index, first, count)
        total += count
    step.record(build.change)
    return total


def _end(build: ChangeBuilder, queue: Queue, index: int, first: int, count: int) -> None:
    if queue.sub and poison.set_aside(build, queue, index, first, count):
        return
    move = RangeChange(Op.END, queue.number, index, first, count, MessageClass.NACK_RECEIVE_TIMEOUT)
    end_range(build, move, Ending.NOT_RECEIVED, MessageClass.NACK_RECEIVE_TIMEOUT)


# ---- receive -------------------------------------------------------------------------------------


PUT_OFF_US: Final = 1_000
"""How often a receive that was put off is tried again."""
TIMERS_LOOKED_AT: Final = 1_024
"""Timers that may accumulate before those of finished receives are searched for."""


@rule_for(requests.Receive)
def receive(step: Step, item: requests.Receive) -> None:
    """Answer a receive or peek now, or let it wait."""
    queue = _checked(step, item)
    if not item.cursor and (item.lookup or item.seek):
        _by_lookup(step, item, queue)
        return
    due = step.state.next_expiry <= step.now.wall_s
    if due and isinstance(queue, Queue) and not expire(step, queue):
        _put_off(step, item, queue)
        return
    if _serve(step, item, queue):
        return
    if (
        not item.wait_until_us
        or item.wait_until_us <= step.now.mono_us
        or isinstance(queue, OutgoingQueue)
    ):
        raise nothing(item, queue)
    _check_room(step, item.owner)
    assert isinstance(queue, Queue)
    if queue.number not in step.state.all_queues:
        # A subqueue that ``_checked`` made up: now that a receive waits at it, it must exist.
        made = lookup.ensure(step, item.queue, item.owner)
        assert made is not None, "only a subqueue can be missing"
        queue = made
    step.readers.wait(queue, item, step.known_by(item.owner))
    _wake_later(step, item)


def _check_room(step: Step, owner: int) -> None:
    check_share(step, step.known_by(owner), Thing.WAITS, step.readers.waits_by)


def _put_off(step: Step, item: requests.Receive, queue: Queue) -> None:
    """Put a receive off while expired messages end in several steps, even beyond its own time."""
    _check_room(step, item.owner)
    step.readers.wait(queue, item, step.known_by(item.owner))
    if item.wait_until_us > step.now.mono_us:
        _wake_later(step, item)
    else:
        step.timer(step.now.mono_us + PUT_OFF_US, Timer.RECEIVE, (item.owner, item.request))


def _checked(step: Step, item: requests.Receive) -> AnyQueue:
    if item.handle:
        check_alive(step, item)
    try:
        queue: AnyQueue = find_source(step, item.queue)
    except errors.QueueNotFound:
        (name,) = one_name(item.queue)
        elsewhere = not is_local(step, name)
        if elsewhere and item.transaction:
            raise errors.TransactionUsage(
                f"{item.queue} is not a queue of {step.identity.name}: only a local queue can "
                "be received from in a transaction"
            ) from None
        if elsewhere or not name.subqueue:
            raise
        # A subqueue that does not exist is empty; it is made if a receive waits at it.
        parent = lookup.parent_of(step, name)
        queue = Queue(0, step.state.space, parent.properties, parent=parent, sub=name.subqueue)
    if isinstance(queue, OutgoingQueue) and not item.peek:
        raise errors.UnsupportedFormatName(
            f"{item.queue} is an outgoing queue: it can only be peeked; 'outgoing remove' takes a "
            "message out of it, which then never arrives"
        )
    if item.transaction and item.peek:
        raise errors.TransactionUsage("peek has no meaning in a transaction (RCV-11)")
    if type(queue) is Queue and (item.transaction or item.handle or queue.handles):
        check_receive_from(step, item, queue)
    if item.cursor:
        lookup.check_cursor(step, item, queue)
    if item.allow_peek and (item.peek or not item.transaction):
        raise errors.InvalidParameter("allow_peek is for a receive in a transaction (RCV-9)")
    return queue


def foresee(step: Step, item: requests.Receive) -> tuple[Extent, ...]:
    """Return where the messages are that a receive would get now; nothing happens to them."""
    try:
        queue = _checked(step, item)
    except errors.OnceqError:
        return ()
    places: list[Place] = []
    if item.lookup and not item.cursor and item.seek is requests.Seek.CURRENT:
        index, counter = place_of(item.lookup)
        lane = queue.lanes.get(index)
        if lane is not None and lane.state(counter) == AVAILABLE:
            places = [(index, counter, 1)]
    elif not (item.lookup or item.cursor or item.seek or paused(item, queue)):
        places = _choose(item, queue)
    return tuple(
        extent
        for index, first, count in places
        for extent in queue.lanes[index].extents(first, count)
    )


def _serve(step: Step, item: requests.Receive, queue: AnyQueue) -> bool:
    """Hand out available messages, if there are any."""
    if type(queue) is Queue and queue.properties.paused_since and paused(item, queue):
        return False
    if item.cursor:
        found = lookup.find_by_cursor(step, item, queue)
        if found is not None:
            _hand_out(step, item, queue, [found])
            lookup.move_cursor(step, item, found)
        return found is not None
    places = _choose(item, queue)
    if not places:
        return False
    _hand_out(step, item, queue, places)
    return True


def _choose(item: requests.Receive, queue: AnyQueue) -> list[Place]:
    """Return what a receive or peek without a cursor gets, in order."""
    count_max = asked = min(max(item.count_max, 1), RECEIVE_MESSAGES_MAX)
    bytes_max = min(max(item.bytes_max, 1), RECEIVE_BYTES_MAX)
    places: list[Place] = []
    after_lane, after = place_of(item.after) if item.after else (-1, 0)
    passed = bool(item.after)
    lanes = queue.lanes.items() if len(queue.lanes) == 1 else ordered(queue)
    for index, lane in lanes:
        if not lane.available:
            continue
        start = 0
        if passed:
            if index != after_lane:
                if lookup_id(index, 0) < item.after:
                    continue
            else:
                start = after + 1
        taken = lane.take(count_max=count_max, bytes_max=bytes_max, start=start)
        # ``take`` returns at least one message of any size: only an answer's first may be large.
        if places and taken and lane.size(taken[0][0], 1) > bytes_max:
            break
        for first, count in taken:
            places.append((index, first, count))
            count_max -= count
            if count_max > 0:
                bytes_max -= lane.size(first, count)
        if count_max <= 0 or (places and bytes_max <= 0):
            break
        # The next message here does not fit: nothing of a later lane may come before it, and
        # a reader that continues behind the last one would miss it.
        if taken and lane.first(AVAILABLE, sum(taken[-1]), lane.next) < lane.next:
            break
    if isinstance(queue, Queue):
        if item.peek and queue.shown:
            places = with_shown(queue, places, after=item.after, count_max=asked)
        elif item.transaction and asked > 1 and queue.properties.poison_attempts:
            places = alone(queue, places)
    return places


def _hand_out(step: Step, item: requests.Receive, queue: AnyQueue, places: list[Place]) -> None:
    # Before they are taken out: the lanes do not know the positions of removed messages.
    answer = handed(queue, places)
    answer.queue, answer.asked = queue.number, item
    if item.pick and item.peek:
        answer.pick = requests.Pick(item.pick, item.value)
    if not item.peek:
        tx = None
        if item.transaction:
            tx = step.units.find(item.owner, item.transaction, step.now)
            if item.allow_peek and isinstance(queue, Queue):
                queue.shown.update(
                    (index, at)
                    for index, first, count in places
                    for at in range(first, first + count)
                )
        take(step, queue, places, tx)
    step.answer(item.owner, item.request, answer)


def _by_lookup(step: Step, item: requests.Receive, queue: AnyQueue) -> None:
    """Serve the message that a lookup identifier leads to; never wait for one (RCV-8)."""
    if item.seek is not requests.Seek.CURRENT:
        if not item.lookup and item.seek in (requests.Seek.NEXT, requests.Seek.PREV):
            raise errors.InvalidParameter("0 is no lookup identifier")
        if isinstance(queue, Queue) and not expire(step, queue):
            # The answer is about all that is left.
            _put_off(step, replace(item, wait_until_us=0), queue)
        else:
            _sought(step, item, queue)
        return
    if paused(item, queue):
        raise nothing(item, queue)
    if isinstance(queue, Queue):
        expire_at(step, queue, *place_of(item.lookup))
    index, counter = place_of(item.lookup)
    lane = queue.lanes.get(index)
    state = lane.state(counter) if lane is not None else REMOVED
    if state == REMOVED:
        if step.readers.cursors and lookup.is_current(step, queue, item.lookup):
            raise errors.MessageAlreadyReceived("somebody else has received that message")
        raise errors.MessageNotFound(f"no message has the lookup identifier {item.lookup:#x}")
    if state != AVAILABLE and (index, counter) not in visible(queue, peek=item.peek):
        if item.peek:
            raise errors.TransactionUsage("that message is locked by a transaction")
        raise errors.MessageNotFound("that message is locked by a transaction")
    _hand_out(step, item, queue, [(index, counter, 1)])


def _sought(step: Step, item: requests.Receive, queue: AnyQueue) -> None:
    """Serve the first or the last message, or the one before or behind a lookup identifier."""
    if paused(item, queue):
        raise nothing(item, queue)
    found = find_place(queue, item.seek, item.lookup, peek=item.peek)
    if found is None:
        raise errors.MessageNotFound(f"there is no such message in {item.queue}")
    _hand_out(step, item, queue, [found])


def remove(step: Step, item: requests.Remove, queue: Queue) -> None:
    """Receive a range that was peeked before, without its bytes."""
    tx = step.units.find(item.owner, item.transaction, step.now) if item.transaction else None
    check_taking(step, queue, Why.NAMED, owner=item.owner, name=item.queue, tx=tx)
    places = range_places(queue, item.first, item.last)
    take(step, queue, places, tx)
    step.answer(item.owner, item.request, sum(place[2] for place in places))


def range_places(queue: Queue, first: int, last: int) -> list[Place]:
    """Return what can be received between two lookup identifiers, both included."""
    places: list[Place] = []
    for index, lane in ordered(queue):
        base = lookup_id(index, 0)
        low, high = max(first - base, 0), last - base + 1
        if high > 0:
            places += [(index, a, b) for a, b in lane.ranges(AVAILABLE, low, end=high)]
    return places


# ---- waiting -----------------------------------------------------------------------------


def _wake_later(step: Step, item: requests.Receive) -> None:
    """Set the timer of a receive that waits.

    A receive that is answered leaves its timer in the heap until that time. Those without a time
    limit have none, and the others are cleared when there are many: else a reader that waits an
    hour for each message of a busy queue would leave thousands a second.
    """
    if item.wait_until_us >= FOR_EVER_US:
        return
    step.timer(item.wait_until_us, Timer.RECEIVE, (item.owner, item.request))
    waiting = step.readers.waiting
    if len(step.timers) > max(TIMERS_LOOKED_AT, step.readers.timers_kept * 2):
        step.timers[:] = [
            one for one in step.timers if one[1] is not Timer.RECEIVE or one[2] in waiting
        ]
        heapify(step.timers)
        step.readers.timers_kept = len(step.timers)


def serve_waiting(step: Step, queue: Queue) -> None:
    """Serve what has become available to waiting receives: first to those that peek."""
    if step.state.next_expiry <= step.now.wall_s and not expire(step, queue):
        return  # it is called again when no expired message is left
    for key, item in list(queue.looking.items()):
        if (queue.available or queue.shown) and _over(step, item, queue):
            step.readers.leave(key)
    if queue.properties.paused_since and not queue.sub:
        return  # those that peek have got it
    # Each in its turn; those that only peek, or wait elsewhere, are passed over and stay.
    passed = 0
    while queue.available:
        found = next(islice(queue.waiting.items(), passed, None), None)
        if found is None:
            break
        key, item = found
        if not item.peek and _over(step, item, queue):
            step.readers.leave(key)
        else:
            passed += 1


def _over(step: Step, item: requests.Receive, queue: Queue) -> bool:
    """Serve a waiting receive with available messages; return whether it is answered."""
    try:
        if item.seek is not requests.Seek.CURRENT and not item.cursor:
            _sought(step, item, queue)
            return True
        return _serve(step, item, queue)
    except errors.OnceqError as error:
        step.answer(item.owner, item.request, error)
        return True


def timed_out(step: Step, key: tuple[int, int]) -> None:
    """Answer a waiting receive whose time is over."""
    item = step.readers.waiting.get(key)
    if item is None or item.wait_until_us > step.now.mono_us:
        return
    queue = step.readers.queue_of(key)
    if step.state.next_expiry <= step.now.wall_s and not expire(step, queue):
        step.timer(step.now.mono_us + PUT_OFF_US, Timer.RECEIVE, key)
        return
    if queue.available:
        # It was put off, and others with it: each gets its share in its turn.
        serve_waiting(step, queue)
    if step.readers.leave(key) is not None:
        _unused(step, item)
        if item.cursor or item.seek is requests.Seek.CURRENT or not _over(step, item, queue):
            step.answer(*key, nothing(item, queue))


@rule_for(requests.CancelReceive)
def cancel(step: Step, item: requests.CancelReceive) -> None:
    """Stop waiting."""
    waiting = step.readers.leave((item.owner, item.waiting))
    if waiting is not None:
        _unused(step, waiting)
        step.answer(
            item.owner, item.waiting, errors.OperationCancelled("the receive was cancelled")
        )
    step.answer(item.owner, item.request, None)


def _unused(step: Step, item: requests.Receive) -> None:
    """Let an unused subqueue be removed, now that this wait is over."""
    if ";" in item.queue:
        step.emptied.update(dict.fromkeys(step.state.subqueues))


# ---- reading -------------------------------------------------------------------------------------


ReadPlace = tuple[int, int, int]


@rule_for(requests.TakeRead)
def take_read(step: Step, item: requests.TakeRead) -> None:
    """Receive a range that was read, and remember its reader.

    ``TakeRead`` removes what was read and remembers who has read it, in one record: the commit's,
    or its own. A transaction that does so is no branch of an external one: a promise to a
    coordinator does not say who has read.

    Where copies are to be kept the journal must have room for them when they are taken; then the
    commit keeps them, no matter what came into the journal meanwhile, because a careful reader
    relies on them.
    """
    queue = _source(step, item)
    places = range_places(queue, item.first, item.last)
    if item.keep:
        journal = (queue.parent or queue).journal
        if journal is None:
            raise errors.InvalidParameter(
                f"{item.queue} has no journal that could keep what was read"
            )
        quota_kb = journal.properties.quota_kb
        size = sum(queue.lanes[index].size(first, count) for index, first, count in places)
        if quota_kb < QUOTA_UNLIMITED_KB and step.holding(journal) + size > quota_kb << 10:
            raise errors.InsufficientResources(
                f"the journal of {queue.properties.name} has no room for {size} bytes more, so "
                f"nothing is removed: raise journal_quota_kb ({quota_kb}), or purge the journal"
            )
    read = Read(queue.number, item.reader, item.query, item.last, item.who)
    if item.transaction:
        tx = step.units.find(item.owner, item.transaction, step.now)
        if tx.xid is not None:
            raise errors.BranchState(
                "a branch of an external transaction does not say who has read"
            )
        if not queue.properties.transactional:
            raise errors.TransactionUsage(f"{item.queue} is not transactional")
        entrance.take(step, queue, places, tx, kind=CopiedRange if item.keep else HeldRange)
        tx.reads.append(read)
    else:
        build = ChangeBuilder(step)
        entrance.remove(build, queue, places, copied=item.keep)
        build.change.marks = Marks(reads=(read,))
        step.record(build.change)
    step.answer(item.owner, item.request, sum(place[2] for place in places))


def _source(step: Step, item: requests.TakeRead) -> Queue:
    queue = find_source(step, item.queue)
    if isinstance(queue, OutgoingQueue):
        raise errors.UnsupportedAccessMode(f"{item.queue} is an outgoing queue: nobody reads it up")
    assert isinstance(queue, Queue)
    if item.handle:
        held = handle_of(step, item.owner, item.handle)
        if held.queue != queue.number or held.share is not requests.Share.DENY_RECEIVE:
            raise errors.InvalidHandle(f"{item.queue} is not held so that others cannot receive")
    check_taking(step, queue, Why.NAMED, owner=item.owner, name=item.queue)
    return queue


@rule_for(requests.ForgetReader)
def forget_reader(step: Step, item: requests.ForgetReader) -> None:
    """Forget a reader for an operator, so that it may start again."""
    queue = find_queue(step, item.queue)
    if item.reader not in step.state.readings.of(queue.number):
        raise errors.UsageError(f"no reader {item.reader!r} of {item.queue} is remembered")
    step.setup(ReaderForgotten(queue=queue.number, reader=item.reader))
    step.answer(item.owner, item.request, None)
