"""The receiver filter over feeds of any size: ``eod_filter``.

A feed repeats, delays and mixes messages. For each pair of sender and queue the filter keeps the
stream that it is in and the number of the last message that it accepted, and nothing else; so it
needs one record for a stream, however long that is. It decides as a queue manager's own filter
does (``rules.judge``), in the order of arrival.

Rows of a stream pass it in parcels by bucket of their key (``parcels``), and the state of a bucket
is one value (``memory``); of any other frame they stay where they are (``verdicts``). Streams of
which nothing was heard for long are forgotten by the time of the micro-batch: what is too old does
not count any more, whether it was thrown away yet or not. So no timers are needed, which Spark
would run in batches only, and a batch that is run again decides as before.

Upholds: I4 (accepted at most once), I5 (commit order), I9 (acknowledgments are truthful), I24.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.model.limits import TIME_TO_REACH_QUEUE_DEFAULT_S
from onceq.spark.given import whole_given
from onceq.spark.operators.buckets import BUCKETS, bucketed
from onceq.spark.operators.columns import (
    TEXT,
    WHOLE,
    checked_buckets,
    free,
    need,
    order_of,
    with_columns,
)
from onceq.spark.operators.memory import Memory
from onceq.spark.operators.parcels import placed
from onceq.spark.operators.rules import ACCEPT, VERDICTS
from onceq.spark.operators.verdicts import (
    FIELDS,
    KEY,
    ORDER_ACK,
    VERDICT,
    Parsed,
    decided,
    judged,
    parsed,
)
from onceq.spark.options import wrong

WHAT: Final = "eod_filter"
NEVER_RETIRED: Final = 0
RETIRE_AFTER_S_MAX: Final = (1 << 31) - 1
"""Some 68 years."""
RETIRE_AFTER_S: Final = 90 * 86_400
"""Streams are forgotten that late: the longest time in which published queue managers let a
message reach its queue (EOD-30)."""
COLUMNS: Final = {
    "sourceMachine": (TEXT, "who sent it"),
    "queue": (TEXT, "the destination, as its stream is named"),
    "streamId": ((*WHOLE, *TEXT), "its message stream"),
    "seqNumber": (WHOLE, "its number there"),
    "prevNumber": (WHOLE, "the number before it, 0 for none"),
}

JUDGED_BY: Final = {VERDICT: (TEXT, "what eod_filter adds")}


def eod_filter(
    frame: Any,
    *,
    order_by: str | Sequence[str] | None = None,
    retire_after_s: int = RETIRE_AFTER_S,
    buckets: int = BUCKETS,
) -> Any:
    """Say of each message whether it is accepted, once and in order, or why not.

    Args:
        frame: Messages as rows, a stream or not; columns ``COLUMNS``, and any others.
        order_by: Columns that say in which order the messages arrived. Without it ``lookupId``,
            if there is one; else streams and numbers, which undoes any disorder inside one
            micro-batch, or inside the whole of a frame that is no stream.
        retire_after_s: Streams only: forget a stream when nothing was seen of it for so many
            seconds; 0: never. Not less than four days, the time in which a message may still be
            on its way.
        buckets: Streams only: how many tasks can share the work at one time, settled for the
            life of the checkpoint.

    Returns:
        The rows and a column ``verdict``, one of ``rules.VERDICTS``; accepted rows of a stream in
        order. Besides, for each pair of sender and queue of which a row was seen, a row with the
        verdict ``order-ack``: its ``seqNumber`` is the last one accepted, other columns are null.
        ``accepted``, ``rejected`` and ``order_acknowledgments`` tell them apart.

    Raises:
        ConfigurationError: A column is missing, or a parameter makes no sense.
    """
    need(frame, WHAT, COLUMNS)
    free(frame, WHAT, (VERDICT,))
    whole_given(retire_after_s, "retire_after_s", NEVER_RETIRED, RETIRE_AFTER_S_MAX)
    if NEVER_RETIRED < retire_after_s < TIME_TO_REACH_QUEUE_DEFAULT_S:
        raise wrong(
            f"retire_after_s is {TIME_TO_REACH_QUEUE_DEFAULT_S} or more, or 0 for never: a message "
            "of a stream that was forgotten too early would be accepted a second time"
        )
    order = order_of(frame, WHAT, order_by)
    schema = with_columns(frame, {VERDICT: "string"})
    work = EodFilter(order, checked_buckets(buckets), retire_after_s)
    if not frame.isStreaming:
        return judged(frame, order, schema)
    return bucketed(frame, WHAT, KEY, work, schema)


def accepted(frame: Any) -> Any:
    """The messages that ``eod_filter`` accepted."""
    return _those(frame, VERDICTS[ACCEPT], "accepted")


def rejected(frame: Any) -> Any:
    """The messages that it rejected, with their verdict."""
    need(frame, "rejected", JUDGED_BY)
    return frame.where(~frame[VERDICT].isin(VERDICTS[ACCEPT], ORDER_ACK))


def order_acknowledgments(frame: Any) -> Any:
    """What the senders are to be told: ``sourceMachine``, ``queue``, ``streamId``, ``seqNumber``.

    Everything up to that number of that stream is accepted, once the micro-batch is committed.
    """
    what = "order_acknowledgments"
    need(frame, what, COLUMNS)
    return _those(frame, ORDER_ACK, what).select(*KEY, "streamId", "seqNumber")


def _those(frame: Any, verdict: str, what: str) -> Any:
    need(frame, what, JUDGED_BY)
    return frame.where(frame[VERDICT] == verdict).drop(VERDICT)


class EodFilter:
    """What is done with the rows of a bucket."""

    fields: Final[Mapping[str, Any]] = FIELDS

    def __init__(self, order_by: tuple[str, ...], buckets: int, retire_after_s: int) -> None:
        self._order_by = order_by
        self._retire_after_s = retire_after_s
        self.buckets = buckets

    def done(self, table: Any, memory: Memory, now_s: int) -> tuple[Any, Memory]:
        """Rows with their verdicts and the acknowledgments, and what is remembered then."""
        table, rows = self._in_order(table)
        found = decided(table, rows, self._without_old(memory, now_s), now_s)
        told = np.flatnonzero(found.seen & (found.lasts > 0))
        acks = _acks(table, found.first[told], found.streams[told], found.lasts[told])
        words = pa.array(VERDICTS).take(pa.array(found.verdicts))
        return pa.concat_tables([table.append_column(VERDICT, words), acks]), found.memory

    def _without_old(self, memory: Memory, now_s: int) -> Memory:
        """What is left when streams are forgotten of which nothing was heard for so long."""
        if self._retire_after_s == NEVER_RETIRED:
            return memory
        return memory.part(memory.fields["seen"] > now_s - self._retire_after_s)

    def _in_order(self, table: Any) -> tuple[Any, Parsed]:
        """Rows in the order in which they are decided, and what their columns say."""
        rows = parsed(table)
        order = self._named(table)
        if order is None:
            # Parcels come in no order, so that even rows that claim one place need an order.
            order = np.lexsort((rows.previous, rows.numbers, rows.streams))
            if self._order_by:
                named = [(name, "ascending") for name in self._order_by]
                first = table.select(self._order_by).take(pa.array(order))
                order = order[pc.sort_indices(first, sort_keys=named).to_numpy()]
        return placed(table, order), rows.placed(order)

    def _named(self, table: Any) -> Any:
        """The order by a column of numbers or times that are all there, and all different."""
        if len(self._order_by) != 1:
            return None
        column = table[self._order_by[0]]
        kind = column.type
        if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind)):
            return None
        values = column.to_numpy()
        # What is sorted mostly already is sorted quickly by this kind.
        order = np.argsort(values, kind="stable")
        values = values[order]
        return None if (values[1:] == values[:-1]).any() else order


def _acks(table: Any, rows: Any, streams: Any, lasts: Any) -> Any:
    """Order acknowledgments as rows; sender and queue are spelled as in the first row of each."""
    told = table.select(KEY).take(pa.array(rows))
    columns = []
    for field in table.schema:
        if field.name in KEY:
            columns.append(told[field.name])
        elif field.name == "streamId":
            columns.append(pa.array(streams).cast(field.type))
        elif field.name == "seqNumber":
            columns.append(pa.array(lasts).cast(field.type))
        else:
            columns.append(pa.nulls(len(rows), field.type))
    words = pa.array([ORDER_ACK] * len(rows), pa.string())
    return pa.table([*columns, words], names=[*table.schema.names, VERDICT])
