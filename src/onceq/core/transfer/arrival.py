"""A run of messages arrives from another manager: who takes it in.

Transactional messages are for ``core/transfer/ordered_arrival.py``, others for
``core/transfer/plain_arrival.py``. Only a shortage of this whole computer leaves everything as it
was: the session is closed, and the sender comes again (EOD-29, Q-19).

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
    """Take one run in."""
    peer = step.sessions.peers.get(item.session)
    if peer is None:
        return
    run = item.run
    # First, because later a change may be under construction that puts into what this drops.
    if len(step.state.answering) >= SWEPT_FROM:
        sweep(step)
    elsewhere = run.onward != "" or run.destination_manager not in (NO_GUID, step.identity.guid)
    own = run.source == peer.peer or peer.http
    # Whatever this address leads to by now: what has arrived here is answered as that (HTTP-9).
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
    # Of a host that is longer the rest is a domain behind one of the names here, or it is none.
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
        # What a question says is gone, no hole is there for any more.
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
    # Not reached by what was turned away for now: the sender forgets messages outside transactions
    # when they are counted here. Transactional ones it keeps for the order acknowledgment (EOD-49).
    if run.recoverable or peer.http:
        step.act(Persisted(item.session, len(run.message_numbers)))


def _order_acked(step: Step, peer: Peer, run: ArrivedRun) -> None:
    """What was sent here has come to its manager."""
    for packet in run.packets:
        told = parse_order_ack(packet)
        # Begun by a copy of this manager, or in the time that a restore has undone.
        if not gave(step, told.stream):
            acked_strangely(step, peer, run.source, told)
        elif believes_order_ack(step, peer, told):
            sent_more(step, told)
            order_acked(step, told)
            hole_shown(step, peer, told)


def _final_acked(step: Step, peer: Peer, run: ArrivedRun) -> None:
    """What was sent here has ended elsewhere."""
    for packet in run.packets:
        ack = parse_final_ack(packet)
        # It compares with what waits here, so it looks before the acknowledgment ends that.
        ended_elsewhere(step, peer, ack)
        if not believes_final_ack(step, peer, ack):
            continue
        if refused_later(step, peer, ack):
            refused_again(step, ack)
        elif not (taken_before(step, ack) or settled_by(step, ack) or final_acked(step, ack)):
            refused_late(step, peer, ack)


def _unwelcome(step: Step, peer: Peer, run: ArrivedRun, *, own: bool) -> str:
    """Why a session may not bring what others have sent, or what is for others; "" if it may.

    Args:
        own: Whether it speaks for itself. Over HTTP everybody does: what comes there is known by
            the address that it was posted to, and mixes with no stream of a session.
    """
    return ("" if own else speaks_for(step, peer, run)) or passes_on(step, peer)


def meet_routers(step: Step) -> None:
    """Ask who the routers are that were never met: a message that was refused comes again."""
    for outgoing in unknown_routers(step):
        if outgoing.link is Link.NONE:
            connect(step, outgoing)


def _http_takes(step: Step, peer: Peer, run: ArrivedRun) -> bool:
    """Whether a message that came over HTTP may be judged; if not it is answered here, and nothing
    else is said or recorded (HTTP-9, HTTP-10).

    A repetition needs no room and no queue: its sender must hear that it has arrived, whatever has
    become of the queue since.
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
    """The key of a run's stream here."""
    return arrival_key(step, run.destination, run.sent_to)[0]


def _known(step: Step, run: ArrivedRun, key: str) -> bool:
    """Whether everything in a run is a repetition of what was accepted before."""
    if not run.transactional:
        return not new_places(step, run, key)
    progress = step.state.progress.get((run.source, key))
    last = run.first_number + len(run.packets) - 1
    return progress is not None and run.stream == progress.stream and last <= progress.last
