"""Damaged messages are named, set aside and reported; everything else continues.

The engine verifies what it reads before it answers with it. Where stored bytes are not what was
written, it hands in ``Spoiled``, and every message in those bytes is set aside, wherever it is: in
a queue, held by the transaction that was about to get it, in an outgoing queue, a dead letter, a
copy in a journal. It ends there, durably, and is in the hidden queue DAMAGED with an entry that
says where it was (``core/state/log_space.py``), until an operator drops it.

In an outgoing queue it ends like any other end: not delivered if it never left, in doubt if it may
have; the doubt can be settled later. The next message gets a new link when it is transmitted. For
its sender, a damaged message in a queue has been removed from there. Acknowledgment messages and
dead letters are made of a message's own bytes, so there are none of a damaged one.

Also here:

* Messages that were set aside as damaged, for operators: list them, drop them, scrub for more.
* Find the messages in a part of the log that is to be freed: they are written again.

Upholds: I23 (nothing that was not written is handed out, nothing is left out silently), I11, I24 (a
bounded amount of work at a time).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from onceq.core.decision import Notice, Scrub
from onceq.core.ending.acknowledgments import tell_end
from onceq.core.inputs import Scrubbed, Spoiled
from onceq.core.management.paging import PagedListing, PageOrder
from onceq.core.receive.receive_exact import held_by
from onceq.core.state.log_space import Damage, LiveMessages
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE, AWAITING, LOCKED, REMOVED, PositionBlock
from onceq.core.state.positions import Positions
from onceq.core.state.queue_tables import ACKS_OWED, DAMAGED, title_of
from onceq.core.state.queues import AnyQueue, Queue, lookup_id
from onceq.core.state.records import Op, RangeChange
from onceq.core.state.setups import DamageDropped, FoundDamaged
from onceq.core.state.state import IN_DOUBT, State
from onceq.core.step.step import ChangeBuilder, Step, rule_for
from onceq.core.transfer.outgoing_queue import start_if_possible
from onceq.errors import DamagedPiece, DamagedRecord, InvalidParameter, MessageNotFound
from onceq.model.branches import Phase
from onceq.model.identity import read_number
from onceq.model.limits import SPARSE_POSITIONS_MAX
from onceq.model.requests import Steer, SteerOutgoing
from onceq.model.resultcodes import MessageClass
from onceq.model.run import LENGTH_TYPE, Extent, total_of
from onceq.model.views.managers import DamageView
from onceq.model.views.view import copy_by_name

# ---- damage --------------------------------------------------------------------------------------


NOTICES_AT_ONCE = 20
"""Runs of damaged messages that are named one by one; the rest of them are counted."""

Span = tuple[int, int]
"""Begin and end of damaged bytes in the log."""


@rule_for(Spoiled)
def spoiled(step: Step, item: Spoiled) -> None:
    """Set aside every message in damaged bytes."""
    # First: a message that never left is not delivered when it is set aside, and not in doubt.
    for number, index, before in item.unsent:
        leaving = step.state.all_queues.get(number)
        if isinstance(leaving, OutgoingQueue):
            leaving.transmitted[index] = min(leaving.transmitted.get(index, 0), before)
    spans = _spans(item.pieces)
    build = ChangeBuilder(step)
    told: list[tuple[str, int, int]] = []
    for queue, index, lane in list(step.state.all_lanes()):
        if queue.number == DAMAGED:
            continue
        for state, first, count in _runs(lane, list(_inside(lane, spans))):
            for start, size in _ours(step, item, queue, index, state, first, count):
                _aside(build, queue, index, state, start, size)
                told.append((title_of(queue), lookup_id(index, start), size))
    step.record(build.change)
    for number, lookup, size, address in item.gone:
        was_in = step.state.all_queues.get(number)
        title = title_of(was_in) if was_in is not None else str(number)
        step.setup(
            FoundDamaged(
                queue=title, lookup=lookup, bytes=size, address=address, at_s=step.now.wall_s
            )
        )
        told.append((title, lookup, 1))
    _tell(step, item.pieces, told)
    tx = step.units.transactions.get((item.reader, item.untold))
    if tx is not None and tx.doomed is None:
        # Its commit would end what it has taken as received, and no application has seen that.
        tx.doomed = DamagedRecord(
            "nothing of this transaction happened: messages that it had taken could not be read; "
            "what is damaged is set aside ('onceq damage list'), the others come again"
        )
    # Messages behind a damaged one can leave now.
    for outgoing in step.state.outgoing.values():
        start_if_possible(step, outgoing)


def _spans(pieces: Sequence[DamagedPiece]) -> list[Span]:
    """Return the damaged parts of the log, in order, without overlaps."""
    spans: list[Span] = []
    for start, end in sorted((p.address, p.address + p.size) for p in pieces):
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


def _inside(lane: Positions, spans: Sequence[Span]) -> Iterator[int]:
    """Yield the counters of messages with a damaged byte, rising."""
    for block in lane.blocks():
        if not block.live:
            continue
        found: set[int] = set()
        if block.rising and block.rests is None:
            addresses, lengths = block.addresses, block.lengths
            for start, end in spans:
                first = max(bisect_right(addresses, start) - 1, 0)
                near = range(first, bisect_left(addresses, end))
                found.update(at for at in near if addresses[at] + lengths[at] > start)
        else:
            found.update(
                at
                for at in range(len(block.states))
                for address, length in block.pieces(at, at + 1)
                if any(address < end and address + length > start for start, end in spans)
            )
        for at in sorted(found):
            if block.states[at] != REMOVED:
                yield block.base + at


def _runs(lane: Positions, counters: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield neighbours in one state: (state, first, count)."""
    at = 0
    while at < len(counters):
        first, state, count = counters[at], lane.state(counters[at]), 1
        while (
            at + count < len(counters)
            and counters[at + count] == first + count
            and lane.state(first + count) == state
        ):
            count += 1
        yield state, first, count
        at += count


def _ours(
    step: Step, item: Spoiled, queue: AnyQueue, index: int, state: int, first: int, count: int
) -> list[tuple[int, int]]:
    """Return those of a range that can be taken out now.

    What a transaction holds stays with it: it has the bytes already, or comes back here when it
    gives the message back or asks for it. The exception is the transaction that asks just now.
    """
    if state in (AVAILABLE, AWAITING):
        return [(first, count)]
    if state != LOCKED or not item.reader or not isinstance(queue, Queue):
        return []
    freed: list[tuple[int, int]] = []
    for counter in range(first, first + count):
        for tx in step.units.all():
            if tx.owner != item.reader or tx.phase is not Phase.ACTIVE:
                continue
            held = held_by(tx, queue, lookup_id(index, counter))
            if held is not None:
                tx.receives.remove(held)
                tx.messages -= 1
                freed.append((counter, 1))
                break
    return freed


def _aside(
    build: ChangeBuilder, queue: AnyQueue, index: int, state: int, first: int, count: int
) -> None:
    """End a range in its place, because its bytes are gone."""
    if queue.number == ACKS_OWED:
        # The reports that were requested are in those bytes; the message itself is found here.
        build.move(RangeChange(Op.END, queue.number, index, first, count))
        return
    if isinstance(queue, OutgoingQueue):
        left = queue.may_have_left(index) + 1 - first
        left = count if state == AWAITING else min(max(left, 0), count)
        removed = MessageClass.NACK_DELETED
        for start, size, reason in (
            (first, left, IN_DOUBT),
            (first + left, count - left, removed),
        ):
            if size:
                move = RangeChange(
                    Op.END, queue.number, index, start, size, int(reason), to=DAMAGED
                )
                move.note = int(removed) if reason == IN_DOUBT else 0
                build.move(move)
        return
    for w, start, size in queue.wants(index).parts(first, count):
        if w is not None:
            tell_end(build, w, start, size, MessageClass.NACK_QUEUE_PURGED)
        build.move(RangeChange(Op.END, queue.number, index, start, size, to=DAMAGED))


def _tell(step: Step, pieces: Sequence[DamagedPiece], told: Sequence[tuple[str, int, int]]) -> None:
    """Log each run of messages, and each place of a file."""
    for piece in pieces[:NOTICES_AT_ONCE]:
        values = {"file": piece.path, "byte": piece.offset, "size": piece.size}
        step.act(Notice("stored bytes are damaged", values))
    for queue, lookup, count in told[:NOTICES_AT_ONCE]:
        values = {"queue": queue, "lookup": f"{lookup:#x}", "messages": count}
        step.act(Notice("damaged messages were set aside", values))
    if len(pieces) > NOTICES_AT_ONCE or len(told) > NOTICES_AT_ONCE:
        messages = sum(count for _, _, count in told)
        values = {"places": len(pieces), "messages": messages}
        step.act(Notice("more is damaged than is named here", values))


# ---- damage views --------------------------------------------------------------------------------


RATE_MAX = 10**18 - 1
"""Of a number of bytes in a second that is believed."""


def left(step: Step, entry: Damage) -> int:
    """Return how many messages of an entry are still set aside: some were found to have arrived."""
    if not entry.first:
        return entry.count
    lane, end = step.state.all_queues[DAMAGED].lanes[0], entry.first + entry.count
    return sum(count for _, count in lane.ranges(AVAILABLE, entry.first, end=end))


def _view(step: Step, entry: Damage) -> DamageView:
    classes = step.state.all_queues[DAMAGED].lanes[0].classes
    reason = classes.get(entry.first, entry.reason) if entry.first else entry.reason
    return copy_by_name(DamageView, entry, count=left(step, entry), reason=reason)


DAMAGES: Final[PagedListing[Damage, DamageView]] = PagedListing(
    lambda step, item: list(step.state.damages),
    _view,
    {"number": PageOrder(lambda step, one: (one.number,), (int,))},
    lambda step, item: lambda one: left(step, one) > 0,
)
"""Messages set aside, without those that have proved to have arrived meanwhile."""


def drop(step: Step, text: str) -> int:
    """Forget one entry, or all of them (""); their messages are then gone permanently.

    Returns:
        How many messages those were.

    Raises:
        MessageNotFound: There is no such entry.
    """
    known = {str(entry.number): entry for entry in step.state.damages}
    if text and text not in known:
        raise MessageNotFound(f"nothing that was set aside has the number {text}")
    chosen = [known[text]] if text else list(known.values())
    count = sum(left(step, entry) for entry in chosen)
    for entry in chosen:
        step.setup(DamageDropped(number=entry.number))
    return count


# ---- scrubs -------------------------------------------------------------------------------------


def scrub(step: Step, item: SteerOutgoing) -> None:
    """Let the engine verify every stored byte, or stop it.

    Raises:
        InvalidParameter: The rate is invalid.
    """
    rate = 0
    if item.action is Steer.SCRUB:
        text = item.destination or str(step.settings.scrub_bytes_s)
        rate = read_number(text, RATE_MAX) or 0
        if not rate:
            raise InvalidParameter(f"a scrub reads a number of bytes in a second, not {text!r}")
    step.act(Scrub(rate))
    step.answer(item.owner, item.request, None)


@rule_for(Scrubbed)
def scrubbed(step: Step, item: Scrubbed) -> None:
    """Record the progress of a scrub, for views."""
    step.scrub = item.view


# ---- sparse segments -----------------------------------------------------------------------------


PIECE_MESSAGES = 512
"""The largest number of messages of one chunk moved at once."""

EACH = 16
"""The number of positions that skipping a queue or a chunk counts as."""

Cursor = tuple[int, int, int]
"""Queue, lane and base of the chunk at which a search continues."""


@dataclass(frozen=True, slots=True)
class Sparse:
    """Messages found in a part of the log.

    The search goes through the tables of positions, chunk by chunk, and skips each chunk whose
    packets are elsewhere. It may stop after a number of positions, and continue there: a queue
    manager that holds tens of millions of messages does other work in between.

    Attributes:
        looked: How many positions were examined for that.
        cursor: Where the search was stopped; None: that is all.
    """

    parts: tuple[LiveMessages, ...]
    looked: int
    cursor: Cursor | None


def search(
    state: State, base: int, end: int, bytes_max: int, *, after: Cursor | None = None,
    positions_max: int = SPARSE_POSITIONS_MAX,
) -> Sparse:  # fmt: skip
    """Return messages whose packets are between two positions of the log, at most ``bytes_max``.

    Args:
        after: Where an earlier search was stopped.
    """
    found: list[LiveMessages] = []
    left, looked = bytes_max, 0
    for number, index, block in _chunks(state, after):
        if left <= 0 or looked >= positions_max:
            return Sparse(tuple(found), looked, (number, index, block.base if block else 0))
        looked += EACH
        if block is None:
            continue
        first, stop = _span(block, base, end)
        if first >= stop:
            continue
        looked += stop - first
        addresses, states = block.addresses, block.states
        picked = [
            i for i in range(first, stop) if base <= addresses[i] < end and states[i] != REMOVED
        ]
        few = _fitting(block, picked, left)
        if few:
            lengths = array(LENGTH_TYPE, (block.lengths[i] for i in few))
            left -= total_of(lengths)
            extents = tuple(Extent(*piece) for i in few for piece in block.pieces(i, i + 1))
            found.append(
                LiveMessages(number, index, tuple(block.base + i for i in few), extents, lengths)
            )
        if len(few) < len(picked):
            return Sparse(tuple(found), looked, (number, index, block.base))
    return Sparse(tuple(found), looked, None)


def _chunks(state: State, after: Cursor | None) -> Iterator[tuple[int, int, PositionBlock | None]]:
    """Yield every chunk of every lane, always in the same order; and each queue, with no chunk,
    before its chunks, because skipping many empty ones is work, too."""
    start = after or (0, 0, 0)
    for number in sorted(state.all_queues):
        if number < start[0] or number == DAMAGED:  # those bytes cannot be rewritten
            continue
        if number > start[0]:
            yield number, 0, None
        for index, lane in sorted(state.all_queues[number].lanes.items()):
            if (number, index) < start[:2]:
                continue
            for block in lane.blocks():
                if (number, index, block.base) >= start:
                    yield number, index, block


def _span(block: PositionBlock, base: int, end: int) -> tuple[int, int]:
    """Return the chunk's places that may be in that part of the log: first, and behind the last."""
    if block.rising:
        return bisect_left(block.addresses, base), bisect_left(block.addresses, end)
    low, high = block.reach()
    return (0, len(block.addresses)) if low < end and high >= base else (0, 0)


def _fitting(block: PositionBlock, picked: list[int], bytes_max: int) -> list[int]:
    """Return as many of them as fit, at least one."""
    left, count = bytes_max, 0
    while count < min(len(picked), PIECE_MESSAGES) and (left > 0 or not count):
        left -= block.lengths[picked[count]]
        count += 1
    return picked[:count]
