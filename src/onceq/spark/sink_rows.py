"""Rows of a record batch as pieces to send: those with the same destination and properties.

Columns are compared with themselves, one row shifted, in Arrow; where any of them changes a piece
ends. Label and the like, which a batch may have for each message, end no piece: they go along as
lists. The bodies of a piece stand one after another in Arrow's own buffer and leave it as one slice
with a table of lengths, so no object is made for a body.

Rows to several destinations are put together by destination first, where these have nothing to do
with each other: order is kept in each queue, and nobody sees any other.

Upholds: I5 at the connector (the order of the rows is the order of the messages in a queue).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.errors import BodyTooLarge, IllegalPropertyValue, OnceqError
from onceq.model.limits import EXTENSION_BYTES_MAX, LABEL_CHARS_MAX, PACKET_BYTES_MAX
from onceq.model.message import CORRELATION_BYTES, OWN
from onceq.model.run import LENGTH_TYPE, Run
from onceq.model.time import NEVER_S
from onceq.spark.sink_carrying import TROUBLES as CARRYING_TROUBLES
from onceq.spark.sink_carrying import Carrying
from onceq.spark.sink_options import COLUMNS, carries

BODY_BYTES_MAX: Final = PACKET_BYTES_MAX - 4_096
"""A packet less room for its headers."""
_PROPERTIES: Final = {column.name: column.property for column in COLUMNS if column.property}
ALIKE_ROWS_MIN: Final = 64
"""Rows with the same label and the like that are worth a batch of their own, on the average: one
costs the queue manager about as much as that many rows with a header of their own."""
SIGNED: Final = "bodyType"
"""32 bits that Spark's int shows with a sign."""
SIGNED_MIN: Final = -(1 << 31)

Apart = Callable[[Sequence[str | None]], Sequence[int]]
"""Destinations to numbers: with different ones they have no queue in common."""


@dataclass(slots=True)
class Piece:
    """Rows that belong together.

    Attributes:
        rows: Their indices in the batch, rising: a range where they are neighbours there.
        bodies: Of all of them.
        queue: As the rows have it; None: they have none.
        values: Properties by name, without those that are null. A list has the value of each row.
        trouble: Why none of them can be sent, as far as their bodies show.
    """

    rows: Sequence[int]
    bodies: Run
    queue: str | None
    values: dict[str, Any]
    trouble: OnceqError | None = None

    @property
    def shared(self) -> dict[str, Any]:
        """Properties that all of them have in common."""
        return {name: v for name, v in self.values.items() if not isinstance(v, list)}

    def value(self, name: str, index: int, default: Any) -> Any:
        """A property of one row."""
        value = self.values.get(name)
        if isinstance(value, list):
            value = value[index]
        return default if value is None else value


class Pieces:
    """Cuts record batches of one write, whose columns are known."""

    def __init__(
        self, names: Sequence[str], common: Mapping[str, Any], apart: Apart | None = None
    ) -> None:
        """Args:
        names: Of the columns, in their order.
        common: Properties that all messages have.
        apart: Which destinations have nothing to do with each other; None: all rows go to one,
            and stay in order.
        """
        self._carrying = Carrying(names, queue=apart is None) if carries(names) else None
        self._names = tuple(names) if self._carrying is None else self._carrying.names
        self._body = self._names.index("body")
        self._queue = self._names.index("queue") if "queue" in self._names else -1
        self._common = dict(common)
        self._own = [(i, n) for i, n in enumerate(self._names) if _PROPERTIES.get(n) in OWN]
        own = {index for index, _ in self._own}
        self._cut = [i for i, n in enumerate(self._names) if n != "body" and i not in own]
        self._apart = apart

    def of(self, batch: pa.RecordBatch) -> Iterator[Piece]:
        """The rows of a batch: those to one queue in their order."""
        rows = batch.num_rows
        if not rows:
            return
        faults = None
        if self._carrying is not None:
            batch, faults = self._carrying.packed(batch)
        order = self._by_place(batch)
        if order is not None:
            batch = batch.take(pa.array(order))
            faults = None if faults is None else faults[order]
        body = batch.column(self._body)
        offsets, data = _bytes_of(body)
        troubles = _troubles(body, offsets, faults)
        starts = self._starts(batch, troubles)
        columns = {index: batch.column(index) for index in self._cut}
        own = [(name, batch.column(index), _ends(batch.column(index))) for index, name in self._own]
        for first, end in zip(starts, [*starts[1:], rows], strict=True):
            bodies = _run(offsets, data, first, end)
            values = dict(self._common)
            queue = None
            for index, column in columns.items():
                value = column[first].as_py()
                if index == self._queue:
                    queue = value
                elif value is not None:
                    values[_PROPERTIES[self._names[index]]] = value
            for name, column, ends in own:
                _add(values, name, column, ends, first, end)
            trouble = _TROUBLES[troubles[first]] if troubles is not None else None
            at: Sequence[int] = range(first, end)
            if order is not None:
                at = _neighbours(order[first:end].tolist())
            yield Piece(at, bodies, queue, values, trouble)

    def _by_place(self, batch: pa.RecordBatch) -> np.ndarray[Any, Any] | None:
        """Rows in an order that has those of one destination together; None: as they are."""
        if self._queue < 0 or self._apart is None:
            return None
        changes = _changes(batch.column(self._queue))
        if changes is None or not changes.any():
            return None
        encoded = batch.column(self._queue).cast(pa.string()).dictionary_encode("encode")
        if np.count_nonzero(changes) < len(encoded.dictionary):
            return None
        places = np.asarray(self._apart(encoded.dictionary.to_pylist()), np.int64)
        if (places == places[0]).all():
            return None
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        return np.argsort(places[codes], kind="stable")

    def _starts(self, batch: pa.RecordBatch, troubles: np.ndarray[Any, Any] | None) -> list[int]:
        """Indices at which a piece begins."""
        differs = np.zeros(batch.num_rows, dtype=bool)
        differs[0] = True
        for index in self._cut:
            changes = _changes(batch.column(index))
            if changes is not None:
                differs[1:] |= changes
        if troubles is not None:
            differs[1:] |= troubles[1:] != troubles[:-1]
        seldom = self._seldom(batch)
        if seldom is not None:
            differs[1:] |= seldom
        for index, name in self._own:
            # What is wrong with a value is said of its row alone.
            doubtful = _doubtful(name, batch.column(index))
            if doubtful is not None:
                differs |= doubtful
                differs[1:] |= doubtful[:-1]
        found: list[int] = np.flatnonzero(differs).tolist()
        return found

    def _seldom(self, batch: pa.RecordBatch) -> np.ndarray[Any, Any] | None:
        """Where label and the like change, if that is seldom: then what is alike is sent as alike,
        which costs nothing for each row."""
        found = np.zeros(batch.num_rows - 1, dtype=bool)
        for index, _ in self._own:
            changes = _changes(batch.column(index))
            if changes is not None:
                found |= changes
        return found if np.count_nonzero(found) * ALIKE_ROWS_MIN <= batch.num_rows else None


def _neighbours(rows: list[int]) -> Sequence[int]:
    """Rising indices, as a range if they are one."""
    span = range(rows[0], rows[-1] + 1)
    return span if len(span) == len(rows) else rows


def _add(
    values: dict[str, Any], name: str, column: pa.Array, ends: np.ndarray[Any, Any] | None,
    first: int, end: int,
) -> None:  # fmt: skip
    """Put the property of a column into ``values``: one for all rows, where they are alike."""
    if ends is None or not (ends[end - 1] - ends[first]):
        value = column[first].as_py()
        if value is not None:
            values[_PROPERTIES[name]] = _unsigned(value) if name == SIGNED else value
        return
    found = column.slice(first, end - first).to_pylist()
    if name == SIGNED:
        found = [None if value is None else _unsigned(value) for value in found]
    values[_PROPERTIES[name]] = found


def _unsigned(value: int) -> int:
    return value + 1 + NEVER_S if SIGNED_MIN <= value < 0 else value


def _ends(column: pa.Array) -> np.ndarray[Any, Any] | None:
    """How often the values of a column have changed up to each row; None: they never do."""
    changes = _changes(column)
    if changes is None or not changes.any():
        return None
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(changes)))


def _doubtful(name: str, column: pa.Array) -> np.ndarray[Any, Any] | None:
    """Rows whose value may be refused; None: none has one."""
    if column.null_count == len(column):
        return None
    if name == "label":
        # UTF-16 has no more units than UTF-8 has bytes.
        long = pc.greater(pc.binary_length(column), LABEL_CHARS_MAX)
        doubtful = pc.or_(long, pc.greater_equal(pc.find_substring(column, "\0"), 0))
    elif name == "correlationId":
        doubtful = pc.not_equal(pc.binary_length(column), CORRELATION_BYTES)
    elif name == "extension":
        doubtful = pc.greater(pc.binary_length(column), EXTENSION_BYTES_MAX)
    else:
        least = SIGNED_MIN if name == SIGNED else 0
        # Compared as 64 bits, which hold every value that the column may have.
        wide = column.cast("int64")
        doubtful = pc.or_(pc.less(wide, least), pc.greater(wide, NEVER_S))
    if not pc.any(doubtful).as_py():
        return None
    found: np.ndarray[Any, Any] = pc.fill_null(doubtful, False).to_numpy(zero_copy_only=False)
    return found


_TROUBLES: Final = (
    None,
    IllegalPropertyValue("the body is null"),
    BodyTooLarge(f"the body has more than {BODY_BYTES_MAX} bytes, and does not fit into a packet"),
    *CARRYING_TROUBLES,
)
_OF_BODIES: Final = len(_TROUBLES) - len(CARRYING_TROUBLES)


def _troubles(
    body: pa.Array, offsets: np.ndarray[Any, Any], faults: np.ndarray[Any, Any] | None
) -> np.ndarray[Any, Any] | None:
    """Which trouble each row has, as an index; None: none has any.

    Args:
        faults: Of what rows carry, counted from 1; None: they carry nothing.
    """
    large = np.diff(offsets) > BODY_BYTES_MAX
    found: np.ndarray[Any, Any] | None = None
    if body.null_count or large.any():
        nulls = body.is_null().to_numpy(zero_copy_only=False)
        found = np.where(nulls, 1, np.where(large, 2, 0))
    if faults is None or not faults.any():
        return found
    others = 0 if found is None else found
    return np.where(faults > 0, faults + (_OF_BODIES - 1), others)


def _changes(column: pa.Array) -> np.ndarray[Any, Any] | None:
    """Whether each value but the first differs from the one before it; None: all are alike."""
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
    wide = str(body.type).startswith("large_")
    _, offsets, data = body.buffers()
    table = np.frombuffer(offsets, dtype=np.int64 if wide else np.int32)
    view = memoryview(data) if data is not None else memoryview(b"")
    return table[body.offset : body.offset + len(body) + 1], view


def _run(offsets: np.ndarray[Any, Any], data: memoryview, first: int, end: int) -> Run:
    lengths = array(LENGTH_TYPE)
    lengths.frombytes(np.diff(offsets[first : end + 1]).astype(np.uint32).tobytes())
    return Run(data[int(offsets[first]) : int(offsets[end])], lengths)
