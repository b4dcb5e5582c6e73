"""Finding single messages by their position: first, last, before or behind another one.

A lookup identifier is a position in a queue, and positions are ordered (RCV-8). Locked messages are
passed over, except those whose transaction lets others peek at them (RCV-9).

Also here:

* Subqueues: parts of a queue into which messages come only by a move (Q-31).
* What the tables know of messages that are handed out, beside their packets.
* Cursors: positions in a queue that move from message to message (RCV-5 to RCV-7, case 110).

Upholds: I24 (none is kept empty), I28 (an owner that may only peek makes none).
"""

from __future__ import annotations

from array import array
from dataclasses import replace

from onceq import errors
from onceq.core.decision import Handed, Piece
from onceq.core.names import is_local, local_queue, one_name
from onceq.core.rights import may, to_hold
from onceq.core.rights import place_of as rights_place
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.positions import Positions
from onceq.core.state.queue_tables import is_counted
from onceq.core.state.queues import AnyQueue, Queue, lookup_id, place_of
from onceq.core.state.setups import MakerKnown, SubqueueDropped, SubqueueMade
from onceq.core.step.step import Step, refusal, rule_for
from onceq.core.step.step import check as check_share
from onceq.core.step.units import QueueCursor
from onceq.model.names import FormatName
from onceq.model.requests import Access, CloseCursor, OpenCursor, Receive, Seek
from onceq.model.run import LENGTH_TYPE, Extent
from onceq.model.shares import Thing

# ---- lookup --------------------------------------------------------------------------------------


Place = tuple[int, int, int]
"""Lane, first counter, count."""


def ordered(queue: AnyQueue) -> list[tuple[int, Positions]]:
    """Return the lanes in the order of their lookup identifiers."""
    if len(queue.lanes) == 1:
        return list(queue.lanes.items())
    return sorted(queue.lanes.items(), key=lambda pair: lookup_id(pair[0], 0))


def visible(queue: AnyQueue, *, peek: bool) -> set[tuple[int, int]]:
    """Return lane and counter of what is locked and may still be peeked at."""
    return queue.shown if peek and isinstance(queue, Queue) else set()


def find(queue: AnyQueue, seek: Seek, lookup: int, *, peek: bool) -> Place | None:
    """Return the message meant by a lookup identifier, which need not be there any more."""
    if seek is Seek.FIRST:
        return behind(queue, -1, peek=peek)
    if seek is Seek.LAST:
        return before(queue, 1 << 64, peek=peek)
    return behind(queue, lookup, peek=peek) if seek is Seek.NEXT else before(
        queue, lookup, peek=peek)  # fmt: skip


def behind(queue: AnyQueue, lookup: int, *, peek: bool) -> Place | None:
    """Return the first message with a larger lookup identifier."""
    found: list[int] = [
        at
        for lane, counter in visible(queue, peek=peek)
        if (at := lookup_id(lane, counter)) > lookup
    ]
    for index, lane in ordered(queue):
        base = lookup_id(index, 0)
        start = max(lookup + 1 - base, 0)
        if start >= lane.next:
            continue
        first = next(lane.ranges(AVAILABLE, max(start, lane.cursor), count_max=1), None)
        if first is not None:
            found.append(base | first[0])
            break
    return (*place_of(min(found)), 1) if found else None


def before(queue: AnyQueue, lookup: int, *, peek: bool) -> Place | None:
    """Return the last message with a smaller lookup identifier."""
    found: list[int] = [
        at
        for lane, counter in visible(queue, peek=peek)
        if (at := lookup_id(lane, counter)) < lookup
    ]
    for index, lane in reversed(ordered(queue)):
        base = lookup_id(index, 0)
        stop = min(lookup - base, lane.next)
        counter = lane.last_before(stop) if stop > 0 else 0
        if counter:
            found.append(base | counter)
            break
    return (*place_of(max(found)), 1) if found else None


def with_shown(queue: Queue, places: list[Place], *, after: int, count_max: int) -> list[Place]:
    """Return the places of a peek, including what is locked and may be peeked at."""
    last = lookup_id(places[-1][0], sum(places[-1][1:]) - 1) if places else 1 << 64
    full = sum(count for _, _, count in places) >= count_max
    merged = list(places)
    for lane, counter in queue.shown:
        at = lookup_id(lane, counter)
        if at > after and (at < last or not full):
            merged.append((lane, counter, 1))
    merged.sort(key=lambda place: lookup_id(place[0], place[1]))
    found: list[Place] = []
    for lane, first, count in merged:
        size = min(count, count_max)
        if size > 0:
            found.append((lane, first, size))
        count_max -= size
    return found


# ---- subqueues -----------------------------------------------------------------------------------


def ensure(step: Step, text: str, owner: int) -> Queue | None:
    """Return the subqueue of that name, made now if missing; None if it names no subqueue.

    A subqueue is made when an owner that may receive there opens it, or by the first move to it. It
    is removed when it is empty and no owner has it open, waits at it or is about to move a message
    there. Everything else about it, its quota included, is its parent's.
    ``core/receive/receive_exact.py`` has the moves.

    Raises:
        QueueNotFound: It is missing, and its owner may only peek, which makes nothing.
    """
    if ";" not in text:
        return None
    (name,) = one_name(text)
    if not name.subqueue or not is_local(step, name):
        return None
    parent = parent_of(step, name)
    if name.subqueue.casefold() not in parent.subs and not may(
        step, owner, (to_hold(rights_place(parent)),)
    ):
        raise errors.QueueNotFound(
            f"there is no {text}: a subqueue is made when somebody opens it who may receive there"
        )
    return of(step, parent, name.subqueue, owner)


def of(step: Step, parent: Queue, sub: str, owner: int | None = None) -> Queue:
    """Return that subqueue of a queue, made now if missing.

    Args:
        owner: Who wants it; None: this manager itself, for the owner of the queue.
    """
    found = parent.subs.get(sub.casefold())
    return make(step, parent, sub, owner) if found is None else found


def parent_of(step: Step, name: FormatName) -> Queue:
    """Return the queue of a subqueue's name; raises QueueNotFound."""
    return local_queue(step, replace(name, subqueue="", text=""))


def make(step: Step, parent: Queue, name: str, owner: int | None) -> Queue:
    """Make a subqueue; a restart forgets it again if nothing was moved there."""
    if parent.system or parent.parent is not None:
        raise errors.InvalidParameter("only queues of applications have subqueues (Q-29)")
    makers = step.state.makers
    by = makers.of(parent.number) if owner is None else step.known_by(owner)
    own, count = makers.counts[Thing.SUBQUEUES].of(by), makers.subqueues
    full = is_counted(name) and refusal(step, by, Thing.SUBQUEUES, own, count)
    if full:
        raise errors.InsufficientResources(full)
    number = step.state.next_number
    step.setup(SubqueueMade(number=number, parent=parent.number, name=name), forced=False)
    if by and is_counted(name):
        step.setup(MakerKnown(number=number, who=by), forced=False)
    step.emptied[number] = None
    return step.state.subqueues[number]


def tidy(step: Step) -> None:
    """Remove empty subqueues that are not in use."""
    emptied = [step.state.subqueues.get(number) for number in step.emptied]
    step.emptied.clear()
    for queue in emptied:
        if queue is None or len(queue) or queue.handles or queue.waiting:
            continue
        if any(queue.number in tx.targets for tx in step.units.all()):
            continue
        step.names.changed()
        step.setup(SubqueueDropped(number=queue.number), forced=False)


# ---- handing out ---------------------------------------------------------------------------------


def handed(queue: AnyQueue, places: list[Place]) -> Handed:
    """Return where the packets of some places are, and what is known beside them."""
    if len(places) == 1 and places[0][2] == 1:
        # For one message this takes 2.5 us instead of 5.0.
        ((index, counter, _),) = places
        lane = queue.lanes[index]
        address, size, came = lane.place_in_log(counter)
        reason = lane.classes.get(counter) if lane.classes else None
        whole = (Extent(address, size),) if not lane.in_parts else tuple(lane.extents(counter, 1))
        return Handed(
            whole,
            array(LENGTH_TYPE, (size,)),
            array("Q", (lookup_id(index, counter),)),
            array("I", (came,)),
            array("I", (lane.aborts.get(counter, 0) if lane.aborts else 0,)),
            ((0, reason),) if reason is not None else (),
            ((0, *lane.moved[counter]),) if counter in lane.moved else (),
            ((0, lane.notes[counter]),) if counter in lane.notes else (),
            ((0, *lane.failures[counter]),) if counter in lane.failures else (),
        )
    pieces: list[Piece] = []
    lengths, lookups = array(LENGTH_TYPE), array("Q")
    arrived, aborts = array("I"), array("I")
    classes: list[tuple[int, int]] = []
    moves: list[tuple[int, int, int]] = []
    notes: list[tuple[int, int]] = []
    failures: list[tuple[int, int, str]] = []
    for index, first, count in places:
        lane = queue.lanes[index]
        pieces += lane.extents(first, count)
        lengths += lane.lengths(first, count)
        arrived += lane.arrived(first, count)
        base = lookup_id(index, first)
        if lane.moved:
            at = len(lookups)
            marks = ((i, lane.moved.get(first + i)) for i in range(count))
            moves += [(at + i, *moved) for i, moved in marks if moved is not None]
        if lane.classes:
            at = len(lookups)
            for i in range(count):
                reason = lane.classes.get(first + i)
                if reason is not None:
                    classes.append((at + i, reason))
                if first + i in lane.notes:
                    notes.append((at + i, lane.notes[first + i]))
        if lane.failures:
            at = len(lookups)
            known = ((i, lane.failures.get(first + i)) for i in range(count))
            failures += [(at + i, *failure) for i, failure in known if failure is not None]
        lookups.extend(range(base, base + count))
        if lane.aborts:
            aborts.extend(lane.aborts.get(c, 0) for c in range(first, first + count))
        else:
            aborts.frombytes(bytes(count * aborts.itemsize))
    return Handed(
        tuple(pieces), lengths, lookups, arrived, aborts, tuple(classes), tuple(moves),
        tuple(notes), tuple(failures),
    )  # fmt: skip


# ---- cursors -------------------------------------------------------------------------------------


@rule_for(OpenCursor)
def open_cursor(step: Step, item: OpenCursor) -> None:
    """Make a cursor at a queue that is held open.

    A cursor is fresh, is at a message, or is behind one that was received through it. It belongs to
    the handle that it was made with, and to the running process.
    """
    held = step.readers.handles.get(item.handle)
    if held is None or held.owner != item.owner:
        raise errors.InvalidHandle("the queue is not open, or was closed")
    if held.deleted:
        raise errors.QueueDeleted("the queue was deleted meanwhile; close it")
    if held.access not in (Access.RECEIVE, Access.PEEK):
        raise errors.InvalidHandle("a cursor needs a queue that is open for receive or peek")
    by = step.known_by(item.owner)
    check_share(step, by, Thing.CURSORS, step.readers.cursors_by)
    number = step.readers.placed(QueueCursor(item.owner, held.queue, item.handle, by=by))
    step.answer(item.owner, item.request, number)


@rule_for(CloseCursor)
def close_cursor(step: Step, item: CloseCursor) -> None:
    """Close a cursor."""
    find_cursor(step, item.owner, item.cursor)
    step.readers.taken_away(item.cursor)
    step.answer(item.owner, item.request, None)


def find_cursor(step: Step, owner: int, number: int) -> QueueCursor:
    """Return a cursor of this owner; raises InvalidHandle."""
    cursor = step.readers.cursors.get(number)
    if cursor is None or cursor.owner != owner:
        raise errors.InvalidHandle("there is no such cursor: it was closed, or its queue was")
    return cursor


def check_cursor(step: Step, item: Receive, queue: AnyQueue) -> None:
    """Refuse what a cursor cannot do now, or ever."""
    cursor = find_cursor(step, item.owner, item.cursor)
    if cursor.queue != queue.number or (item.handle and item.handle != cursor.handle):
        raise errors.InvalidHandle("the cursor belongs to another queue")
    if not item.peek and item.seek is not Seek.CURRENT:
        raise errors.InvalidParameter("a cursor receives its current message only")
    if item.seek in (Seek.NEXT, Seek.PREV) and not (cursor.at or cursor.behind):
        raise errors.IllegalCursorAction(
            "peek at the current message of this cursor before the next one"
        )


def find_by_cursor(step: Step, item: Receive, queue: AnyQueue) -> Place | None:
    """Return the message that a receive through a cursor means; None if there is none yet."""
    cursor = find_cursor(step, item.owner, item.cursor)
    stands = cursor.at or cursor.behind
    if item.seek is Seek.CURRENT:
        if not cursor.at:
            return behind(queue, stands or -1, peek=item.peek)
        index, counter = place_of(cursor.at)
        lane = queue.lanes.get(index)
        seen = (index, counter) in visible(queue, peek=item.peek)
        if not seen and (lane is None or lane.state(counter) != AVAILABLE):
            raise errors.MessageAlreadyReceived(
                "the current message of this cursor is gone; go on with the next"
            )
        return index, counter, 1
    found = find(queue, item.seek, stands, peek=item.peek)
    if found is None and item.seek is not Seek.NEXT:
        raise errors.MessageNotFound(
            "there is no message before this one" if stands else "it is empty"
        )
    return found


def move_cursor(step: Step, item: Receive, found: Place) -> None:
    """Move a cursor to the message that was handed out through it, or behind that."""
    cursor = step.readers.cursors[item.cursor]
    lookup = lookup_id(found[0], found[1])
    # A received message is gone: the cursor has no current message, only a position to start from.
    cursor.at, cursor.behind = (lookup, 0) if item.peek else (0, lookup)


def is_current(step: Step, queue: AnyQueue, lookup: int) -> bool:
    """Return whether a cursor is at that message (RCV-8)."""
    return any(c.at == lookup and c.queue == queue.number for c in step.readers.cursors.values())
