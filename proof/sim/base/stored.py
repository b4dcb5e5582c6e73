"""Where the packets of messages lie, for judges that read them behind the product's back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from onceq.core.state.position_block import REMOVED
from onceq.core.state.positions import Positions
from onceq.model.run import Buffer

Pieces = tuple[tuple[int, int], ...]
"""Addresses and sizes of the parts of one packet, in order."""


def kept(lane: Positions) -> Iterator[Pieces]:
    """Of each message that is there."""
    for block in lane.blocks():
        for at, (length, state) in enumerate(zip(block.lengths, block.states, strict=True)):
            if state != REMOVED and length:
                yield tuple(block.pieces(at, at + 1))


def joined(read: Callable[[int, int], Buffer], pieces: Pieces) -> bytes:
    """The packet that lies there."""
    return b"".join(read(address, size) for address, size in pieces)


def address_of(pieces: Pieces, index: int) -> int:
    """Where byte ``index`` of a packet lies."""
    for address, size in pieces:
        if index < size:
            return address + index
        index -= size
    raise IndexError(index)
