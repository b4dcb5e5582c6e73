"""Messages that wait in a stream that its receiver has left for a newer one of this manager.

That happens when another life of this manager continued with newer streams: in the time that a
backup has undone, or in a copy that runs beside this one. The receiver accepts nothing of the older
stream any more, but knows what it has accepted. Two onceq managers settle this:

1. The sender asks what became of the streams in which messages wait (an inquiry that says nothing
   of what is gone, *live from* 0): when a session opens and the stream is of an earlier life, when
   acknowledgments stay away, or when one names a stream that this manager has not begun.
2. If the receiver has left them, the sender begins a new stream, the *fence*, durably, and asks
   once more, announcing it. The receiver enters the fence: all older streams are closed
   permanently. It also gives what was never accepted of them to this fence, durably, so that two
   copies with the same message cannot both send it again: it answers another one *not known*.
3. What was accepted is released. What was not accepted continues in the fence with new numbers,
   unless later messages were accepted already: then it is not delivered, because order counts; or
   it is in doubt, if another manager that answered under this name before may have been given it.
   What the receiver has forgotten continues, too, where the mark of this store says that it has
   never left; the rest is in doubt. Dead letters of either kind are also kept where the application
   asked for none: it could not have foreseen this.

Managers without the extension are not asked, and older ones are not asked about a public queue;
their messages wait for their time.

Upholds: I1, I4 (nothing is sent twice), I5, I7, I11, I25, I26.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final

from onceq.core.ending.ending import end_range
from onceq.core.ending.table import Ending
from onceq.core.names import address_of_name
from onceq.core.peers import lives, trust
from onceq.core.peers.duplicate_identity import STREAM, note, rise, strange
from onceq.core.peers.lives import gave, next_stream
from onceq.core.state.outgoing_queues import OutgoingQueue, Stretch
from onceq.core.state.peer_table import Peer, holders
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queues import TRANSACTIONAL_LANE
from onceq.core.state.records import Change, Op, RangeChange
from onceq.core.state.setups import Fenced, StreamMoved
from onceq.core.state.state import IN_DOUBT
from onceq.core.step.step import ChangeBuilder, Step
from onceq.core.transfer.outgoing_queue import await_ends, handed_over, resend, start_if_possible
from onceq.model.identity import guid_text
from onceq.model.limits import INQUIRY_STREAMS_MAX
from onceq.model.names import Kind
from onceq.model.resultcodes import MessageClass
from onceq.packet.acks import STALE, Inquiry, OrderAck, StreamMemory, TurnedAway, inquiry

ASKED_MAX: Final = INQUIRY_STREAMS_MAX - 2
"""Streams in one question, beside the fence and the stream that the receiver is in."""

NOT_DELIVERED = MessageClass.NACK_REACH_QUEUE_TIMEOUT


def can_ask(peer: Peer, outgoing: OutgoingQueue) -> bool:
    """Return whether a manager understands an inquiry about the streams to a queue of it. A manager
    that does not know inquiries naming a queue by its GUID would answer for another queue."""
    return peer.extended and (peer.publics or outgoing.name.kind is not Kind.PUBLIC)


def post(
    step: Step, peer: Peer, outgoing: OutgoingQueue, streams: tuple[tuple[int, int], ...]
) -> bool:
    """Post an inquiry about streams to a queue on a session; return whether there was room."""
    asked = Inquiry(address_of_name(outgoing.name), streams)
    return trust.note(step, peer, inquiry(
        asked, own=step.identity.guid, own_message=step.passing_number(),
        sent_time=step.now.wall_s, destination_manager=peer.peer,
    ))  # fmt: skip


# ---- asking ---------------------------------------------------------------------------------


def question(step: Step, outgoing: OutgoingQueue) -> None:
    """Ask the receiver about the streams in which messages wait, if it can be asked."""
    peer = step.sessions.peers.get(outgoing.session)
    if peer is None or not can_ask(peer, outgoing) or not outgoing.unacknowledged:
        return
    fence = outgoing.fence if outgoing.fence > outgoing.head.stream else 0
    ours = [s.stream for s in _waiting(outgoing) if not fence or s.stream < fence]
    streams = tuple((s, 0) for s in ours if s not in outgoing.told)[:ASKED_MAX]
    if fence:
        streams += ((fence, 1),)
    if streams:
        post(step, peer, outgoing, streams)


def on_timer(step: Step, number: int) -> None:
    """Ask when the resend timer rings, in case no acknowledgment will ever come."""
    outgoing = step.state.all_queues.get(number)
    if isinstance(outgoing, OutgoingQueue):
        before = outgoing.pace.timeouts
        resend(step, number)
        if outgoing.pace.timeouts > before:
            question(step, outgoing)


def acked_strangely(step: Step, peer: Peer, source: bytes, ack: OrderAck) -> None:
    """Ask about our stream when one is acknowledged that was not begun here, and may replace it."""
    if strange(step, peer, source, ack):
        for number in sorted(peer.outgoing):
            outgoing = step.state.all_queues.get(number)
            if isinstance(outgoing, OutgoingQueue):
                question(step, outgoing)


def turned(step: Step, peer: Peer, said: TurnedAway) -> None:
    """Handle the receiver's notice that it has left a stream."""
    outgoing = step.state.streams.get(said.stream)
    if outgoing is not None and said.reason == STALE and outgoing.session == peer.session:
        question(step, outgoing)


def _waiting(outgoing: OutgoingQueue) -> list[Stretch]:
    """Return the streams in which messages wait, the oldest first."""
    lane = outgoing.ordered_lane
    return [
        s
        for s in outgoing.stretches_from(lane.first_available())
        if s.stream and any(lane.ranges(AVAILABLE, s.base + 1, end=s.end + 1, count_max=1))
    ]


# ---- what is answered -------------------------------------------------------------------------


def learn(step: Step, peer: Peer, memories: list[StreamMemory]) -> None:
    """Apply what the receiver reports about streams to one queue."""
    outgoing = _asked(step, peer, memories)
    if outgoing is None:
        return
    here = max(memory.stream for memory in memories)
    if here <= outgoing.head.stream:
        outgoing.stranded_s = 0
        return
    if not outgoing.stranded_s:
        outgoing.stranded_s = step.now.wall_s
        step.notice(
            "messages wait in a stream that their receiver has left", str(outgoing.name),
            queue=str(outgoing.name), messages=outgoing.unacknowledged,
            stream=f"{outgoing.head.stream:#018x}", receiver=guid_text(peer.peer),
            receiver_is_in=f"{here:#018x}",
        )  # fmt: skip
    if not gave(step, here) and lives.is_of(step, here):
        lives.note(step, peer.peer, lives.SENT)
        rise(step, here)
    elif not gave(step, here):
        note(
            step, step.identity.guid, STREAM, told_by=step.name_of(peer.peer), at=peer.address,
            stream=f"{here:#018x}",
        )  # fmt: skip
        rise(step, here)
    if here == outgoing.fence:
        outgoing.told.update({m.stream: m for m in memories})
        if all(s.stream in outgoing.told for s in _waiting(outgoing) if s.stream < here):
            _resolve(step, outgoing)
        else:
            question(step, outgoing)
    elif here > outgoing.fence:
        _fence(step, outgoing, here)


def _asked(step: Step, peer: Peer, memories: list[StreamMemory]) -> OutgoingQueue | None:
    """Return the outgoing queue of the question; only its own session may answer."""
    for memory in memories:
        outgoing = step.state.streams.get(memory.stream)
        if outgoing is not None and outgoing.session == peer.session and outgoing.unacknowledged:
            return outgoing
    return None


def _fence(step: Step, outgoing: OutgoingQueue, here: int) -> None:
    """Begin a stream that is newer than the receiver's present one, and announce it."""
    change = Change(step.now.wall_s)
    fence = next_stream(step, change)
    if fence <= here:
        return  # too far in the future: the messages wait for their time
    # Before it is announced: a number that others know is never assigned again (I7).
    step.record(change)
    step.setup(Fenced(number=outgoing.number, stream=fence))
    outgoing.told.clear()
    question(step, outgoing)


def _resolve(step: Step, outgoing: OutgoingQueue) -> None:
    """Settle everything older than the fence, now that its fate is known."""
    fates = _fates(outgoing)
    last = max((first + count - 1 for first, count, came in fates if came), default=0)
    moved = [(first, count) for first, count, came in fates if came is False and first > last]
    if moved:
        first, end = moved[0][0], sum(moved[-1])
        # Before the others end: if the process ends in between, the sender asks for them again.
        step.setup(
            StreamMoved(number=outgoing.number, stream=outgoing.fence, first=first, last=end - 1)
        )
    else:
        step.setup(Fenced(number=outgoing.number, stream=0))
    build, number, lane = ChangeBuilder(step), outgoing.number, TRANSACTIONAL_LANE
    now = step.state.bindings.guid_of(outgoing.bound_name)
    for first, count, came in fates:
        if came:
            handed_over(build, number, lane, first, count)
        elif came is None:
            move = RangeChange(Op.END, number, lane, first, count, IN_DOUBT)
            end_range(build, move, Ending.LEFT_IN_DOUBT, IN_DOUBT)
        elif first <= last:
            # The receiver has not accepted these, though it accepted a later one. Those that may
            # have been given to another manager, which answered under this name before, may have
            # been accepted there (finding D2): only that manager can say more.
            for doubtful, counters in groupby(
                range(first, first + count),
                lambda counter: len(holders(outgoing, now, counter)) > 1,
            ):
                left = list(counters)
                reason = IN_DOUBT if doubtful else NOT_DELIVERED
                move = RangeChange(
                    Op.END, number, lane, left[0], len(left), reason,
                    note=NOT_DELIVERED if doubtful else 0,
                )  # fmt: skip
                ending = Ending.LEFT_IN_DOUBT if doubtful else Ending.LEFT_BEHIND
                end_range(build, move, ending, reason)
    step.record(build.change)
    outgoing.told.clear()
    outgoing.stranded_s = 0
    outgoing.rewind()
    await_ends(step, outgoing)
    outgoing.pace.due_us = outgoing.pace.timeouts = 0
    start_if_possible(step, outgoing)


def _fates(outgoing: OutgoingQueue) -> list[tuple[int, int, bool | None]]:
    """Return ranges of what waits before the fence; whether each was accepted (None: unknown)."""
    fates: list[tuple[int, int, bool | None]] = []
    lane = outgoing.ordered_lane
    # If a copy of this manager was noticed, it may have sent what waited then.
    left = outgoing.may_have_left(TRANSACTIONAL_LANE)
    for s in _waiting(outgoing):
        if s.stream >= outgoing.fence:
            continue
        memory = outgoing.told[s.stream]
        for first, count in lane.ranges(AVAILABLE, s.base + 1, end=s.end + 1):
            for counter in range(first, first + count):
                came = memory.arrived(counter - s.base)
                if came is None and memory.closed and counter > left:
                    came = False
                if fates and fates[-1][2] is came and sum(fates[-1][:2]) == counter:
                    fates[-1] = (fates[-1][0], fates[-1][1] + 1, came)
                else:
                    fates.append((counter, 1, came))
    return fates
