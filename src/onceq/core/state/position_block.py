"""The tables of consecutive messages of one priority, and the states that a position can have."""

from __future__ import annotations

from array import array

from onceq.model.run import LENGTH_TYPE
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
"""First counter and count."""


class PositionBlock:
    """The tables of up to CHUNK consecutive messages; ``base`` is the counter of the first."""

    __slots__ = (
        "addresses",
        "arrived",
        "base",
        "expires",
        "express",
        "lengths",
        "live",
        "next_expiry",
        "reach_known",
        "rising",
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
