"""Cut a byte stream into packets, no matter how the network has split it.

A packet gives its size in its first 12 bytes, and neighbouring user packets stay together: the
result is one buffer and a table of lengths. Whole packets are views of what was read. Only the
beginning of a packet whose rest has not come is copied: a short one together with the next read,
a long one into its own buffer, so that no byte of it is moved again with each read.

At most one packet of the largest legal size is kept waiting, and an illegal size is refused before
anything is kept.

Upholds: I24.
"""

from __future__ import annotations

import struct
from array import array
from typing import Final

from onceq.errors import MalformedPacket
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.record import Record
from onceq.model.run import LENGTH_TYPE, Buffer
from onceq.packet import layout as at
from onceq.packet.headers import headers
from onceq.wire.mqqb.internal import SESSION_HEADER_BYTES, SessionHeader

PACKET_BYTES_MIN: Final = 20
LEAD_BYTES: Final = 12
"""The first bytes of a packet, which give its size."""

SHORT_BYTES: Final = 4096
"""A shorter waiting part is joined with the next read."""

_LEAD = struct.Struct("<2sH4sI")
_BEGINNING: Final = (b"\x10", at.SIGNATURE)


class UserPackets(Record, frozen=True):
    """Neighbouring user packets; ``carried`` came with the last of them, if it is given."""

    data: memoryview
    lengths: array[int]
    carried: SessionHeader | None = None


class InternalPacket(Record, frozen=True):
    """One packet that belongs to the session itself."""

    data: memoryview


Piece = UserPackets | InternalPacket | MalformedPacket


class Cutter:
    """Turns what was read into whole packets, in order."""

    __slots__ = ("_long", "_need", "_short")

    def __init__(self) -> None:
        self._short = b""
        self._long: bytearray | None = None
        self._need = 0

    @property
    def waiting(self) -> int:
        """Return the bytes of a packet whose rest has not come yet."""
        return len(self._short) if self._long is None else len(self._long)

    def feed(self, data: Buffer) -> list[Piece]:
        """Cut what was read; return whole packets.

        Args:
            data: ``bytes`` are used without a copy; any other buffer is copied once, because it
                may change afterwards.

        Returns:
            Whole packets in order; at the end a MalformedPacket if the next bytes are none.
        """
        if not isinstance(data, bytes):
            data = bytes(data)
        found: list[Piece] = []
        try:
            if self._long is None:
                self._cut(memoryview(self._short + data if self._short else data), found)
            else:
                self._go_on(self._long, data, found)
        except MalformedPacket as error:
            found.append(error)
        return found

    def _go_on(self, begun: bytearray, data: bytes, found: list[Piece]) -> None:
        """Continue a long packet, which may end."""
        missing = self._need - len(begun)
        view = memoryview(data)
        # Exactly its own bytes: what follows is a view of the read and not moved.
        begun += view[:missing]
        if len(begun) < self._need:
            return
        self._long = None
        self._cut(memoryview(begun), found)
        if self._short or self._long is not None:
            # A session header was expected behind the packet: it is in what follows.
            found += self.feed(bytes(view[missing:]))
        else:
            self._cut(view[missing:], found)

    def _cut(self, view: memoryview, found: list[Piece]) -> None:
        """Add the whole packets of a buffer and keep what is left."""
        self._short = b""
        start, end, total = 0, 0, len(view)
        lengths = array(LENGTH_TYPE)
        unpack, signature = _LEAD.unpack_from, at.SIGNATURE
        while total - end >= LEAD_BYTES:
            lead, flags, signed, size = unpack(view, end)
            if (
                lead[0] != at.VERSION
                or signed != signature
                or not PACKET_BYTES_MIN <= size <= PACKET_BYTES_MAX
            ):
                if lengths:
                    found.append(UserPackets(view[start:end], lengths))
                raise _not_a_packet(view, end)
            if total - end < size:
                break
            if not flags & (at.BASE_INTERNAL | at.BASE_SESSION):
                lengths.append(size)
                end += size
                continue
            if lengths:
                found.append(UserPackets(view[start:end], lengths))
                lengths = array(LENGTH_TYPE)
            if flags & at.BASE_INTERNAL:
                found.append(InternalPacket(view[end : end + size]))
            else:
                carrying = _carrying(view, end, size)
                if carrying is None:
                    self._keep(view[end:], size + SESSION_HEADER_BYTES)
                    return
                packets, extra = carrying
                found.append(packets)
                end += extra
            end += size
            start = end
        if lengths:
            found.append(UserPackets(view[start:end], lengths))
        if end < total:
            rest = view[end:]
            _check_beginning(rest)
            self._keep(rest, at.U32.unpack_from(rest, 8)[0] if len(rest) >= LEAD_BYTES else 0)

    def _keep(self, rest: memoryview, need: int) -> None:
        if need <= SHORT_BYTES:
            self._short = bytes(rest)
        else:
            self._long, self._need = bytearray(rest), need


def _check_beginning(rest: memoryview) -> None:
    """Refuse strangers at their first bytes, not at their twelfth."""
    version, signature = _BEGINNING
    signed = bytes(rest[4:8])
    if bytes(rest[:1]) != version or signed != signature[: len(signed)]:
        raise _not_a_packet(rest, 0)


def _not_a_packet(view: memoryview, start: int) -> MalformedPacket:
    lead = bytes(view[start : start + LEAD_BYTES])
    if lead[:1] == b"\x10" and lead[4:8] == at.SIGNATURE:
        (size,) = at.U32.unpack_from(lead, at.OFF_PACKET_SIZE)
        return MalformedPacket(
            f"PacketSize {size}, at byte {at.OFF_PACKET_SIZE} of a packet; legal are "
            f"{PACKET_BYTES_MIN} to {PACKET_BYTES_MAX}"
        )
    return MalformedPacket(f"bytes {lead.hex()} are not the beginning of a packet")


def _carrying(view: memoryview, start: int, size: int) -> tuple[UserPackets, int] | None:
    """Return a user packet with a session header, inside its size or behind it (4.5, U1).

    Returns:
        The packet as if it carried none, with the header; and how many bytes behind the packet
        belong to it. None: these have not come yet.
    """
    packet = bytearray(view[start : start + size])
    trailing = len(headers(packet).trailing)
    if trailing == SESSION_HEADER_BYTES:
        raw = packet[-SESSION_HEADER_BYTES:]
        del packet[-SESSION_HEADER_BYTES:]
        extra = 0
    elif trailing == 0:
        raw = bytearray(view[start + size : start + size + SESSION_HEADER_BYTES])
        if len(raw) < SESSION_HEADER_BYTES:
            return None
        extra = SESSION_HEADER_BYTES
    else:
        raise MalformedPacket(
            f"{trailing} bytes where a SessionHeader should be, at byte {size - trailing} of a "
            f"packet of {size}"
        )
    packet[at.OFF_BASE_FLAGS] &= ~at.BASE_SESSION & 0xFF
    at.U32.pack_into(packet, at.OFF_PACKET_SIZE, len(packet))
    lengths = array(LENGTH_TYPE, (len(packet),))
    return UserPackets(memoryview(packet), lengths, SessionHeader.unpack(raw)), extra
