"""Packets that a record brings, some of which may be damaged.

Of a damaged one only the size is known; the others have all their rows.

Upholds: I23.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import numpy as np

from onceq.core.state.records import Put, RestOf
from onceq.errors import DamagedRecord
from onceq.history.heads import FEW, Cut, Heads, cut, heads_of, nothing, together
from onceq.model.run import Buffer, Run, starts_of, total_of

Read = Callable[[int, int], Buffer]
Places = Sequence[tuple[int, int]]
"""Addresses and sizes of damaged bytes."""
Brought = list[Buffer | None] | Run
"""Packets; None stands for a damaged one."""


def brought(
    puts: Sequence[Put], at: int, addresses: Sequence[int], damaged: Places, read: Read
) -> Brought:
    """Return the packets of a put of a record; those of an earlier prepare are read from the log.

    Args:
        at: Which.
        addresses: Where the packets of each put lie, in a record in which some are damaged.
    """
    put, address = puts[at], addresses[at]
    lengths = put.packets.lengths
    if put.rest_of is not None:
        of = put.rest_of.put
        return _joined(put.packets, address, put.rest_of, puts[of].packets, addresses[of], damaged)
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


def _joined(
    fronts: Run, address: int, rest_of: RestOf, whole: Run, whole_at: int, damaged: Places
) -> Brought:
    """Return packets of which the record has only the fronts, at ``address``; the rests are
    those of whole ones at ``whole_at``."""
    view, size = memoryview(fronts.data), rest_of.front
    joined: list[Buffer | None] = []
    for index, packet in enumerate(whole):
        at = index * size
        rest_at = whole_at + rest_of.rest
        hit = _hit(address + at, address + at + size, damaged)
        if hit or _hit(rest_at, whole_at + len(packet), damaged):
            joined.append(None)
        else:
            joined.append(b"".join((view[at : at + size], packet[rest_of.rest :])))
        whole_at += len(packet)
    return joined if damaged else Run.of([one for one in joined if one is not None])


def _hit(start: int, end: int, damaged: Places) -> bool:
    return any(start < place + size and place < end for place, size in damaged)


def _whole(address: int, size: int, read: Read) -> Buffer | None:
    try:
        return read(address, size)
    except DamagedRecord:
        return None


def unread(size: int) -> Heads:
    """Return what is known of a damaged message."""
    found = nothing(1)
    found.sizes[0] = size
    return found


def first_of(packets: Brought) -> Buffer | None:
    """Return bytes that begin with the first undamaged packet."""
    if isinstance(packets, list):
        return next((one for one in packets if one is not None), None)
    return packets.data


def heads_in(packets: Brought, lengths: array[int]) -> Heads | Cut:
    """Return what is known of packets."""
    if isinstance(packets, list):
        each = zip(packets, lengths, strict=True)
        return together([unread(n) if one is None else cut(one, [n]) for one, n in each])
    if len(packets) <= FEW:
        return cut(packets.data, packets.lengths)
    return parsed(packets.data, packets.lengths)


def parsed(data: Buffer, sizes: array[int]) -> Heads:
    """Return the heads of whole packets that lie one after another, and the sums of their
    bodies."""
    lengths = np.frombuffer(sizes, "<u4").astype("i8")
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    return heads_of(data, starts, lengths, bodies=True)
