"""Finding single messages by their position: first, last, before or behind another one.

A lookup identifier is a position in a queue, and positions are ordered (RCV-8). Locked messages are
passed over, except those whose transaction lets others peek at them (RCV-9).
"""

from __future__ import annotations

from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.positions import Positions
from onceq.core.state.queues import AnyQueue, Queue, lookup_id, place_of
from onceq.model.requests import Seek

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
