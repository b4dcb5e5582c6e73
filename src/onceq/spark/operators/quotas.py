"""The quotas of queues: which messages that arrive find no room (Q-19), in the order of arrival.

Whether there is room depends on what was stored before and has not left yet, and so on every
decision before. Where nothing is refused all of that is one sum, made for all queues at once; a
queue whose quota bites is decided message by message, and only such a one. These are pure
functions; ``tests/property/test_spark_settle.py`` compares them with the core.

``Limited`` remembers what lies in a queue, and when it leaves: from micro-batch to micro-batch of a
stream, and from page to page of a frame that is no stream.

Upholds: I13 (true acknowledgments), I24 (a record for each time at which something leaves a queue,
and there is no more in it than its quota).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.model.marks import SECOND_US
from onceq.model.resultcodes import MessageClass
from onceq.spark.operators import rules
from onceq.spark.operators.arrivals import (
    DECIDING,
    SIZE_MAX,
    UNLIMITED,
    QueueSetup,
    Settler,
    build_outcomes,
    leaves,
    messages_of,
    micros,
    one,
    sound_of,
    whole,
    with_answers,
)
from onceq.spark.operators.columns import keyed, numbers_of, streams_of
from onceq.spark.operators.key_buckets import BucketRecords, placed
from onceq.spark.operators.rules import FOREVER, Flags, Ints


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Messages that arrive, queue by queue and in order; an array for each field.

    Attributes:
        queues: Place of the queue of each in the limits; it never falls.
        at: When, in microseconds; what claims to be earlier than one before it counts as late
            as that.
        sizes: Bytes of their packets.
        leaves: When they leave their queues again (received, or expired), if they enter them.
        enters: Whether nothing else keeps them out.
    """

    queues: Ints
    at: Ints
    sizes: Ints
    leaves: Ints
    enters: Flags

    def part(self, rows: Ints) -> Arrivals:
        """Some of them."""
        return Arrivals(
            self.queues[rows], self.at[rows], self.sizes[rows], self.leaves[rows],
            self.enters[rows],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Held:
    """What lies in queues: bytes by queue and time at which they leave."""

    queues: Ints
    leaves: Ints
    sizes: Ints

    def without(self, gone: Flags) -> Held:
        """What is left when some of it has gone."""
        return Held(self.queues[~gone], self.leaves[~gone], self.sizes[~gone])

    def together(self) -> Held:
        """One entry for all that leaves a queue at one time."""
        order = np.lexsort((self.leaves, self.queues))
        queues, leaves = self.queues[order], self.leaves[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = (queues[1:] != queues[:-1]) | (leaves[1:] != leaves[:-1])
        first = np.flatnonzero(new)
        sizes = np.add.reduceat(self.sizes[order], first) if len(first) else self.sizes
        return Held(queues[first], leaves[first], sizes)


def without_room(m: Arrivals, limits: Ints, held: Held) -> Flags:
    """Which messages exceed the quota of their queue: it holds more with them than it may.

    What leaves at the moment at which another arrives has left; what is refused takes no room.

    Args:
        limits: Bytes that each queue may hold.
        held: What lies there before.
    """
    # A queue that has room for all of this at once has room at every moment.
    most = np.zeros(len(limits), np.int64)
    np.add.at(most, held.queues, held.sizes)
    np.add.at(most, m.queues, m.sizes)
    at = np.flatnonzero((most > limits)[m.queues])
    full = np.zeros(len(m.queues), np.bool_)
    if not len(at):
        return full
    part = m.part(at)
    full[at] = part.enters & (_occupied(part, len(limits), held) + part.sizes > limits[part.queues])
    bounds = np.searchsorted(m.queues, np.arange(len(limits) + 1))
    for queue in np.unique(m.queues[full]).tolist():
        rows = slice(bounds[queue], bounds[queue + 1])
        mine = held.queues == queue
        before = zip(held.leaves[mine].tolist(), held.sizes[mine].tolist(), strict=True)
        full[rows] = list(_one_by_one(m, rows, int(limits[queue]), before))
    return full


def after(m: Arrivals, stored: Flags, held: Held, since: Ints) -> tuple[Held, Ints]:
    """What lies in the queues when the last of these messages has arrived, and when that was.

    Args:
        since: When the last one before these arrived, for each queue.
    """
    both = Held(
        np.concatenate((held.queues, m.queues[stored])),
        np.concatenate((held.leaves, m.leaves[stored])),
        np.concatenate((held.sizes, m.sizes[stored])),
    )
    last = since.copy()
    np.maximum.at(last, m.queues, m.at)
    return both.without(both.leaves <= last[both.queues]).together(), last


def _occupied(m: Arrivals, queues: int, held: Held) -> Ints:
    """What each message finds in its queue, if nothing were refused."""
    # A time with its queue in front is one number that only rises.
    scale, rank = _ruler(m.at, queues)
    now = np.maximum.accumulate(m.queues * scale + rank(m.at))
    ends = np.searchsorted(m.queues, np.arange(queues), side="right")
    left = np.zeros(len(m.queues), np.int64)

    def leave(of: Ints, leaves: Ints, sizes: Ints, least: Any) -> None:
        at = np.searchsorted(now, of * scale + rank(leaves))
        at = np.maximum(at, least)
        seen = at < ends[of]
        np.add.at(left, at[seen], sizes[seen])

    sizes = np.where(m.enters, m.sizes, 0)
    # No message leaves before it has come, even if its times say so.
    leave(m.queues, m.leaves, sizes, np.arange(len(m.queues)) + 1)
    leave(held.queues, held.leaves, held.sizes, 0)
    come, gone = np.cumsum(sizes) - sizes, np.cumsum(left)
    base = np.zeros(queues, np.int64)
    np.add.at(base, held.queues, held.sizes)
    first = np.searchsorted(m.queues, m.queues)
    found: Ints = base[m.queues] + come - come[first] - gone + gone[first] - left[first]
    return found


def _ruler(at: Ints, queues: int) -> tuple[int, Callable[[Ints], Ints]]:
    """Times as small numbers: how many there are, and the number of any time, which is the last
    one behind all of ``at``."""
    low, high = int(at.min()), int(at.max())
    scale = high - low + 2
    if scale * queues < FOREVER:
        return scale, lambda times: np.clip(times, low, high + 1) - low
    known = np.unique(at)
    return len(known) + 1, lambda times: np.searchsorted(known, times)


def _one_by_one(
    m: Arrivals, rows: slice, limit: int, held: Iterator[tuple[int, int]]
) -> Iterator[bool]:
    """For each message of one queue whether it finds no room."""
    waiting: list[tuple[int, int]] = []
    lies = 0
    for gone, size in held:
        heappush(waiting, (gone, size))
        lies += size
    columns: Any = zip(
        *(values[rows].tolist() for values in (m.at, m.sizes, m.leaves, m.enters)), strict=True
    )
    now = -FOREVER
    for at, size, gone, enters in columns:
        now = max(now, at)
        while waiting and waiting[0][0] <= now:
            lies -= heappop(waiting)[1]
        full = enters and lies + size > limit
        if enters and not full:
            heappush(waiting, (gone, size))
            lies += size
        yield full


FIELDS: Final[Mapping[str, Any]] = {"leaves": np.int64, "bytes": np.int64, "since": np.int64}
"""Bytes that leave a queue at one time (us), and when the last message arrived there. A queue has a
record for each such time, and one for what stays (FOREVER), which also says that its ``usedBytes``
have been counted."""


class Limited:
    """What is done with the rows of a bucket, or with those of a task page by page."""

    fields: Final[Mapping[str, Any]] = FIELDS

    def __init__(self, settler: Settler, order_by: tuple[str, ...], buckets: int) -> None:
        self._settler = settler
        self._order_by = order_by
        self.buckets = buckets

    def done(self, table: Any, memory: BucketRecords, now_s: int) -> tuple[Any, BucketRecords]:
        """Rows with what became of them, by queue and in order, and what is remembered then."""
        codes, keys, _ = keyed(table, ("queue",))
        order = self._in_order(table, codes, now_s)
        found, memory = self._decided(table, (codes, keys, order), memory, now_s)
        return with_answers(placed(table, order), found.take(pa.array(order))), memory

    def beside(self, page: Any, memory: BucketRecords, now_s: int) -> tuple[Any, BucketRecords]:
        """A structure of what became of each row; the rows of each queue come in order."""
        codes, keys, _ = keyed(page, ("queue",))
        order = np.argsort(codes, kind="stable")
        return self._decided(page, (codes, keys, order), memory, now_s)

    def _decided(
        self, table: Any, place: tuple[Ints, Any, Ints], memory: BucketRecords, now_s: int
    ) -> tuple[Any, BucketRecords]:
        """What became of each row; ``place``: the queue of each, the names of these, and the rows
        of one queue after those of another, each in order."""
        codes, keys, order = place
        batch = one(table.select([name for name in DECIDING if name in table.schema.names]))
        clock = np.full(batch.num_rows, now_s, np.int64)
        sound = sound_of(batch)
        messages = messages_of(batch, self._settler, clock)
        refusals = rules.refused(messages)
        places = [self._settler.places.get(key) for key in keys.to_pylist()]
        limits = np.array([UNLIMITED if p is None else p.quota_bytes for p in places], np.int64)
        rows = order[(limits < UNLIMITED)[codes[order]] & sound[order]]
        held, since, others = _held(memory, keys, places)
        arrived = micros(batch, "arrivedTime", now_s * SECOND_US)
        arrivals = Arrivals(
            codes[rows], np.maximum(arrived, since[codes])[rows],
            np.clip(whole(batch, "packetBytes", 0), 0, SIZE_MAX)[rows],
            leaves(batch, messages)[rows], refusals[rows] == 0,
        )  # fmt: skip
        full = without_room(arrivals, limits, held)
        refusals[rows[full]] = MessageClass.NACK_QUEUE_EXCEED_QUOTA
        found = build_outcomes(messages, sound, refusals, clock, self._settler)
        left, last = after(arrivals, arrivals.enters & ~full, held, since)
        fields = {"leaves": left.leaves, "bytes": left.sizes, "since": last[left.queues]}
        there = keys.take(pa.array(left.queues))
        return found, _joined(others, BucketRecords(there, fields))

    def _in_order(self, table: Any, codes: Ints, now_s: int) -> Ints:
        """The rows of one queue after those of another, each in the order of arrival."""
        arrived = micros(table, "arrivedTime", now_s * SECOND_US)
        ties: list[Any] = []
        if "lookupId" in table.schema.names:
            ties.append(whole(table, "lookupId", 0))
        elif {"streamId", "seqNumber"} <= set(table.schema.names):
            ties += [numbers_of(table["seqNumber"], least=1)[0], streams_of(table["streamId"])[0]]
        order = np.lexsort((*ties, arrived))
        if self._order_by:
            named = [(name, "ascending") for name in self._order_by]
            first = table.select(self._order_by).take(pa.array(order))
            order = order[pc.sort_indices(first, sort_keys=named).to_numpy()]
        found: Ints = order[np.argsort(codes[order], kind="stable")]
        return found


def _held(
    memory: BucketRecords, keys: Any, places: list[QueueSetup | None]
) -> tuple[Held, Ints, BucketRecords]:
    """What lies in these queues by what is remembered, or else by the table, and when the last
    message came to each; and what is remembered of others."""
    at = pc.fill_null(pc.index_in(memory.keys, value_set=keys), -1)
    at = at.to_numpy(zero_copy_only=False).astype(np.int64)
    mine = at >= 0
    known = set(at[mine].tolist())
    new = [k for k, p in enumerate(places) if p is not None and p.limited and k not in known]
    used = [place.used_bytes for k in new if (place := places[k]) is not None]
    held = Held(
        np.concatenate((at[mine], np.array(new, np.int64))),
        np.concatenate((memory.fields["leaves"][mine], np.full(len(new), FOREVER))),
        np.concatenate((memory.fields["bytes"][mine], np.array(used, np.int64))),
    )
    since = np.full(len(keys), -FOREVER)
    since[at[mine]] = memory.fields["since"][mine]
    return held, since, memory.part(~mine)


def _joined(a: BucketRecords, b: BucketRecords) -> BucketRecords:
    """Records of two memories."""
    fields = {name: np.concatenate((a.fields[name], b.fields[name])) for name in FIELDS}
    return BucketRecords(pa.concat_arrays([a.keys, b.keys]), fields)
