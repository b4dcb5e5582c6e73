"""From packets to the columns that Spark sees, a batch at a time.

Every column is one Arrow array that is made out of all packets at once (``packets.py``); text that
repeats itself, as names of queues and computers do, is made once and handed out by index. What a
column does not need of the packets is not looked at, and ``prefix`` says how much of each packet
is worth sending: nothing at all for places alone, the headers where no body is asked for.

Arrow wants batches that equal the declared schema in order, types and nullability.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onceq.model.classes import class_name
from onceq.model.delayed import DELAYED_MARK, undelayed
from onceq.model.identity import guid_text
from onceq.model.returned import MARK, unmarked
from onceq.model.time import NEVER_S, SECOND_US
from onceq.model.traced import TRACED_MARK, untraced
from onceq.packet import layout as at
from onceq.packet.address import name_of, response_name
from onceq.packet.batch import Batch
from onceq.packet.decode import ACKNOWLEDGE_MASK, headers, message_of
from onceq.packet.headers import user_header
from onceq.spark.packets import CutShort, Packets
from onceq.spark.source_columns import COLUMNS, SUM, known

PREFIX_BYTES: Final = 512
"""Bytes of each packet that hold its headers, but for long names and labels."""

_BESIDE: Final = frozenset(
    ("queueManager", "queue", "lookupId", "arrivedTime", "abortCount", "moveCount")
)
"""Columns that need nothing of a packet."""


def prefix(names: Sequence[str]) -> int | None:
    """How many bytes of each packet the columns need at first; None: all of them."""
    own = {known(name) for name in names}
    if not own.isdisjoint(("body", SUM)):
        return None
    return 0 if _BESIDE.issuperset(own) else PREFIX_BYTES


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """What Spark expects of the record batches."""
    kinds = {
        "binary": pa.binary(), "string": pa.string(), "bigint": pa.int64(), "int": pa.int32(),
        "boolean": pa.bool_(), "timestamp": pa.timestamp("us", tz="UTC"),
    }  # fmt: skip
    return pa.schema([pa.field(name, kinds[COLUMNS[known(name)]]) for name in names])


def record_batch(
    batch: Batch, *, manager: str, queue: str, names: Sequence[str], schema: pa.Schema
) -> pa.RecordBatch:
    """The messages of a batch as rows.

    Args:
        manager: Computer name of the queue manager that they were read from.

    Raises:
        CutShort: The packets were cut before something that a column needs.
    """
    table = _Table(batch, manager, queue)
    return pa.RecordBatch.from_arrays([_MAKE[known(name)](table) for name in names], schema=schema)


# ---- what columns are made from --------------------------------------------------------------


@dataclass(frozen=True)
class _Table:
    batch: Batch
    manager: str
    queue: str

    @cached_property
    def packets(self) -> Packets:
        return Packets(self.batch.run.data, self.batch.run.lengths)

    @property
    def count(self) -> int:
        return len(self.batch.run)

    @cached_property
    def names(self) -> tuple[Any, list[tuple[str, str, str]]]:
        """The names in each packet: an index for each message, and what it stands for."""
        return _names(self.packets)

    def prop(self, offset: int) -> Any:
        """A 32-bit field of the MessagePropertiesHeader."""
        return self.packets.u32(self.packets.properties + offset)


def _names(packets: Packets) -> tuple[Any, list[tuple[str, str, str]]]:
    """Destination, administration and response queue of each packet, each text made once."""
    starts = packets.starts
    texts = packets.cut(starts + at.OFF_NAMES, starts + packets.names_end).dictionary_encode()
    peers = packets.peers
    kinds = (packets.flags >> at.USER_DESTINATION_SHIFT & 0x1FF).astype(np.int64)
    keys = texts.indices.to_numpy().astype(np.int64) * len(peers.dictionary)
    keys = (keys + peers.indices.to_numpy()) << 9 | kinds
    different = pa.array(keys).dictionary_encode()
    codes = different.indices.to_numpy().copy()
    firsts = np.empty(len(different.dictionary), np.int64)
    firsts[codes[::-1]] = np.arange(packets.count)[::-1]
    found = [_names_of(packets, int(index)) for index in firsts]
    # Lists of names are no part of the key: such messages are looked at one by one.
    for index in np.flatnonzero(packets.flags & at.USER_MULTIQUEUE):
        codes[index] = len(found)
        found.append(_names_of(packets, int(index), lists=True))
    return codes, found


def _names_of(packets: Packets, index: int, *, lists: bool = False) -> tuple[str, str, str]:
    start, end = int(packets.starts[index]), int(packets.ends[index])
    packet = packets.bytes[start:end].tobytes()
    if lists:
        if len(packet) < at.packet_size(packet):
            raise CutShort
        message = message_of(headers(packet))
        return message.destination, message.admin_queue, message.response_queue
    user = user_header(packet)
    hosts = {"source": user.source, "manager": user.destination_manager}
    return (
        name_of(user.destination, **hosts), name_of(user.admin, **hosts),
        response_name(user.response, user.admin, **hosts),
    )  # fmt: skip


# ---- forms -----------------------------------------------------------------------------------


def _numbers(values: Any, kind: str, nulls: Any = None) -> pa.Array:
    """An array of numbers.

    Args:
        nulls: Where there is no value; None: nowhere.
    """
    return pa.array(values.astype(kind, copy=False), mask=nulls)


def _times(seconds: Any) -> pa.Array:
    return pa.array(seconds.astype("int64") * SECOND_US).cast(pa.timestamp("us", tz="UTC"))


def _same(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _chosen(codes: Any, texts: Sequence[str | None]) -> pa.Array:
    """One of a few texts for each message."""
    if len(texts) == 1 and texts[0] is not None:
        return _same(texts[0], len(codes))
    return pa.array(texts, pa.string()).take(pa.array(codes))


def _rows_of_bytes(rows: Any, nulls: Any = None) -> pa.Array:
    """Binary values of one size out of a table with one row for each.

    Args:
        nulls: Where there is no value; None: nowhere.
    """
    count, size = rows.shape
    edges = np.arange(0, (count + 1) * size, size, dtype=np.int32)
    data = np.ascontiguousarray(rows)
    made = pa.BinaryArray.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(edges), pa.py_buffer(data)]
    )
    if nulls is None or not nulls.any():
        return made
    return pc.if_else(pa.array(~nulls), made, pa.scalar(None, pa.binary()))


# ---- columns ---------------------------------------------------------------------------------


def _label(table: _Table) -> pa.Array:
    """Labels are UTF-16; plain ones, the normal case, lose every second byte."""
    packets = table.packets
    first, last = packets.label
    if not bool((last > first).any()):
        return _same("", table.count)
    last = np.maximum(last - 2, first)
    raw = packets.cut(first, last)
    edges = np.frombuffer(raw.buffers()[1], np.int32)[: table.count + 1]
    wide = np.frombuffer(raw.buffers()[2], np.uint16)[: int(edges[-1]) // 2]
    if not bool(((wide == 0) | (wide > 0x7F)).any()):
        buffers = [None, pa.py_buffer(edges >> 1), pa.py_buffer(wide.astype(np.uint8))]
        return pa.StringArray.from_buffers(table.count, buffers[1], buffers[2])
    few = raw.dictionary_encode()
    texts = [_clean(value) for value in few.dictionary.to_pylist()]
    return _chosen(few.indices.to_numpy(), texts)


def _clean(raw: bytes) -> str:
    """As ``decode`` has it: up to the first NUL, half surrogates replaced."""
    text = raw.decode("utf-16-le", "surrogatepass").partition("\0")[0]
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _extension(table: _Table) -> pa.Array:
    """What the sender added, without our own marks."""
    packets = table.packets
    found = packets.cut(*packets.extension)
    data = found.buffers()[2]
    raw = memoryview(data).tobytes() if data is not None else b""
    if not any(mark in raw for mark in (MARK, DELAYED_MARK, TRACED_MARK)):
        return found
    plain = [unmarked(untraced(undelayed(value)[0])[0])[0] for value in found.to_pylist()]
    return pa.array(plain, pa.binary())


def _with_source(packets: Packets, numbers: Any, nulls: Any = None) -> pa.Array:
    """Identifiers of 20 bytes: the source, and a number of 32 bits."""
    four = np.ascontiguousarray(numbers, "<u4").view(np.uint8).reshape(-1, 4)
    return _rows_of_bytes(np.hstack((packets.sources, four)), nulls)


def _message_id(table: _Table) -> pa.Array:
    return _with_source(table.packets, table.packets.top(at.OFF_MESSAGE_NUMBER))


def _xact_id(table: _Table) -> pa.Array:
    packets = table.packets
    number = (packets.tx_flags & at.TX_NUMBER_MASK) >> at.TX_NUMBER_SHIFT
    return _with_source(packets, number, ~packets.transactional)


def _bit(bit: int) -> Callable[[_Table], pa.Array]:
    def make(table: _Table) -> pa.Array:
        packets = table.packets
        return _numbers((packets.tx_flags & bit) != 0, "bool", ~packets.transactional)

    return make


def _stream(table: _Table) -> Any:
    """Stream identifiers, 0 where there is none."""
    packets = table.packets
    low, high = packets.transaction(at.TX_STREAM), packets.transaction(at.TX_STREAM + 4)
    return high.astype("uint64") << 32 | low


def _stream_id(table: _Table) -> pa.Array:
    few = pa.array(_stream(table)).dictionary_encode()
    texts = [str(value) if value else None for value in few.dictionary.to_pylist()]
    return _chosen(few.indices.to_numpy(), texts)


def _ordered(offset: int) -> Callable[[_Table], pa.Array]:
    """Null where a message is not part of a stream."""
    return lambda table: _numbers(table.packets.transaction(offset), "int64", _stream(table) == 0)


def _class(table: _Table) -> Any:
    packets = table.packets
    return packets.u16(packets.properties + at.PROP_CLASS)


def _class_name(table: _Table) -> pa.Array:
    few = pa.array(_class(table)).dictionary_encode()
    return _chosen(few.indices.to_numpy(), [class_name(v) for v in few.dictionary.to_pylist()])


def _machine(table: _Table) -> pa.Array:
    few = table.packets.peers
    texts = [guid_text(peers[:16]) for peers in few.dictionary.to_pylist()]
    return _chosen(few.indices.to_numpy(), texts)


def _name(which: int, *, none: str | None) -> Callable[[_Table], pa.Array]:
    def make(table: _Table) -> pa.Array:
        codes, found = table.names
        return _chosen(codes, [names[which] or none for names in found])

    return make


def _lifetime(seconds: Any) -> pa.Array:
    """Null where there is no limit."""
    return _numbers(seconds, "int64", seconds == NEVER_S)


def _journal(table: _Table) -> pa.Array:
    """DEADLETTER and JOURNAL stand side by side, as in ``Journal``."""
    shift = at.USER_DEADLETTER.bit_length() - 1
    return _numbers(table.packets.flags >> shift & 3, "int32")


def _acknowledge(table: _Table) -> pa.Array:
    packets = table.packets
    return _numbers(packets.u8(packets.properties) & ACKNOWLEDGE_MASK, "int32")


def _beside(values: Any, kind: str) -> pa.Array:
    return _numbers(np.frombuffer(values, np.uint32 if values.itemsize == 4 else np.uint64), kind)


def _arrived(table: _Table) -> pa.Array:
    return _times(np.frombuffer(table.batch.arrived_times, np.uint32))


def _moves(table: _Table) -> pa.Array:
    found = np.zeros(table.count, np.int32)
    for index, count, _ in table.batch.moves:
        found[index] = count
    return _numbers(found, "int32")


def _sums(bodies: pa.Array) -> pa.Array:
    """The CRC-32 of each body, as histories have it."""
    return pa.array([crc32(body.as_buffer()) for body in bodies], pa.int64())


_MAKE: Final[dict[str, Callable[[_Table], Any]]] = {
    "body": lambda t: t.packets.cut(*t.packets.body),
    "label": _label,
    "queueManager": lambda t: _same(t.manager, t.count),
    "queue": lambda t: _same(t.queue, t.count),
    "lookupId": lambda t: _beside(t.batch.lookup_ids, "int64"),
    "messageId": _message_id,
    "correlationId": lambda t: t.packets.cut(
        t.packets.properties + at.PROP_CORRELATION, t.packets.properties + at.PROP_BODY_TYPE
    ),
    "sentTime": lambda t: _times(t.packets.top(at.OFF_SENT_TIME)),
    "arrivedTime": _arrived,
    "class": lambda t: _numbers(_class(t), "int32"),
    "className": _class_name,
    "priority": lambda t: _numbers(t.packets.top(0) >> 16 & at.BASE_PRIORITY_MASK, "int32"),
    "bodyType": lambda t: _numbers(t.prop(at.PROP_BODY_TYPE), "int32"),
    "appSpecific": lambda t: _numbers(t.prop(at.PROP_APP_SPECIFIC), "int64"),
    "extension": _extension,
    "streamId": _stream_id,
    "seqNumber": _ordered(at.TX_NUMBER),
    "prevNumber": _ordered(at.TX_PREVIOUS),
    "xactId": _xact_id,
    "firstInXact": _bit(at.TX_FIRST),
    "lastInXact": _bit(at.TX_LAST),
    "sourceMachine": _machine,
    "destination": _name(0, none=""),
    "responseQueue": _name(2, none=None),
    "adminQueue": _name(1, none=None),
    "abortCount": lambda t: _beside(t.batch.abort_counts, "int32"),
    "moveCount": _moves,
    "transactional": lambda t: _numbers(t.packets.transactional, "bool"),
    "timeToReachQueue": lambda t: _lifetime(t.packets.top(at.OFF_TIME_TO_REACH_QUEUE)),
    "timeToBeReceived": lambda t: _lifetime(t.packets.top(at.OFF_TIME_TO_BE_RECEIVED)),
    "acknowledge": _acknowledge,
    "journal": _journal,
    "encrypted": lambda t: _numbers(t.packets.encrypted, "bool"),
    "bodyCrc": lambda t: _sums(t.packets.cut(*t.packets.body)),
    "packetBytes": lambda t: _numbers(t.packets.top(at.OFF_PACKET_SIZE), "int64"),
}
