"""The tables of consecutive messages of one priority, and the states that a position can have."""

from __future__ import annotations

from array import array

from onceq.model.run import LENGTH_TYPE, InTwoParts
from onceq.model.time import NEVER_S

CHUNK_SHIFT = 12
CHUNK = 1 << CHUNK_SHIFT
"""Messages to one chunk of the tables."""

AVAILABLE, LOCKED, REMOVED, PURGING, AWAITING = range(5)
"""States of a position (Q-43); ``core/state/position_states.py`` has what they are for, and which
operation leads from which to which."""
KEPT = (AVAILABLE, LOCKED, PURGING, AWAITING)
"""States in which a message is there."""

Range = tuple[int, int]
"""First counter and count; or address and size."""


class PositionBlock:
    """The tables of up to CHUNK consecutive messages; ``base`` is the counter of the first."""

    __slots__ = (
        "addresses",
        "arrived",
        "base",
        "expires",
        "express",
        "fronts",
        "lengths",
        "live",
        "next_expiry",
        "reach_known",
        "rests",
        "rising",
        "shared",
        "states",
    )

    def __init__(self, base: int) -> None:
        self.base = base
        self.addresses = array("Q")
        self.lengths = array(LENGTH_TYPE)
        self.arrived = array("I")
        self.expires = array("I")
        self.states = bytearray()
        self.live = 0
        self.next_expiry = NEVER_S
        self.express: set[int] | None = None
        self.rising = True
        """Whether addresses rise with counters. Only then do the first and the last of a range
        tell whether its packets lie one after another."""
        self.reach_known: tuple[int, int] | None = None
        """What ``reach`` has found; None as soon as an address changes."""
        self.rests: array[int] | None = None
        """Log addresses of the rests of packets that lie in two parts (``InTwoParts``), with 0 for
        a packet in one part; it may be shorter than the other tables. None: there are none."""
        self.fronts: array[int] | None = None
        """Bytes of the fronts of these; as long as ``rests``."""
        self.shared = False
        """Whether a snapshot holds the tables: nothing but new rows at the end may change them, and
        the states, of which it has a copy."""

    def unshare(self) -> None:
        """Something in the tables is to be changed in its place: leave them to the snapshot."""
        if self.shared:
            self.shared = False
            self.addresses, self.expires = self.addresses[:], self.expires[:]
            self.rests = self.rests[:] if self.rests is not None else None

    def in_two_parts(self, at: int, parts: InTwoParts) -> None:
        """The packets from index ``at`` on lie in two parts."""
        if self.rests is None or self.fronts is None:
            self.rests, self.fronts = array("Q"), array(LENGTH_TYPE)
        gap = at - len(self.rests)
        self.rests += array("Q", bytes(8 * gap)) + parts.rests
        self.fronts += array(LENGTH_TYPE, bytes(self.fronts.itemsize * gap))
        self.fronts += array(LENGTH_TYPE, (parts.front,)) * len(parts.rests)

    def in_one_part(self, at: int) -> None:
        """A packet was written anew; the caller has seen to it that the table is not shared."""
        if self.rests is not None and at < len(self.rests):
            self.rests[at] = 0

    def parts(self, at: int) -> InTwoParts | None:
        """Where the rest of a packet lies, if it lies in two parts."""
        rests, fronts = self.rests, self.fronts
        if rests is None or fronts is None or at >= len(rests) or not rests[at]:
            return None
        return InTwoParts(fronts[at], rests[at : at + 1])

    def pieces(self, a: int, b: int) -> list[Range]:
        """Addresses and sizes of the parts of packets, in order."""
        whole = zip(self.addresses[a:b], self.lengths[a:b], strict=True)
        if self.rests is None or self.fronts is None:
            return list(whole)
        found: list[Range] = []
        parts = zip(self.fronts[a:b], self.rests[a:b], strict=True)
        # The parts first: whatever they are too short for is left in ``whole``.
        for (front, rest), (address, size) in zip(parts, whole, strict=False):
            if rest:
                found += ((address, front), (rest, size - front))
            else:
                found.append((address, size))
        found += whole
        return found

    def reach(self) -> tuple[int, int]:
        """The lowest and the highest address of what is kept, or wider; (1, 0) if nothing is."""
        if self.reach_known is None:
            kept = [
                address
                for address, state in zip(self.addresses, self.states, strict=True)
                if state != REMOVED
            ]
            self.reach_known = (min(kept), max(kept)) if kept else (1, 0)
        return self.reach_known


def scan_expired(
    block: PositionBlock, now_s: int, states: tuple[int, ...], found: list[Range], count_max: int
) -> tuple[int, int]:
    """Add the ranges whose time is over to ``found``, up to so many messages; returns when the next
    one's is, and how many these are.

    The expiry of a locked message waits for the outcome (CNF-3): an abort makes it due again.
    """
    soonest, count = NEVER_S, 0
    # What is gone at the front is most of it while a chunk expires in several steps.
    start = len(block.states) - len(block.states.lstrip(bytes((REMOVED,))))
    rows = zip(block.expires[start:], block.states[start:], strict=True)
    for index, (expires, state) in enumerate(rows, start):
        if state in (REMOVED, LOCKED, PURGING):
            continue
        if expires > now_s:
            soonest = min(soonest, expires)
        elif state in states:
            if count == count_max:
                return now_s, count
            count += 1
            counter = block.base + index
            if found and sum(found[-1]) == counter:
                found[-1] = (found[-1][0], found[-1][1] + 1)
            else:
                found.append((counter, 1))
    return soonest, count
