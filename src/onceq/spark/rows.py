"""From packets to the columns that Spark sees, many at a time.

Packets of a batch mostly differ in numbers, sizes and body only. One ``struct`` made for the
headers of the first reads all fixed fields of each that has the same form, and a table of these
becomes columns at once; a packet of another form is taken apart with every check and gives the
next form. Bodies alone take the still shorter way of the client library.

Arrow wants batches that equal the declared schema in order, types and nullability.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from onceq.model.identity import guid_text
from onceq.packet import layout as at
from onceq.packet.decode import headers, message_of
from onceq.spark.options import wrong

if TYPE_CHECKING:
    import pyarrow as pa

    from onceq.client.results import Batch

COLUMNS: Final = {
    "body": "binary",
    "label": "string",
    "queue": "string",
    "lookupId": "bigint",
    "messageId": "binary",
    "correlationId": "binary",
    "sentTime": "timestamp",
    "arrivedTime": "timestamp",
    "priority": "int",
    "bodyType": "int",
    "appSpecific": "bigint",
    "streamId": "string",
    "seqNumber": "bigint",
    "prevNumber": "bigint",
    "xactId": "binary",
    "firstInXact": "boolean",
    "lastInXact": "boolean",
    "sourceMachine": "string",
    "responseQueue": "string",
    "adminQueue": "string",
}
"""Every column and its SQL type, in the order of ``SELECT *``."""

SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

SECOND_US: Final = 1_000_000

_QUICK = frozenset(("body", "lookupId", "queue", "arrivedTime"))
(
    _FLAGS, _SOURCE, _SENT, _NUMBER, _TX, _STREAM, _SEQ, _PREV, _CORRELATION, _BODY_TYPE,
    _APP, _LABEL, _ADMIN, _RESPONSE, _BODY,
) = range(15)  # fmt: skip


def wanted(schema: Any) -> tuple[str, ...]:
    """The names of the columns that a reader is asked for; users prune with ``.schema(...)``.

    Raises:
        ConfigurationError: There is no such column, or it has another type.
    """
    names = []
    for item in schema.fields:
        kind = COLUMNS.get(item.name)
        if kind is None:
            raise wrong(f"there is no column {item.name!r}; there are {', '.join(COLUMNS)}")
        if item.dataType.simpleString() != kind:
            given = item.dataType.simpleString()
            raise wrong(f"column {item.name} is {kind}, not {given}; cast it after reading")
        names.append(item.name)
    return tuple(names)


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """What Spark expects of the record batches."""
    import pyarrow as pa

    kinds = {
        "binary": pa.binary(), "string": pa.string(), "bigint": pa.int64(), "int": pa.int32(),
        "boolean": pa.bool_(), "timestamp": pa.timestamp("us", tz="UTC"),
    }  # fmt: skip
    return pa.schema([pa.field(name, kinds[COLUMNS[name]]) for name in names])


def record_batch(
    batch: Batch, count: int, queue: str, names: Sequence[str], schema: pa.Schema
) -> pa.RecordBatch:
    """The first ``count`` messages of a batch as rows."""
    import pyarrow as pa

    columns = columns_of(batch, count, queue, names)
    arrays = [
        pa.array(columns[name], type=kind.type) for name, kind in zip(names, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def columns_of(batch: Batch, count: int, queue: str, names: Sequence[str]) -> dict[str, Any]:
    """Values by column."""
    found: dict[str, Any] = {}
    if "lookupId" in names:
        found["lookupId"] = list(batch.lookup_ids[:count])
    if "queue" in names:
        found["queue"] = [queue] * count
    if "arrivedTime" in names:
        found["arrivedTime"] = [time * SECOND_US for time in batch.arrived_times[:count]]
    if _QUICK.issuperset(names):
        if "body" in names:
            found["body"] = batch.bodies()[:count]
        return found
    table = list(zip(*_rows(batch, count), strict=True))
    for name in names:
        if name not in found:
            found[name] = _DERIVED[name](table)
    return found


# ---- columns from the table ----------------------------------------------------------------

Table = Sequence[Sequence[Any]]


def _plain(column: int) -> Callable[[Table], Any]:
    return lambda table: table[column]


def _signed(column: int) -> Callable[[Table], Any]:
    """32 bits as Spark's int has them."""
    return lambda table: [v if v < 1 << 31 else v - (1 << 32) for v in table[column]]


def _ordered(column: int) -> Callable[[Table], Any]:
    """Null where a message is not part of a stream."""
    return lambda table: [
        value if stream else None
        for value, stream in zip(table[column], table[_STREAM], strict=True)
    ]


def _bit(bit: int) -> Callable[[Table], Any]:
    return lambda table: [None if flags is None else bool(flags & bit) for flags in table[_TX]]


def _xact(table: Table) -> list[bytes | None]:
    return [
        None
        if flags is None
        else source + ((flags & at.TX_NUMBER_MASK) >> at.TX_NUMBER_SHIFT).to_bytes(4, "little")
        for source, flags in zip(table[_SOURCE], table[_TX], strict=True)
    ]


def _machines(table: Table) -> list[str]:
    texts = {source: guid_text(source) for source in set(table[_SOURCE])}
    return [texts[source] for source in table[_SOURCE]]


_DERIVED: Final[dict[str, Callable[[Table], Any]]] = {
    "body": _plain(_BODY),
    "label": _plain(_LABEL),
    "messageId": lambda t: [
        source + number.to_bytes(4, "little")
        for source, number in zip(t[_SOURCE], t[_NUMBER], strict=True)
    ],
    "correlationId": _plain(_CORRELATION),
    "sentTime": lambda t: [sent * SECOND_US for sent in t[_SENT]],
    "priority": lambda t: [flags & at.BASE_PRIORITY_MASK for flags in t[_FLAGS]],
    "bodyType": _signed(_BODY_TYPE),
    "appSpecific": _plain(_APP),
    "streamId": lambda t: [str(stream) if stream else None for stream in t[_STREAM]],
    "seqNumber": _ordered(_SEQ),
    "prevNumber": _ordered(_PREV),
    "xactId": _xact,
    "firstInXact": _bit(at.TX_FIRST),
    "lastInXact": _bit(at.TX_LAST),
    "sourceMachine": _machines,
    "responseQueue": _plain(_RESPONSE),
    "adminQueue": _plain(_ADMIN),
}


# ---- the table -----------------------------------------------------------------------------


def _rows(batch: Batch, count: int) -> Iterable[tuple[Any, ...]]:
    """One tuple for each packet, by the form of the one before where it fits."""
    data = batch.run.data if isinstance(batch.run.data, bytes) else bytes(batch.run.data)
    start = 0
    shape: _Shape | None = None
    for length in batch.run.lengths[:count]:
        row = shape.row(data, start, length) if shape is not None else None
        if row is None:
            packet = data[start : start + length]
            shape, row = _Shape.of(packet)
        yield row
        start += length


class _Shape:
    """The form of a packet's headers: where its fields stand, and what its names are."""

    __slots__ = ("_admin", "_form", "_label", "_label_at", "_label_raw", "_names", "_peers",
                 "_response", "_transactional")  # fmt: skip

    def __init__(self, packet: bytes, tx: int, prop: int, row: tuple[Any, ...]) -> None:
        names_end = tx or prop
        self._form = struct.Struct(
            f"<2xH12x16s16s4xII{names_end - at.OFF_USER_FLAGS}s{'IQII' if tx else ''}xB2x20sIII16xI"
        )
        values = self._form.unpack_from(packet)
        self._peers, self._names = values[1:3], values[5]
        self._transactional = bool(tx)
        self._label_at = prop + at.PROPERTIES_HEADER
        self._label_raw = packet[self._label_at : self._label_at + 2 * packet[prop + 1]]
        self._label, self._admin, self._response = row[_LABEL], row[_ADMIN], row[_RESPONSE]

    def row(self, data: bytes, start: int, length: int) -> tuple[Any, ...] | None:
        """The fields of a packet, if it has this form."""
        if length < self._form.size:
            return None
        values = self._form.unpack_from(data, start)
        flags, source, _, sent, number, names = values[:6]
        if names != self._names or values[1:3] != self._peers:
            return None
        tx: tuple[Any, ...] = values[6:10] if self._transactional else (None, 0, 0, 0)
        chars, correlation, body_type, app, size, extension = values[-6:]
        label_at = start + self._label_at
        body_at = label_at + 2 * chars
        if extension or data[label_at:body_at] != self._label_raw:
            return None
        body = data[body_at : body_at + size]
        return (
            flags, source, sent, number, *tx, correlation, body_type, app, self._label,
            self._admin, self._response, body,
        )  # fmt: skip

    @classmethod
    def of(cls, packet: bytes) -> tuple[_Shape | None, tuple[Any, ...]]:
        """The form of a packet, if others can have it too, and the packet's fields."""
        parts = headers(packet)
        message = message_of(parts)
        tx, props = parts.transaction, parts.properties
        row = (
            parts.base.flags, parts.user.source, parts.user.sent_time, parts.user.message,
            tx.flags if tx else None, tx.stream if tx else 0, tx.number if tx else 0,
            tx.previous if tx else 0, props.correlation, props.body_type, props.app_specific,
            message.label, message.admin_queue or None, message.response_queue or None,
            props.body,
        )  # fmt: skip
        plain = parts.security is None and not props.extension
        if not plain or (tx is not None and tx.connector):
            return None, row
        return cls(packet, *parts.offsets, row), row
