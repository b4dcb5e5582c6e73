"""A change under construction: what it does already to each queue, and which numbers it takes.

One record may bring messages to many queues, end others, and leave dead letters, journal copies and
acknowledgments of them, in any order and by several rules. Nothing of it is in effect before the
record is whole, so the durable state does not have it. But each rule must know two things: the
counter that the next message of a queue will get, which recovery compares with what it finds (I18);
and how many bytes the change brings to a queue already, without which ten messages would each find
room for one (I19). If every rule counted for itself, one would forget what another has added; if
the sum were made again each time, a purge would take the square of its messages. Here both are kept
as the change grows, so a change of many messages costs as much for each of them as one of few.

``State.apply`` puts first and moves then. So a counter depends on what was put before it, and
never on the packets that a move hands on.

Upholds: I7 (a message number is given once), I18 (counters rise by one), I19 (a quota counts what
the same record brings), I24 (linear).
"""

from __future__ import annotations

from onceq.core.state.queues import AnyQueue, Queue
from onceq.core.state.records import Change, Put, RangeChange
from onceq.core.state.setups import NumbersReserved
from onceq.core.step.step import Step
from onceq.model.identity import NO_GUID, TransactionId
from onceq.model.limits import MESSAGE_NUMBER_MAX
from onceq.model.marks import NEVER_S
from onceq.model.run import Run, total_of


class ChangeBuilder:
    """See the module. Nothing is in effect before ``Step.record`` is given the change."""

    __slots__ = ("_coming", "_next", "change", "step", "streams")

    def __init__(self, step: Step, outcome: TransactionId | None = None) -> None:
        self.step = step
        self.change = Change(step.now.wall_s, outcome)
        self._next: dict[tuple[int, int], int] = {}
        """Queue and lane to the counter behind what is put there."""
        self._coming: dict[int, int] = {}
        """Queue to the bytes that come there, put or handed on."""
        self.streams: dict[int, tuple[int, int]] = {}
        """Outgoing queue to the stream that it goes on with, and the base of its numbers."""

    # ---- what comes in ------------------------------------------------------------------------

    def next_counter(self, queue: AnyQueue, lane: int) -> int:
        """The counter that the next message gets in a lane."""
        return self._next.get((queue.number, lane)) or queue.lanes[lane].next

    def put(self, put: Put) -> None:
        """Messages come into a queue; ``put.first`` is what ``next_counter`` said."""
        packets, number = put.packets, put.queue
        self.change.puts.append(put)
        self._next[number, put.lane] = put.first + len(packets.lengths)
        # Of packets that a prepare has written already only the lengths are here.
        part = put.address or put.rest_of is not None
        size = total_of(packets.lengths) if part else len(packets.data)
        self._coming[number] = self._coming.get(number, 0) + size

    def put_copy(
        self, number: int, packets: Run, *, reason: int = 0, flags: int = 0, message: int = 0,
        stream: int = 0, first_number: int = 0, address: int = 0, source: bytes = NO_GUID,
        expires: int = NEVER_S, lane: int = 0, due: int = 0,
    ) -> None:  # fmt: skip
        """Packets that are at hand come into a queue that nobody names: a dead-letter queue, a
        journal, or the outgoing queue for an acknowledgment."""
        first = self.next_counter(self.step.state.all_queues[number], lane)
        self.put(
            Put(
                number, lane, first, packets, stream, first_number, expires, NEVER_S, flags,
                reason, message, source, 0, address, due=due,
            )
        )  # fmt: skip

    # ---- what moves on ------------------------------------------------------------------------

    def move(self, move: RangeChange) -> None:
        """Something happens to a range; neighbours with the same fate are one."""
        if move.to or move.copies_to:
            size = self.size(move)
            targets = [copy[0] for copy in move.copies_to]
            for number in (*targets, move.to) if move.to else targets:
                self._coming[number] = self._coming.get(number, 0) + size
        moves = self.change.moves
        last = moves[-1] if moves else None
        if (
            last is not None and last.first + last.count == move.first and last.op == move.op
            and last.queue == move.queue and last.lane == move.lane
            and last.reason == move.reason and last.to == move.to
            and last.to_lane == move.to_lane and last.copies_to == move.copies_to
            and last.note == move.note
        ):  # fmt: skip
            last.count += move.count
        else:
            moves.append(move)

    def size(self, move: RangeChange) -> int:
        """Bytes of the packets of a range."""
        lane = self.step.state.all_queues[move.queue].lanes[move.lane]
        return lane.size(move.first, move.count)

    # ---- room ---------------------------------------------------------------------------------

    def coming(self, number: int) -> int:
        """Bytes that the change brings to a queue already."""
        return self._coming.get(number, 0)

    def holding(self, queue: Queue) -> int:
        """Bytes in a queue, those promised to it, and those that the change brings."""
        return self.step.holding(queue) + self._coming.get(queue.number, 0)


NUMBERS_RESERVED = 1 << 16
"""Message numbers that one durable reservation covers."""


def take_numbers(step: Step, change: Change, count: int) -> int:
    """The first of ``count`` consecutive message numbers, which a change takes.

    Zero means "not assigned" on the wire, so a block never contains it.
    """
    state = step.state
    first = change.next_message or state.next_message
    if first + count - 1 > MESSAGE_NUMBER_MAX:
        first = 1
        # They begin again, and the ceiling of the round before would allow them all at once.
        state.number_ceiling = 0
    after = first + count
    if after > state.number_ceiling:
        # What is sent express stands in no record that anybody waits for, but its numbers must
        # not come again: the receiver would take the next message for a repetition.
        step.setup(NumbersReserved(ceiling=after + NUMBERS_RESERVED))
    change.next_message = after if after <= MESSAGE_NUMBER_MAX else 1
    return first
