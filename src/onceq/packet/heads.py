"""The part of a packet that a search or a survey needs: small records instead of whole messages.

Read at fixed offsets, from packets that were checked when they arrived (MS-MQMQ 2.2.19).

A transactional message that was sent to a queue of this manager is in no stream. Its number is then
its message number, minus its position in its transaction to that queue (from 1), and its previous
number is the message number of the first of these. Both are equal in all messages of a batch, so
writing them costs nothing.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from itertools import accumulate

from onceq.model.record import Record
from onceq.model.run import Buffer, Run
from onceq.packet import layout as at
from onceq.packet.decode import glance, properties_offset
from onceq.packet.headers import encode_headers, headers

HEAD = struct.Struct("<16sIIQIII")
"""Source, message number, TransactionHeader flags, stream, number, previous number, packet size."""
_CORRELATION = (4, 24)
"""Offset of the correlation identifier in the MessagePropertiesHeader."""


class Head(Record, frozen=True):
    """The origin of a message, and its transaction.

    Attributes:
        stream: 0: it was sent on this computer, or outside transactions.
        number, previous: In its stream; without one, see the module. ``previous`` 0 and no stream:
            an older onceq has put it there, or it is not transactional.
    """

    source: bytes
    message: int
    flags: int
    stream: int
    number: int
    previous: int
    size: int

    @property
    def transaction(self) -> int:
        """Return the number of the sending transaction (SND-11)."""
        return (self.flags & at.TX_NUMBER_MASK) >> at.TX_NUMBER_SHIFT

    @property
    def first(self) -> bool:
        """Return whether it is the first of its transaction to this queue (SND-10)."""
        return bool(self.flags & at.TX_FIRST)

    @property
    def last(self) -> bool:
        """Return whether it is the last of its transaction to this queue."""
        return bool(self.flags & at.TX_LAST)

    @property
    def ordinal(self) -> int:
        """Return one more than the number of the message before in its transaction to this queue;
        0: unknown."""
        if self.stream:
            return self.number
        return (self.message - self.number) & 0xFFFF_FFFF if self.previous else 0

    @classmethod
    def unpack(cls, raw: Buffer) -> Head:
        """Read a head from a record; raises struct.error."""
        return cls(*HEAD.unpack(raw))


def head_of(packet: Buffer, start: int) -> bytes:
    """Return the record of the packet that begins at ``start``; raises MalformedPacket."""
    seen = glance(packet, start)
    flags = at.U32.unpack_from(packet, start + seen.tx_offset)[0] if seen.tx_offset else 0
    return HEAD.pack(
        seen.source, seen.message, flags, seen.stream, seen.number, seen.previous, seen.size
    )


def bodiless(packet: Buffer) -> bytes:
    """Return a packet without its body, with the size of the body (u32) in front.

    A packet that came over HTTP holds the body a second time, in its original envelope.

    Raises:
        MalformedPacket: It is none.
    """
    parts = headers(packet)
    size = len(parts.properties.body)
    said_nothing = replace(
        parts,
        user=replace(parts.user, flags=parts.user.flags & ~at.USER_SOAP),
        properties=replace(parts.properties, body=b"", slack=b"", body_allocated=0),
        soap=b"", trailing=b"",
    )  # fmt: skip
    return at.U32.pack(size) + encode_headers(said_nothing)


def split_bodiless(run: Run) -> tuple[Run, list[int]]:
    """Return packets, and the sizes of the bodies that they had, from such records; raises
    struct.error."""
    records = list(run)
    sizes = [at.U32.unpack_from(record)[0] for record in records]
    return Run.of([record[at.U32.size :] for record in records]), sizes


def first_with_correlation(run: Run, value: bytes) -> int:
    """Return the index of the first packet with a correlation identifier; -1 if there is none."""
    low, high = _CORRELATION
    data = bytes(run.data)
    # Most pages do not have it at all, and one search over all bytes costs much less than one for
    # each packet.
    if value not in data:
        return -1
    for index, start in enumerate(accumulate(run.lengths[:-1], initial=0)):
        offset = start + properties_offset(data, start)
        if data[offset + low : offset + high] == value:
            return index
    return -1


def first_with_id(run: Run, source: bytes, number: int) -> int:
    """Return the index of the first packet with a message identifier; -1 if there is none."""
    data = memoryview(run.data)
    for index, start in enumerate(accumulate(run.lengths[:-1], initial=0)):
        if (
            at.U32.unpack_from(data, start + at.OFF_MESSAGE_NUMBER)[0] == number
            and data[start + at.OFF_SOURCE : start + at.OFF_SOURCE + 16] == source
        ):
            return index
    return -1
