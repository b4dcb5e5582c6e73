"""Where a batch begins and ends, and which part of it each task reads.

A message that a transaction holds may come back to its place, so nothing behind it is read before
that transaction ends. Where nothing has gone from a queue, places are messages, and there is
nothing to ask. Otherwise its queue manager counts, without reading (``access.Access.count``).

A stream may also begin at a time. In a queue where every message comes in at the end, messages have
arrived in the order of their places, so a search by halves finds the first one of a time in some
twenty looks. A clock that was set back leaves messages with an earlier time behind later ones; then
the search finds one of several places at which the time begins.

Everything here is arithmetic. Upholds: I4 at the connector (a batch ends where its order does), I18
(a place is found, and no message).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from onceq.model.views.queues import RangeView
from onceq.spark.source.offsets import NOTHING, QueueSample, Range
from onceq.spark.targets import EARLIEST, LATEST

PARTITION_MESSAGES: Final = 65_536
"""Messages of one task: enough to be worth starting it, few enough to spread them."""
BATCH_MESSAGES: Final = 2_000_000
"""Messages of one batch: they are removed in one transaction, which holds no more."""


class Count(Protocol):
    """Counts what stands in a range; ends it behind so many messages or bytes, if not 0."""

    def __call__(self, part: Range, *, messages: int, bytes: int) -> RangeView: ...


def limit_batch(
    begins: Mapping[str, int], ends: Mapping[str, int], sights: Mapping[str, QueueSample],
    count: Count, *, messages: int, bytes: int,
) -> dict[str, RangeView]:  # fmt: skip
    """What a batch has of each queue.

    Args:
        begins: Place of each queue before the batch.
        ends: The last place that it may have.
        messages: Most messages of all queues together.
        bytes: Most bytes of their packets, which the queues with messages share; 0: no limit. Each
            of these gives one message at least.

    Returns:
        Of each queue how far that is, and how many messages that are. Where there are none,
        ``locked`` says whether it waits for a transaction.
    """

    def upto(key: str, to: int, most: int) -> RangeView:
        after = begins[key]
        if to <= after:
            return RangeView(to=after)
        if sights[key].full_behind(after):
            size = min(to - after, most)
            return RangeView(to=after + size, messages=size)
        return count(Range(key, after, to), messages=most, bytes=0)

    found = {key: upto(key, to, messages) for key, to in ends.items()}
    there = {key: view.messages for key, view in found.items()}
    shares = advance(dict.fromkeys(there, 0), there, messages)
    for key, share in shares.items():
        if 0 < share < there[key]:
            found[key] = upto(key, found[key].to, share)
        elif not share and there[key]:
            found[key] = RangeView(to=begins[key])
    giving = [key for key in sorted(found) if found[key].messages] if bytes else []
    each = max(bytes // max(len(giving), 1), 1)
    for key in giving:
        part = Range(key, begins[key], found[key].to)
        found[key] = count(part, messages=found[key].messages, bytes=each)
    return found


def start_of(starting: int, sight: QueueSample) -> int:
    """The place where a new query begins."""
    if starting == EARLIEST:
        return NOTHING
    if starting == LATEST:
        return sight.last
    return max(starting - 1, NOTHING)


def beginning(place: int, sight: QueueSample) -> int:
    """Where a batch really begins: from "before everything" the first message decides."""
    return sight.first - 1 if place == NOTHING and sight.first else place


def advance(begins: Mapping[str, int], ends: Mapping[str, int], most: int) -> dict[str, int]:
    """Where a batch of at most ``most`` messages ends.

    The queues share the limit evenly; what one leaves over goes to those with more. A limit below
    the number of queues leaves the last ones (by name) for later batches, which is fair as soon
    as the first ones have nothing left, and never stops.

    Args:
        begins, ends: Place of each queue before the batch, and the last that it may have.
    """
    result = dict(begins)
    left = most
    open_queues = [name for name in sorted(ends) if ends[name] > begins[name]]
    while left > 0 and open_queues:
        share = max(left // len(open_queues), 1)
        for name in list(open_queues):
            taken = min(share, ends[name] - result[name], left)
            result[name] += taken
            left -= taken
            if result[name] == ends[name]:
                open_queues.remove(name)
    return result


def split(ranges: Sequence[Range], partitions_min: int) -> list[tuple[Range, ...]]:
    """Deal ranges out to tasks; a pure function, as a batch may run twice.

    Tasks are of equal size where there are no holes. A range with holes is cut as if these were
    spread evenly; how many messages its parts have is not known then. Few messages in many queues
    are one task: what a task costs by itself is more than what they do. So there may be fewer
    tasks than queues, or queue managers.

    Args:
        partitions_min: Fewest tasks, as long as there are messages for them.
    """
    total = sum(whole.size for whole in ranges)
    count = min(max(partitions_min, -(-total // PARTITION_MESSAGES)), total)
    edges = [total * index // count for index in range(1, count + 1)]
    tasks: list[tuple[Range, ...]] = []
    parts: list[Range] = []
    done = 0
    for whole in ranges:
        taken = 0
        while taken < whole.size:
            more = min(whole.size - taken, edges[len(tasks)] - done)
            parts.append(_part(whole, taken, taken + more))
            taken, done = taken + more, done + more
            if done == edges[len(tasks)]:
                tasks.append(tuple(parts))
                parts = []
    return tasks


def _part(whole: Range, first: int, end: int) -> Range:
    """So much of a range, counted in its messages."""
    if not first and end == whole.size:
        return whole
    after = whole.after + whole.places * first // whole.size
    to = whole.after + whole.places * end // whole.size
    return Range(whole.key, after, to, end - first if whole.size == whole.places else None)


def place_before(
    sight: QueueSample, second: int, next_behind: Callable[[int], tuple[int, int] | None]
) -> int:
    """The place before the first message that arrived in a second or later; the end of the queue if
    there is none.

    Args:
        next_behind: Lookup identifier and arrival of the next message behind a place; None: there
            is none that can be seen.
    """
    if not sight.first:
        return NOTHING
    low, high = sight.first - 1, sight.last
    while low < high:
        middle = (low + high) // 2
        found = next_behind(middle)
        if found is None or found[1] >= second:
            high = middle
        else:
            low = max(found[0], low + 1)
    return low
