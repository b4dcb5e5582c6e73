"""Rows of record batches as pieces to send, what they carry, and a check sum of them.

A piece has rows with the same destination and properties. Columns are compared with themselves, one
row shifted, in Arrow; where any of them changes, a piece ends. Label and other properties that may
differ for each message end no piece: they go along as lists. The bodies of a piece stand one after
another in Arrow's own buffer and leave it as one slice with a table of lengths, so no object is
made for a body. Rows to several destinations are sorted by destination first, where these have no
queue in common: order is kept in each queue, and no receiver sees any other.

``Carrying`` makes a header before the extension, for all rows of a batch at once
(``message_columns`` has its layout, and reads it). Rows with its columns carry a message each or,
without body and previous number, an order acknowledgment. A row that is neither is refused: as a
plain message it would be lost to the application that reads carried ones.

``rows_sum`` is a check sum of a write that does not depend on the order of its rows and tasks: a
repeated write has them in another order after any shuffle. It finds mistakes (two writes under one
name and version), not forgery: a row that differs is found by 32 bits.

Upholds: I4, I5 at the connector (the order of rows is the order of messages in a queue; a row keeps
its numbers; what is taken for a repetition is one), I24.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from onceq.errors import BodyTooLarge, IllegalPropertyValue, OnceqError
from onceq.model.limits import EXTENSION_BYTES_MAX, LABEL_CHARS_MAX, PACKET_BYTES_MAX
from onceq.model.marks import NEVER_S
from onceq.model.message import CORRELATION_BYTES, OWN
from onceq.model.names import folded
from onceq.model.run import LENGTH_TYPE, Run
from onceq.spark import message_columns as layout
from onceq.spark.operators.columns import numbers_of, streams_of
from onceq.spark.sink.options import CARRIED, COLUMNS, carries

Flags = npt.NDArray[np.bool_]
Troubles = npt.NDArray[np.int64]

NO_PLACE, NO_MESSAGE, OUT_OF_RANGE = range(1, 4)
CARRYING_TROUBLES: Final = (
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
        # Which rows are order acknowledgments, and which are not even a message.
        none = np.ones(rows, np.bool_)
        empty = _null(columns["body"]) if "body" in columns else none
        ahead = _null(columns["prevNumber"]) if "prevNumber" in columns else none
        acks: Flags = empty & ahead
        others: Flags = (empty != ahead) | (acks & (not self._apart))
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
        # Where each body begins and ends, and the bytes in which they stand.
        _, edges, stored = body.buffers()
        wide = str(body.type).startswith("large_")
        offsets = np.frombuffer(edges, dtype=np.int64 if wide else np.int32)
        offsets = offsets[body.offset : body.offset + len(body) + 1]
        data = memoryview(stored) if stored is not None else memoryview(b"")
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
                # They rise: as a range if they are one.
                at = order[first:end].tolist()
                span = range(at[0], at[-1] + 1)
                at = span if len(span) == len(at) else at
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
        # Where label and the like change, if that is seldom: then what is alike is sent as alike,
        # which costs nothing for each row.
        others = np.zeros(batch.num_rows - 1, dtype=bool)
        for index, _ in self._own:
            changes = _changes(batch.column(index))
            if changes is not None:
                others |= changes
        if np.count_nonzero(others) * ALIKE_ROWS_MIN <= batch.num_rows:
            differs[1:] |= others
        for index, name in self._own:
            # What is wrong with a value is said of its row alone.
            doubtful = _doubtful(name, batch.column(index))
            if doubtful is not None:
                differs |= doubtful
                differs[1:] |= doubtful[:-1]
        found: list[int] = np.flatnonzero(differs).tolist()
        return found


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


def _run(offsets: np.ndarray[Any, Any], data: memoryview, first: int, end: int) -> Run:
    lengths = array(LENGTH_TYPE)
    lengths.frombytes(np.diff(offsets[first : end + 1]).astype(np.uint32).tobytes())
    return Run(data[int(offsets[first]) : int(offsets[end])], lengths)


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
        sums = list(map(crc32, _values_of(batch.column(index)), [one ^ before for one in sums]))
    mixed = np.array(sums, np.uint64)
    # Spread over 64 bits, so that other rows have another sum (splitmix64).
    with np.errstate(over="ignore"):
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return int(mixed.sum(dtype=np.uint64))


def _values_of(column: pa.Array) -> Iterable[bytes | memoryview]:
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
