"""The rows of the messages of one queue and one priority, and searches in them.

A block has the rows of consecutive messages; a table has the blocks of one lane. Everything here
finds; ``core/state/positions.py`` changes. Searches leave ``cursor`` at the first available message
that they found, so that the next search begins there; it is not part of the durable state.

Upholds: I24 (a search over a long hole between two blocks is one step).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from onceq.core.state.log_space import DueTimes, ExpiryTimes, Space
from onceq.model.marks import NEVER_S
from onceq.model.run import LENGTH_TYPE, Extent, InTwoParts, total_of

CHUNK_SHIFT = 12
CHUNK = 1 << CHUNK_SHIFT
"""Messages to one chunk of the tables."""

AVAILABLE, LOCKED, REMOVED, PURGING, AWAITING = range(5)
"""States of a position (Q-43). ``TRANSITIONS`` in ``core/state/positions.py`` says what they are
for, and which operation leads from which to which."""
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
        """Whether a snapshot holds the tables: then only new rows at the end may change them, and
        the states, because the snapshot has a copy of these."""

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
        """Forget the rest of a rewritten packet; the caller has made the table unshared."""
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
        # The parts first: ``whole`` keeps the entries that have no part.
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
    """Add the expired ranges to ``found``, up to ``count_max`` messages; returns when the next one
    expires, and the number of messages added.

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


class PositionTables:
    """The tables of one queue and one priority; ``core/state/positions.py`` changes them.

    ``next`` is the counter that the next message will get.
    """

    __slots__ = (
        "_chunks",
        "_keys",
        "_soon",
        "aborts",
        "available",
        "awaiting",
        "bytes",
        "classes",
        "cursor",
        "due",
        "failures",
        "head",
        "in_parts",
        "locked",
        "moved",
        "next",
        "next_expiry",
        "notes",
        "space",
    )

    def __init__(self, space: Space, first: int = 1) -> None:
        self.space = space
        self._chunks: dict[int, PositionBlock] = {}
        self._keys: list[int] = []
        """Keys of the chunks, in order: a hole between two of them may be as long as a restart
        makes it, and is passed over in one step."""
        self.next = first
        self.head = first
        """No message that is not removed has a smaller counter."""
        self.cursor = first
        """No available message has a smaller counter."""
        self.available = 0
        self.locked = 0
        self.awaiting = 0
        self.bytes = 0
        self.next_expiry = NEVER_S
        self._soon: ExpiryTimes[int] | None = None
        """When something in which chunk expires, by key; None as long as nothing does."""
        self.aborts: dict[int, int] = {}
        self.classes: dict[int, int] = {}
        self.notes: dict[int, int] = {}
        """Of some of those with a class: what is known beside it (``Message.note``)."""
        self.failures: dict[int, tuple[int, str]] = {}
        """For messages whose receipt was undone: how often in their former places, and the reason
        that the last receiver gave, ``""``: none (finding U2)."""
        self.moved: dict[int, tuple[int, int]] = {}
        """Of those that came by a move: how many moves, and the second of the last (SND-22)."""

        self.due: DueTimes | None = None
        """Of those that are delayed: when they may be received. None: none ever was."""
        self.in_parts = False
        """Whether the packets of some may lie in two parts (``InTwoParts``)."""

    def __len__(self) -> int:
        return self.available + self.locked + self.awaiting

    @property
    def last(self) -> int:
        """The last row of the last table: no kept message stands behind it; there must be one."""
        block = self._chunks[self._keys[-1]]
        return block.base + len(block.states) - 1

    def state(self, counter: int) -> int:
        """State of one position; REMOVED for one that is not kept any more or never was."""
        block = self._chunks.get(counter >> CHUNK_SHIFT)
        if block is None or counter < block.base:
            return REMOVED
        at = counter - block.base
        return block.states[at] if at < len(block.states) else REMOVED

    def first(self, state: int, start: int, stop: int) -> int:
        """The first position in that state from ``start`` on; ``stop`` if there is none before."""
        at, key = max(start, self.head), bytes((state,))
        while at < stop:
            block = self._chunks.get(at >> CHUNK_SHIFT)
            if block is None:
                at = self._next_block(at)
                continue
            index = block.states.find(key, max(at - block.base, 0))
            if index >= 0:
                return min(block.base + index, stop)
            at = ((at >> CHUNK_SHIFT) + 1) << CHUNK_SHIFT
        return stop

    def ranges(
        self, state: int, start: int, *, end: int | None = None, count_max: int = 1 << 62
    ) -> Iterator[Range]:
        """Ranges of positions in that state, from counter ``start`` on, in order."""
        stop = self.next if end is None else min(end, self.next)
        at, left, key = start, count_max, bytes((state,))
        while left > 0 and (at := self.first(state, at, stop)) < stop:
            block = self._chunks[at >> CHUNK_SHIFT]
            index = at - block.base
            part = block.states[index : min(stop - block.base, index + left)]
            count = len(part) - len(part.lstrip(key))
            yield at, count
            left -= count
            at += count

    def tables(self, first: int, stop: int) -> Iterator[tuple[PositionBlock, int, int]]:
        """The chunks between two counters in which something is kept: (chunk, from index, to
        index). Nothing may change meanwhile."""
        keys = self._keys
        for at in range(bisect_left(keys, first >> CHUNK_SHIFT), len(keys)):
            block = self._chunks[keys[at]]
            if block.base >= stop:
                return
            a, b = max(first - block.base, 0), min(stop - block.base, len(block.states))
            if a < b:
                yield block, a, b

    def _next_block(self, counter: int) -> int:
        """Where to go on after a hole in the chunks."""
        keys = self._keys
        later = bisect_right(keys, counter >> CHUNK_SHIFT)
        return keys[later] << CHUNK_SHIFT if later < len(keys) else self.next

    def take(
        self, *, count_max: int, bytes_max: int, start: int = 0, end: int = 1 << 62
    ) -> list[Range]:
        """Return available messages in order, before counter ``end``: at most ``count_max``
        messages and ``bytes_max`` bytes, but one message at least."""
        end = min(end, self.next)
        if count_max == 1:
            at = self.first(AVAILABLE, max(self.cursor, start), end)
            # Only a search from the cursor on has seen that nothing before is available.
            if start <= self.cursor:
                self.cursor = max(self.cursor, at)
            return [(at, 1)] if at < end else []
        found: list[Range] = []
        left = bytes_max
        first_wanted = max(self.cursor, start)
        for first, count in self.ranges(AVAILABLE, first_wanted, end=end, count_max=count_max):
            if not found and start <= self.cursor:
                self.cursor = first
            size = self.size(first, count)
            if size > left:
                fitting = self._fitting(first, count, left)
                if fitting == 0 and not found:
                    fitting = 1
                if fitting:
                    found.append((first, fitting))
                return found
            left -= size
            found.append((first, count))
        return found

    def first_available(self) -> int:
        """The first available position; ``next`` if there is none."""
        self.cursor = self.first(AVAILABLE, self.cursor, self.next)
        return self.cursor

    def _fitting(self, first: int, count: int, size: int) -> int:
        """How many messages of a range (inside one chunk) fit into ``size`` bytes."""
        block = self._chunks[first >> CHUNK_SHIFT]
        at = first - block.base
        fitting = 0
        for length in block.lengths[at : at + count]:
            size -= length
            if size < 0:
                break
            fitting += 1
        return fitting

    def _parts(self, first: int, count: int) -> Sequence[tuple[PositionBlock, int, int]]:
        """The chunks that a range lies in: (chunk, from index, to index)."""
        parts = []
        end = first + count
        while first < end:
            block = self._chunks[first >> CHUNK_SHIFT]
            stop = min(end, ((first >> CHUNK_SHIFT) + 1) << CHUNK_SHIFT)
            parts.append((block, first - block.base, stop - block.base))
            first = stop
        return parts

    def size(self, first: int, count: int) -> int:
        """Bytes of the packets of a range."""
        size = 0
        for block, a, b in self._parts(first, count):
            size += total_of(block.lengths[a:b])
        return size

    def lengths(self, first: int, count: int) -> array[int]:
        """Length of each packet of a range."""
        lengths = array(LENGTH_TYPE)
        for block, a, b in self._parts(first, count):
            lengths += block.lengths[a:b]
        return lengths

    def arrived(self, first: int, count: int) -> array[int]:
        """Arrival second of each message of a range."""
        arrived = array("I")
        for block, a, b in self._parts(first, count):
            arrived += block.arrived[a:b]
        return arrived

    def extents(self, first: int, count: int) -> list[Extent]:
        """Where the packets of a range lie, in order, neighbours joined."""
        if count == 1:  # 0.5 us instead of 1.7
            block = self._chunks[first >> CHUNK_SHIFT]
            a = first - block.base
            if block.rests is None:
                return [Extent(block.addresses[a], block.lengths[a])]
        found: list[Extent] = []
        for block, a, b in self._parts(first, count):
            start = block.addresses[a]
            size = total_of(block.lengths[a:b])
            if block.rests is not None:
                pieces = block.pieces(a, b)
            elif block.rising and block.addresses[b - 1] + block.lengths[b - 1] - start == size:
                pieces = [(start, size)]
            else:
                pieces = list(zip(block.addresses[a:b], block.lengths[a:b], strict=True))
            for address, length in pieces:
                if found and found[-1].address + found[-1].size == address:
                    found[-1].size += length
                else:
                    found.append(Extent(address, length))
        return found

    def stored(self, first: int, count: int) -> Iterator[tuple[int, array[int], InTwoParts | None]]:
        """Where the packets of a range lie, for another queue that takes them over: runs of
        packets (or of fronts, of those in two parts) that lie one after another, with their
        lengths."""
        for block, a, b in self._parts(first, count):
            start, size = block.addresses[a], total_of(block.lengths[a:b])
            if (
                block.rests is None and block.rising
                and block.addresses[b - 1] + block.lengths[b - 1] - start == size
            ):  # fmt: skip
                yield start, block.lengths[a:b], None
                continue
            while a < b:
                parts, end, address = block.parts(a), a + 1, block.addresses[a]
                behind = address + block.lengths[a]
                while parts is None and end < b and block.addresses[end] == behind:
                    if block.parts(end) is not None:
                        break
                    behind += block.lengths[end]
                    end += 1
                yield address, block.lengths[a:end], parts
                a = end

    def last_before(self, counter: int, state: int = AVAILABLE) -> int:
        """The nearest position before ``counter`` in that state; 0 if there is none."""
        state_byte = bytes((state,))
        lowest = self.cursor if state == AVAILABLE else self.head
        if counter <= lowest:
            return 0
        for at in range(bisect_right(self._keys, (counter - 1) >> CHUNK_SHIFT) - 1, -1, -1):
            block = self._chunks[self._keys[at]]
            index = block.states.rfind(state_byte, 0, max(counter - block.base, 0))
            if index >= 0:
                return block.base + index
            if block.base <= lowest:
                break
        return 0

    def place_in_log(self, counter: int) -> tuple[int, int, int]:
        """Address and length of a packet, and when it arrived."""
        block = self._chunks[counter >> CHUNK_SHIFT]
        at = counter - block.base
        return block.addresses[at], block.lengths[at], block.arrived[at]

    def expires(self, counter: int) -> int:
        """Second in which a message expires."""
        block = self._chunks[counter >> CHUNK_SHIFT]
        return block.expires[counter - block.base]

    def is_express(self, counter: int) -> bool:
        """Whether a message was sent to survive nothing."""
        block = self._chunks[counter >> CHUNK_SHIFT]
        return block.express is not None and counter in block.express

    def has_express(self, first: int, count: int) -> bool:
        """Whether any of a range is express."""
        return any(block.express for block, _, _ in self._parts(first, count))

    def express_ranges(self) -> list[Range]:
        """All express messages that are still here, one range each."""
        return [
            (counter, 1)
            for block in self._chunks.values()
            for counter in sorted(block.express or ())
            if self.state(counter) != REMOVED
        ]

    def blocks(self) -> list[PositionBlock]:
        """The chunks in order."""
        return [self._chunks[key] for key in self._keys]
