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

from onceq.spark.operators.rules import Flags, Ints

SEPARATOR = "\n"
"""Between the parts of a key; no name has one."""


def keyed(table: Any, columns: Sequence[str]) -> tuple[Ints, list[str], Flags]:
    """The key of each row.

    Returns:
        For each row the place of its key, the keys, and whether every part of it was there.
    """
    codes = np.zeros(table.num_rows, np.int64)
    keys = [""]
    there = np.ones(table.num_rows, np.bool_)
    for place, name in enumerate(columns):
        part, texts, good = _coded(table[name])
        there &= good
        codes, pairs = compact(codes * len(texts) + part)
        before = SEPARATOR if place else ""
        keys = [
            keys[pair // len(texts)] + before + texts[pair % len(texts)] for pair in pairs.tolist()
        ]
    return codes, keys, there


def _coded(column: Any) -> tuple[Ints, list[str], Flags]:
    """Each value's place among the distinct names of a column; null counts as the empty name."""
    there = np.ones(len(column), np.bool_)
    if column.null_count:
        there = column.is_valid().to_numpy(zero_copy_only=False)
        column = pc.fill_null(column.cast(pa.string()), "")
    encoded = _whole(column).dictionary_encode()
    places: dict[str, int] = {}
    same = [
        places.setdefault(folded(text), len(places))
        for text in encoded.dictionary.cast(pa.string()).to_pylist()
    ]
    codes = np.asarray(same, np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]
    return codes, list(places) or [""], there


def folded(name: str) -> str:
    """A name as its key has it."""
    return name.casefold().replace("/", "\\")


def compact(values: Ints) -> tuple[Ints, Ints]:
    """Each value's place among the distinct ones, and these."""
    encoded = pa.array(values).dictionary_encode()
    return (
        encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        encoded.dictionary.to_numpy(zero_copy_only=False),
    )


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def bucket_of(keys: Sequence[str], buckets: int) -> Ints:
    """The bucket of each key: the same one on every machine, for ever."""
    return np.fromiter((crc32(key.encode()) % buckets for key in keys), np.int64, len(keys))
