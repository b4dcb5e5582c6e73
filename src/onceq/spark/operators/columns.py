"""The columns of the operators: checked on the driver, taken out of Arrow, compared as names.

Names compare in any case and with either slash (FN-1, ``spelling.folded``), as the keys of the
core's streams do. ``keyed`` finds which rows belong to one pair of sender and queue, once for each
distinct text.

``alike_column`` is for Spark, which must bring all spellings of a name into one task. Spark's own
functions fold some letters otherwise than Python does, so they are told letter by letter what to
do. Some letters become several by folding (``ß`` becomes ``ss``); those of them that are not ASCII
are left out everywhere. So different names may share a text, and meet in one task for nothing; but
spellings of one name always share it, because the text is made of the folded name alone.

Upholds: I24 (what is no number of a stream is refused).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.model.identity import read_number
from onceq.model.names import folded
from onceq.spark.argument_checks import require_frame, require_integer, require_names, wrong
from onceq.spark.operators.rules import NUMBER_MAX, Flags, Ints, Streams

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
    require_frame(frame, what)
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
    return require_integer(buckets, "buckets", 1, BUCKETS_MAX)


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
    names = require_names(order_by, f"{what}: order_by")
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
    found = [read_number(str(value), STREAM_MAX) for value in encoded.dictionary.to_pylist()]
    texts = found or [None]
    values = np.array([text or 0 for text in texts], np.uint64)
    known = np.array([text is not None for text in texts], np.bool_)
    places = encoded.indices
    there = places.is_valid().to_numpy(zero_copy_only=False)
    at = places.fill_null(0).to_numpy(zero_copy_only=False)
    good: Flags = there & known[at]
    return np.where(good, values[at], np.uint64(0)), good


SEPARATOR = "\n"
"""Between the parts of a key; no name has one."""


def keyed(table: Any, columns: Sequence[str]) -> tuple[Ints, Any, Flags]:
    """The key of each row.

    Returns:
        For each row the place of its key, the keys (an Arrow array), and whether every part of it
        was there.
    """
    codes = np.zeros(table.num_rows, np.int64)
    keys: Any = None
    there = np.ones(table.num_rows, np.bool_)
    for name in columns:
        part, texts, good = _coded(table[name])
        there &= good
        codes, pairs = compact(codes * max(len(texts), 1) + part)
        here = texts.take(pa.array(pairs % max(len(texts), 1)))
        if keys is None:
            keys = here
        else:
            before = keys.take(pa.array(pairs // max(len(texts), 1)))
            keys = pc.binary_join_element_wise(before, here, SEPARATOR)
    return codes, keys, there


def _coded(column: Any) -> tuple[Ints, Any, Flags]:
    """Each value's place among the distinct names of a column; null counts as the empty name."""
    there = np.ones(len(column), np.bool_)
    if column.null_count:
        there = column.is_valid().to_numpy(zero_copy_only=False)
        column = pc.fill_null(column.cast(pa.string()), "")
    encoded = _whole(column).dictionary_encode()
    same = all_folded(encoded.dictionary.cast(pa.string())).dictionary_encode()
    codes = same.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes[encoded.indices.to_numpy(zero_copy_only=False)], same.dictionary, there


def all_folded(names: Any) -> Any:
    """``folded`` for an Arrow array."""
    if pc.all(pc.string_is_ascii(names)).as_py() is False:
        return pa.array([folded(name) for name in names.to_pylist()], pa.string())
    return pc.replace_substring(pc.ascii_lower(names), "/", "\\")


def compact(values: Ints) -> tuple[Ints, Ints]:
    """Each value's place among the distinct ones, and these."""
    encoded = pa.array(values).dictionary_encode()
    return (
        encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        encoded.dictionary.to_numpy(zero_copy_only=False),
    )


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def bucket_of(keys: Any, buckets: int) -> Ints:
    """Return the bucket of each key: the same one on every machine and in every version."""
    raw = keys.cast(pa.binary()).to_pylist()
    return np.fromiter((crc32(key) % buckets for key in raw), np.int64, len(raw))


LETTERS: Final = 0x20000
"""No letter from here on has another case."""


def alike(name: str) -> str:
    """What ``alike_column`` makes of a name."""
    _, _, left_out = _letters()
    return "".join(letter for letter in folded(name) if letter not in left_out)


def alike_column(name: Any) -> Any:
    """The text that spellings of a name share, as an expression; ``name``: a column of text."""
    from pyspark.sql import functions as sql

    several, single, left_out = _letters()
    foreign = name
    for letter, letters in several.items():
        foreign = sql.replace(foreign, sql.lit(letter), sql.lit(letters))
    # Letters for which nothing is left in the third text are dropped.
    foreign = sql.translate(
        foreign, "".join(single) + "".join(sorted(left_out)), "".join(single.values())
    )
    plain = sql.replace(sql.lower(name), sql.lit("/"), sql.lit("\\"))
    return sql.when(sql.octet_length(name) == sql.char_length(name), plain).otherwise(foreign)


@cache
def _letters() -> tuple[dict[str, str], dict[str, str], frozenset[str]]:
    """Letters that become several ones, of which the ASCII ones stay; letters that become another
    one; and letters that are left out."""
    folds = {chr(code): folded(chr(code)) for code in range(LETTERS)}
    many = [letter for letter, fold in folds.items() if len(fold) > 1]
    parts = {part for letter in many for part in folds[letter] if not part.isascii()}
    kept = {
        letter: "".join(part for part in fold if part not in parts)
        for letter, fold in folds.items()
        if fold != letter or letter in parts
    }
    several = {letter: kept[letter] for letter in many if kept[letter]}
    single = {letter: one for letter, one in kept.items() if one and letter not in several}
    left_out = frozenset(letter for letter, text in kept.items() if not text)
    return several, single, left_out
