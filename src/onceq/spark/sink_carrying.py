"""Rows that carry a place in a stream: their columns become a header before the extension.

``carrying.py`` has its layout, and the way back. Here it is made for all rows of a batch at once.
Rows that have these columns carry a message each, or, without body and previous number, an order
acknowledgment; a row that is neither is refused by name: as a plain message it would be lost for
whoever reads what is carried.

Upholds: I24; I5 at the connector (a row keeps its numbers, whatever brings it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from onceq.errors import IllegalPropertyValue
from onceq.model.time import NEVER_S
from onceq.spark import carrying as layout
from onceq.spark.operators.columns import numbers_of, streams_of
from onceq.spark.sink_options import CARRIED

Flags = npt.NDArray[np.bool_]
Troubles = npt.NDArray[np.int64]

NO_PLACE, NO_MESSAGE, OUT_OF_RANGE = range(1, 4)
TROUBLES: Final = (
    IllegalPropertyValue(
        "it has no place in a stream: sourceMachine, streamId, seqNumber or the queue that they "
        "are for is null, or is none (number gives none to a row that comes a second time); leave "
        'such rows out with where("seqNumber is not null"), or write them without these columns'
    ),
    IllegalPropertyValue(
        "it is no message and no order acknowledgment: a message has a body, and in prevNumber the "
        "number before it, 0 for none; an order acknowledgment has null in both, and goes to where "
        "the option queue says, or the column queue beside a column destination"
    ),
    IllegalPropertyValue(
        "a value to be carried is out of range: xactId and messageId have 20 bytes, times are not "
        f"before 1970, lifetimes and bytes are from 0 to {NEVER_S}, acknowledge and journal below "
        f"256, and names have up to {layout.NAME_BYTES_MAX} bytes"
    ),
)
_BINARY: Final = pa.binary()
_FIXED_BYTES: Final = 20
_NAMES: Final = ("source", "queue", "admin")


class Carrying:
    """Makes headers of the rows of one write, whose columns are known."""

    def __init__(self, names: Sequence[str], *, queue: bool) -> None:
        """Args:
        names: Of the columns, in their order.
        queue: Whether the option says where all rows go.
        """
        self._names = tuple(names)
        gone = {*(column.name for column in CARRIED), layout.EXTENSION}
        self._plain = [name for name in self._names if name not in gone and name != "body"]
        self.names = ("body", *self._plain, layout.EXTENSION)
        """Of the columns of what ``packed`` gives."""
        self._stream_queue = "destination" if "destination" in self._names else "queue"
        self._apart = queue or self._stream_queue == "destination"

    def packed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Troubles]:
        """The rows of a batch as messages that carry.

        Returns:
            Them, with what they carry in ``extension``; and of each row 0, or which of
            ``TROUBLES`` it is in, counted from 1.
        """
        columns = dict(zip(self._names, batch.columns, strict=True))
        rows = batch.num_rows
        head = np.zeros(rows, layout.HEADER)
        head["magic"], head["version"] = layout.MAGIC, layout.VERSION
        bad = ~self._place(head, columns)
        faults = self._values(head, columns)
        names = [self._text(columns, name) for name in ("sourceMachine", self._stream_queue)]
        names.append(self._text(columns, "adminQueue"))
        size = np.full(rows, layout.HEADER.itemsize, np.int64)
        for field, texts in zip(_NAMES, names, strict=True):
            sizes = pc.binary_length(texts).to_numpy().astype(np.int64)
            faults |= sizes > layout.NAME_BYTES_MAX
            sizes = np.minimum(sizes, layout.NAME_BYTES_MAX)
            head[f"{field}_bytes"] = sizes
            size += sizes
            bad |= (sizes == 0) & (field != "admin")
        head["size"] = size
        acks, others = self._acknowledgments(columns, rows)
        head["kind"] = np.where(acks, layout.ORDER_ACK, layout.MESSAGE)
        troubles = np.select(
            [bad, others, faults], [NO_PLACE, NO_MESSAGE, OUT_OF_RANGE], default=0
        ).astype(np.int64)
        extension = _filled(columns.get(layout.EXTENSION), rows, _BINARY)
        fixed = _fixed(head)
        made = pc.binary_join_element_wise(fixed, *names, extension, pa.scalar(b"", _BINARY))
        return self._joined(columns, acks, made, rows), troubles

    def _joined(
        self, columns: Mapping[str, pa.Array], acks: Flags, extension: pa.Array, rows: int
    ) -> pa.RecordBatch:
        body = columns.get("body")
        if body is None:
            body = pa.array([b""] * rows, _BINARY)
        elif acks.any():
            body = pc.if_else(pa.array(acks), pa.scalar(b"", _BINARY), body.cast(_BINARY))
        plain = [columns[name] for name in self._plain]
        return pa.RecordBatch.from_arrays([body, *plain, extension], names=list(self.names))

    def _place(self, head: Any, columns: Mapping[str, pa.Array]) -> Flags:
        """Put the places in their streams into the headers; which rows have one."""
        streams, known = streams_of(columns["streamId"])
        numbers, numbered = numbers_of(columns["seqNumber"], least=1)
        head["stream"], head["number"] = streams, numbers
        good: Flags = known & numbered
        if "prevNumber" in columns:
            previous, fits = numbers_of(columns["prevNumber"], least=0)
            head["previous"] = previous
            good &= fits | _null(columns["prevNumber"])
        return good

    def _acknowledgments(self, columns: Mapping[str, pa.Array], rows: int) -> tuple[Flags, Flags]:
        """Which rows are order acknowledgments, and which are not even a message."""
        none = np.ones(rows, np.bool_)
        empty = _null(columns["body"]) if "body" in columns else none
        ahead = _null(columns["prevNumber"]) if "prevNumber" in columns else none
        acks: Flags = empty & ahead
        others: Flags = (empty != ahead) | (acks & (not self._apart))
        return acks, others

    def _values(self, head: Any, columns: Mapping[str, pa.Array]) -> Flags:
        """Put everything else into the headers; which rows have a value that does not fit."""
        rows = len(head)
        faults = np.zeros(rows, np.bool_)
        flags = np.zeros(rows, np.int64)
        for name, field, bit in (
            ("xactId", "xact", layout.XACT), ("messageId", "message", layout.MESSAGE_ID),
        ):  # fmt: skip
            if name in columns:
                known = ~_null(columns[name])
                fits = _filled(columns[name], rows, _BINARY)
                right = pc.equal(pc.binary_length(fits), _FIXED_BYTES)
                faults |= known & ~right.to_numpy(zero_copy_only=False)
                flags |= np.where(known, bit, 0)
                zeros = pa.scalar(bytes(_FIXED_BYTES), _BINARY)
                raw = b"".join(pc.if_else(right, fits, zeros).to_pylist())
                head[field] = np.frombuffer(raw, np.uint8).reshape(rows, _FIXED_BYTES)
        for name, true, known_bit in (
            ("firstInXact", layout.FIRST, layout.FIRST_KNOWN),
            ("lastInXact", layout.LAST, layout.LAST_KNOWN), ("encrypted", layout.ENCRYPTED, 0),
        ):  # fmt: skip
            if name in columns:
                values = pc.fill_null(columns[name], False).to_numpy(zero_copy_only=False)
                flags |= np.where(values, true, 0)
                flags |= np.where(_null(columns[name]), 0, known_bit)
        if "sentTime" in columns:
            known = ~_null(columns["sentTime"])
            micros = columns["sentTime"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            sent = pc.fill_null(micros, 0).to_numpy()
            faults |= sent < 0
            flags |= np.where(known, layout.SENT, 0)
            head["sent"] = np.maximum(sent, 0)
        for name, field, most, none in (
            ("timeToReachQueue", "reach", NEVER_S, NEVER_S),
            ("timeToBeReceived", "receive", NEVER_S, NEVER_S),
            ("packetBytes", "bytes", NEVER_S, NEVER_S),
            ("acknowledge", "acknowledge", 0xFF, 0), ("journal", "journal", 0xFF, 0),
        ):  # fmt: skip
            head[field] = none
            if name in columns:
                wide = pc.fill_null(columns[name].cast(pa.int64()), none).to_numpy()
                faults |= (wide < 0) | (wide > most)
                head[field] = np.clip(wide, 0, most)
        head["flags"] = flags
        return faults

    def _text(self, columns: Mapping[str, pa.Array], name: str) -> pa.Array:
        """Names as bytes; none are empty."""
        rows = len(columns["streamId"])
        column = columns.get(name)
        if column is not None:
            column = column.cast(pa.string())
        return _filled(column, rows, _BINARY)


def _null(column: pa.Array) -> Flags:
    found: Flags = column.is_null().to_numpy(zero_copy_only=False)
    return found


def _filled(column: pa.Array | None, rows: int, kind: Any) -> pa.Array:
    """A column of bytes without nulls."""
    if column is None:
        return pa.array([b""] * rows, kind)
    return pc.fill_null(column.cast(kind), b"")


def _fixed(head: Any) -> pa.Array:
    size = layout.HEADER.itemsize
    edges = np.arange(0, (len(head) + 1) * size, size, dtype=np.int32)
    return pa.BinaryArray.from_buffers(
        _BINARY, len(head), [None, pa.py_buffer(edges), pa.py_buffer(head.tobytes())]
    )
