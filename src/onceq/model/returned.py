"""The mark of a message that was returned from a dead-letter queue: how often it was.

It stands behind the extension of the message (PROPID_M_EXTENSION), because that is the one place of
a packet which every queue manager passes on and none reads. onceq takes it off again before an
application sees the extension; other readers see 12 bytes more.
"""

from __future__ import annotations

import struct
from typing import Final

MARK: Final = b"OQreturn"
_TRAILER = struct.Struct("<I8s")
RETURNS_MAX: Final = 0xFFFF_FFFF
"""Largest count that the mark holds."""


def marked(extension: bytes, count: int) -> bytes:
    """An extension with the mark behind it, in place of one that is there."""
    plain, _ = unmarked(extension)
    return plain + _TRAILER.pack(min(count, RETURNS_MAX), MARK) if count else plain


def unmarked(extension: bytes) -> tuple[bytes, int]:
    """An extension without the mark, and how often the message was returned."""
    if len(extension) < _TRAILER.size or not extension.endswith(MARK):
        return extension, 0
    count, _ = _TRAILER.unpack(extension[-_TRAILER.size :])
    return extension[: -_TRAILER.size], count
