"""A byte stream cut into packets, however the network cut it up.

A packet says its size in its first 16 bytes. No more than one packet of the largest legal size
is ever kept waiting, and a size that is not legal is refused before anything is kept (I24).
"""

from __future__ import annotations

import struct
from typing import Final

from onceq.errors import MalformedPacket
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.run import Buffer
from onceq.packet import layout as at

PACKET_BYTES_MIN: Final = 20
_BASE = struct.Struct("<BBH4sI")


class Cutter:
    """Feed it bytes; take whole packets."""

    __slots__ = ("_at", "_data")

    def __init__(self) -> None:
        self._data = b""
        self._at = 0

    def feed(self, data: Buffer) -> None:
        """More bytes have come."""
        if self._at < len(self._data):
            self._data = self._data[self._at :] + bytes(data)
        else:
            self._data = bytes(data)
        self._at = 0

    @property
    def data(self) -> bytes:
        """The bytes that ``next`` and ``extra`` speak of."""
        return self._data

    def next(self) -> tuple[int, int, int] | None:
        """Start, size and base flags of the next whole packet, or None.

        Raises:
            MalformedPacket: What stands there is not the beginning of a packet.
        """
        start = self._at
        if len(self._data) - start < 12:
            self._check_beginning(start)
            return None
        version, _, flags, signature, size = _BASE.unpack_from(self._data, start)
        if version != at.VERSION or signature != at.SIGNATURE:
            raise MalformedPacket(
                f"bytes {self._data[start : start + 8].hex()} are not the beginning of a packet"
            )
        if not PACKET_BYTES_MIN <= size <= PACKET_BYTES_MAX:
            raise MalformedPacket(
                f"a packet says that it has {size} bytes; legal are {PACKET_BYTES_MIN} to "
                f"{PACKET_BYTES_MAX}"
            )
        if len(self._data) - start < size:
            return None
        self._at = start + size
        return start, size, flags

    def _check_beginning(self, start: int) -> None:
        """Refuse strangers at their first bytes, not at their twelfth."""
        have = self._data[start : start + 8]
        if have[:1] not in (b"", b"\x10") or have[4:8] != at.SIGNATURE[: len(have[4:8])]:
            raise MalformedPacket(f"bytes {have.hex()} are not the beginning of a packet")

    def back(self, start: int) -> None:
        """Undo the last ``next``: the packet needs bytes behind it that are not there yet."""
        self._at = start

    def extra(self, size: int) -> bytes | None:
        """``size`` bytes that follow the last packet and belong to it, or None if not there."""
        end = self._at + size
        if len(self._data) < end:
            return None
        raw = self._data[self._at : end]
        self._at = end
        return raw
