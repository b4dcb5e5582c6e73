"""Which rows belong together: pairs of sender and queue, found once for each distinct text.

Names compare in any case and with either slash (FN-1), as the keys of the core's streams do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.model.spelling import folded
from onceq.spark.operators.rules import Flags, Ints

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
    """The bucket of each key: the same one on every machine, for ever."""
    raw = keys.cast(pa.binary()).to_pylist()
    return np.fromiter((crc32(key) % buckets for key in raw), np.int64, len(raw))
