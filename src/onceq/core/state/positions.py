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
  place: quotas and operators see them, and nothing counts them again (I19).
* No kept row lies before ``head``, and no available one before ``cursor``: both only make searches
  short, and one that is too far ahead would hide a message without end.

Ranges of counters are the unit of every operation, so that a transaction of a thousand messages
costs little more than one of ten. ``TRANSITIONS`` says what the states mean.

Also here:

* State machines as tables: of the link of an outgoing queue, and of the position of a message.

Upholds: I17 (give-back: an entry never moves), I18 (lookup identifiers never change or repeat),
I19, I24 (no object for each waiting message), I2, I22, I26 (each end of a link leads to the next
attempt, or waits for an event that leads to it).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

from onceq.core.state.log_space import ExpiryTimes, Space
from onceq.core.state.position_block import (
    AVAILABLE,
    AWAITING,
    CHUNK,
    CHUNK_SHIFT,
    KEPT,
    LOCKED,
    PURGING,
    REMOVED,
    PositionBlock,
    PositionTables,
    Range,
    scan_expired,
)
from onceq.core.state.records import Op
from onceq.model.marks import NEVER_S
from onceq.model.record import Record
from onceq.model.run import InTwoParts, starts_of, total_of

# ---- positions -----------------------------------------------------------------------------------


class Positions(PositionTables):
    """The messages of one queue and one priority, in order."""

    __slots__ = ()

    # ---- adding -------------------------------------------------------------------------

    def append(
        self,
        address: int,
        lengths: array[int],
        *,
        arrived: int,
        expires: int = NEVER_S,
        express: bool = False,
        parts: InTwoParts | None = None,
    ) -> int:
        """Add messages whose packets lie one after another from ``address`` on.

        Args:
            parts: Only their fronts lie there, and the rests elsewhere in the same record.

        Returns:
            The counter of the first.
        """
        count, first = len(lengths), self.next
        if count != 1 or express or parts is not None:
            size = self._append_run(
                address, lengths, arrived, expires, express=express, parts=parts
            )
        else:
            # The one message that many transactions consist of: 1.0 us instead of 4.0.
            block = self._chunks.get(first >> CHUNK_SHIFT) or self._new_block(first)
            addresses, size = block.addresses, lengths[0]
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
                self._expires_by(block, expires)
        self.next += count
        self.available += count
        self.bytes += size
        self.space.add(address, size)
        return first

    def _append_run(
        self, address: int, lengths: array[int], arrived: int, expires: int, *, express: bool,
        parts: InTwoParts | None,
    ) -> int:  # fmt: skip
        """Add the rows of a run; returns its bytes."""
        done, count = 0, len(lengths)
        if parts is None:
            addresses = array("Q", starts_of(lengths, address))
            addresses.pop()
        else:
            self.in_parts = True
            addresses = array("Q", range(address, address + parts.front * count, parts.front))
        while done < count:
            at = self.next + done
            block = self._chunks.get(at >> CHUNK_SHIFT) or self._new_block(at)
            take = min(count - done, CHUNK - (at & (CHUNK - 1)))
            if block.addresses and addresses[done] < block.addresses[-1]:
                block.rising = False
            block.reach_known = None
            if parts is not None:
                block.in_two_parts(len(block.addresses), parts.part(done, take))
            block.addresses += addresses[done : done + take]
            block.lengths += lengths[done : done + take]
            block.arrived += array("I", (arrived,)) * take
            block.expires += array("I", (expires,)) * take
            block.states += bytes(take)
            block.live += take
            if expires < block.next_expiry:
                self._expires_by(block, expires)
            if express:
                block.express = (block.express or set()) | set(range(at, at + take))
            done += take
        return total_of(lengths)

    def _new_block(self, base: int) -> PositionBlock:
        """A chunk behind all others, for the message that gets counter ``base``."""
        key = base >> CHUNK_SHIFT
        block = self._chunks[key] = PositionBlock(base)
        self._keys.append(key)
        return block

    def skip_to(self, counter: int) -> None:
        """Give no counter below this one any more; it begins a chunk."""
        assert counter >= self.next, "counters only grow"
        assert counter & (CHUNK - 1) == 0, "a gap ends at the beginning of a chunk"
        self.next = counter
        if not len(self):
            # Or what is taken out behind the gap would seem to have something before it.
            self.head = self.cursor = counter

    # ---- changing -----------------------------------------------------------------------

    def set_state(self, first: int, count: int, old: int, new: int) -> None:
        """Move a range from one state to another that keeps it."""
        if count == 1:  # 0.4 us instead of 1.7
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
            if soonest < block.next_expiry:
                self._expires_by(block, soonest)

    def _count(self, state: int, change: int) -> None:
        if state == AVAILABLE:
            self.available += change
        elif state == AWAITING:
            self.awaiting += change
        elif state != REMOVED:
            self.locked += change

    def remove(self, first: int, count: int, *, keep_bytes: bool = False) -> None:
        """Take a range out for good, in any states of its positions.

        Args:
            keep_bytes: The packets live on elsewhere (a dead-letter queue took them over).
        """
        if count != 1:  # one alone, below: 0.9 us instead of 4.5
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
            if self.aborts or self.classes or self.moved or self.due:
                self._forget(first, count)
            self._trim(first, count)
            return
        key = first >> CHUNK_SHIFT
        block = self._chunks[key]
        at = first - block.base
        states, size = block.states, block.lengths[at]
        state = states[at]
        assert state != REMOVED, "removed twice"
        if state == AVAILABLE:
            self.available -= 1
        else:
            self._count(state, -1)
        states[at] = REMOVED
        block.live -= 1
        self.bytes -= size
        if not keep_bytes:
            self.space.sub(block.addresses[at], size)
        if block.express is not None:
            block.express.discard(first)
        if self.aborts or self.classes or self.moved or self.due or self.failures:
            self._forget(first, 1)
        if not block.live:
            del self._chunks[key], self._keys[bisect_left(self._keys, key)]
        if first == self.head:
            # Nothing lives before the head: what lives in this chunk stands behind, in a next row.
            if block.live and states[at + 1] != REMOVED:
                self.head = first + 1
            else:
                self.head = self._first_kept() if self._chunks else self.next
            self.cursor = max(self.cursor, self.head)

    def _forget(self, first: int, count: int) -> None:
        """Forget what is known of some messages beside their rows."""
        for counter in range(first, first + count):
            self.aborts.pop(counter, None)
            self.classes.pop(counter, None)
            self.notes.pop(counter, None)
            self.moved.pop(counter, None)
            self.failures.pop(counter, None)
        if self.due:
            self.due.forget(first, count)
            # As after a checkpoint, which says nothing of what is over.
            self.due = self.due or None

    def _free(self, block: PositionBlock, a: int, b: int, size: int) -> None:
        space, addresses, lengths = self.space, block.addresses, block.lengths
        if not block.rising:
            for address, length in zip(addresses[a:b], lengths[a:b], strict=True):
                space.sub(address, length)
            return
        # Region by region, and not message by message.
        while a < b:
            stop = bisect_left(addresses, space.next_region(addresses[a]), a, b)
            here = size if stop == b else total_of(lengths[a:stop])
            space.sub(addresses[a], here)
            size -= here
            a = stop

    def _trim(self, first: int, count: int) -> None:
        """Forget chunks in which nothing is left, and move the head on."""
        for key in range(first >> CHUNK_SHIFT, ((first + count - 1) >> CHUNK_SHIFT) + 1):
            block = self._chunks.get(key)
            if block is not None and block.live == 0:
                del self._chunks[key], self._keys[bisect_left(self._keys, key)]
        if first <= self.head:
            self.head = self._first_kept() if self._chunks else self.next
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
                block.unshare()
                block.addresses[at] = address
                block.in_one_part(at)
                block.rising, block.reach_known = False, None
                self.space.add(address, length)
                moved += 1
            address += length
        return moved

    # ---- expiry -------------------------------------------------------------------------

    def expired(self, now_s: int, states: tuple[int, ...], count_max: int = 1 << 62) -> list[Range]:
        """Return expired ranges in one of ``states``; updates ``next_expiry``.

        Args:
            count_max: Messages after which the search ends; there may be more.
        """
        if now_s < self.next_expiry or self._soon is None:
            return []
        found: list[Range] = []
        left = count_max
        while left > 0 and (key := self._soon.due(now_s)) is not None:
            block = self._chunks.get(key)
            if block is not None:
                if block.next_expiry <= now_s:
                    block.next_expiry, count = scan_expired(block, now_s, states, found, left)
                    left -= count
                self._soon.note(key, block.next_expiry)
        self.next_expiry = self._soon.next
        return sorted(found)

    def _expires_by(self, block: PositionBlock, at_s: int) -> None:
        """Something in a chunk expires sooner than anything there before."""
        block.next_expiry = at_s
        if self._soon is None:
            self._soon = ExpiryTimes()
        self._soon.note(block.base >> CHUNK_SHIFT, at_s)
        if at_s < self.next_expiry:
            self.next_expiry = at_s

    def set_expiry(self, first: int, count: int, expires: int) -> None:
        """Give a range another time to expire."""
        for block, a, b in self._parts(first, count):
            block.unshare()
            block.expires[a:b] = array("I", (expires,)) * (b - a)
            if expires < block.next_expiry:
                self._expires_by(block, expires)

    # ---- checkpoints --------------------------------------------------------------------

    def restore(self, block: PositionBlock) -> None:
        """Put a chunk from a checkpoint into its place and count what is in it."""
        self._chunks[block.base >> CHUNK_SHIFT] = block
        insort(self._keys, block.base >> CHUNK_SHIFT)
        states = block.states
        self.in_parts = self.in_parts or block.rests is not None
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
        soonest = min(expires) if whole else min((expires[i] for i in kept), default=NEVER_S)
        if soonest < NEVER_S:
            self._expires_by(block, soonest)


class Lanes(dict[int, Positions]):
    """The lanes of a queue by index, each made when first used.

    Attributes:
        first: The first counter of a lane that is made from now on.
    """

    __slots__ = ("_space", "first")

    def __init__(self, space: Space, first: int = 1) -> None:
        super().__init__()
        self._space, self.first = space, first

    def __missing__(self, index: int) -> Positions:
        lane = self[index] = Positions(self._space, self.first)
        return lane

    def skip_to(self, counter: int) -> None:
        """No lane gives a counter below this one any more, and none that is made later."""
        self.first = counter
        for lane in self.values():
            lane.skip_to(counter)


# ---- transition tables ---------------------------------------------------------------------------


class Link(Enum):
    """Whether there is a session with the destination.

    ``docs/reference/states.md`` shows it, drawn from ``LINKS``.

    An outgoing queue outlives every session, and one session may serve many queues. What the queue
    knows of a session is in one of five states, and two numbers belong to them: the session, if
    there is one, and the time of the next attempt, if it was put off. Both are 0 in all other
    states. Three things are not states of the link, because they can hold in any of them: an
    operator has paused the queue or disconnected this manager; nothing waits in the queue; and
    messages were transmitted without an order acknowledgment, which is a matter of the stream
    (``ResendTimer``). Operators see MSMQ's names, which follow from all of these together
    (``core/transfer/outgoing_queue.py``).
    """

    NONE = "none"
    """No session, and none under way."""
    CONNECTING = "connecting"
    """A session was asked for."""
    CONNECTED = "connected"
    """A session serves it."""
    CLOSING = "closing"
    """A session serves it that an operator has had closed."""
    PUT_OFF = "put off"
    """The next attempt has its time."""


class LinkEvent(Enum):
    """What happens to a link."""

    CONNECT = "connect"
    """A session is asked for."""
    ATTACH = "attach"
    """A session serves it from now on, at any side's request; or another one than before."""
    DISCONNECT = "disconnect"
    """An operator has disconnected this manager."""
    LOSE = "lose"
    """The session is over, or none came about (Q-9)."""
    PUT_OFF = "put off"
    """It is to be tried again, and not before a certain time."""
    WAKE = "wake"
    """That time has come, or does not count any more."""


LINKS: Final[Mapping[LinkEvent, Mapping[Link, Link]]] = {
    LinkEvent.CONNECT: {Link.NONE: Link.CONNECTING},
    LinkEvent.ATTACH: dict.fromkeys(Link, Link.CONNECTED),
    LinkEvent.DISCONNECT: {Link.CONNECTED: Link.CLOSING, Link.CLOSING: Link.CLOSING},
    LinkEvent.LOSE: dict.fromkeys((Link.CONNECTING, Link.CONNECTED, Link.CLOSING), Link.NONE),
    LinkEvent.PUT_OFF: {Link.NONE: Link.PUT_OFF},
    LinkEvent.WAKE: {link: link for link in Link} | {Link.PUT_OFF: Link.NONE},
}
"""By event: to which state it leads from each. In a state that is not named it cannot happen."""


NAMES: Final[Mapping[int, str]] = {
    AVAILABLE: "available",
    LOCKED: "locked",
    PURGING: "purging",
    AWAITING: "awaiting",
    REMOVED: "removed",
}
"""The states in words."""


class Transition(Record, frozen=True):
    """What an operation does to the positions of a range.

    Attributes:
        moves: From a state to a state, in the order in which they are carried out.
        strict: Whether every position of the range must be in one of these states.
        ends: Whether no message of the range is left, in any state.
    """

    moves: tuple[tuple[int, int], ...]
    strict: bool = True
    ends: bool = False


_ENDS: Final = Transition(tuple((state, REMOVED) for state in KEPT), ends=True)
_GIVES_BACK: Final = Transition(((PURGING, REMOVED), (LOCKED, AVAILABLE)), strict=False)

TRANSITIONS: Final[Mapping[int, Transition]] = {
    Op.LOCK: Transition(((AVAILABLE, LOCKED),)),
    Op.UNLOCK: _GIVES_BACK,
    Op.RETURN: _GIVES_BACK,
    Op.PURGE: Transition(
        ((LOCKED, PURGING), (AVAILABLE, REMOVED), (AWAITING, REMOVED)), strict=False
    ),
    Op.AWAIT: Transition(((AVAILABLE, AWAITING),)),
    Op.REMOVE: _ENDS,
    Op.RELEASE: _ENDS,
    Op.END: _ENDS,
    Op.SHIFT: _ENDS,
    Op.SETTLE: Transition((), strict=False),
}
"""By operation, what becomes of the states of positions; ``docs/reference/states.md`` shows it.

A position is the place of one message in one queue. It begins AVAILABLE and ends REMOVED; its
counter is never given again. Between them a message stays because a decision is open:

* LOCKED: a transaction has received the message. An abort gives it back to its own place (I17);
  nobody else receives it, and it does not expire (CNF-3).
* PURGING: an operator has purged the queue meanwhile. The transaction got the message before, so a
  commit still receives it, and only an abort lets the purge win (Q-43). Without this state an abort
  would bring a purged message back.
* AWAITING: in an outgoing queue only. The destination has the message, so it is never transmitted
  again; its sender wants to know how it ends, so it is not forgotten yet (EOD-11).

Prepared branches, dead letters in doubt and messages in the subqueue ``retry`` have no states of
their own: they are LOCKED or AVAILABLE, and a table beside the queue says what is special.

A record names an operation and a range, never a state: the state follows from the table, in one
place (``State.apply``). A *strict* operation is decided about positions whose states are known; if
one of them is in another state, the record and the queue disagree: an assertion fails, and a store
with such a record does not open. The other operations concern what is left of a range, and leave
positions in states that the table does not name as they are.

A move to another queue (SHIFT) ends a position, too: the message gets another one there, which
begins AVAILABLE.
"""

GIVES_BACK: Final = frozenset(
    op for op, transition in TRANSITIONS.items() if AVAILABLE in dict(transition.moves).values()
)
"""Operations after which a message can be received that could not be before."""


def concerned(
    lane: Positions, transition: Transition, first: int, count: int
) -> Iterator[tuple[int, int, int, int]]:
    """The parts of a range that an operation concerns which is not strict.

    Returns:
        For each its first counter, its count, and the states from which and to which it goes.
    """
    for old, new in transition.moves:
        for start, size in list(lane.ranges(old, first, end=first + count)):
            yield start, size, old, new
