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

Upholds: I23 (nothing that was not written is handed out, nothing is left out silently), I11.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from onceq.core.decision import Notice
from onceq.core.ending.final_acknowledgments import tell_end
from onceq.core.inputs.inputs import Spoiled
from onceq.core.receive.receive_exact import held_by
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE, AWAITING, LOCKED, REMOVED, PositionBlock
from onceq.core.state.positions import Positions
from onceq.core.state.queue_tables import ACKS_OWED, DAMAGED, title_of
from onceq.core.state.queues import AnyQueue, Queue, lookup_id
from onceq.core.state.records import Op, RangeChange
from onceq.core.state.setups import FoundDamaged
from onceq.core.state.state import IN_DOUBT
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step
from onceq.core.transfer.outgoing_queue import start_if_possible
from onceq.errors import DamagedPiece, DamagedRecord
from onceq.model.branch import Phase
from onceq.model.classes import MessageClass

NOTICES_AT_ONCE = 20
"""Runs of damaged messages that are named one by one; the rest of them are counted."""

Span = tuple[int, int]
"""Begin and end of damaged bytes in the log."""


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
        in_order = block.rising and block.rests is None
        found = set(_by_search(block, spans) if in_order else _by_look(block, spans))
        for at in sorted(found):
            if block.states[at] != REMOVED:
                yield block.base + at


def _by_search(block: PositionBlock, spans: Sequence[Span]) -> Iterator[int]:
    addresses, lengths = block.addresses, block.lengths
    for start, end in spans:
        at = max(bisect_right(addresses, start) - 1, 0)
        while at < len(addresses) and addresses[at] < end:
            if addresses[at] + lengths[at] > start:
                yield at
            at += 1


def _by_look(block: PositionBlock, spans: Sequence[Span]) -> Iterator[int]:
    for at in range(len(block.states)):
        for address, length in block.pieces(at, at + 1):
            if any(address < end and address + length > start for start, end in spans):
                yield at


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
