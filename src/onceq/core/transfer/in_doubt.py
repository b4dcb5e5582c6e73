"""Messages in doubt: transmitted, then given up without an answer; how their end becomes certain.

A message that was transmitted may have arrived, even if its sender got no answer. If its time is
over, or an operator removes it, its sender knows neither that it was received nor that it was not.
To call it undelivered would be false half of the time, and an application that sends it again would
deliver it twice. So its dead letter has class 0xC003, in doubt (CNF-12), and nothing else is
reported.

Between two onceq managers the doubt ends (CNF-22), because the receiver still knows. The sender
asks about the streams concerned, and says from which number on anything is still alive. The
receiver first notes that durably, as if the next message had come: from then on it can accept
nothing before that number, so its answer stays true even if old packets are still under way. That
order alone makes the answer safe. Then it reports which messages it accepted and which it passed
over:

* A message that was passed over was never delivered. Its dead letter gets the class of what ended
  the wait.
* A message that was accepted waits for its final acknowledgment, which settles it even late: if it
  was received, the dead letter goes; otherwise its class becomes the true reason.
* A message stays in doubt if the receiver has forgotten it, or one of two copies of the receiver
  has not seen it. So does a message that another copy of the sender may have sent in its own
  stream, and one that was given to two managers in turn under the same name.

Only a manager that a message was given to can answer for it. Each doubt knows these managers
(``Doubt.given``): another one that answers under the name since is not asked, and its answer does
not count.

The question is repeated, with growing pauses, until there is an answer; both sides remember it over
a crash, within bounds. Managers without this extension are never asked, and older ones are not
asked about a public queue. The table of endings says what each sender gets
(``core/ending/table.py``).

Also here:

* Remove single messages from an outgoing queue for an operator.

Upholds: I6, I11 (a dead letter changes its reason once, on record), I13, I24 (bounded tables), I12.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onceq.core.ending.ending import ENDED_AT_ONCE, gave_up, journal_room, keeps_refusal
from onceq.core.ending.table import FATES, Ending, Fate, Side, When
from onceq.core.peers.duplicate_identity import found_of, note_other_life
from onceq.core.peers.trust import FORGED, disbelieve, serves, settles, turned_away_by
from onceq.core.receive.lookup import ordered
from onceq.core.state.in_doubt_table import ANYBODY, Doubt
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer
from onceq.core.state.position_block import AVAILABLE, AWAITING, LOCKED
from onceq.core.state.positions import Link
from onceq.core.state.queue_tables import ACKS_OWED, DEAD_XACT, DOUBTS_KEPT, JOURNAL
from onceq.core.state.queues import TRANSACTIONAL_LANE, lookup_id
from onceq.core.state.records import PUT_JOURNAL, PUT_NACK_ARRIVAL, Op, RangeChange
from onceq.core.state.state import IN_DOUBT
from onceq.core.step.step import ChangeBuilder, Step, Timer
from onceq.core.transfer.abandoned_streams import can_ask, learn, post, turned
from onceq.core.transfer.connecting import connect
from onceq.core.transfer.outgoing_queue import held, note_taken, settled_down
from onceq.core.transfer.pending_outcomes import NO_ROOM_S, STREAMS_AT_ONCE, answer, hear, tell
from onceq.errors import TransactionUsage
from onceq.model.limits import INQUIRY_STREAMS_MAX
from onceq.model.requests import Remove
from onceq.model.resultcodes import REFUSALS, MessageClass
from onceq.packet.acks import (
    EndsAsked,
    EndsOpen,
    FinalAck,
    Inquiry,
    StreamMemory,
    TurnedAway,
    TwoLives,
    parse_settling,
)
from onceq.packet.arrived import ArrivedRun

# ---- in doubt ------------------------------------------------------------------------------------


def settling(step: Step, peer: Peer, run: ArrivedRun) -> None:
    """Handle a packet about doubts."""
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
            note_other_life(step, peer, said)
        elif isinstance(said, EndsAsked):
            tell(step, peer, said)
        elif isinstance(said, EndsOpen):
            hear(step, peer, said)
        else:
            _settle(step, peer, said)
            learn(step, peer, said)


# ---- the sender ----------------------------------------------------------------------------


def inquire(step: Step, outgoing: OutgoingQueue) -> None:
    """Ask about messages in doubt, if there are any: now if there is a session, else later."""
    inquiries = outgoing.inquiries
    if not _askable(step, outgoing, step.state.doubts.managers_of(outgoing.number), 0, 1):
        inquiries.over()
        return
    peer = _knowing(step, outgoing)
    if peer is not None and not can_ask(peer, outgoing):
        inquiries.over()
        if step.state.doubts.hidden(outgoing.number, 1):
            step.begin(_never_told(step, outgoing))
        return
    wait_us = step.later_us(step.settings.resend_wait_s(inquiries.asked))
    start, inquiries.goes_on = inquiries.goes_on, 0
    if peer is not None:
        inquiries.goes_on = _ask_from(step, peer, outgoing, start)
        if inquiries.goes_on:
            wait_us = min(wait_us, step.later_us(NO_ROOM_S))
    # Also without a session: the timer makes one.
    inquiries.due_us = wait_us
    step.timer(wait_us, Timer.INQUIRE, outgoing.number)


def _knowing(step: Step, outgoing: OutgoingQueue) -> Peer | None:
    """Return the session to ask on: the queue's own, if its manager may have been given messages in
    doubt, and can be asked about them now; else any session with a manager that may. A private name
    leads to one manager only, perhaps through a router."""
    sessions = step.sessions
    peer = sessions.peers.get(outgoing.session)
    if peer is not None and (
        not outgoing.bound_name or _askable(step, outgoing, (peer.peer, ANYBODY), 0, 1)
    ):
        return peer
    for guid in step.state.doubts.managers_of(outgoing.number):
        if guid in sessions.of and _askable(step, outgoing, (guid,), 0, 1):
            return sessions.peers[min(sessions.of[guid])]
    return None


def _ask_from(step: Step, peer: Peer, outgoing: OutgoingQueue, start: int) -> int:
    """Ask about a bounded number of streams from ``start`` on; return the stream at which the next
    question starts, 0 if there are no more."""
    streams = _askable(step, outgoing, (peer.peer, ANYBODY), start, STREAMS_AT_ONCE + 1)
    for at in range(0, min(len(streams), STREAMS_AT_ONCE), INQUIRY_STREAMS_MAX):
        some = streams[at : min(at + INQUIRY_STREAMS_MAX, STREAMS_AT_ONCE)]
        entries: list[tuple[int, int]] = []
        for stream, last in some:
            # The first number that may still be sent; no smaller one ever will be.
            live, base = last + 1, outgoing.base_of(stream)
            if base is not None:
                lane = outgoing.ordered_lane
                end = min(outgoing.stretch(base + 1).end + 1, lane.next)
                waiting = next(iter(lane.ranges(AVAILABLE, base + 1, end=end)), None)
                live = waiting[0] - base if waiting is not None else max(end - base, last + 1)
            entries.append((stream, live))
        if not post(step, peer, outgoing, tuple(entries)):
            return some[0][0]
    return streams[STREAMS_AT_ONCE][0] if len(streams) > STREAMS_AT_ONCE else 0


def _askable(
    step: Step, outgoing: OutgoingQueue, managers: Iterable[bytes], start: int, count_max: int
) -> list[tuple[int, int]]:
    """Return the streams in doubt, from ``start`` on, that one of these managers may know and that
    are not behind the stream in transmission: a receiver that is asked about a stream leaves those
    before it, and what waits in them would become stale."""
    streams = step.state.doubts.streams_of(outgoing.number, managers, start, count_max)
    if streams and outgoing.unacknowledged:
        head = outgoing.head.stream
        return [(stream, last) for stream, last in streams if stream <= head]
    return streams


def on_timer(step: Step, number: int) -> None:
    """Ask again if no answer came in time, over a new session if necessary; or continue a longer
    question on the open session (see ``NO_ROOM_S``)."""
    outgoing = step.state.all_queues.get(number)
    if not isinstance(outgoing, OutgoingQueue):
        return
    inquiries = outgoing.inquiries
    if not 0 < inquiries.due_us <= step.now.mono_us:
        return
    none = outgoing.link is Link.NONE
    if none or not inquiries.goes_on:
        inquiries.asked += 1
    may = none and not inquiries.goes_on and not held(step, outgoing)
    managers = step.state.doubts.managers_of(number)
    if may and _askable(step, outgoing, managers, 0, 1):
        connect(step, outgoing)
    inquire(step, outgoing)


def _settle(step: Step, peer: Peer, memories: list[StreamMemory]) -> None:
    """Settle what the receiver says it accepted, after what it said of a stream before. The sender
    asks again about what is not examined now."""
    doubts, settling = step.state.doubts, step.sessions.settling
    new = {m.stream: m for m in memories if m.stream not in settling and doubts.unknown(m.stream)}
    if new:
        settling.update(new)
        step.begin(_settle_some(step, peer, list(new.values())))


def _settle_some(step: Step, peer: Peer, memories: list[StreamMemory]) -> Iterator[None]:
    """Settle the doubts of some streams, a bounded number of messages in each step. A dead letter
    that is received or returned meanwhile is gone."""
    left, concerned = ENDED_AT_ONCE, set[int]()
    build = ChangeBuilder(step)
    for memory in memories:
        for number in step.state.doubts.unknown(memory.stream):
            if not left:
                step.record(build.change)
                yield
                build, left = ChangeBuilder(step), ENDED_AT_ONCE
            left -= 1
            # Once its arrival is certain, only its final acknowledgment says more.
            doubt = step.state.doubts.find(memory.stream, number)
            if doubt is not None and not doubt.arrived:
                concerned.add(doubt.outgoing)
                _settle_one(build, peer, memory, number, doubt)
        step.sessions.settling.discard(memory.stream)
    step.record(build.change)
    for at in concerned:
        outgoing = step.state.all_queues.get(at)
        if isinstance(outgoing, OutgoingQueue) and not step.state.doubts.unsettled(at):
            outgoing.inquiries.over()


def _settle_one(
    build: ChangeBuilder, peer: Peer, memory: StreamMemory, number: int, doubt: Doubt
) -> None:
    step = build.step
    queue = step.state.all_queues.get(doubt.outgoing)
    if not settles(step, peer, doubt, peer.peer):
        # An honest manager was asked about others of this stream, which it may know.
        if isinstance(queue, OutgoingQueue) and not serves(step, peer, queue, peer.peer):
            disbelieve(step, peer, FORGED, queue=str(queue.name))
        return
    arrived = memory.arrived(number)
    if arrived is None:
        return
    copies = found_of(step, peer.peer) != ""
    if not copies and isinstance(queue, OutgoingQueue):
        # A copy of this manager may have sent the message in a stream of its own; then its absence
        # from this stream proves nothing. A stream without waiting messages has no base: any of its
        # messages may be shared.
        base = queue.base_of(memory.stream)
        shared = queue.elsewhere.get(TRANSACTIONAL_LANE, 0)
        copies = shared > 0 if base is None else base + number <= shared
    # A message that never came to this one may have come to the one that answered before.
    if not arrived and (copies or len(doubt.given) > 1):
        # Its receiver runs twice, or it was given to two managers: one may have accepted what the
        # other has not. Or its sender runs twice, and the other copy may have sent it. Ask no more.
        if doubt.queue == DOUBTS_KEPT:
            _stays(build, doubt, doubt.lane, doubt.counter)
        else:
            build.move(_move(doubt, Op.SETTLE, IN_DOUBT))
    else:
        _certain(build, doubt, arrived=arrived)


def _fate(ending: Ending) -> Fate:
    return FATES[Side.SOURCE, True, ending]


def _move(doubt: Doubt, op: Op, reason: int) -> RangeChange:
    return RangeChange(op, doubt.queue, doubt.lane, doubt.counter, 1, reason)


def _settled(build: ChangeBuilder, doubt: Doubt, ending: Ending, reason: int) -> None:
    """Settle an undelivered message: its dead letter gets the true class, or goes if hidden."""
    move = _move(doubt, Op.END if doubt.queue == DOUBTS_KEPT else Op.SETTLE, reason)
    if doubt.queue == DOUBTS_KEPT and _fate(ending).dead_letter is When.SETTING:
        # The application asked for no dead letter, but for something else.
        move.to = DEAD_XACT if keeps_refusal(build.step.settings, reason) else 0
    if _fate(ending).told is When.ALWAYS:
        move.copies_to = ((ACKS_OWED, 0, reason),)
    build.move(move)


def settled_by(step: Step, ack: FinalAck) -> bool:
    """Return whether a late final acknowledgment is about a message in doubt, and settle that."""
    doubt = step.state.doubts.find(ack.stream, ack.number)
    if doubt is None or ack.source != step.identity.guid:
        return False
    build = ChangeBuilder(step)
    note_taken(build, ack)
    if ack.message_class & 0x8000:
        refused = ack.message_class in REFUSALS
        ending = Ending.SETTLED_REFUSED if refused else Ending.SETTLED_NOT_RECEIVED
        _settled(build, doubt, ending, ack.message_class)
    else:
        _received(build, doubt)
    step.record(build.change)
    return True


def _certain(build: ChangeBuilder, doubt: Doubt, *, arrived: bool) -> None:
    """Record whether the receiver accepted a message; after that only its end may be open."""
    lane, kept = build.step.state.all_queues[doubt.queue].lanes[doubt.lane], doubt.queue
    if not arrived:
        # It ends for the reason that ended the wait, and its report can be sent now.
        reason = lane.notes.get(doubt.counter) or MessageClass.NACK_REACH_QUEUE_TIMEOUT
        _settled(build, doubt, Ending.SETTLED_NOT_DELIVERED, int(reason))
    elif kept == DOUBTS_KEPT and not doubt.flags & PUT_JOURNAL:
        # The receiver reports how it ends there, if the sender asked.
        build.move(_move(doubt, Op.END, 0))
    else:
        build.move(_move(doubt, Op.SETTLE, IN_DOUBT))


def _received(build: ChangeBuilder, doubt: Doubt) -> None:
    """Settle a message that was received after all: remove its dead letter, and make the copy for
    the journal of this computer (Q-12)."""
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
    # A transaction holds the dead letter: it goes when that ends, with either outcome.
    settled = _move(doubt, Op.SETTLE, MessageClass.ACK_RECEIVE)
    settled.copies_to = ((JOURNAL, 0, 0),) if copied else ()
    build.move(settled)
    if state == LOCKED:
        build.move(_move(doubt, Op.PURGE, 0))


def give_up(step: Step, index: int, count_max: int) -> int:
    """End at most ``count_max`` doubts that are too old for an answer, with the negative reports
    that were asked for; return their number."""
    build, total = ChangeBuilder(step), 0
    lane = step.state.all_queues[DOUBTS_KEPT].lanes[index]
    for first, count in lane.expired(step.now.wall_s, (AVAILABLE,), count_max):
        total += count
        for counter in range(first, first + count):
            _stays(build, step.state.doubts.at((DOUBTS_KEPT, index, counter)), index, counter)
    step.record(build.change)
    return total


def _never_told(step: Step, outgoing: OutgoingQueue) -> Iterator[None]:
    """Report these messages as in doubt where negative reports were asked for, a bounded number in
    each step: the queue's manager cannot be asked, and has not promised to report how they end."""
    while doubts := step.state.doubts.hidden(outgoing.number, ENDED_AT_ONCE):
        build = ChangeBuilder(step)
        for doubt in doubts:
            _stays(build, doubt, doubt.lane, doubt.counter)
        step.record(build.change)
        if len(doubts) < ENDED_AT_ONCE:
            return
        yield
        peer = _knowing(step, outgoing)
        if peer is None or can_ask(peer, outgoing):
            return  # the next session begins this again, or its manager can be asked


def _stays(build: ChangeBuilder, doubt: Doubt | None, index: int, counter: int) -> None:
    """Give up a doubt. One that is not in the table did not fit into it."""
    move = RangeChange(Op.END, DOUBTS_KEPT, index, counter, 1, IN_DOUBT)
    asked = doubt is None or (doubt.flags & PUT_NACK_ARRIVAL and not doubt.arrived)
    if asked and _fate(Ending.NEVER_SETTLED).told is When.ASKED:
        move.copies_to = ((ACKS_OWED, 0, int(IN_DOUBT)),)
    build.move(move)


# ---- remove outgoing -----------------------------------------------------------------------------


def take_out(step: Step, item: Remove, outgoing: OutgoingQueue) -> None:
    """End a range of what waits for another manager; answer how many messages that were.

    They end as those of a purge do (``core/ending/ending.py``): a message that never left is not
    delivered, one that may have left is in doubt, and every report that was asked for is made. The
    others stay; the next of the stream is linked to the one before the gap.
    """
    if item.transaction:
        raise TransactionUsage(
            f"{item.queue} is an outgoing queue: what is taken out of it is gone at once, in no "
            "transaction"
        )
    build = ChangeBuilder(step)
    count = 0
    for index, lane in ordered(outgoing):
        base = lookup_id(index, 0)
        low, high = max(item.first - base, 0), item.last - base + 1
        if high <= 0:
            continue
        for state in (AVAILABLE, AWAITING):
            for first, size in lane.ranges(state, low, end=high):
                gave_up(build, outgoing, index, first, size, MessageClass.NACK_DELETED)
                count += size
    step.record(build.change)
    if count:
        settled_down(step, outgoing)
        inquire(step, outgoing)
    step.answer(item.owner, item.request, count)
