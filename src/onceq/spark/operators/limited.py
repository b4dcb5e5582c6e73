"""What became of messages where queues have quotas: decided in the order of their arrival.

What lies in a queue, and when it leaves, is remembered: from micro-batch to micro-batch of a
stream, and from page to page of a frame that is no stream.

Upholds: I13 (true acknowledgments), I24 (a record for each time at which something leaves a queue,
and there is no more in it than its quota).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.model.classes import MessageClass
from onceq.model.time import SECOND_US
from onceq.spark.operators import endings
from onceq.spark.operators.arrivals import (
    DECIDING,
    Settler,
    leaves,
    messages_of,
    micros,
    one,
    sound_of,
    told,
    whole,
    with_answers,
)
from onceq.spark.operators.columns import numbers_of, streams_of
from onceq.spark.operators.destinations import SIZE_MAX, UNLIMITED, Place
from onceq.spark.operators.keys import keyed
from onceq.spark.operators.memory import Memory
from onceq.spark.operators.parcels import placed
from onceq.spark.operators.quotas import FOREVER, Arrivals, Held, after, without_room
from onceq.spark.operators.rules import Ints

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

    def done(self, table: Any, memory: Memory, now_s: int) -> tuple[Any, Memory]:
        """Rows with what became of them, by queue and in order, and what is remembered then."""
        codes, keys, _ = keyed(table, ("queue",))
        order = self._in_order(table, codes, now_s)
        found, memory = self._decided(table, (codes, keys, order), memory, now_s)
        return with_answers(placed(table, order), found.take(pa.array(order))), memory

    def beside(self, page: Any, memory: Memory, now_s: int) -> tuple[Any, Memory]:
        """A structure of what became of each row; the rows of each queue come in order."""
        codes, keys, _ = keyed(page, ("queue",))
        order = np.argsort(codes, kind="stable")
        return self._decided(page, (codes, keys, order), memory, now_s)

    def _decided(
        self, table: Any, place: tuple[Ints, Any, Ints], memory: Memory, now_s: int
    ) -> tuple[Any, Memory]:
        """What became of each row; ``place``: the queue of each, the names of these, and the rows
        of one queue after those of another, each in order."""
        codes, keys, order = place
        batch = one(table.select([name for name in DECIDING if name in table.schema.names]))
        clock = np.full(batch.num_rows, now_s, np.int64)
        sound = sound_of(batch)
        messages = messages_of(batch, self._settler, clock)
        refusals = endings.refused(messages)
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
        found = told(messages, sound, refusals, clock, self._settler)
        left, last = after(arrivals, arrivals.enters & ~full, held, since)
        fields = {"leaves": left.leaves, "bytes": left.sizes, "since": last[left.queues]}
        there = keys.take(pa.array(left.queues))
        return found, _joined(others, Memory(there, fields))

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


def _held(memory: Memory, keys: Any, places: list[Place | None]) -> tuple[Held, Ints, Memory]:
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


def _joined(a: Memory, b: Memory) -> Memory:
    """Records of two memories."""
    fields = {name: np.concatenate((a.fields[name], b.fields[name])) for name in FIELDS}
    return Memory(pa.concat_arrays([a.keys, b.keys]), fields)
