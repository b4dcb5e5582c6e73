"""From packets to the columns that Spark sees, a batch at a time.

A batch of packets is one piece of bytes and a table of lengths. Every field stands at an offset
that a few others decide (names, a transaction, a label), so ``Packets`` computes the offsets of all
packets as arrays, and takes a field out of all of them by one gather. Parts of different size
(labels, bodies) leave as Arrow arrays: their places become the offsets of an array that also has
what lies between them as elements, and every second element is the answer. No object is made for a
packet.

Every column is one Arrow array made of all packets at once; text that repeats, such as names of
queues and computers, is made once and handed out by index. ``prefix`` says how much of each packet
the columns need: nothing for places alone, the headers where no body is asked for. A packet that
was cut too short raises ``CutShort``, and is read again. Packets were checked when they arrived.

Arrow wants batches that equal the declared schema in order, types and nullability.

Upholds: I24 (nothing is made larger than what came).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from onceq.model.identity import guid_text
from onceq.model.marks import (
    DELAYED_MARK,
    NEVER_S,
    RETURNED_MARK,
    SECOND_US,
    TRACED_MARK,
    undelayed,
    unmarked,
    untraced,
)
from onceq.model.resultcodes import class_name
from onceq.packet import address as at
from onceq.packet.address import DIRECT, name_of, response_name
from onceq.packet.arrived import Batch
from onceq.packet.decode import ACKNOWLEDGE_MASK, NAME_BYTES, headers, message_of
from onceq.packet.headers import user_header
from onceq.spark.source.options import COLUMNS, SUM, known

if TYPE_CHECKING:
    from array import array

    from onceq.model.run import Buffer, Run


Places = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
Mask = npt.NDArray[np.bool_]

NAME_SHIFTS: Final = (at.USER_DESTINATION_SHIFT, at.USER_ADMIN_SHIFT, at.USER_RESPONSE_SHIFT)
_NAME_BYTES: Final = np.array([*NAME_BYTES, 0], np.int64)
"""By type; the last one, direct names, have a length of their own."""
_SECURITY_SIZES: Final = ((2, 2), (4, 2), (6, 2), (8, 4), (12, 4))
"""Offset and width of the sizes in a SecurityHeader."""


class CutShort(Exception):
    """A packet was cut before what is asked for; it must be read again, with more of it."""


def sizes_of(run: Run) -> Words:
    """The size of each packet of a run, cut or not, in bytes."""
    packets = Packets(run.data, run.lengths)
    return packets.top(at.OFF_PACKET_SIZE)


class Packets:
    """The packets of one run.

    Attributes:
        count: How many.
        starts, ends: Where each begins and ends in the bytes of the run.
    """

    def __init__(self, data: Buffer, lengths: array[int]) -> None:
        self.count = len(lengths)
        self.bytes = np.frombuffer(data, np.uint8)
        sizes = np.frombuffer(lengths, np.uint32).astype(np.int64)
        self.ends: Places = np.cumsum(sizes)
        self.starts: Places = self.ends - sizes
        self._aligned = not bool((self.starts & 3).any())
        whole = len(self.bytes) & ~3
        self._words = self.bytes[:whole].view("<u4")

    # ---- gathers ----------------------------------------------------------------------------

    def u32(self, places: Places) -> Words:
        """The 32-bit field at a place of each packet; the places are multiples of 4 inside it."""
        if self._aligned:
            found: Words = self._words[places >> 2]
            return found
        four = self.bytes[places[:, None] + np.arange(4)]
        return np.ascontiguousarray(four).view("<u4")[:, 0]

    def u16(self, places: Places) -> Words:
        """The same for 16 bits."""
        low, high = self.bytes[places], self.bytes[places + 1]
        return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(8)

    def u8(self, places: Places) -> Words:
        """The same for 8 bits."""
        return self.bytes[places].astype(np.uint32)

    def cut(self, first: Places, last: Places) -> pa.BinaryArray:
        """The bytes of each packet from one place up to another; never across its end."""
        if bool((last > self.ends).any()):
            raise CutShort
        edges = np.empty(2 * len(first), np.int32)
        edges[0::2], edges[1::2] = first, last
        every = pa.BinaryArray.from_buffers(
            pa.binary(), max(len(edges) - 1, 0), [None, pa.py_buffer(edges), self._buffer]
        )
        return pc.take(every, self._evens, boundscheck=False)

    @cached_property
    def _evens(self) -> pa.Array:
        return pa.array(np.arange(0, 2 * self.count, 2, dtype=np.int32))

    @cached_property
    def _buffer(self) -> Any:
        return pa.py_buffer(self.bytes)

    @cached_property
    def sources(self) -> npt.NDArray[np.uint8]:
        """GUID of the sending queue manager, a row of 16 bytes for each packet."""
        first = self.starts + at.OFF_SOURCE
        found = np.frombuffer(self.cut(first, first + 16).buffers()[2], np.uint8)
        return found[: 16 * self.count].reshape(self.count, 16)

    @cached_property
    def peers(self) -> pa.DictionaryArray:
        """GUIDs of the sending and the receiving queue manager, one after the other."""
        first, last = self.starts + at.OFF_SOURCE, self.starts + at.OFF_TIME_TO_BE_RECEIVED
        return self.cut(first, last).dictionary_encode()

    def need(self, places: Places) -> None:
        """Raises CutShort if a packet ends before its place."""
        if bool((places > self.ends).any()):
            raise CutShort

    def top(self, offset: int) -> Words:
        """The 32-bit field at the same offset of every packet."""
        self.need(self.starts + offset + 4)
        return self.u32(self.starts + offset)

    # ---- where things stand -----------------------------------------------------------------

    @cached_property
    def flags(self) -> Words:
        """Of the UserHeader."""
        return self.top(at.OFF_USER_FLAGS)

    @cached_property
    def names_end(self) -> Places:
        """Where the three names of the UserHeader end, counted from the start of the packet."""
        end = np.full(self.count, at.OFF_NAMES, np.int64)
        for shift in NAME_SHIFTS:
            kinds = (self.flags >> shift & 7).astype(np.int64)
            direct = np.flatnonzero(kinds == DIRECT)
            end += _NAME_BYTES[kinds]
            if len(direct):
                places = self.starts[direct] + end[direct]
                if bool((places + 2 > self.ends[direct]).any()):
                    raise CutShort
                end[direct] = end[direct] + 2 + self.u16(places) + 3 & ~3
        self.need(self.starts + end)
        return end

    @cached_property
    def transactional(self) -> Mask:
        """Whether each has a TransactionHeader."""
        found: Mask = (self.flags & at.USER_TRANSACTION) != 0
        return found

    @cached_property
    def _user_end(self) -> Places:
        return self.starts + self.names_end + np.where(self.flags & at.USER_CONNECTOR, 16, 0)

    def transaction(self, offset: int) -> Words:
        """A 32-bit field of the TransactionHeader; 0 where there is none."""
        where = np.flatnonzero(self.transactional)
        found = np.zeros(self.count, np.uint32)
        if len(where):
            places = self._user_end[where] + offset
            if bool((places + 4 > self.ends[where]).any()):
                raise CutShort
            found[where] = self.u32(places)
        return found

    @cached_property
    def tx_flags(self) -> Words:
        """Of the TransactionHeader; 0 where there is none."""
        return self.transaction(at.TX_FLAGS)

    @cached_property
    def _transaction_end(self) -> Places:
        end = self._user_end + np.where(self.transactional, at.TX_HEADER, 0)
        end += np.where(self.tx_flags & at.TX_CONNECTOR, 16, 0)
        return end

    @cached_property
    def _secured(self) -> tuple[Any, Places]:
        """Which packets have a SecurityHeader, and where these begin."""
        secured = np.flatnonzero(self.flags & at.USER_SECURITY)
        places: Places = self._transaction_end[secured]
        if bool((places + at.SECURITY_HEADER > self.ends[secured]).any()):
            raise CutShort
        return secured, places

    @cached_property
    def encrypted(self) -> Mask:
        """Whether the body of each is."""
        secured, places = self._secured
        found = np.zeros(self.count, np.bool_)
        found[secured] = (self.u16(places) & at.SECURITY_ENCRYPTED) != 0
        return found

    @cached_property
    def properties(self) -> Places:
        """Where the MessagePropertiesHeader of each begins."""
        end = self._transaction_end.copy()
        secured, places = self._secured
        if len(secured):
            size = np.full(len(secured), at.SECURITY_HEADER, np.int64)
            for offset, width in _SECURITY_SIZES:
                field = self.u16 if width == 2 else self.u32
                size += field(places + offset).astype(np.int64) + 3 & ~3
            end[secured] += size
        self.need(end + at.PROPERTIES_HEADER)
        return end

    @cached_property
    def label(self) -> tuple[Places, Places]:
        """From where to where the label of each stands, its terminator included."""
        first = self.properties + at.PROPERTIES_HEADER
        return first, first + 2 * self.u8(self.properties + at.PROP_LABEL_CHARS)

    @cached_property
    def extension(self) -> tuple[Places, Places]:
        """From where to where the extension stands."""
        first = self.label[1]
        return first, first + self.u32(self.properties + at.OFF_EXTENSION_SIZE)

    @cached_property
    def body(self) -> tuple[Places, Places]:
        """From where to where the body stands."""
        first = self.extension[1]
        return first, first + self.u32(self.properties + at.OFF_BODY_SIZE)


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
    if not any(mark in raw for mark in (RETURNED_MARK, DELAYED_MARK, TRACED_MARK)):
        return found
    plain = [unmarked(untraced(undelayed(value)[0])[0])[0] for value in found.to_pylist()]
    return pa.array(plain, pa.binary())


def _with_source(packets: Packets, numbers: Any, nulls: Any = None) -> pa.Array:
    """Identifiers of 20 bytes: the source, and a number of 32 bits.

    Args:
        nulls: Where there is no value; None: nowhere.
    """
    four = np.ascontiguousarray(numbers, "<u4").view(np.uint8).reshape(-1, 4)
    data = np.ascontiguousarray(np.hstack((packets.sources, four)))
    count, size = data.shape
    edges = np.arange(0, (count + 1) * size, size, dtype=np.int32)
    made = pa.BinaryArray.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(edges), pa.py_buffer(data)]
    )
    if nulls is None or not nulls.any():
        return made
    return pc.if_else(pa.array(~nulls), made, pa.scalar(None, pa.binary()))


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
    "messageId": lambda t: _with_source(t.packets, t.packets.top(at.OFF_MESSAGE_NUMBER)),
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
