"""The checksums of the blocks that a record consists of."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from onceq.model.log import BLOCK_BYTES
from onceq.model.run import Buffer
from onceq.store.checksum import crc32


def block_checksums(
    pieces: Sequence[Buffer], start: int, skipped: int = 0, block: int = BLOCK_BYTES
) -> array[int]:
    """Return a checksum of each block of bytes that lie in several pieces, the last block perhaps
    short.

    Args:
        start: Start value of the first one; the next has one more, and so on.
        skipped: Bytes of the first block that do not count, and are not among these.
        block: Bytes of a block.
    """
    found = array("I")
    crc, have = start, skipped
    for piece in pieces:
        at, size = 0, len(piece)
        with memoryview(piece) as view:
            if have:
                at = min(block - have, size)
                crc = crc32(view[:at], crc)
                have += at
                if have < block:
                    continue
                found.append(crc)
                have = 0
            whole = at + (size - at) // block * block
            first = start + len(found)
            cuts = [slice(place, place + block) for place in range(at, whole, block)]
            found.extend(map(crc32, map(view.__getitem__, cuts), range(first, first + len(cuts))))
            crc, have = start + len(found), size - whole
            if have:
                crc = crc32(view[whole:], crc)
    if have:
        found.append(crc)
    return found
