"""What becomes of messages that arrive: ``settle``, and the acknowledgment messages of it.

One row in, the same row out with its end: refused for a named reason, received, too late, or
waiting in its queue; and who is told, and where copies are kept. It decides by the row, its queue
and the time alone (``endings.settle``), and so needs no memory.

Upholds: I11 (one end), I12 (one dead letter), I13 (true acknowledgments), I14, I15.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.model.classes import MessageClass
from onceq.model.limits import ANSWER_QUEUES_MAX
from onceq.model.time import NEVER_S
from onceq.spark.operators.columns import TEXT, WHOLE, free, need, with_columns
from onceq.spark.operators.endings import NOT_YET, Messages
from onceq.spark.operators.endings import settle as settle_rule
from onceq.spark.operators.keys import folded
from onceq.spark.operators.packing import CLOCK
from onceq.spark.options import wrong

WHAT: Final = "settle"
WHEN: Final = ("timestamp",)
YES_NO: Final = ("boolean",)
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
QUEUE_COLUMNS: Final = {
    "queue": (TEXT, "the name of the queue, as messages name it"),
    "transactional": (YES_NO, "whether it is transactional"),
}
QUEUES_MAX: Final = 100_000
"""Queues of a table: it goes with every task."""


@dataclass(frozen=True, slots=True)
class Settler:
    """What there is at the destination.

    Attributes:
        queues: By folded name: whether the queue is transactional, and whether it has a journal.
    """

    queues: Mapping[str, tuple[bool, bool]]
    permit_insecure_nacks: bool = True


def settle(frame: Any, queues: Any, *, permit_insecure_nacks: bool = True) -> Any:
    """Say what became of messages that arrived: their end, who is told, and who keeps a copy.

    Args:
        frame: Messages that arrived, transactional ones as ``eod_filter`` accepted them; columns
            ``COLUMNS``, those of ``OPTIONAL`` that there are, and any others.
        queues: What queues there are: a frame with ``queue``, ``transactional`` and, if it likes,
            ``journal`` (boolean). It is read once, now.
        permit_insecure_nacks: Whether a stranger is told that a queue does not exist.

    Returns:
        The rows and the columns ``ADDED``. What is ``waiting`` may be settled again later, when
        more is known of it.

    Raises:
        ConfigurationError: A column is missing, or a queue stands twice in the table.
    """
    there = {name: kind for name, kind in OPTIONAL.items() if name in frame.columns}
    need(frame, WHAT, {**COLUMNS, **there})
    free(frame, WHAT, tuple(ADDED))
    work = Settler(queue_table(queues), permit_insecure_nacks)

    def rows(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield settle_batch(batch, work)

    from pyspark.sql import functions as sql

    timed = frame.withColumn(CLOCK, sql.unix_seconds(sql.current_timestamp()))
    return timed.mapInArrow(rows, with_columns(frame, ADDED))


def acknowledgment_messages(frame: Any) -> Any:
    """The acknowledgment messages that are due for what ``settle`` has settled, a row for each.

    Columns: ``queue`` (the administration queue), ``messageClass``, ``responseQueue`` (the
    message's destination), and of the message, where it has them, ``correlationId`` (its
    ``messageId``), ``label``, ``appSpecific``, ``priority``, and the ``body`` of a negative one
    that was not encrypted. Never transactional, never acknowledged (section 5.4).
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


def queue_table(queues: Any) -> dict[str, tuple[bool, bool]]:
    """The table of queues by folded name; raises ConfigurationError."""
    what = f"{WHAT}: the table of queues"
    journal = (
        {"journal": (YES_NO, "whether it keeps a journal")} if "journal" in queues.columns else {}
    )
    need(queues, what, {**QUEUE_COLUMNS, **journal})
    rows = queues.select(*QUEUE_COLUMNS, *journal).limit(QUEUES_MAX + 1).collect()
    if len(rows) > QUEUES_MAX:
        raise wrong(f"{what} has more than {QUEUES_MAX} rows; give those that messages go to")
    found: dict[str, tuple[bool, bool]] = {}
    for name, transactional, *rest in rows:
        if name is None or transactional is None:
            raise wrong(f"{what} has a row without a name, or that does not say transactional")
        if folded(name) in found:
            raise wrong(f"{what} has {name} twice")
        found[folded(name)] = (transactional, bool(rest and rest[0]))
    return found


def settle_batch(batch: Any, work: Settler) -> Any:
    """One batch of rows with what became of them."""
    clock = batch.schema.get_field_index(CLOCK)
    now_s = batch.column(clock).to_numpy().astype(np.int64)
    messages = _messages(batch, work, now_s)
    found = settle_rule(messages, now_s, permit_insecure_nacks=work.permit_insecure_nacks)
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
    kept = [name for name in batch.schema.names if name != CLOCK]
    columns = [batch.column(batch.schema.get_field_index(name)) for name in kept]
    return pa.RecordBatch.from_arrays([*columns, *added], names=[*kept, *ADDED])


def _words(codes: Any, words: tuple[str | None, ...]) -> Any:
    return pa.array(words, pa.string()).take(pa.array(codes))


def _messages(batch: Any, work: Settler, now_s: Any) -> Messages:
    def whole(name: str, default: int) -> Any:
        at = batch.schema.get_field_index(name)
        if at < 0:
            return np.full(batch.num_rows, default, np.int64)
        return pc.fill_null(batch.column(at).cast(pa.int64()), default).to_numpy()

    def seconds(name: str) -> Any:
        at = batch.schema.get_field_index(name)
        if at < 0:
            return np.full(batch.num_rows, NOT_YET, np.int64)
        micros = batch.column(at).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        found = np.floor_divide(pc.fill_null(micros, 0).to_numpy(), 1_000_000)
        return np.where(micros.is_valid().to_numpy(zero_copy_only=False), found, NOT_YET)

    def flag(name: str) -> Any:
        at = batch.schema.get_field_index(name)
        if at < 0:
            return np.zeros(batch.num_rows, np.bool_)
        return pc.fill_null(batch.column(at), False).to_numpy(zero_copy_only=False)

    arrived = seconds("arrivedTime")
    arrived = np.where(arrived == NOT_YET, now_s, arrived)
    sent = seconds("sentTime")
    admin = batch.schema.get_field_index("adminQueue")
    level = np.zeros(batch.num_rows, np.int64)
    if admin >= 0:
        named = pc.fill_null(batch.column(admin), "").to_numpy(zero_copy_only=False) != ""
        level = np.where(named, whole("acknowledge", 0), 0)
    known, ordered, journaled = _places(batch.column(batch.schema.get_field_index("queue")), work)
    return Messages(
        transactional=flag("transactional"),
        encrypted=flag("encrypted"),
        sent=np.where(sent == NOT_YET, arrived, sent),
        arrived=arrived,
        received=seconds("receivedTime"),
        reach=whole("timeToReachQueue", NEVER_S),
        receive=whole("timeToBeReceived", NEVER_S),
        level=level,
        journal=whole("journal", 0),
        known=known,
        ordered=ordered,
        journaled=journaled,
    )


def _places(column: Any, work: Settler) -> Any:
    """What is known of the queue of each row; each distinct name is looked up once."""
    encoded = pc.fill_null(column.cast(pa.string()), "").dictionary_encode()
    code = encoded.indices.to_numpy(zero_copy_only=False)
    found = [work.queues.get(folded(name)) for name in encoded.dictionary.to_pylist()] or [None]
    return (
        np.array([one is not None for one in found])[code],
        np.array([one is not None and one[0] for one in found])[code],
        np.array([one is not None and one[1] for one in found])[code],
    )
