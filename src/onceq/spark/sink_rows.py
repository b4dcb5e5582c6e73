"""Rows of a record batch as pieces to send: neighbours with the same destination and properties.

Columns are compared with themselves, one row shifted, in Arrow; where any of them changes a piece
ends. The bodies of a piece stand one after another in Arrow's own buffer and leave it as one slice
with a table of lengths, so no object is made for a row.

Upholds: I5 at the connector (the order of the rows is the order of the messages).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from onceq.errors import BodyTooLarge, IllegalPropertyValue, OnceqError
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.run import LENGTH_TYPE, Run
from onceq.spark.sink_options import COLUMNS

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

BODY_BYTES_MAX: Final = PACKET_BYTES_MAX - 4_096
"""A packet less room for its headers."""
_PROPERTIES: Final = {column.name: column.property for column in COLUMNS if column.property}
_UNSIGNED: Final = frozenset(("bodyType",))
"""32 bits that Spark's int shows with a sign."""


@dataclass(slots=True)
class Piece:
    """Rows that belong together.

    Attributes:
        first: Index of the first in the batch.
        bodies: Of all of them.
        queue: As the rows have it; None: they have none.
        values: Properties by name, without those that are null.
        trouble: Why none of them can be sent, as far as their bodies show.
    """

    first: int
    bodies: Run
    queue: str | None
    values: dict[str, Any]
    trouble: OnceqError | None = None


class Pieces:
    """Cuts record batches of one write, whose columns are known."""

    def __init__(self, names: Sequence[str], common: Mapping[str, Any]) -> None:
        """Args:
        names: Of the columns, in their order.
        common: Properties that all messages have.
        """
        self._names = tuple(names)
        self._body = self._names.index("body")
        self._common = dict(common)
        self._shared = [(i, n) for i, n in enumerate(self._names) if n != "body"]

    def of(self, batch: pa.RecordBatch) -> Iterator[Piece]:
        """The rows of a batch, in their order."""
        rows = batch.num_rows
        if not rows:
            return
        body = batch.column(self._body)
        offsets, data = _bytes_of(body)
        troubles = _troubles(body, offsets)
        starts = self._starts(batch, troubles)
        columns = [(name, batch.column(index)) for index, name in self._shared]
        for first, end in zip(starts, [*starts[1:], rows], strict=True):
            bodies = _run(offsets, data, first, end)
            values = dict(self._common)
            queue = None
            for name, column in columns:
                value = column[first].as_py()
                if name == "queue":
                    queue = value
                elif value is not None:
                    values[_PROPERTIES[name]] = value & 0xFFFF_FFFF if name in _UNSIGNED else value
            trouble = _TROUBLES[troubles[first]] if troubles is not None else None
            yield Piece(first, bodies, queue, values, trouble)

    def _starts(self, batch: pa.RecordBatch, troubles: np.ndarray[Any, Any] | None) -> list[int]:
        """Indices at which a piece begins."""
        import numpy as np

        differs = np.zeros(batch.num_rows, dtype=bool)
        differs[0] = True
        for index, _ in self._shared:
            changes = _changes(batch.column(index))
            if changes is not None:
                differs[1:] |= changes
        if troubles is not None:
            differs[1:] |= troubles[1:] != troubles[:-1]
        found: list[int] = np.flatnonzero(differs).tolist()
        return found


_TROUBLES: Final = (
    None,
    IllegalPropertyValue("the body is null"),
    BodyTooLarge(f"the body has more than {BODY_BYTES_MAX} bytes, and does not fit into a packet"),
)


def _troubles(body: pa.Array, offsets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Which trouble each body has, as an index; None: none has any."""
    import numpy as np

    large = np.diff(offsets) > BODY_BYTES_MAX
    if not body.null_count and not large.any():
        return None
    nulls = body.is_null().to_numpy(zero_copy_only=False)
    return np.where(nulls, 1, np.where(large, 2, 0))


def _changes(column: pa.Array) -> np.ndarray[Any, Any] | None:
    """Whether each value but the first differs from the one before it; None: all are alike."""
    import pyarrow.compute as pc

    if column.null_count == len(column):
        return None
    now, before = column.slice(1), column.slice(0, len(column) - 1)
    changes = pc.fill_null(pc.not_equal(now, before), False)
    if column.null_count:
        changes = pc.or_(changes, pc.xor(now.is_null(), before.is_null()))
    found: np.ndarray[Any, Any] = changes.to_numpy(zero_copy_only=False)
    return found


def _bytes_of(body: pa.Array) -> tuple[np.ndarray[Any, Any], memoryview]:
    """Where each body begins and ends, and the bytes in which they stand."""
    import numpy as np

    wide = str(body.type).startswith("large_")
    _, offsets, data = body.buffers()
    table = np.frombuffer(offsets, dtype=np.int64 if wide else np.int32)
    view = memoryview(data) if data is not None else memoryview(b"")
    return table[body.offset : body.offset + len(body) + 1], view


def _run(offsets: np.ndarray[Any, Any], data: memoryview, first: int, end: int) -> Run:
    import numpy as np

    lengths = array(LENGTH_TYPE)
    lengths.frombytes(np.diff(offsets[first : end + 1]).astype(np.uint32).tobytes())
    return Run(data[int(offsets[first]) : int(offsets[end])], lengths)
