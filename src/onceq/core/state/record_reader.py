"""Reading the bytes of a record, without ever stepping outside.

Upholds: I23 (what does not fit is named, not guessed).
"""

from __future__ import annotations

import struct
from array import array
from typing import Any, Final

from onceq.errors import DamagedRecord

NAMED: Final = struct.Struct("<I")
HAS_MORE: Final = 1 << 15
"""In the length of a key: four bytes follow behind it."""


class Reader:
    """A cursor over one payload that cannot step outside."""

    __slots__ = ("at", "data")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        end = self.at + form.size
        if end > len(self.data):
            raise DamagedRecord(f"a record ends at {len(self.data)}, needed up to {end}")
        values = form.unpack_from(self.data, self.at)
        self.at = end
        return values

    def take(self, size: int) -> memoryview:
        end = self.at + size
        if end > len(self.data):
            raise DamagedRecord(f"a record ends at {len(self.data)}, needed up to {end}")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def named(self, size: int) -> tuple[str, int]:
        """A key, and what stands behind it; 0 if nothing does."""
        key = bytes(self.take(size & ~HAS_MORE)).decode()
        return key, self.unpack(NAMED)[0] if size & HAS_MORE else 0

    def table(self, kind: str, count: int) -> array[int]:
        values = array(kind)
        values.frombytes(self.take(count * values.itemsize))
        return values
