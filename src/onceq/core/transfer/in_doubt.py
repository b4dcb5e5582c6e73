"""Messages in doubt: transmitted, and given up before anything was heard; how they become certain.

A message that was transmitted may have arrived, whatever its sender has heard. If its time is over,
or an operator removes it, its sender knows neither that it was received nor that it was not. To
call it undelivered would be a lie half of the time, and whoever sent it again would have it
delivered twice. So its dead letter has class 0xC003, in doubt (CNF-12), and nothing else is told.

Between two onceq managers the doubt ends (CNF-22), because the receiver still knows. The sender
asks about the streams concerned, and says from which number on anything is still alive. The
receiver first takes note of that, durably, as if the next message had come: from then on nothing
before that number can be accepted, so what it says next stays true even if old packets are still
under way. That order is all that makes the answer safe. Then it says what it has accepted and what
was passed over:

* What was passed over was never delivered. Its dead letter gets the class of what ended the wait.
* What was accepted waits for its final acknowledgment, which settles it even now, late: received,
  and the dead letter goes; or else, and its class becomes the true reason.
* What the receiver has forgotten, or one of two copies of it has not seen, stays in doubt. So does
  what another copy of the sender may have sent in a stream of its own.

Asking is repeated, with growing pauses, until there is an answer; both sides remember over a crash,
within bounds. Managers without this extension are never asked. Who is told of which outcome is in
the table of endings (``core/ending/table.py``).

Upholds: I6, I11 (a dead letter changes its reason once, on record), I13, I24 (bounded tables).
"""

from __future__ import annotations

from onceq.core.ending.dead_letters import journal_room
from onceq.core.ending.table import FATES, Ending, Fate, Side, When
from onceq.core.peers.duplicate_identity import found_of, told
from onceq.core.peers.refusals import turned_away_by
from onceq.core.peers.trust import FORGED, disbelieve, serves
from onceq.core.state.in_doubt_table import Doubt
from onceq.core.state.link_states import Link
from onceq.core.state.position_block import AVAILABLE, LOCKED
from onceq.core.state.queues import TRANSACTIONAL_LANE, AnyQueue, OutgoingQueue, Peer
from onceq.core.state.records import PUT_FINAL, PUT_JOURNAL, PUT_NACK_ARRIVAL, Op, RangeChange
from onceq.core.state.state import ACKS_OWED, DOUBTS_KEPT, IN_DOUBT, JOURNAL
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step, Timer
from onceq.core.transfer.connecting import connect
from onceq.core.transfer.inquiry_answers import answer
from onceq.core.transfer.outgoing_states import held
from onceq.core.transfer.stranded import address_of_queue, learn, post, turned
from onceq.core.transfer.untold import hear, tell
from onceq.model.classes import MessageClass
from onceq.model.limits import INQUIRY_STREAMS_MAX
from onceq.packet.acks import FinalAck
from onceq.packet.arrived import ArrivedRun
from onceq.packet.settle import (
    EndsAsked,
    EndsOpen,
    Inquiry,
    Memory,
    TurnedAway,
    TwoLives,
    parse_settling,
)


def settling(step: Step, peer: Peer, run: ArrivedRun) -> None:
    """A packet about doubts has come."""
    if not peer.extended or run.source != peer.peer:
        return
    for packet in run.packets:
        said = parse_settling(packet)
        if isinstance(said, Inquiry):
            answer(step, peer, said)
        elif isinstance(said, TurnedAway):
            turned_away_by(step, peer, said)
            turned(step, peer, said)
        elif isinstance(said, TwoLives):
            told(step, peer, said)
        elif isinstance(said, EndsAsked):
            tell(step, peer, said)
        elif isinstance(said, EndsOpen):
            hear(step, peer, said)
        else:
            _settle(step, peer, said)
            learn(step, peer, said)


# ---- the sender ----------------------------------------------------------------------------


def inquire(step: Step, outgoing: OutgoingQueue) -> None:
    """Ask about what is in doubt, if anything is: now if there is a session, else later."""
    streams = _askable(step, outgoing)
    if not streams:
        outgoing.inquiry_us = outgoing.inquiries = 0
        return
    peer = step.sessions.peers.get(outgoing.session)
    if peer is not None and not peer.extended:
        outgoing.inquiry_us = outgoing.inquiries = 0
        _never_told(step, outgoing)
        return
    if peer is not None:
        entries = [(s, _live_from(outgoing, s, last)) for s, last in sorted(streams.items())]
        for at in range(0, len(entries), INQUIRY_STREAMS_MAX):
            some = tuple(entries[at : at + INQUIRY_STREAMS_MAX])
            post(step, peer, Inquiry(address_of_queue(outgoing), some))
    # Without a session, too: the timer makes one.
    outgoing.inquiry_us = step.later_us(step.settings.resend_wait_s(outgoing.inquiries))
    step.timer(outgoing.inquiry_us, Timer.INQUIRE, outgoing.number)


def _askable(step: Step, outgoing: OutgoingQueue) -> dict[int, int]:
    """The streams in doubt that are not behind the one that is transmitted now: a receiver that is
    asked about a stream leaves those before it, and what waits in them would be stale."""
    streams = step.state.doubts.streams_of(outgoing.number)
    if outgoing.unacknowledged:
        head = outgoing.head.stream
        return {stream: last for stream, last in streams.items() if stream <= head}
    return streams


def on_timer(step: Step, number: int) -> None:
    """Nothing was answered in time: ask again, over a new session if need be."""
    outgoing = step.state.all_queues.get(number)
    if not isinstance(outgoing, OutgoingQueue):
        return
    if not outgoing.inquiry_us or outgoing.inquiry_us > step.now.mono_us:
        return
    outgoing.inquiries += 1
    if outgoing.link is Link.NONE and not held(step, outgoing) and _askable(step, outgoing):
        connect(step, outgoing)
    inquire(step, outgoing)


def _live_from(outgoing: OutgoingQueue, stream: int, last: int) -> int:
    """The first number of a stream that may still be sent; no smaller one ever will be."""
    base = outgoing.base_of(stream)
    if base is None:
        return last + 1
    lane = outgoing.ordered_lane
    end = min(outgoing.stretch(base + 1).end + 1, lane.next)
    for first, _ in lane.ranges(AVAILABLE, base + 1, end=end):
        return first - base
    return max(end - base, last + 1)


def _settle(step: Step, peer: Peer, memories: list[Memory]) -> None:
    doubts = step.state.doubts
    build = ChangeBuilder(step)
    concerned: set[int] = set()
    for memory in memories:
        for number, doubt in doubts.of_stream(memory.stream):
            queue = step.state.all_queues.get(doubt.outgoing)
            if isinstance(queue, OutgoingQueue) and not serves(step, peer, queue, peer.peer):
                disbelieve(step, peer, FORGED, queue=str(queue.name))
                continue
            concerned.add(doubt.outgoing)
            arrived = memory.arrived(number)
            # Once it is known that it arrived, only its final acknowledgment says more.
            if arrived is None or doubt.arrived:
                continue
            if not arrived and (
                found_of(step, peer.peer) or _other_copy_has(queue, memory.stream, number)
            ):
                _never_certain(build, doubt)
            else:
                _certain(build, doubt, arrived=arrived)
    step.record(build.change)
    for number in concerned:
        outgoing = step.state.all_queues.get(number)
        if isinstance(outgoing, OutgoingQueue) and not doubts.streams_of(number):
            outgoing.inquiry_us = outgoing.inquiries = 0


def _other_copy_has(queue: AnyQueue | None, stream: int, number: int) -> bool:
    """Whether another manager with this identity may have a message, and have sent it in a stream
    of its own: that it never came in this one says nothing then."""
    if not isinstance(queue, OutgoingQueue):
        return False
    base, shared = queue.base_of(stream), queue.elsewhere.get(TRANSACTIONAL_LANE, 0)
    # A stream of which nothing waits any more has no base: of its messages any may be shared.
    return shared > 0 if base is None else base + number <= shared


def _fate(ending: Ending) -> Fate:
    return FATES[Side.SOURCE, True, ending]


def _move(doubt: Doubt, op: Op, reason: int) -> RangeChange:
    return RangeChange(op, doubt.queue, doubt.lane, doubt.counter, 1, reason)


def _settled(build: ChangeBuilder, doubt: Doubt, ending: Ending, reason: int) -> None:
    """It was not received. Its dead letter gets the true class; what was kept out of sight goes."""
    move = _move(doubt, Op.END if doubt.queue == DOUBTS_KEPT else Op.SETTLE, reason)
    if _fate(ending).told is When.ALWAYS:
        move.copies_to = ((ACKS_OWED, 0, reason),)
    build.move(move)


def settled_by(step: Step, ack: FinalAck) -> bool:
    """Whether a final acknowledgment, come late, is about a message in doubt: it settles it."""
    doubt = step.state.doubts.find(ack.stream, ack.number)
    if doubt is None or ack.source != step.identity.guid:
        return False
    build = ChangeBuilder(step)
    if ack.message_class & 0x8000:
        _settled(build, doubt, Ending.SETTLED_NOT_RECEIVED, ack.message_class)
    else:
        _received(build, doubt)
    step.record(build.change)
    return True


def _certain(build: ChangeBuilder, doubt: Doubt, *, arrived: bool) -> None:
    """The receiver has said whether it accepted a message; only its end may be open then."""
    lane, kept = build.step.state.all_queues[doubt.queue].lanes[doubt.lane], doubt.queue
    if not arrived:
        # It ends for what ended the wait for it, and whoever asked can be told so now.
        reason = lane.notes.get(doubt.counter) or MessageClass.NACK_REACH_QUEUE_TIMEOUT
        _settled(build, doubt, Ending.SETTLED_NOT_DELIVERED, int(reason))
    elif kept == DOUBTS_KEPT and not doubt.flags & PUT_JOURNAL:
        # How it ends there is told by the receiver, to whoever asked.
        build.move(_move(doubt, Op.END, 0))
    else:
        build.move(_move(doubt, Op.SETTLE, IN_DOUBT))


def _never_certain(build: ChangeBuilder, doubt: Doubt) -> None:
    """Its receiver runs twice, and what one of the two has not accepted, the other one may have; or
    its sender does, and the other one may have sent it. It stays in doubt, and nobody is asked any
    more."""
    if doubt.queue == DOUBTS_KEPT:
        _stays(build, doubt, doubt.lane, doubt.counter)
    else:
        build.move(_move(doubt, Op.SETTLE, IN_DOUBT))


def _received(build: ChangeBuilder, doubt: Doubt) -> None:
    """It was received after all: its dead letter goes, and the copy comes that the journal of this
    computer shall have (Q-12)."""
    move = _move(doubt, Op.REMOVE, 0)
    copied = bool(
        _fate(Ending.SETTLED_RECEIVED).journal and doubt.flags & PUT_JOURNAL
        and journal_room(build, build.size(move))
    )  # fmt: skip
    state = build.step.state.all_queues[doubt.queue].lanes[doubt.lane].state(doubt.counter)
    if state == AVAILABLE:
        move.to = JOURNAL if copied else 0
        build.move(move)
        return
    # A transaction holds the dead letter: it goes when that ends, whatever it decides.
    settled = _move(doubt, Op.SETTLE, MessageClass.ACK_RECEIVE)
    settled.copies_to = ((JOURNAL, 0, 0),) if copied else ()
    build.move(settled)
    if state == LOCKED:
        build.move(_move(doubt, Op.PURGE, 0))


def give_up(step: Step, index: int, count_max: int) -> int:
    """Messages have been in doubt for so long that nothing more will be heard of them: whoever
    asked for bad news is told that. Returns how many these are, at most ``count_max``."""
    build, total = ChangeBuilder(step), 0
    lane = step.state.all_queues[DOUBTS_KEPT].lanes[index]
    for first, count in lane.expired(step.now.wall_s, (AVAILABLE,), count_max):
        total += count
        for counter in range(first, first + count):
            _stays(build, step.state.doubts.at((DOUBTS_KEPT, index, counter)), index, counter)
    step.record(build.change)
    return total


def _never_told(step: Step, outgoing: OutgoingQueue) -> None:
    """The manager of a queue cannot be asked, and has not promised to tell how these messages end:
    whoever asked for bad news is told now that they are in doubt."""
    build = ChangeBuilder(step)
    for doubt in step.state.doubts.of_outgoing(outgoing.number):
        if doubt.queue == DOUBTS_KEPT and not doubt.flags & PUT_FINAL:
            _stays(build, doubt, doubt.lane, doubt.counter)
    step.record(build.change)


def _stays(build: ChangeBuilder, doubt: Doubt | None, index: int, counter: int) -> None:
    """A doubt is given up. One that is not in the table was one too many for it."""
    move = RangeChange(Op.END, DOUBTS_KEPT, index, counter, 1, IN_DOUBT)
    asked = doubt is None or (doubt.flags & PUT_NACK_ARRIVAL and not doubt.arrived)
    if asked and _fate(Ending.NEVER_SETTLED).told is When.ASKED:
        move.copies_to = ((ACKS_OWED, 0, int(IN_DOUBT)),)
    build.move(move)
