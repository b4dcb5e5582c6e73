"""End an attempt: a session was lost or never made, and its outgoing queues react.

Messages that were to be tried once have been tried, and end (CNF-4); some may have arrived. They
may be very many, so a step ends a bounded number of them, and nothing leaves until the last one has
ended: it would be tried twice. What is sent meanwhile belongs to the next attempt. After a crash in
between, the rest is tried once more, as after a crash before the attempt.

Upholds: I24 (no step is longer the more there is), I26 (everything else is tried again).
"""

from __future__ import annotations

from collections.abc import Iterator

from onceq.core.ending.ending import gave_up
from onceq.core.ending.portions import ENDED_AT_ONCE
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.records import PUT_ONCE
from onceq.core.state.transition_tables import Link
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step
from onceq.core.transfer.connecting import put_off
from onceq.core.transfer.in_doubt import inquire
from onceq.core.transfer.outgoing_queue import TOO_LATE, lost, start_if_possible
from onceq.core.transfer.outgoing_states import held
from onceq.model.connection import ConnectionStatus


def over(
    step: Step,
    outgoing: OutgoingQueue,
    reason: str,
    *,
    idle: bool = False,
    status: ConnectionStatus = ConnectionStatus.UNKNOWN_FAILURE,
) -> None:
    """Record why there is no session, and try again later (Q-9)."""
    if lost(step, outgoing, reason, idle=idle, status=status):
        step.begin(_tried(step, outgoing))
    else:
        _ask_later(step, outgoing)


def _tried(step: Step, outgoing: OutgoingQueue) -> Iterator[None]:
    """End the messages that were to be tried once, then put off the rest."""
    ends = {index: outgoing.lanes[index].next for index in outgoing.wanting}
    while _end_portion(step, outgoing, ends):
        outgoing.purging += 1
        yield
        outgoing.purging -= 1
        if step.state.all_queues.get(outgoing.number) is not outgoing:
            return
    if outgoing.session:
        start_if_possible(step, outgoing)
    elif outgoing.link is Link.NONE and outgoing.pending() and not held(step, outgoing):
        put_off(step, outgoing)
    _ask_later(step, outgoing)


def _end_portion(step: Step, outgoing: OutgoingQueue, ends: dict[int, int]) -> bool:
    """End at most one step's messages; return whether more may remain."""
    build, left = ChangeBuilder(step), ENDED_AT_ONCE
    for index, end in ends.items():
        lane, at = outgoing.lanes[index], outgoing.tried_once.get(index, 0)
        for w in outgoing.wants(index).since(at):
            # Messages that were sent meanwhile may have made the last range longer.
            if left <= 0 or max(at, w.first) >= end:
                break
            at, stop = max(at, w.first), min(w.end, end)
            if w.flags & PUT_ONCE:
                for first, count in lane.ranges(AVAILABLE, at, end=stop, count_max=left):
                    gave_up(build, outgoing, index, first, count, TOO_LATE)
                    left, at = left - count, first + count
            # A range that is only examined counts, too.
            left -= 1
            at = at if left < 0 else stop
        outgoing.tried_once[index] = at
    step.record(build.change)
    return left <= 0


def _ask_later(step: Step, outgoing: OutgoingQueue) -> None:
    """Ask later about messages that were tried once and may have arrived (CNF-4)."""
    if not outgoing.inquiries.due_us:
        inquire(step, outgoing)
