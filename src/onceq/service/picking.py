"""A part of what a peek has found: for searches, and for surveys of a queue (RCV-10).

The messages are read here, next to the store, so that the application gets one of them, or a short
record of each, and not every body that was read.

Upholds: I24 (one page of a queue at a time).
"""

from __future__ import annotations

from array import array
from itertools import accumulate

from onceq.core.decision import Handed
from onceq.model.requests import Pick, PickBy
from onceq.model.run import LENGTH_TYPE, Buffer, Run, largest_of
from onceq.packet.heads import HEAD, bodiless, first_with_correlation, first_with_id, head_of


def wants_bytes(pick: Pick) -> bool:
    """Return True if the packets have to be read for it."""
    return pick.by is not PickBy.TOPS or any(pick.value)


def picked(handed: Handed, data: Buffer) -> tuple[Run, slice, int]:
    """Return what to hand out.

    Args:
        data: The packets, one after another; empty where none of them is wanted.

    Returns:
        Packets or records; which of the messages they are; and the lookup identifier up to which
        the queue was searched.
    """
    pick = handed.pick
    assert pick is not None, "there is something to pick by"
    whole = Run(data, handed.lengths)
    if pick.by is PickBy.HEADS:
        starts = accumulate(handed.lengths[:-1], initial=0)
        heads = b"".join(head_of(data, start) for start in starts)
        lengths = array(LENGTH_TYPE, (HEAD.size,)) * len(whole)
        return Run(heads, lengths), slice(None), handed.lookups[-1]
    if pick.by is PickBy.TOPS:
        return _tops(whole, int.from_bytes(pick.value, "little")), slice(None), handed.lookups[-1]
    if pick.by is PickBy.BODILESS:
        return Run.of(list(map(bodiless, whole))), slice(None), handed.lookups[-1]
    if pick.by is PickBy.CORRELATION:
        index = first_with_correlation(whole, pick.value)
    else:
        source, number = pick.value[:16], int.from_bytes(pick.value[16:], "little")
        index = first_with_id(whole, source, number)
    if index < 0:
        return Run(b"", array(LENGTH_TYPE)), slice(0, 0), handed.lookups[-1]
    return whole.part(index, 1), slice(index, index + 1), handed.lookups[index]


def _tops(whole: Run, size: int) -> Run:
    """Return every packet, cut off after ``size`` bytes."""
    lengths = whole.lengths
    if size >= largest_of(lengths):
        return whole
    if not size:
        return Run(b"", array(LENGTH_TYPE, bytes(lengths.itemsize * len(lengths))))
    view, starts = memoryview(whole.data), accumulate(lengths[:-1], initial=0)
    # A slice beyond the end of its packet would take in the next one.
    cut = array(LENGTH_TYPE, [min(length, size) for length in lengths])
    pieces = [view[start : start + n] for start, n in zip(starts, cut, strict=True)]
    return Run(b"".join(pieces), cut)
