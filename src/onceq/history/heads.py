"""The fixed fields of many packets at once, as numpy columns, and the CRC-32 of each body.

It also reads records some of whose packets may be damaged: of those only the size is known.

Packets of one batch have the same names and so the same offsets. One of them is parsed with care;
every packet with the same bytes up to its TransactionHeader is read by the same offsets. Packets
that come one by one are cut to their headers (``CutPackets``) and read together later: numpy is
worth its cost for many only.

Upholds: I23.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from onceq.core.state.records import Put, RestOf
from onceq.errors import DamagedRecord
from onceq.model.run import Buffer, Run, starts_of, total_of
from onceq.packet import address as at
from onceq.packet.decode import properties_offset, tx_offset
from onceq.store.framing import crc32

# ---- heads ---------------------------------------------------------------------------------------


Array = Any
"""A numpy array; the library is an extra, so its types are not checked here."""
SHAPES_MAX: Final = 64
"""Forms of packets that are searched for together; the others are read one by one."""
FEW: Final = 8
"""Packets that are not worth an array of their own."""
HEAD_BYTES: Final = 4_096
"""Bytes read of a large packet: its names and headers up to the label, in all but odd cases."""
UNSUMMED: Final = -1
"""Replaces the CRC of a body that was not read."""
_ORDER: Final = np.dtype(
    [("flags", "<u4"), ("stream", "<u8"), ("number", "<u4"), ("previous", "<u4")]
)


@dataclass(slots=True)
class Heads:
    """One entry a message.

    Attributes:
        source: 16 bytes each.
        ordered: Whether it has a TransactionHeader; the three before are 0 if not.
        kind: Its message class.
        sizes: Of the packets, in bytes.
        crc: Of the bodies; UNSUMMED where those were not read.
    """

    source: Array
    message: Array
    sent: Array
    transaction: Array
    stream: Array
    number: Array
    ordered: Array
    kind: Array
    sizes: Array
    crc: Array

    def __len__(self) -> int:
        return len(self.message)


@dataclass(slots=True)
class CutPackets:
    """A few packets, each cut behind the fields that count; sizes and CRCs of the whole ones."""

    pieces: list[bytes]
    sizes: list[int]
    crcs: list[int]

    def __len__(self) -> int:
        return len(self.pieces)


def cut(data: Buffer, sizes: Sequence[int]) -> CutPackets:
    """Cut the packets that lie one after another in ``data`` to their headers."""
    pieces, crcs, start = [], [], 0
    view = memoryview(data)
    for size in sizes:
        properties = start + properties_offset(data, start)
        pieces.append(bytes(view[start : properties + at.PROP_CLASS + 2]))
        end, crc = start + size, UNSUMMED
        if properties + at.PROPERTIES_HEADER <= len(view):
            (body,) = at.U32.unpack_from(view, properties + at.OFF_BODY_SIZE)
            (extension,) = at.U32.unpack_from(view, properties + at.OFF_EXTENSION_SIZE)
            label = 2 * view[properties + at.PROP_LABEL_CHARS]
            first = properties + at.PROPERTIES_HEADER + label + extension
            # A body that is not all there has no sum.
            if first + body <= min(end, len(view)):
                crc = crc32(view[first : first + body])
        crcs.append(crc)
        start = end
    return CutPackets(pieces, list(sizes), crcs)


def together(parts: Sequence[Heads | CutPackets]) -> Heads:
    """Return all of them as one, in order."""
    counts = [len(part) for part in parts]
    whole = nothing(sum(counts))
    pieces: list[bytes] = []
    sizes: list[int] = []
    crcs: list[int] = []
    into: list[int] = []
    start = 0
    for part, count in zip(parts, counts, strict=True):
        if isinstance(part, CutPackets):
            pieces += part.pieces
            sizes += part.sizes
            crcs += part.crcs
            into += range(start, start + count)
        else:
            for field in fields(Heads):
                getattr(whole, field.name)[start : start + count] = getattr(part, field.name)
        start += count
    if pieces:
        lengths = np.array([len(piece) for piece in pieces])
        starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        found, places = heads_of(b"".join(pieces), starts, np.array(sizes)), np.array(into)
        found.crc[:] = crcs
        for field in fields(Heads):
            getattr(whole, field.name)[places] = getattr(found, field.name)
    return whole


def nothing(count: int) -> Heads:
    """Return the heads of messages whose packets cannot be read."""
    return Heads(
        np.zeros((count, 16), "u1"), np.zeros(count, "<u4"), np.zeros(count, "<u4"),
        np.zeros(count, "<u4"), np.zeros(count, "<u8"), np.zeros(count, "<u4"),
        np.zeros(count, "?"), np.zeros(count, "<u2"), np.zeros(count, "<u4"),
        np.full(count, UNSUMMED, "<i8"),
    )  # fmt: skip


def heads_of(data: Buffer, starts: Array, sizes: Array, *, bodies: bool = False) -> Heads:
    """Return the heads of packets that begin at ``starts`` in ``data``; they were checked before.

    Args:
        sizes: Bytes of each whole packet, which may be more than ``data`` has of it.
        bodies: ``data`` has the whole packets, and their bodies are summed.
    """
    count = len(starts)
    found = nothing(count)
    found.sizes[:] = sizes
    if not count:
        return found
    raw, view = np.frombuffer(data, "u1"), memoryview(data)
    fixed = _rows(raw, starts, 0, at.OFF_NAMES)
    found.source[:] = fixed[:, at.OFF_SOURCE : at.OFF_SOURCE + 16]
    found.sent[:] = _column(fixed, at.OFF_SENT_TIME, "<u4")
    found.message[:] = _column(fixed, at.OFF_MESSAGE_NUMBER, "<u4")
    flags = _column(fixed, at.OFF_USER_FLAGS, "<u4")
    found.ordered[:] = (flags & at.USER_TRANSACTION) != 0
    left = np.arange(count)
    for shape in range(count):
        if not len(left):
            break
        first = int(starts[left[0]])
        tx = tx_offset(data, first)
        properties = properties_offset(data, first)
        alike = left[:1]
        if shape < SHAPES_MAX and not flags[left[0]] & (at.USER_SECURITY | at.USER_CONNECTOR):
            names = _rows(raw, starts[left], at.OFF_USER_FLAGS, tx or properties)
            alike = left[(names == names[0]).all(axis=1)]
        there = starts[alike]
        kind = _rows(raw, there, properties + at.PROP_CLASS, properties + at.PROP_CLASS + 2)
        found.kind[alike] = kind.view("<u2")[:, 0]
        if tx:
            order = _rows(raw, there, tx, tx + at.TX_HEADER).view(_ORDER)[:, 0]
            found.transaction[alike] = (order["flags"] & at.TX_NUMBER_MASK) >> at.TX_NUMBER_SHIFT
            found.stream[alike] = order["stream"]
            found.number[alike] = np.where(order["stream"] == 0, 0, order["number"])
        if bodies:
            own = _rows(raw, there, properties, properties + at.PROPERTIES_HEADER)
            label = 2 * own[:, at.PROP_LABEL_CHARS].astype("i8")
            body = _column(own, at.OFF_BODY_SIZE, "<u4").astype("i8")
            extension = _column(own, at.OFF_EXTENSION_SIZE, "<u4")
            begins = there + properties + at.PROPERTIES_HEADER + label + extension
            ends = np.where(begins + body <= there + sizes[alike], begins + body, -1)
            found.crc[alike] = [
                crc32(view[one:end]) if end >= 0 else UNSUMMED
                for one, end in zip(begins.tolist(), ends.tolist(), strict=True)
            ]
        left = np.setdiff1d(left, alike, assume_unique=True)
    return found


def _rows(raw: Array, starts: Array, first: int, end: int) -> Array:
    """Return bytes ``first`` to ``end`` of each packet; bytes behind the data are replaced by
    its last byte (a packet of another form is shorter; its bytes then count for nothing)."""
    places = starts[:, None] + np.arange(first, end)[None, :]
    return np.ascontiguousarray(raw[np.minimum(places, len(raw) - 1)])


def _column(rows: Array, offset: int, kind: str) -> Array:
    return np.ascontiguousarray(rows[:, offset : offset + 4]).view(kind)[:, 0]


# ---- unread --------------------------------------------------------------------------------------
#
# Packets that a record brings, some of which may be damaged.


Read = Callable[[int, int], Buffer]
Places = Sequence[tuple[int, int]]
"""Addresses and sizes of damaged bytes."""
Brought = list[Buffer | None] | Run
"""Packets; None stands for a damaged one."""


def brought(
    puts: Sequence[Put], at: int, addresses: Sequence[int], damaged: Places, read: Read
) -> Brought:
    """Return the packets of a put of a record; those of an earlier prepare are read from the log.

    Args:
        at: Which.
        addresses: Where the packets of each put lie, in a record in which some are damaged.
    """
    put, address = puts[at], addresses[at]
    lengths = put.packets.lengths
    if put.rest_of is not None:
        of = put.rest_of.put
        return _joined(put.packets, address, put.rest_of, puts[of].packets, addresses[of], damaged)
    if put.address:
        try:
            return Run(read(put.address, total_of(lengths)), lengths)
        except DamagedRecord:
            places = zip(starts_of(lengths, put.address), lengths, strict=False)
            return [_whole(start, size, read) for start, size in places]
    if not damaged:
        return put.packets
    return [
        None if _hit(at, at + len(packet), damaged) else packet
        for at, packet in zip(starts_of(lengths, address), put.packets, strict=False)
    ]


def _joined(
    fronts: Run, address: int, rest_of: RestOf, whole: Run, whole_at: int, damaged: Places
) -> Brought:
    """Return packets of which the record has only the fronts, at ``address``; the rests are
    those of whole ones at ``whole_at``."""
    view, size = memoryview(fronts.data), rest_of.front
    joined: list[Buffer | None] = []
    for index, packet in enumerate(whole):
        at = index * size
        rest_at = whole_at + rest_of.rest
        hit = _hit(address + at, address + at + size, damaged)
        if hit or _hit(rest_at, whole_at + len(packet), damaged):
            joined.append(None)
        else:
            joined.append(b"".join((view[at : at + size], packet[rest_of.rest :])))
        whole_at += len(packet)
    return joined if damaged else Run.of([one for one in joined if one is not None])


def _hit(start: int, end: int, damaged: Places) -> bool:
    return any(start < place + size and place < end for place, size in damaged)


def _whole(address: int, size: int, read: Read) -> Buffer | None:
    try:
        return read(address, size)
    except DamagedRecord:
        return None


def unread(size: int) -> Heads:
    """Return what is known of a damaged message."""
    found = nothing(1)
    found.sizes[0] = size
    return found


def first_of(packets: Brought) -> Buffer | None:
    """Return bytes that begin with the first undamaged packet."""
    if isinstance(packets, list):
        return next((one for one in packets if one is not None), None)
    return packets.data


def heads_in(packets: Brought, lengths: array[int]) -> Heads | CutPackets:
    """Return what is known of packets."""
    if isinstance(packets, list):
        each = zip(packets, lengths, strict=True)
        return together([unread(n) if one is None else cut(one, [n]) for one, n in each])
    if len(packets) <= FEW:
        return cut(packets.data, packets.lengths)
    return parsed(packets.data, packets.lengths)


def parsed(data: Buffer, sizes: array[int]) -> Heads:
    """Return the heads of whole packets that lie one after another, and the sums of their
    bodies."""
    lengths = np.frombuffer(sizes, "<u4").astype("i8")
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    return heads_of(data, starts, lengths, bodies=True)
