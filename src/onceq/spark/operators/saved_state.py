"""What the operators remember, as a frame: ``state``.

An operator on a stream keeps one value for each bucket of keys with the checkpoint
(``key_buckets.Memory``), in a form that only it reads. Spark's own reader of state stores finds
these values, wherever the checkpoint lies; here they become rows, where Spark's tasks run. Nothing
is written, and a query may run meanwhile: the rows are what its last committed micro-batch left.

Upholds: I24 (what is no state of this operator is refused, not guessed).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from onceq.spark.argument_checks import described, require_integer, require_session, shown
from onceq.spark.error_codes import wrong
from onceq.spark.operators import eod, numbering, quotas, settling
from onceq.spark.operators.columns import SEPARATOR
from onceq.spark.operators.key_buckets import BATCH_ROWS, Memory
from onceq.spark.operators.rules import FOREVER

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
    rows: Callable[[Memory], Any]


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
        raise wrong(f"state: operator is one of {', '.join(KINDS)}, not {shown(operator)}")
    if not isinstance(checkpoint, str | os.PathLike) or not str(checkpoint):
        raise wrong(f"state: checkpoint is the path of one, not {described(checkpoint)}")
    place = os.fspath(checkpoint)
    kind = KINDS[operator]
    reader = spark.read.format("statestore").option("stateVarName", STATE_VARIABLE)
    frames = {
        at: reader.option("operatorId", at).load(place)
        for at in _operators(spark, place, operator_id)
    }
    samples = {at: _sample(frame, place) for at, frame in frames.items()}
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


def _sample(frame: Any, place: str) -> frozenset[str] | None:
    """The fields of one bucket's memory; None where nothing is remembered yet."""
    from pyspark.errors import PySparkException

    try:
        row = frame.select(f"value.{STATE_VARIABLE}").first()
    except PySparkException as error:
        raise wrong(f"{place} cannot be read: {_first_line(error)}") from None
    return None if row is None else frozenset(Memory.opened(bytes(row[0]), place).fields)


def _rows(kind: StateKind) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def rows(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for value in batch.column(0):
                table = kind.rows(Memory.opened(value.as_buffer(), "this checkpoint"))
                yield from table.to_batches(max_chunksize=BATCH_ROWS)

    return rows


def _named(fields: frozenset[str]) -> str:
    return next((name for name, kind in KINDS.items() if kind.fields == fields), "something else")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


# ---- a memory as rows ----------------------------------------------------------------------------


def _pairs(memory: Memory) -> dict[str, Any]:
    """Sender and queue of each key."""
    pairs = [key.split(SEPARATOR, 1) for key in memory.keys.to_pylist()]
    return {
        name: pa.array([pair[at] for pair in pairs], pa.string()) for at, name in enumerate(eod.KEY)
    }


def _filtered(memory: Memory) -> Any:
    return pa.table({
        **_pairs(memory),
        "streamId": pa.array(memory.fields["stream"]).cast(pa.string()),
        "lastNumber": pa.array(memory.fields["last"]),
        "lastSeen": _times(memory.fields["seen"] * SECOND_US),
    })  # fmt: skip


def _numbered(memory: Memory) -> Any:
    return pa.table({
        **_pairs(memory),
        "streamId": pa.array(memory.fields["stream"]).cast(pa.string()),
        "lastNumber": pa.array(memory.fields["last"]),
        "acknowledged": pa.array(memory.fields["acknowledged"]),
        "commitOrder": pa.array(memory.fields["commit"]),
        "sendOrder": pa.array(memory.fields["send"]),
    })  # fmt: skip


def _limited(memory: Memory) -> Any:
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
    settling.WHAT: StateKind(
        frozenset(quotas.FIELDS),
        "queue string, usedBytes bigint, staysBytes bigint, nextLeaves timestamp, "
        "lastArrived timestamp",
        _limited,
    ),
}
