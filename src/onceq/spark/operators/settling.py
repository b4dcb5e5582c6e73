"""What becomes of messages that arrive: ``settle``, and the acknowledgment messages of it.

One row in, the same row out with its end: refused for a named reason, received, too late, or
waiting in its queue; and who is told, and where copies are kept. All but one of the rules decide by
the row, its queue and the time alone (``endings``), and so need no memory.

The one is the quota (``quotas``). Where a queue of the table has one, the rows of each queue are
brought together and decided in the order of their arrival; in a stream Spark keeps what lies in
each queue, and when it leaves, with the checkpoint.

Upholds: I11 (one end), I12 (one dead letter), I13 (true acknowledgments), I14, I15.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.model.classes import MessageClass
from onceq.model.limits import ANSWER_QUEUES_MAX
from onceq.model.time import NEVER_S, SECOND_US
from onceq.spark.operators import endings
from onceq.spark.operators.buckets import BUCKETS, bucketed
from onceq.spark.operators.columns import (
    TEXT,
    WHOLE,
    YES_NO,
    checked_buckets,
    free,
    need,
    numbers_of,
    order_of,
    streams_of,
    with_columns,
)
from onceq.spark.operators.destinations import (
    SIZE_MAX,
    UNLIMITED,
    Place,
    is_system,
    queue_table,
)
from onceq.spark.operators.endings import NOT_YET, Messages
from onceq.spark.operators.keys import folded, keyed
from onceq.spark.operators.memory import Memory
from onceq.spark.operators.parcels import CLOCK
from onceq.spark.operators.quotas import FOREVER, Arrivals, Held, after, without_room
from onceq.spark.operators.rules import Flags, Ints
from onceq.spark.options import wrong

WHAT: Final = "settle"
WHEN: Final = ("timestamp",)
COLUMNS: Final = {
    "queue": (TEXT, "its destination: one queue"),
    "transactional": (YES_NO, "whether it was sent in a transaction"),
    "sentTime": (WHEN, "when it was sent; null: when it arrived"),
}
OPTIONAL: Final = {
    "arrivedTime": (WHEN, "when it arrived; null or no such column: now"),
    "receivedTime": (
        WHEN,
        "when it was received, by a receive that was committed; null: it was not",
    ),
    "timeToReachQueue": (WHOLE, "seconds from when it was sent; null: no limit"),
    "timeToBeReceived": (WHOLE, "seconds from when it was sent; null: no limit"),
    "acknowledge": (WHOLE, "acknowledgments that it asks for: the bits of `onceq.Acknowledge`"),
    "adminQueue": (TEXT, "where they go; null: nowhere, and then there are none"),
    "journal": (WHOLE, "copies that it asks for: the bits of `onceq.Journal`"),
    "encrypted": (YES_NO, "whether its body is encrypted"),
    "packetBytes": (WHOLE, "bytes of its packet; needed where a queue has a quota"),
}
ADDED: Final = {
    "result": "string",
    "messageClass": "int",
    "acknowledgments": "array<int>",
    "finalAck": "int",
    "deadLetter": "string",
    "deadLetterAtSource": "boolean",
    "journalCopy": "boolean",
    "journalCopyAtSource": "boolean",
}
RESULTS: Final = ("waiting", "received", "refused", "expired")
WAITING, RECEIVED, REFUSED, EXPIRED = range(4)
DEAD_LETTER, DEAD_XACT = "DEADLETTER", "DEADXACT"


@dataclass(frozen=True, slots=True)
class Settler:
    """What there is at the destination, by folded name, and how it is set up."""

    places: Mapping[str, Place]
    permit_insecure_nacks: bool = True
    quiet_system_queues: bool = False


def settle(
    frame: Any,
    queues: Any,
    *,
    order_by: str | Sequence[str] | None = None,
    permit_insecure_nacks: bool = True,
    quiet_system_queues: bool = False,
    buckets: int = BUCKETS,
) -> Any:
    """Say what became of messages that arrived: their end, who is told, and who keeps a copy.

    Args:
        frame: Messages that arrived, transactional ones as ``eod_filter`` accepted them; columns
            ``COLUMNS``, those of ``OPTIONAL`` that there are, and any others.
        queues: What queues there are: a frame with ``queue``, ``transactional`` and, if it likes,
            ``journal``, ``quotaKb`` and ``usedBytes`` (``destinations``). It is read once, now.
        order_by: For quotas: columns that say in which order the messages arrived. Without it
            ``arrivedTime``, and at one time ``lookupId``, or streams and numbers, where these
            columns are.
        permit_insecure_nacks: Whether a stranger is told that a queue does not exist.
        quiet_system_queues: Whether nothing is told or journaled of messages to queues that
            managers use among themselves.
        buckets: For quotas: how many tasks can share the work at one time. With a stream it is
            settled for the life of its checkpoint.

    Returns:
        The rows and the columns ``ADDED``. What is ``waiting`` may be settled again later, when
        more is known of it.

    Raises:
        ConfigurationError: A column is missing, a queue stands twice in the table, or a parameter
            makes no sense.
    """
    there = {name: kind for name, kind in OPTIONAL.items() if name in frame.columns}
    need(frame, WHAT, {**COLUMNS, **there})
    free(frame, WHAT, tuple(ADDED))
    order = _order(frame, order_by)
    places = queue_table(queues, WHAT)
    work = Settler(places, permit_insecure_nacks, quiet_system_queues)
    schema = with_columns(frame, ADDED)
    checked_buckets(buckets)
    if any(place.limited for place in places.values()):
        if "packetBytes" not in there:
            raise wrong(
                "settle: a queue of the table has a quota, and the messages have no column "
                'packetBytes; add it: .withColumn("packetBytes", ...), or leave quotaKb out'
            )
        return bucketed(frame, WHAT, ("queue",), Limited(work, order, buckets), schema)

    def rows(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield settle_batch(batch, work)

    from pyspark.sql import functions as sql

    timed = frame.withColumn(CLOCK, sql.unix_seconds(sql.current_timestamp()))
    return timed.mapInArrow(rows, schema)


def acknowledgment_messages(frame: Any) -> Any:
    """The acknowledgment messages that are due for what ``settle`` has settled, a row for each.

    Columns: ``queue`` (the administration queue), ``messageClass``, ``responseQueue`` (the
    message's destination), and of the message, where it has them, ``correlationId`` (its
    ``messageId``), ``label``, ``appSpecific``, ``priority``, and the ``body`` of a negative one
    that was not encrypted. Never transactional, never acknowledged (ACK-17).
    """
    from pyspark.sql import functions as sql

    told = frame.select("*", sql.explode("acknowledgments").alias("_class"))
    names = sql.slice(sql.split("adminQueue", ","), 1, ANSWER_QUEUES_MAX)
    told = told.select("*", sql.explode(names).alias("_admin"))
    columns = [
        sql.trim("_admin").alias("queue"),
        sql.col("_class").alias("messageClass"),
        sql.col("queue").alias("responseQueue"),
    ]
    if "messageId" in frame.columns:
        columns.append(sql.col("messageId").alias("correlationId"))
    columns += [sql.col(n) for n in ("label", "appSpecific", "priority") if n in frame.columns]
    if "body" in frame.columns:
        open_ = ~sql.coalesce("encrypted", sql.lit(False)) if "encrypted" in frame.columns else True
        shown = sql.col("_class").bitwiseAND(0x8000).cast("boolean") & sql.lit(open_)
        columns.append(sql.when(shown, sql.col("body")).alias("body"))
    return told.select(*columns)


def settle_batch(batch: Any, work: Settler) -> Any:
    """One batch of rows with what became of them, where no queue has a quota."""
    clock = batch.schema.get_field_index(CLOCK)
    now_s = batch.column(clock).to_numpy().astype(np.int64)
    messages = _messages(batch, work, now_s)
    return _told(batch.remove_column(clock), messages, endings.refused(messages), now_s, work)


def _told(batch: Any, messages: Messages, refusals: Ints, now_s: Ints, work: Settler) -> Any:
    """A batch with the columns that ``settle`` adds."""
    found = endings.settle(
        messages, refusals, now_s, permit_insecure_nacks=work.permit_insecure_nacks
    )
    results = np.select(
        [
            found.classes == MessageClass.ACK_REACH_QUEUE,
            found.classes == MessageClass.ACK_RECEIVE,
            found.classes == MessageClass.NACK_RECEIVE_TIMEOUT,
        ],
        [WAITING, RECEIVED, EXPIRED],
        default=REFUSED,
    )
    graves = np.where(found.dead_here, 1, np.where(found.dead_ordered_here, 2, 0))
    told = np.stack((found.told_arrival, found.told_end), axis=1)
    offsets = np.concatenate(([0], np.cumsum((told > 0).sum(axis=1)))).astype(np.int32)
    added = [
        _words(results, RESULTS),
        pa.array(found.classes.astype(np.int32)),
        pa.ListArray.from_arrays(pa.array(offsets), pa.array(told[told > 0].astype(np.int32))),
        pa.array(found.final.astype(np.int32), mask=found.final == 0),
        _words(graves, (None, DEAD_LETTER, DEAD_XACT)),
        pa.array(found.dead_at_source),
        pa.array(found.journal_here),
        pa.array(found.journal_at_source),
    ]
    columns = [*batch.columns, *added]
    return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, *ADDED])


def _words(codes: Any, words: tuple[str | None, ...]) -> Any:
    return pa.array(words, pa.string()).take(pa.array(codes))


# ---- quotas ----------------------------------------------------------------------------------


def _order(frame: Any, order_by: str | Sequence[str] | None) -> tuple[str, ...]:
    """The columns that say in which order rows count; none: that of their arrival."""
    return () if order_by is None else order_of(frame, WHAT, order_by)


class Limited:
    """What is done with the rows of a bucket where queues have quotas."""

    fields: Final[Mapping[str, Any]] = {"leaves": np.int64, "bytes": np.int64, "since": np.int64}
    """Bytes that leave a queue at one time (us), and when the last message arrived there. A queue
    has a record for each such time, and one for what stays (FOREVER), which also says that its
    ``usedBytes`` have been counted."""

    def __init__(self, settler: Settler, order_by: tuple[str, ...], buckets: int) -> None:
        self._settler = settler
        self._order_by = order_by
        self.buckets = buckets

    def done(self, table: Any, memory: Memory, now_s: int) -> tuple[Any, Memory]:
        """Rows with what became of them, by queue and in order, and what is remembered then."""
        codes, keys, _ = keyed(table, ("queue",))
        order = self._in_order(table, codes, now_s)
        codes = codes[order]
        batch = _one(table.take(pa.array(order)))
        clock = np.full(batch.num_rows, now_s, np.int64)
        messages = _messages(batch, self._settler, clock)
        refusals = endings.refused(messages)
        places = [self._settler.places.get(key) for key in keys.to_pylist()]
        limits = np.array([UNLIMITED if p is None else p.quota_bytes for p in places], np.int64)
        rows = np.flatnonzero((limits < UNLIMITED)[codes])
        held, since, others = self._held(memory, keys, places)
        arrived = _micros(batch, "arrivedTime", now_s * SECOND_US)
        arrivals = Arrivals(
            codes[rows], np.maximum(arrived, since[codes])[rows],
            np.clip(_whole(batch, "packetBytes", 0), 0, SIZE_MAX)[rows],
            _leaves(batch, messages)[rows], refusals[rows] == 0,
        )  # fmt: skip
        full = without_room(arrivals, limits, held)
        refusals[rows[full]] = MessageClass.NACK_QUEUE_EXCEED_QUOTA
        found = _told(batch, messages, refusals, clock, self._settler)
        left, last = after(arrivals, arrivals.enters & ~full, held, since)
        fields = {"leaves": left.leaves, "bytes": left.sizes, "since": last[left.queues]}
        there = keys.take(pa.array(left.queues))
        return pa.Table.from_batches([found]), _joined(others, Memory(there, fields))

    def _held(
        self, memory: Memory, keys: Any, places: list[Place | None]
    ) -> tuple[Held, Ints, Memory]:
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

    def _in_order(self, table: Any, codes: Ints, now_s: int) -> Ints:
        """The rows of one queue after those of another, each in the order of arrival."""
        arrived = _micros(table, "arrivedTime", now_s * SECOND_US)
        ties: list[Any] = []
        if "lookupId" in table.schema.names:
            ties.append(_whole(table, "lookupId", 0))
        elif {"streamId", "seqNumber"} <= set(table.schema.names):
            ties += [numbers_of(table["seqNumber"], least=1)[0], streams_of(table["streamId"])[0]]
        order = np.lexsort((*ties, arrived))
        if self._order_by:
            named = [(name, "ascending") for name in self._order_by]
            first = table.select(self._order_by).take(pa.array(order))
            order = order[pc.sort_indices(first, sort_keys=named).to_numpy()]
        found: Ints = order[np.argsort(codes[order], kind="stable")]
        return found


def _joined(a: Memory, b: Memory) -> Memory:
    """Records of two memories."""
    fields = {name: np.concatenate((a.fields[name], b.fields[name])) for name in Limited.fields}
    return Memory(pa.concat_arrays([a.keys, b.keys]), fields)


def _leaves(batch: Any, m: Messages) -> Ints:
    """When messages leave their queues again, if they enter them (us)."""
    expires = endings.expiries(m)
    late = np.where(expires == NEVER_S, FOREVER, expires * SECOND_US)
    found: Ints = np.where(
        endings.in_time(m, expires), _micros(batch, "receivedTime", FOREVER), late
    )
    return found


# ---- out of Arrow ----------------------------------------------------------------------------


def _one(table: Any) -> Any:
    """A table as one batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def _whole(rows: Any, name: str, default: int) -> Ints:
    at = rows.schema.get_field_index(name)
    if at < 0:
        return np.full(rows.num_rows, default, np.int64)
    found: Ints = pc.fill_null(rows.column(at).cast(pa.int64()), default).to_numpy()
    return found


def _micros(rows: Any, name: str, default: int) -> Ints:
    """Microseconds since 1970."""
    at = rows.schema.get_field_index(name)
    if at < 0:
        return np.full(rows.num_rows, default, np.int64)
    micros = rows.column(at).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    found: Ints = pc.fill_null(micros, default).to_numpy()
    return found


def _flag(rows: Any, name: str) -> Flags:
    at = rows.schema.get_field_index(name)
    if at < 0:
        return np.zeros(rows.num_rows, np.bool_)
    found: Flags = pc.fill_null(rows.column(at), False).to_numpy(zero_copy_only=False)
    return found


def _messages(batch: Any, work: Settler, now_s: Ints) -> Messages:
    def seconds(name: str) -> Ints:
        micros = _micros(batch, name, FOREVER)
        found: Ints = np.where(micros == FOREVER, NOT_YET, np.floor_divide(micros, SECOND_US))
        return found

    arrived = seconds("arrivedTime")
    arrived = np.where(arrived == NOT_YET, now_s, arrived)
    sent = seconds("sentTime")
    known, ordered, journaled, quiet = _places(batch.column("queue"), work)
    admin = batch.schema.get_field_index("adminQueue")
    level = np.zeros(batch.num_rows, np.int64)
    if admin >= 0:
        named = pc.fill_null(batch.column(admin), "").to_numpy(zero_copy_only=False) != ""
        level = np.where(named, _whole(batch, "acknowledge", 0), 0)
    return Messages(
        transactional=_flag(batch, "transactional"),
        encrypted=_flag(batch, "encrypted"),
        sent=np.where(sent == NOT_YET, arrived, sent),
        arrived=arrived,
        received=seconds("receivedTime"),
        reach=_whole(batch, "timeToReachQueue", NEVER_S),
        receive=_whole(batch, "timeToBeReceived", NEVER_S),
        level=level,
        journal=_whole(batch, "journal", 0),
        known=known,
        ordered=ordered,
        journaled=journaled,
        quiet=quiet,
    )


def _places(column: Any, work: Settler) -> tuple[Flags, Flags, Flags, Flags]:
    """Of the queue of each row: whether it is known, transactional, keeps a journal, and has a name
    that is to be kept quiet. Each distinct name is looked up once."""
    encoded = pc.fill_null(column.cast(pa.string()), "").dictionary_encode()
    code = encoded.indices.to_numpy(zero_copy_only=False)
    names = [folded(name) for name in encoded.dictionary.to_pylist()] or [""]
    found = [work.places.get(name) for name in names]
    return (
        np.array([one is not None for one in found])[code],
        np.array([one is not None and one.transactional for one in found])[code],
        np.array([one is not None and one.journal for one in found])[code],
        np.array([work.quiet_system_queues and is_system(name) for name in names])[code],
    )
