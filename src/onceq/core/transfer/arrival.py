"""Take in a run of messages from another manager.

``core/transfer/ordered_arrival.py`` takes transactional messages, and this module takes all others.
Only a shortage of this whole computer leaves the state unchanged: it closes the session, and the
sender comes again (EOD-29, Q-19).

Also here:

* Detect repeated messages outside transactions (EOD-27).
* Take in messages outside transactions: store or refuse each once, within the history (EOD-27).

Upholds: I9, I24, I7, I4, I6.
"""

from __future__ import annotations

from array import array
from dataclasses import replace

from onceq.core.decision import CloseSession, Declined, Persisted
from onceq.core.delays import place_for
from onceq.core.ending.acknowledgments import trace_arrival
from onceq.core.ending.ending import AtHand, ack_flags, end_at_hand
from onceq.core.ending.table import Side
from onceq.core.inputs import Arrived
from onceq.core.names import arrival_key
from onceq.core.peers.duplicate_identity import ended_elsewhere, sent_more
from onceq.core.peers.lives import gave
from onceq.core.peers.strangers import NAMED_CHARS_MAX, SWEPT_FROM, note_name, sweep, unasked_room
from onceq.core.peers.trust import (
    believes_final_ack,
    believes_order_ack,
    refused_later,
    speaks_for,
    unknown_routers,
)
from onceq.core.rights import passes_on
from onceq.core.state.peer_table import Peer
from onceq.core.state.positions import Link
from onceq.core.state.queue_tables import DEAD_LETTER
from onceq.core.state.records import PUT_DEADLETTER, PUT_EXPRESS, PUT_WANTS, SeenIdentifiers
from onceq.core.step.step import ChangeBuilder, Step, rule_for
from onceq.core.transfer.abandoned_streams import acked_strangely
from onceq.core.transfer.admission import (
    ending_of,
    expect_answers,
    refusal_of,
    room_for,
    split_by_quota,
    trim_run,
)
from onceq.core.transfer.connecting import connect
from onceq.core.transfer.forward import forward, pass_on
from onceq.core.transfer.in_doubt import settled_by, settling
from onceq.core.transfer.order_acknowledgments import hole_shown
from onceq.core.transfer.ordered_arrival import ordered, show_early
from onceq.core.transfer.outgoing_queue import (
    final_acked,
    order_acked,
    refused_again,
    refused_late,
    taken_before,
)
from onceq.model.identity import NO_GUID
from onceq.model.limits import DUPLICATE_AGE_S_MAX
from onceq.model.marks import NEVER_S
from onceq.model.resultcodes import MessageClass, class_name
from onceq.model.run import Run
from onceq.packet.acks import parse_final_ack, parse_order_ack
from onceq.packet.arrived import FINAL_ACK, ORDER_ACK, SETTLING, USER, ArrivedRun

# ---- duplicates ----------------------------------------------------------------------------------


UNKNOWN_TIME = 0
"""Sent time of messages that were seen before sent times were kept."""


def new_places(step: Step, run: ArrivedRun, key: str) -> list[int]:
    """Return the indexes of the messages of a run outside transactions that are new.

    A repetition also has the sent time of the first: the same identifier with another sent time is
    another message, numbered by another life of its manager (``core/peers/lives.py``).
    """
    # Backwards, so that the first index is kept for a number that occurs twice in the run.
    firsts = {number: i for i, number in reversed(list(enumerate(run.message_numbers)))}
    if run.source == NO_GUID:  # over HTTP a message may come without an identifier
        return sorted(firsts.values())
    seen, source, sent = step.state.seen, run.source, run.sent_time
    old = step.now.wall_s - DUPLICATE_AGE_S_MAX
    return sorted(
        i
        for n, i in firsts.items()
        if seen.get((source, key, n, sent), 0) <= old
        and seen.get((source, key, n, UNKNOWN_TIME), 0) <= old
    )


# ---- plain arrival -------------------------------------------------------------------------------


def plain(step: Step, peer: Peer, run: ArrivedRun) -> bool:
    """Take in messages outside transactions, once within the history (EOD-27); False if there is
    no room for their dead letters."""
    key, queue = arrival_key(step, run.destination, run.sent_to)
    if not peer.actor.free or step.settings.quiet_system_queues:
        run = trim_run(step, peer, run, queue, again=run.http)
    new = new_places(step, run, key)
    if not new:
        return True
    packets = run.packets
    if len(new) != len(packets):
        every = list(packets)
        packets = Run.of([every[i] for i in new])
    size = len(packets.data)
    refusal = refusal_of(step, peer, run, queue, size)
    if refusal and run.dead_letter and not unasked_room(step, DEAD_LETTER, size):
        return False
    if run.acknowledge or run.receipts:
        expect_answers(step, peer, run, refusal)
    for first, part, why in split_by_quota(step, queue, packets, refusal):
        places = new[first : first + len(part.lengths)]
        build = ChangeBuilder(step)
        numbers = array("I", (run.message_numbers[i] for i in places))
        build.change.seen.append(SeenIdentifiers(run.source, key, numbers, run.sent_time))
        flags = 0 if run.recoverable else PUT_EXPRESS
        if not why:
            assert queue is not None
            expires = NEVER_S
            if run.time_to_be_received < NEVER_S - 1:
                expires = min(run.sent_time + run.time_to_be_received, NEVER_S - 1)
            flags |= ack_flags(run.acknowledge, arrived=True)
            if run.dead_letter:
                flags |= PUT_WANTS | PUT_DEADLETTER
            target, due = place_for(step, queue, run.due) if run.due else (queue, 0)
            build.put_copy(
                target.number, part, lane=run.priority, expires=expires, flags=flags,
                source=run.source, due=due,
            )  # fmt: skip
            step.counts.accepted += len(part.lengths)
        if why or run.acknowledge:
            what = AtHand(
                side=Side.TARGET, transactional=False, packets=part, level=run.acknowledge,
                asked=PUT_DEADLETTER if run.dead_letter else 0, express=not run.recoverable,
                queue=key,
            )  # fmt: skip
            end_at_hand(build, what, ending_of(why), why)
        if run.trace is not None:
            trace_arrival(build, run, places, refusal=why)
        # Express messages do not survive a crash, so no answer waits for the disk because of them.
        step.record(build.change, forced=run.recoverable)
    return True


# ---- arrival -------------------------------------------------------------------------------------


NO_PLACE = "no place for more message streams, outgoing queues or messages now"


@rule_for(Arrived)
def arrived(step: Step, item: Arrived) -> None:
    """Take in one run."""
    peer = step.sessions.peers.get(item.session)
    if peer is None:
        return
    run = item.run
    # First, because a change that is built later may put into what this drops.
    if len(step.state.answering) >= SWEPT_FROM:
        sweep(step)
    elsewhere = run.onward != "" or run.destination_manager not in (NO_GUID, step.identity.guid)
    # Over HTTP the address that was posted to identifies what comes; it mixes with no session's.
    own = run.source == peer.peer or peer.http
    # An address may lead elsewhere by now: what arrived here gets answers for this name (HTTP-9).
    if run.onward and run.kind == USER and _known(step, run, _key_of(step, run)):
        run, elsewhere = replace(run, onward=""), False
    elif run.foreign:
        step.act(Declined(item.session, 400, f"{run.onward} is not here"))
        return
    reason = ""
    if elsewhere or not own:
        reason = ("" if own else speaks_for(step, peer, run)) or passes_on(step, peer)
    if reason and peer.http:
        step.act(Declined(item.session, 400, class_name(MessageClass.NACK_ACCESS_DENIED)))
        return
    if reason:
        meet_routers(step)
        step.act(CloseSession(item.session, reason))
        return
    # The rest of a longer host is a domain behind one of the names here, or it is no name.
    named = run.destination.direct.partition("\\")[0][:NAMED_CHARS_MAX]
    if run.kind == USER and not elsewhere and named not in step.sessions.watch.heard:
        note_name(step, peer, run, named)
    if run.onward:
        if not pass_on(step, item.session, run, room=room_for(step, run)):
            return
    elif elsewhere:
        if not forward(step, run, room=room_for(step, run)):
            reason = "it sent a message for another queue manager, and none is passed on here now"
            step.act(CloseSession(item.session, reason))
            return
    elif run.kind == ORDER_ACK:
        _order_acked(step, peer, run)
    elif run.kind == FINAL_ACK:
        _final_acked(step, peer, run)
    elif run.kind == SETTLING:
        settling(step, peer, run)
        # A question says what is gone; a hole cannot be there any more.
        for source, key in step.sessions.early.of_session(peer.session):
            if not show_early(step, peer, source, key):
                step.act(CloseSession(item.session, NO_PLACE))
                return
    elif run.http and not _http_takes(step, peer, run):
        return
    elif not run.http and not room_for(step, run):
        step.act(
            CloseSession(item.session, "no room for more messages now; the sender will try again")
        )
        return
    elif run.transactional:
        if not ordered(step, peer, run):
            step.act(CloseSession(item.session, NO_PLACE))
            return
    elif not plain(step, peer, run):
        step.act(CloseSession(item.session, "no room for dead letters of others now"))
        return
    # A run that was turned away does not get here: the sender forgets messages outside transactions
    # when they are counted here. It keeps transactional ones until the order acknowledgment
    # (EOD-49).
    if run.recoverable or peer.http:
        step.act(Persisted(item.session, len(run.message_numbers)))


def _order_acked(step: Step, peer: Peer, run: ArrivedRun) -> None:
    """Apply an order acknowledgment: the receiver's manager has what was sent here."""
    for packet in run.packets:
        told = parse_order_ack(packet)
        # A copy of this manager began the stream, or a restore has undone it.
        if not gave(step, told.stream):
            acked_strangely(step, peer, run.source, told)
        elif believes_order_ack(step, peer, told):
            sent_more(step, told)
            order_acked(step, told)
            hole_shown(step, peer, told)


def _final_acked(step: Step, peer: Peer, run: ArrivedRun) -> None:
    """Apply a final acknowledgment: a message that was sent here has ended elsewhere."""
    for packet in run.packets:
        ack = parse_final_ack(packet)
        # It compares with the waiting messages, so it runs before the acknowledgment ends them.
        ended_elsewhere(step, peer, ack)
        if not believes_final_ack(step, peer, ack):
            continue
        if refused_later(step, peer, ack):
            refused_again(step, ack)
        elif not (taken_before(step, ack) or settled_by(step, ack) or final_acked(step, ack)):
            refused_late(step, peer, ack)


def meet_routers(step: Step) -> None:
    """Ask which routers were never met; the refused message comes again."""
    for outgoing in unknown_routers(step):
        if outgoing.link is Link.NONE:
            connect(step, outgoing)


def _http_takes(step: Step, peer: Peer, run: ArrivedRun) -> bool:
    """Return whether a message that came over HTTP may be judged; if not, answer it here, and
    report and record nothing else (HTTP-9, HTTP-10).

    A repetition needs no room and no queue: its sender must learn that it has arrived, even if the
    queue is gone.
    """
    _, queue = arrival_key(step, run.destination, run.sent_to)
    if _known(step, run, _key_of(step, run)):
        return True
    if not room_for(step, run):
        step.act(Declined(peer.session, 500, "no room for more messages now"))
        return False
    run = trim_run(step, peer, run, queue)
    refusal = refusal_of(step, peer, run, queue, len(run.packets.data))
    if refusal == MessageClass.NACK_QUEUE_EXCEED_QUOTA:
        step.act(Declined(peer.session, 500, "the queue is full"))
        return False
    if refusal and refusal != MessageClass.NACK_REACH_QUEUE_TIMEOUT:
        step.act(Declined(peer.session, 400, class_name(refusal)))
        return False
    return True


def _key_of(step: Step, run: ArrivedRun) -> str:
    """Return the key of a run's stream here."""
    return arrival_key(step, run.destination, run.sent_to)[0]


def _known(step: Step, run: ArrivedRun, key: str) -> bool:
    """Return whether everything in a run repeats what was accepted before."""
    if not run.transactional:
        return not new_places(step, run, key)
    progress = step.state.progress.get((run.source, key))
    last = run.first_number + len(run.packets) - 1
    return progress is not None and run.stream == progress.stream and last <= progress.last
