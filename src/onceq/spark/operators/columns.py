"""The columns of the operators: checked on the driver, before any task runs; taken out of Arrow.

Upholds: I24 (what is no number of a stream is noticed, not believed).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.model.numbers import read_number
from onceq.spark.given import frame_given, names_given, whole_given
from onceq.spark.operators.rules import NUMBER_MAX, Flags, Ints, Streams
from onceq.spark.options import wrong

STREAM_MAX: Final = (1 << 64) - 1
BUCKETS_MAX: Final = 32_767

WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
TEXT: Final = ("string",)
YES_NO: Final = ("boolean",)
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"


def need(frame: Any, what: str, columns: Mapping[str, tuple[Sequence[str], str]]) -> None:
    """Refuse a frame that lacks columns, or has them with another type.

    Args:
        what: The operator, and the parameter if that is not its first.
        columns: By name: types that it may have (empty: any), and what it is.

    Raises:
        ConfigurationError: It is no frame; or with all that is missing, and how to come by it.
    """
    frame_given(frame, what)
    kinds = dict(frame.dtypes)
    missing = [f"{name} ({meaning})" for name, (_, meaning) in columns.items() if name not in kinds]
    if missing:
        raise wrong(
            f"{what} needs the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}; there "
            f'are {", ".join(kinds) or "none"}. Rename what you have: .withColumnRenamed("number", '
            '"seqNumber"), or add it: .withColumn(...)'
        )
    for name, (types, _) in columns.items():
        if types and kinds[name] not in types:
            raise wrong(
                f"{what}: column {name} is {kinds[name]}, and {' or '.join(types)} is needed; "
                f'cast it: .withColumn("{name}", col("{name}").cast("{types[-1]}"))'
            )


def free(frame: Any, what: str, names: Sequence[str]) -> None:
    """Refuse a frame that has columns which the operator adds; raises ConfigurationError."""
    there = [name for name in names if name.casefold() in {c.casefold() for c in frame.columns}]
    if there:
        raise wrong(
            f"{what} adds the column{'s' if len(there) > 1 else ''} {', '.join(there)}, which the "
            "frame has already; rename or drop what is there"
        )


def checked_buckets(buckets: int) -> int:
    """A number of buckets that is allowed; raises ConfigurationError."""
    return whole_given(buckets, "buckets", 1, BUCKETS_MAX)


def stateful(frame: Any, what: str) -> None:
    """Refuse a stream whose session keeps state elsewhere than in RocksDB.

    Raises:
        ConfigurationError: With the setting to be made.
    """
    found = frame.sparkSession.conf.get(PROVIDER, "")
    if found != ROCKSDB:
        raise wrong(
            f"{what} on a stream keeps its state in RocksDB, and this session has another store; "
            f'before the query is started: spark.conf.set("{PROVIDER}", "{ROCKSDB}")'
        )


def with_columns(frame: Any, names: Mapping[str, str]) -> Any:
    """The schema of a frame with columns added, by name and type; any column may be null then."""
    from pyspark.sql.types import StructField, StructType

    added = StructType.fromDDL(", ".join(f"{name} {kind}" for name, kind in names.items()))
    fields = [StructField(f.name, f.dataType, True) for f in frame.schema.fields]
    return StructType([*fields, *added.fields])


def order_of(frame: Any, what: str, order_by: str | Sequence[str] | None) -> tuple[str, ...]:
    """The columns that say in which order rows count; none: the order of streams and numbers.

    Raises:
        ConfigurationError: A column that is named is not there.
    """
    if order_by is None:
        return ("lookupId",) if "lookupId" in frame.columns else ()
    names = names_given(order_by, f"{what}: order_by")
    need(frame, f"{what}: order_by", dict.fromkeys(names, ((), "the order of the rows")))
    return names


# ---- out of Arrow --------------------------------------------------------------------------


def numbers_of(column: Any, *, least: int, most: int = NUMBER_MAX) -> tuple[Ints, Flags]:
    """Whole numbers, and which of them are there and in range; the others are 0."""
    values = pc.fill_null(column, -1).to_numpy().astype(np.int64)
    good = (values >= least) & (values <= most)
    return np.where(good, values, 0), good


def streams_of(column: Any) -> tuple[Streams, Flags]:
    """Stream identifiers, from text or numbers, and which of them are there; others are 0."""
    encoded = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = encoded.dictionary_encode()
    texts = [_stream(value) for value in encoded.dictionary.to_pylist()] or [None]
    values = np.array([text or 0 for text in texts], np.uint64)
    known = np.array([text is not None for text in texts], np.bool_)
    places = encoded.indices
    there = places.is_valid().to_numpy(zero_copy_only=False)
    at = places.fill_null(0).to_numpy(zero_copy_only=False)
    good: Flags = there & known[at]
    return np.where(good, values[at], np.uint64(0)), good


def _stream(value: object) -> int | None:
    return read_number(str(value), STREAM_MAX)
