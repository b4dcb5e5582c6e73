"""What a user packet says, read with a few lines of our own.

So a mistake in the product's parser does not hide one in the product's packets.
"""

from __future__ import annotations

import struct
from typing import Final

from onceq.model.run import Buffer

_U16, _U32 = struct.Struct("<H"), struct.Struct("<I")
_NAME_BYTES: Final = (0, 0, 4, 4, 4, 16, 20)
INTERNAL, TRANSACTION, SECURITY = 0x08, 0x0010_0000, 0x0008_0000
UID_BYTES: Final = 8
"""Of the identifier at the beginning of every body."""


def names_end(packet: Buffer, start: int) -> tuple[int, int]:
    """Where the names of a user packet end, and its flags."""
    (flags,) = _U32.unpack_from(packet, start + 60)
    end = start + 64
    for shift in (10, 13, 16):
        kind = flags >> shift & 7
        if kind == 7:
            end += (2 + _U16.unpack_from(packet, end)[0] + 3) & ~3
        else:
            end += _NAME_BYTES[kind]
    return end, flags


def body_of(packet: Buffer, start: int = 0) -> tuple[int, bytes]:
    """Class and body of a user packet."""
    at, flags = names_end(packet, start)
    if flags & TRANSACTION:
        at += 20
    assert not flags & SECURITY, "nothing here is signed or encrypted"
    labels = packet[at + 1]
    (message_class,) = _U16.unpack_from(packet, at + 2)
    (size,) = _U32.unpack_from(packet, at + 32)
    (extension,) = _U32.unpack_from(packet, at + 52)
    at += 56 + 2 * labels + extension
    return message_class, bytes(packet[at : at + size])
