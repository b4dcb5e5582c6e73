"""Take in a run of messages from another manager.

``core/transfer/ordered_arrival.py`` takes transactional messages, and
``core/transfer/plain_arrival.py`` takes all others. Only a shortage of this whole computer leaves
the state unchanged: it closes the session, and the sender comes again (EOD-29, Q-19).

Upholds: I9, I24.
"""

from __future__ import annotations

from dataclasses import replace

from onceq.core.decision import CloseSession, Declined, Persisted
from onceq.core.inputs.inputs import Arrived
from onceq.core.names.packet_names import arrival_key
from onceq.core.peers.duplicate_identity import ended_elsewhere, sent_more
from onceq.core.peers.lives import gave
from onceq.core.peers.strangers import SWEPT_FROM, sweep
from onceq.core.peers.trust import (
    believes_final_ack,
    believes_order_ack,
    refused_later,
    speaks_for,
    unknown_routers,
)
from onceq.core.peers.wrong_names import NAMED_CHARS_MAX, came
from onceq.core.rights.judge import passes_on
from onceq.core.state.peer_table import Peer
from onceq.core.state.transition_tables import Link
from onceq.core.step.step import Step
from onceq.core.transfer.admission import heard, refusal_of, room_for
from onceq.core.transfer.connecting import connect
from onceq.core.transfer.duplicates import new_places
from onceq.core.transfer.forward import forward
from onceq.core.transfer.hole_repair import hole_shown
from onceq.core.transfer.http_forward import pass_on
from onceq.core.transfer.in_doubt import settled_by, settling
from onceq.core.transfer.late_refusals import refused_late, taken_before
from onceq.core.transfer.ordered_arrival import ordered, show_early
from onceq.core.transfer.outgoing_queue import final_acked, order_acked, refused_again
from onceq.core.transfer.plain_arrival import plain
from onceq.core.transfer.stranded import acked_strangely
from onceq.model.classes import MessageClass, class_name
from onceq.model.identity import NO_GUID
from onceq.packet.acks import parse_final_ack, parse_order_ack
from onceq.packet.arrived import FINAL_ACK, ORDER_ACK, SETTLING, USER, ArrivedRun

NO_PLACE = "no place for more message streams, outgoing queues or messages now"


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
    own = run.source == peer.peer or peer.http
    # An address may lead elsewhere by now: what arrived here gets answers for this name (HTTP-9).
    if run.onward and run.kind == USER and _known(step, run, _key_of(step, run)):
        run, elsewhere = replace(run, onward=""), False
    elif run.foreign:
        step.act(Declined(item.session, 400, f"{run.onward} is not here"))
        return
    reason = "" if own and not elsewhere else _unwelcome(step, peer, run, own=own)
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
        came(step, peer, run, named)
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
    else:
        if not plain(step, peer, run):
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


def _unwelcome(step: Step, peer: Peer, run: ArrivedRun, *, own: bool) -> str:
    """Return why a session may not bring messages of other senders or for others; "" if it may.

    Args:
        own: Whether the session speaks for itself. Every sender does over HTTP: the address that it
            was posted to identifies what comes there, and it mixes with no stream of a session.
    """
    return ("" if own else speaks_for(step, peer, run)) or passes_on(step, peer)


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
    run = heard(step, peer, run, queue)
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
