"""Packets that a record brings, some of which may be damaged.

Of a damaged one only the size is known; the others are told of as ever.

Upholds: I23.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import numpy as np

from onceq.core.state.records import Put
from onceq.errors import DamagedRecord
from onceq.history.heads import FEW, Cut, Heads, cut, heads_of, nothing, together
from onceq.model.run import Buffer, Run, starts_of, total_of

Read = Callable[[int, int], Buffer]
Places = Sequence[tuple[int, int]]
"""Addresses and sizes of damaged bytes."""
Brought = list[Buffer | None] | Run
"""Packets; None stands for a damaged one."""


def brought(put: Put, address: int, damaged: Places, read: Read) -> Brought:
    """The packets of a put; what a prepare has laid is read from the log.

    Args:
        address: Where the packets lie of a record in which some are damaged.
    """
    lengths = put.packets.lengths
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


def _hit(start: int, end: int, damaged: Places) -> bool:
    return any(start < place + size and place < end for place, size in damaged)


def _whole(address: int, size: int, read: Read) -> Buffer | None:
    try:
        return read(address, size)
    except DamagedRecord:
        return None


def unread(size: int) -> Heads:
    """What is known of a damaged message."""
    found = nothing(1)
    found.sizes[0] = size
    return found


def first_of(packets: Brought) -> Buffer | None:
    """Bytes that begin with the first packet that is whole."""
    if isinstance(packets, list):
        return next((one for one in packets if one is not None), None)
    return packets.data


def heads_in(packets: Brought, lengths: array[int]) -> Heads | Cut:
    """What is known of packets."""
    if isinstance(packets, list):
        each = zip(packets, lengths, strict=True)
        return together([unread(n) if one is None else cut(one, [n]) for one, n in each])
    if len(packets) <= FEW:
        return cut(packets.data, packets.lengths)
    return parsed(packets.data, packets.lengths)


def parsed(data: Buffer, sizes: array[int]) -> Heads:
    """The heads of whole packets that lie one after another."""
    lengths = np.frombuffer(sizes, "<u4").astype("i8")
    return heads_of(data, np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
