"""What becomes of messages that arrive: ``settle``, and the acknowledgment messages of it.

What the operators remember in a checkpoint can be read as a frame (``state``); nothing is written
for it.

One row in, the same row out with its end: refused for a named reason, received, too late, or
waiting in its queue; and which acknowledgments are due, and where copies are kept. All but one of
the rules decide by the row, its queue and the time alone (``rules``), and so need no memory.

The one is the quota (``quotas``). Where a queue of the table has one, the rows of each queue are
brought together and decided in the order of their arrival; in a stream Spark keeps what lies in
each queue, and when it leaves, with the checkpoint. Other rows stay in Spark meanwhile
(``key_buckets``).

Upholds: I11 (one end), I12 (one dead letter), I13 (true acknowledgments), I14, I15, I24 (what is no
state of this operator is refused, not guessed).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from onceq.model.limits import ANSWER_QUEUES_MAX
from onceq.spark.argument_checks import (
    described,
    require_flag,
    require_frame,
    require_integer,
    require_session,
    shorten,
    wrong,
)
from onceq.spark.operators import eod, numbering, quotas, rules
from onceq.spark.operators.arrivals import (
    ADDED,
    COLUMNS,
    DECIDING,
    OPTIONAL,
    Settler,
    build_outcomes,
    messages_of,
    queue_table,
    sound_of,
)
from onceq.spark.operators.columns import (
    SEPARATOR,
    STREAM_MAX,
    TEXT,
    checked_buckets,
    free,
    need,
    order_of,
    with_columns,
)
from onceq.spark.operators.key_buckets import (
    BATCH_ROWS,
    BUCKETS,
    CLOCK,
    FOUND,
    Answers,
    BucketRecords,
    answered,
    bucketed,
    clocked,
    deciding,
    in_one_task,
    unnamed,
)
from onceq.spark.operators.quotas import Limited
from onceq.spark.operators.rules import FOREVER, NUMBER_MAX

# ---- settling ------------------------------------------------------------------------------------


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
            yield build_outcomes(messages, sound_of(rows), rules.refused(messages), now_s, work)

    return answers


def _order(frame: Any, order_by: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns by which rows are ordered; none: by their arrival."""
    return () if order_by is None else order_of(frame, WHAT, order_by)


# ---- saved state ---------------------------------------------------------------------------------
#
# What the operators remember, as a frame: `state`.


STATE_VARIABLE: Final = "memory"
OPERATOR_MAX: Final = (1 << 31) - 1
SECOND_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class StateKind:
    """How one operator's memory becomes rows.

    Attributes:
        fields: What is remembered of a key: by these the memories of operators are told apart.
        schema: The columns of the rows, as Spark spells them.
        rows: The table of a bucket's memory.
    """

    fields: frozenset[str]
    schema: str
    rows: Callable[[BucketRecords], Any]


def state(
    spark: Any, checkpoint: str | os.PathLike[str], operator: str = eod.WHAT, *,
    operator_id: int | None = None,
) -> Any:  # fmt: skip
    """What an operator remembers of its streams, out of the checkpoint of a query.

    Args:
        spark: A session.
        checkpoint: The checkpoint of the query, as ``checkpointLocation`` names it; the query may
            run, or not.
        operator: "eod_filter", "number" or "settle" (where queues have quotas).
        operator_id: Which of several operators with a memory in one query is meant, by the number
            that Spark has given it. Needed only where it has two of this kind.

    Returns:
        A row for each pair of sender and queue (``settle``: for each queue) with the columns of
        ``KINDS``; names as keys have them: in lower case, with backslashes.

    Raises:
        ConfigurationError: There is no such checkpoint, it is of another operator or of another
            version, or a parameter makes no sense.
    """
    require_session(spark, "state")
    if operator not in KINDS:
        raise wrong(f"state: operator is one of {', '.join(KINDS)}, not {shorten(operator)}")
    if not isinstance(checkpoint, str | os.PathLike) or not str(checkpoint):
        raise wrong(f"state: checkpoint is the path of one, not {described(checkpoint)}")
    place = os.fspath(checkpoint)
    kind = KINDS[operator]
    reader = spark.read.format("statestore").option("stateVarName", STATE_VARIABLE)
    frames = {
        at: reader.option("operatorId", at).load(place)
        for at in _operators(spark, place, operator_id)
    }
    from pyspark.errors import PySparkException

    # The fields of one bucket's memory; None where nothing is remembered yet.
    samples: dict[int, frozenset[str] | None] = {}
    for at, frame in frames.items():
        try:
            row = frame.select(f"value.{STATE_VARIABLE}").first()
        except PySparkException as error:
            raise wrong(f"{place} cannot be read: {_first_line(error)}") from None
        samples[at] = (
            None if row is None else frozenset(BucketRecords.opened(bytes(row[0]), place).fields)
        )
    mine = [at for at, found in samples.items() if found is None or found == kind.fields]
    full = [at for at in mine if samples[at] is not None]
    if not mine:
        others = ", ".join(sorted({_named(found) for found in samples.values() if found}))
        raise wrong(f"{place} has no memory of {operator}, but of {others}; say operator=")
    if len(full) > 1:
        raise wrong(
            f"the query of {place} has {len(full)} operators {operator}; say which one: "
            f"operator_id= {' or '.join(map(str, full))}"
        )
    values = frames[(full or mine)[0]].select(f"value.{STATE_VARIABLE}")
    return values.mapInArrow(_rows(kind), kind.schema)


def _operators(spark: Any, place: str, wanted: int | None) -> list[int]:
    """Numbers of the operators of a query that keep a memory as ours do."""
    from pyspark.errors import PySparkException

    try:
        found = spark.read.format("state-metadata").load(place).collect()
    except PySparkException as error:
        raise wrong(
            f"{place} is no checkpoint of a query with a memory, as far as this session can read "
            f"it: {_first_line(error)}"
        ) from None
    if wanted is not None:
        require_integer(wanted, "state: operator_id", 0, OPERATOR_MAX)
    ours = {row.operatorId for row in found if _is_ours(row)}
    if wanted is not None and wanted in ours:
        return [wanted]
    if not found:
        raise wrong(f"{place} is no checkpoint of a query that remembers anything: it has no state")
    if wanted is not None or not ours:
        known = ", ".join(sorted({f"{row.operatorId} ({row.operatorName})" for row in found}))
        raise wrong(
            f"{place} has no memory of an operator of onceq"
            + ("" if wanted is None else f" with operator_id={wanted}")
            + f"; the operators of its query that have one are {known or 'none'}"
        )
    return sorted(ours)


def _is_ours(row: Any) -> bool:
    """Whether an operator has a value of our name, and nothing else."""
    if not str(row.operatorName).startswith("transformWithState"):
        return False
    try:
        known = json.loads(row.operatorProperties or "{}")
        variables = known.get("stateVariables", [])
        variables = json.loads(variables) if isinstance(variables, str) else variables
        names = [one["stateName"] for one in variables]
    except (ValueError, TypeError, KeyError, AttributeError):
        return False
    return names == [STATE_VARIABLE]


def _rows(kind: StateKind) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def rows(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for value in batch.column(0):
                table = kind.rows(BucketRecords.opened(value.as_buffer(), "this checkpoint"))
                yield from table.to_batches(max_chunksize=BATCH_ROWS)

    return rows


def _named(fields: frozenset[str]) -> str:
    return next((name for name, kind in KINDS.items() if kind.fields == fields), "something else")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


# ---- a memory as rows ----------------------------------------------------------------------------


def _pairs(memory: BucketRecords) -> dict[str, Any]:
    """Sender and queue of each key."""
    pairs = [key.split(SEPARATOR, 1) for key in memory.keys.to_pylist()]
    return {
        name: pa.array([pair[at] for pair in pairs], pa.string()) for at, name in enumerate(eod.KEY)
    }


def _filtered(memory: BucketRecords) -> Any:
    return pa.table({
        **_pairs(memory),
        "streamId": pa.array(memory.fields["stream"]).cast(pa.string()),
        "lastNumber": pa.array(memory.fields["last"]),
        "lastSeen": _times(memory.fields["seen"] * SECOND_US),
    })  # fmt: skip


def _numbered(memory: BucketRecords) -> Any:
    return pa.table({
        **_pairs(memory),
        "streamId": pa.array(memory.fields["stream"]).cast(pa.string()),
        "lastNumber": pa.array(memory.fields["last"]),
        "acknowledged": pa.array(memory.fields["acknowledged"]),
        "commitOrder": pa.array(memory.fields["commit"]),
        "sendOrder": pa.array(memory.fields["send"]),
    })  # fmt: skip


def _limited(memory: BucketRecords) -> Any:
    """One row for each queue, of which there are many records."""
    encoded = memory.keys.dictionary_encode()
    codes, keys = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary
    leaves, sizes = memory.fields["leaves"], memory.fields["bytes"]
    held, stays = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    first, last = np.full(len(keys), FOREVER), np.full(len(keys), -FOREVER)
    np.add.at(held, codes, sizes)
    np.add.at(stays, codes[leaves == FOREVER], sizes[leaves == FOREVER])
    np.minimum.at(first, codes, leaves)
    np.maximum.at(last, codes, memory.fields["since"])
    return pa.table({
        "queue": keys,
        "usedBytes": pa.array(held),
        "staysBytes": pa.array(stays),
        "nextLeaves": _times(first),
        "lastArrived": _times(last),
    })  # fmt: skip


def _times(micros: Any) -> Any:
    """Times; what never is has none."""
    return pa.array(micros, mask=np.abs(micros) == FOREVER).cast(pa.timestamp("us", "UTC"))


KINDS: Final = {
    eod.WHAT: StateKind(
        frozenset(eod.FIELDS),
        "sourceMachine string, queue string, streamId string, lastNumber bigint, "
        "lastSeen timestamp",
        _filtered,
    ),
    numbering.WHAT: StateKind(
        frozenset(numbering.FIELDS),
        "sourceMachine string, queue string, streamId string, lastNumber bigint, "
        "acknowledged bigint, commitOrder bigint, sendOrder bigint",
        _numbered,
    ),
    WHAT: StateKind(
        frozenset(quotas.FIELDS),
        "queue string, usedBytes bigint, staysBytes bigint, nextLeaves timestamp, "
        "lastArrived timestamp",
        _limited,
    ),
}
