"""Who a queue manager is."""

from __future__ import annotations

import struct

from onceq.model.record import Record


class Identity(Record, frozen=True):
    """Who a queue manager is, for ever: given at ``init`` and kept in the store."""

    guid: bytes
    name: str
    installed_s: int

    def pack(self) -> bytes:
        """Bytes for the store."""
        return self.guid + struct.pack("<I", self.installed_s) + self.name.encode()

    @classmethod
    def unpack(cls, raw: bytes) -> Identity:
        """From the bytes of ``pack``; raises ValueError."""
        if len(raw) < 21:
            raise ValueError("an identity has at least 21 bytes")
        return cls(bytes(raw[:16]), bytes(raw[20:]).decode(), struct.unpack_from("<I", raw, 16)[0])
