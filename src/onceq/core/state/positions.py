"""Positions: the messages of one queue and one priority, in order, as tables and not as objects.

A queue of ten million messages must fit into memory, and be restored from a checkpoint in seconds;
an object for each message does neither. And a transaction may hand its messages back hours later,
to the places between the others where they were (I17). So a message has a *counter* here, rising by
one and never used again, and a row of 21 bytes in five tables that begin with the counter of their
first row: address and length of its packet in the log, when it arrived, when it expires, and one
byte of state. A received message leaves its row where it is and changes the byte. From the counter
follow lookup identifiers and, in outgoing queues, sequence numbers.

What must hold, and what would break otherwise:

* Rows never move, and counters never come again: else a lookup identifier that somebody has kept
  would name another message (I18). Tables of 4,096 rows are let go of when all their messages are
  gone, so a queue that runs for years stays small.
* ``available``, ``locked``, ``awaiting`` and ``bytes`` change with each byte of state, in one
  place: they are what quotas and operators see, and are not counted anew (I19).
* No kept row lies before ``head``, and no available one before ``cursor``: both only make searches
  short, and one that is too far ahead would hide a message for ever.

Ranges of counters are the unit of every operation, so that a transaction of a thousand messages
costs little more than one of ten. ``core/state/position_states.py`` has what the states mean.

Upholds: I17 (give-back: an entry never moves), I18 (lookup identifiers never change or repeat),
I19, I24 (no object for each waiting message).

LONG: one set of tables and everything that changes them, for ranges and for single messages, is
read beside each other: a short cut that left one of the counts out would be seen.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from onceq.core.state.live_bytes import Space
from onceq.core.state.position_block import (
    AVAILABLE,
    AWAITING,
    CHUNK,
    CHUNK_SHIFT,
    KEPT,
    REMOVED,
    PositionBlock,
    Range,
    scan_expired,
)
from onceq.model.run import LENGTH_TYPE, Extent, starts_of, total_of
from onceq.model.time import NEVER_S


class Positions:
    """See the module. ``next`` is the counter that the next message will get."""

    __slots__ = (
        "_chunks",
        "_keys",
        "aborts",
        "available",
        "awaiting",
        "bytes",
        "classes",
        "cursor",
        "head",
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
        self.aborts: dict[int, int] = {}
        self.classes: dict[int, int] = {}
        self.notes: dict[int, int] = {}
        """Of some of those with a class: what is known beside it (``Message.note``)."""
        self.moved: dict[int, tuple[int, int]] = {}
        """Of those that came by a move: how many moves, and the second of the last (SND-22)."""

    # ---- adding -------------------------------------------------------------------------

    def append(
        self,
        address: int,
        lengths: array[int],
        *,
        arrived: int,
        expires: int = NEVER_S,
        express: bool = False,
    ) -> int:
        """Add messages whose packets lie one after another from ``address`` on.

        Returns:
            The counter of the first.
        """
        count, first = len(lengths), self.next
        if count == 1 and not express:
            self._append_one(address, lengths[0], arrived, expires)
            return first
        size = total_of(lengths)
        addresses = array("Q", starts_of(lengths, address))
        addresses.pop()
        done = 0
        while done < count:
            at = first + done
            block = self._chunks.get(at >> CHUNK_SHIFT)
            if block is None:
                block = self._put_block(PositionBlock(at))
            take = min(count - done, CHUNK - (at & (CHUNK - 1)))
            if block.addresses and addresses[done] < block.addresses[-1]:
                block.rising = False
            block.reach_known = None
            block.addresses += addresses[done : done + take]
            block.lengths += lengths[done : done + take]
            block.arrived += array("I", (arrived,)) * take
            block.expires += array("I", (expires,)) * take
            block.states += bytes(take)
            block.live += take
            if expires < block.next_expiry:
                block.next_expiry = expires
            if express:
                block.express = (block.express or set()) | set(range(at, at + take))
            done += take
        self.next += count
        self.available += count
        self.bytes += size
        if expires < self.next_expiry:
            self.next_expiry = expires
        self.space.add(address, size)
        return first

    def _append_one(self, address: int, size: int, arrived: int, expires: int) -> None:
        """What ``append`` does, for the one message that many transactions consist of."""
        counter = self.next
        block = self._chunks.get(counter >> CHUNK_SHIFT)
        if block is None:
            block = self._put_block(PositionBlock(counter))
        addresses = block.addresses
        if addresses and address < addresses[-1]:
            block.rising = False
        block.reach_known = None
        addresses.append(address)
        block.lengths.append(size)
        block.arrived.append(arrived)
        block.expires.append(expires)
        block.states.append(AVAILABLE)
        block.live += 1
        if expires < block.next_expiry:
            block.next_expiry = expires
        self.next = counter + 1
        self.available += 1
        self.bytes += size
        if expires < self.next_expiry:
            self.next_expiry = expires
        self.space.add(address, size)

    def _put_block(self, block: PositionBlock) -> PositionBlock:
        key = block.base >> CHUNK_SHIFT
        self._chunks[key] = block
        insort(self._keys, key)
        return block

    def skip_to(self, counter: int) -> None:
        """Give no counter below this one any more; it begins a chunk."""
        assert counter >= self.next, "counters only grow"
        assert counter & (CHUNK - 1) == 0, "a gap ends at the beginning of a chunk"
        self.next = counter
        if not len(self):
            # Or what is taken out behind the gap would seem to have something before it.
            self.head = self.cursor = counter

    # ---- looking ------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.available + self.locked + self.awaiting

    def state(self, counter: int) -> int:
        """State of one position; REMOVED for one that is not kept any more or never was."""
        block = self._chunks.get(counter >> CHUNK_SHIFT)
        if block is None or counter < block.base:
            return REMOVED
        at = counter - block.base
        return block.states[at] if at < len(block.states) else REMOVED

    def ranges(
        self, state: int, start: int, *, end: int | None = None, count_max: int = 1 << 62
    ) -> Iterator[Range]:
        """Ranges of positions in that state, from counter ``start`` on, in order."""
        stop = self.next if end is None else min(end, self.next)
        at, left, key = max(start, self.head), count_max, bytes((state,))
        while at < stop and left > 0:
            block = self._chunks.get(at >> CHUNK_SHIFT)
            if block is None:
                at = self._next_block(at)
                continue
            if at < block.base:
                at = block.base
                continue
            here = min(stop - block.base, len(block.states))
            index = block.states.find(key, at - block.base, here)
            if index < 0:
                at = ((at >> CHUNK_SHIFT) + 1) << CHUNK_SHIFT
                continue
            part = block.states[index : min(here, index + left)]
            count = len(part) - len(part.lstrip(key))
            yield block.base + index, count
            left -= count
            at = block.base + index + count

    def _next_block(self, counter: int) -> int:
        """Where to go on after a hole in the chunks."""
        keys = self._keys
        later = bisect_right(keys, counter >> CHUNK_SHIFT)
        return keys[later] << CHUNK_SHIFT if later < len(keys) else self.next

    def take(self, *, count_max: int, bytes_max: int, start: int = 0) -> list[Range]:
        """Available messages in order: at most so many and so large, but one at least."""
        if count_max == 1:
            for first, _ in self.ranges(AVAILABLE, max(self.cursor, start), count_max=1):
                if start <= self.cursor:
                    self.cursor = first
                return [(first, 1)]
            return []
        found: list[Range] = []
        left = bytes_max
        for first, count in self.ranges(AVAILABLE, max(self.cursor, start), count_max=count_max):
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
        for first, _ in self.ranges(AVAILABLE, self.cursor, count_max=1):
            self.cursor = first
            return first
        return self.next

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

    def _parts(self, first: int, count: int) -> Iterator[tuple[PositionBlock, int, int]]:
        """The chunks that a range lies in: (chunk, from index, to index)."""
        end = first + count
        while first < end:
            block = self._chunks[first >> CHUNK_SHIFT]
            stop = min(end, ((first >> CHUNK_SHIFT) + 1) << CHUNK_SHIFT)
            yield block, first - block.base, stop - block.base
            first = stop

    def size(self, first: int, count: int) -> int:
        """Bytes of the packets of a range."""
        return sum(total_of(block.lengths[a:b]) for block, a, b in self._parts(first, count))

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
        found: list[tuple[int, int]] = []
        for block, a, b in self._parts(first, count):
            start = block.addresses[a]
            size = total_of(block.lengths[a:b])
            if block.rising and block.addresses[b - 1] + block.lengths[b - 1] - start == size:
                pieces = [(start, size)]
            else:
                pieces = list(zip(block.addresses[a:b], block.lengths[a:b], strict=True))
            for address, length in pieces:
                if found and sum(found[-1]) == address:
                    found[-1] = (found[-1][0], found[-1][1] + length)
                else:
                    found.append((address, length))
        return [Extent(address, size) for address, size in found]

    def last_before(self, counter: int, state: int = AVAILABLE) -> int:
        """The nearest position before ``counter`` in that state; 0 if there is none."""
        state_byte = bytes((state,))
        for at in range(bisect_right(self._keys, (counter - 1) >> CHUNK_SHIFT) - 1, -1, -1):
            block = self._chunks[self._keys[at]]
            index = block.states.rfind(state_byte, 0, max(counter - block.base, 0))
            if index >= 0:
                return block.base + index
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

    # ---- changing -----------------------------------------------------------------------

    def set_state(self, first: int, count: int, old: int, new: int) -> None:
        """Move a range from one state to another that keeps it."""
        if count == 1:
            block = self._chunks[first >> CHUNK_SHIFT]
            at = first - block.base
            assert block.states[at] == old, "a position is not in that state"
            block.states[at] = new
        else:
            for block, a, b in self._parts(first, count):
                assert block.states.count(old, a, b) == b - a, "positions are not in that state"
                block.states[a:b] = bytes((new,)) * (b - a)
        self._count(old, -count)
        self._count(new, count)
        if new == AVAILABLE and first < self.cursor:
            self.cursor = first

    def expiry_due(self, first: int, count: int) -> None:
        """A range is no longer locked: what has expired meanwhile ends soon (CNF-3)."""
        for block, a, b in self._parts(first, count):
            soonest = min(block.expires[a:b])
            if soonest != NEVER_S:
                block.next_expiry = min(block.next_expiry, soonest)
                self.next_expiry = min(self.next_expiry, soonest)

    def _count(self, state: int, change: int) -> None:
        if state == AVAILABLE:
            self.available += change
        elif state == AWAITING:
            self.awaiting += change
        elif state != REMOVED:
            self.locked += change

    def remove(self, first: int, count: int, *, keep_bytes: bool = False) -> None:
        """Take a range out for good, whatever states its positions are in.

        Args:
            keep_bytes: The packets live on elsewhere (a dead-letter queue took them over).
        """
        if count == 1:
            self._remove_one(first, keep_bytes)
            return
        for block, a, b in self._parts(first, count):
            states = block.states
            here = states.count(REMOVED, a, b)
            assert here == 0, "removed twice"
            for state in KEPT:
                self._count(state, -states.count(state, a, b))
            states[a:b] = bytes((REMOVED,)) * (b - a)
            block.live -= b - a
            size = total_of(block.lengths[a:b])
            self.bytes -= size
            if not keep_bytes:
                self._free(block, a, b, size)
            if block.express is not None:
                block.express -= set(range(block.base + a, block.base + b))
        if self.aborts or self.classes or self.moved:
            for counter in range(first, first + count):
                self.aborts.pop(counter, None)
                self.classes.pop(counter, None)
                self.notes.pop(counter, None)
                self.moved.pop(counter, None)
        self._trim(first, count)

    def _remove_one(self, counter: int, keep_bytes: bool) -> None:
        """What ``remove`` does, for one message."""
        key = counter >> CHUNK_SHIFT
        block = self._chunks[key]
        at = counter - block.base
        states, size = block.states, block.lengths[at]
        assert states[at] != REMOVED, "removed twice"
        self._count(states[at], -1)
        states[at] = REMOVED
        block.live -= 1
        self.bytes -= size
        if not keep_bytes:
            self.space.sub(block.addresses[at], size)
        if block.express is not None:
            block.express.discard(counter)
        if self.moved:
            self.moved.pop(counter, None)
        if self.aborts or self.classes:
            self.aborts.pop(counter, None)
            self.classes.pop(counter, None)
            self.notes.pop(counter, None)
        after = at + 1
        if block.live and counter == self.head and states[after] != REMOVED:
            self.head = counter + 1
            self.cursor = max(self.cursor, self.head)
        else:
            self._trim(counter, 1)

    def _free(self, block: PositionBlock, a: int, b: int, size: int) -> None:
        start = block.addresses[a]
        together = block.rising and block.addresses[b - 1] + block.lengths[b - 1] - start == size
        # One record's run, or neighbours: but regions part at records, so ask for both ends.
        if together and self.space.one_region(start, start + size):
            self.space.sub(start, size)
            return
        for address, length in zip(block.addresses[a:b], block.lengths[a:b], strict=True):
            self.space.sub(address, length)

    def _trim(self, first: int, count: int) -> None:
        """Forget chunks in which nothing is left, and move the head on."""
        for key in range(first >> CHUNK_SHIFT, ((first + count - 1) >> CHUNK_SHIFT) + 1):
            block = self._chunks.get(key)
            if block is not None and block.live == 0:
                del self._chunks[key], self._keys[bisect_left(self._keys, key)]
        if first <= self.head:
            self.head = self._first_kept()
        if self.cursor < self.head:
            self.cursor = self.head

    def _first_kept(self) -> int:
        at = self.head
        removed = bytes((REMOVED,))
        while at < self.next:
            block = self._chunks.get(at >> CHUNK_SHIFT)
            if block is None:
                at = self._next_block(at)
                continue
            index = max(at - block.base, 0)
            rest = block.states[index:]
            gone = len(rest) - len(rest.lstrip(removed))
            if gone < len(rest):
                return block.base + index + gone
            at = ((at >> CHUNK_SHIFT) + 1) << CHUNK_SHIFT
        return self.next

    def find_head(self) -> None:
        """Place head and cursor after a restore."""
        blocks = self.blocks()
        self.head = blocks[0].base if blocks else self.next
        self.head = self.cursor = self._first_kept()

    def relocate(self, counters: list[int], address: int, lengths: array[int]) -> int:
        """Point messages at new copies of their packets; those gone meanwhile are passed over.

        Returns:
            How many were moved.
        """
        moved = 0
        for counter, length in zip(counters, lengths, strict=True):
            if self.state(counter) != REMOVED:
                block = self._chunks[counter >> CHUNK_SHIFT]
                at = counter - block.base
                assert block.lengths[at] == length, "a copy has another length"
                self.space.sub(block.addresses[at], length)
                block.addresses[at] = address
                block.rising, block.reach_known = False, None
                self.space.add(address, length)
                moved += 1
            address += length
        return moved

    # ---- expiry -------------------------------------------------------------------------

    def expired(self, now_s: int, states: tuple[int, ...]) -> list[Range]:
        """Ranges in one of ``states`` whose time is over; sets ``next_expiry`` anew."""
        if now_s < self.next_expiry:
            return []
        found: list[Range] = []
        soonest = NEVER_S
        for block in self._chunks.values():
            if block.next_expiry <= now_s:
                block.next_expiry = scan_expired(block, now_s, states, found)
            soonest = min(soonest, block.next_expiry)
        self.next_expiry = soonest
        return sorted(found)

    def set_expiry(self, first: int, count: int, expires: int) -> None:
        """Give a range another time to expire."""
        for block, a, b in self._parts(first, count):
            block.expires[a:b] = array("I", (expires,)) * (b - a)
            block.next_expiry = min(block.next_expiry, expires)
        self.next_expiry = min(self.next_expiry, expires)

    # ---- checkpoints --------------------------------------------------------------------

    def blocks(self) -> list[PositionBlock]:
        """The chunks in order."""
        return [self._chunks[key] for key in self._keys]

    def restore(self, block: PositionBlock) -> None:
        """Put a chunk from a checkpoint into its place and count what is in it."""
        self._put_block(block)
        states = block.states
        for state in KEPT:
            self._count(state, states.count(state))
        kept = [i for i in range(len(states)) if states[i] != REMOVED]
        whole = len(kept) == len(states)
        block.live = len(kept)
        lengths, addresses, expires = block.lengths, block.addresses, block.expires
        self.bytes += total_of(lengths) if whole else sum(lengths[i] for i in kept)
        add = self.space.add
        end = addresses[-1] + lengths[-1]
        block.rising = addresses.tolist() == sorted(addresses)
        together = whole and block.rising and end - addresses[0] == total_of(lengths)
        if together and self.space.one_region(addresses[0], end):
            add(addresses[0], total_of(lengths))
            kept = []
        for i in kept:
            add(addresses[i], lengths[i])
        block.next_expiry = (
            min(expires) if whole else min((expires[i] for i in kept), default=NEVER_S)
        )
        self.next_expiry = min(self.next_expiry, block.next_expiry)
