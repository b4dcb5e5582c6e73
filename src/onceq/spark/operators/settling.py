"""What becomes of messages that arrive: ``settle``, and the acknowledgment messages of it.

One row in, the same row out with its end: refused for a named reason, received, too late, or
waiting in its queue; and which acknowledgments are due, and where copies are kept. All but one of
the rules decide by the row, its queue and the time alone (``rules``), and so need no memory.

The one is the quota (``quotas``). Where a queue of the table has one, the rows of each queue are
brought together and decided in the order of their arrival; in a stream Spark keeps what lies in
each queue, and when it leaves, with the checkpoint. Other rows stay in Spark meanwhile
(``key_buckets``).

Upholds: I11 (one end), I12 (one dead letter), I13 (true acknowledgments), I14, I15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from onceq.model.limits import ANSWER_QUEUES_MAX
from onceq.spark.argument_checks import require_flag, require_frame
from onceq.spark.error_codes import wrong
from onceq.spark.operators import rules
from onceq.spark.operators.arrivals import (
    ADDED,
    COLUMNS,
    DECIDING,
    OPTIONAL,
    Settler,
    messages_of,
    queue_table,
    sound_of,
    told,
)
from onceq.spark.operators.columns import (
    STREAM_MAX,
    TEXT,
    checked_buckets,
    free,
    need,
    order_of,
    with_columns,
)
from onceq.spark.operators.key_buckets import (
    BUCKETS,
    CLOCK,
    FOUND,
    Answers,
    answered,
    bucketed,
    clocked,
    deciding,
    in_one_task,
    unnamed,
)
from onceq.spark.operators.quotas import Limited
from onceq.spark.operators.rules import NUMBER_MAX

WHAT: Final = "settle"
TOLD_BY: Final = {
    "acknowledgments": ((), "what settle adds"),
    "adminQueue": (TEXT, "where acknowledgments go"),
    "queue": (TEXT, "where the message was going"),
}


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
            ``journal``, ``quotaKb`` and ``usedBytes``. It is read once, now.
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
    require_frame(frame, WHAT)
    there = {name: kind for name, kind in OPTIONAL.items() if name in frame.columns}
    need(frame, WHAT, {**COLUMNS, **there})
    free(frame, WHAT, tuple(ADDED))
    require_flag(permit_insecure_nacks, "permit_insecure_nacks")
    require_flag(quiet_system_queues, "quiet_system_queues")
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
        limited = Limited(work, order, buckets)
        if frame.isStreaming:
            return bucketed(frame, WHAT, ("queue",), limited, schema)
        return _settled(frame, order, lambda names: deciding(limited, names), schema)
    return _settled(frame, None, lambda names: each(work, names), schema)


def acknowledgment_messages(frame: Any) -> Any:
    """The acknowledgment messages that are due for what ``settle`` has settled, a row for each.

    Columns: ``queue`` (the administration queue), ``messageClass``, ``responseQueue`` (the
    message's destination), and of the message, where it has them, ``correlationId`` (its
    ``messageId``), ``label``, ``appSpecific``, ``priority``, and the ``body`` of a negative one
    that was not encrypted. Never transactional, never acknowledged (ACK-17).
    """
    from pyspark.sql import functions as sql

    need(frame, "acknowledgment_messages", TOLD_BY)
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


def _settled(
    frame: Any, order: Sequence[str] | None, answers: Callable[[list[str]], Answers], schema: Any
) -> Any:
    """A frame with the columns of an answer to each row; ``order``: None where it does not matter,
    and else its columns."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType

    inner, column = unnamed(frame)
    asked = clocked({name: column[name] for name in DECIDING if name in frame.columns})
    if order is not None:
        by = _arrival(column, dict(frame.dtypes), order, asked[CLOCK])
        inner = in_one_task(inner, [column["queue"]], by)
    kind = StructType(schema.fields[-len(ADDED) :])
    found = answered(inner, asked, answers(list(asked)), kind)
    columns = [column[name].alias(name) for name in frame.columns]
    return found.select(*columns, *(sql.col(f"{FOUND}.{name}").alias(name) for name in ADDED))


def _arrival(
    column: Mapping[str, Any], kinds: Mapping[str, str], order_by: Sequence[str], now_s: Any
) -> list[Any]:
    """The order of arrival for Spark, as ``Limited`` has it."""
    from pyspark.sql import functions as sql

    order = [column[name].asc_nulls_last() for name in order_by]
    now = sql.timestamp_seconds(now_s)
    order.append(sql.coalesce(column["arrivedTime"], now) if "arrivedTime" in column else now)
    if "lookupId" in column:
        order.append(sql.coalesce(column["lookupId"].try_cast("bigint"), sql.lit(0)))
    elif "streamId" in column and "seqNumber" in column:
        digits = column["streamId"].cast("string")
        # What is no number of a stream comes first, as 0.
        number = sql.when(digits.rlike(r"^[0-9]+\z"), digits.try_cast("decimal(20, 0)"))
        stream = sql.when(number <= sql.lit(str(STREAM_MAX)).cast("decimal(20, 0)"), number)
        place = column["seqNumber"]
        order.append(sql.coalesce(stream, sql.lit(0)))
        order.append(sql.when(place.between(1, NUMBER_MAX), place).otherwise(0))
    return order


def each(work: Settler, names: Sequence[str]) -> Answers:
    """What became of messages where no queue has a quota, each by itself; ``names``: of the
    columns, the last of which is the clock."""

    def answers(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        for columns in batches:
            rows = pa.record_batch(list(columns), names=list(names))
            now_s = rows.column(CLOCK).to_numpy().astype(np.int64)
            messages = messages_of(rows, work, now_s)
            yield told(messages, sound_of(rows), rules.refused(messages), now_s, work)

    return answers


def _order(frame: Any, order_by: str | Sequence[str] | None) -> tuple[str, ...]:
    """The columns that say in which order rows count; none: that of their arrival."""
    return () if order_by is None else order_of(frame, WHAT, order_by)
