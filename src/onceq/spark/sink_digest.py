"""What is in a write, in one number, whatever the order of its rows and its tasks.

A write that is repeated has its rows in another order, and in other tasks, after any shuffle. So
each row has a check sum over all its columns, and these are mixed and added up: the sum is the same
for the same rows. It is to find mistakes (two writes under one name and version), not forgery: a
row that differs is found by 32 bits.

Upholds: I4 at the connector (what is taken for a repetition is one).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from onceq.model.spelling import folded

_NULL: Final = b"\0null"
_TARGET_CHARS: Final = 32


def target_of(queue: str) -> str:
    """What is remembered of the destination of a write, in few characters.

    Args:
        queue: As the option has it, in any case; empty: each row says it.
    """
    name = folded(queue)
    return sha256(name.encode()).hexdigest()[:_TARGET_CHARS] if name else "column"


def digest_of(target: str, rows: int, total: int) -> str:
    """What is remembered of a whole write.

    Args:
        total: The sum of what ``rows_sum`` has found, of any size.
    """
    return f"{rows} rows {sha256(f'{target} {total % (1 << 64)}'.encode()).hexdigest()[:16]}"


def rows_sum(batch: pa.RecordBatch, names: Sequence[str]) -> int:
    """The sum of the rows of a batch; those of several batches are added up.

    Args:
        names: Of the columns, as the sink calls them; their order means nothing.
    """
    if not batch.num_rows:
        return 0
    sums = [0] * batch.num_rows
    for name, index in sorted((name, index) for index, name in enumerate(names)):
        # The name goes before the values: the same value in another column is another row.
        before = crc32(name.encode())
        sums = list(map(crc32, _bytes_of(batch.column(index)), [one ^ before for one in sums]))
    return int(_mixed(np.array(sums, np.uint64)).sum(dtype=np.uint64))


def _bytes_of(column: pa.Array) -> Iterable[bytes | memoryview]:
    kind = column.type
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        column = column.cast(pa.string()).cast(pa.binary())
    if column.null_count:
        column = column.fill_null(_NULL)
    wide = pa.types.is_large_binary(column.type)
    _, offsets, data = column.buffers()
    table = np.frombuffer(offsets, np.int64 if wide else np.int32)
    ends = table[column.offset : column.offset + len(column) + 1].tolist()
    view = memoryview(data) if data is not None else memoryview(b"")
    # Slices of the buffer: no body is copied.
    return [view[first:end] for first, end in pairwise(ends)]


def _mixed(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Spread over 64 bits, so that other rows have another sum (splitmix64)."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: np.ndarray[Any, Any] = values ^ (values >> np.uint64(31))
    return mixed
