"""Sessions with other managers as the core sees them: which are open, and what got across.

``wire/mqqb/session.py`` has the protocol of a session (windows, counts, timers); here it is only
open, closed, or acknowledging. A session acknowledgment ends the wait of messages that are not
transactional (express ones when received, recoverable ones when durable there); it never releases a
transactional message (EOD-49).

Also here:

* End an attempt: a session was lost or never made, and its outgoing queues react.

Upholds: I10, I25 (two managers with one identity are noticed), I26, I24 (no step is longer the more
there is).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter

from onceq.core.decision import CloseSession, Ready
from onceq.core.ending.ending import ENDED_AT_ONCE, end_range, gave_up, numbered, some_at_a_time
from onceq.core.ending.table import Ending
from onceq.core.inputs import ConnectFailed, SessionAcked, SessionClosed, SessionOpened
from onceq.core.names import is_local
from onceq.core.peers.duplicate_identity import acknowledged_more, answered_as_us, met
from onceq.core.peers.lives import keep_head
from onceq.core.peers.strangers import answered, led_back
from onceq.core.peers.trust import bind, may_not_serve, not_believed, unproven_sessions
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.positions import Link, LinkEvent
from onceq.core.state.queues import AnyQueue
from onceq.core.state.records import PUT_ONCE, Op, RangeChange
from onceq.core.step.connections import ConnectAttempt
from onceq.core.step.step import ChangeBuilder, Step, rule_for
from onceq.core.transfer.abandoned_streams import question
from onceq.core.transfer.connecting import attach, put_off
from onceq.core.transfer.forward import FORWARD_LANE
from onceq.core.transfer.in_doubt import inquire
from onceq.core.transfer.outgoing_queue import (
    TOO_LATE,
    handed_over,
    held,
    lost,
    note_posted,
    start_if_possible,
    wake,
)
from onceq.core.transfer.pending_outcomes import ask
from onceq.model.resultcodes import ConnectionStatus, MessageClass

# ---- attempts ------------------------------------------------------------------------------------


def over(
    step: Step,
    outgoing: OutgoingQueue,
    reason: str,
    *,
    idle: bool = False,
    status: ConnectionStatus = ConnectionStatus.UNKNOWN_FAILURE,
) -> None:
    """Record why there is no session, and try again later (Q-9).

    Messages that were to be tried once have been tried, and end (CNF-4); some may have arrived.
    They may be very many, so a step ends a bounded number of them, and nothing leaves until the
    last one has ended: it would be tried twice. What is sent meanwhile belongs to the next attempt.
    After a crash in between, the rest is tried once more, as after a crash before the attempt.
    """
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


# ---- sessions ------------------------------------------------------------------------------------


@rule_for(SessionOpened)
def opened(step: Step, item: SessionOpened) -> None:
    """Register a session that is ready."""
    asked_for = step.state.all_queues.get(item.outgoing)
    first = asked_for if isinstance(asked_for, OutgoingQueue) else None
    reason = _turned_away(step, item, first)
    if not reason and first is not None:
        reason = may_not_serve(step, first, item.who, item.peer)
    if reason:
        step.act(CloseSession(item.session, reason))
        contact = step.sessions.contacts.answered(item.outgoing, reason=reason)
        step.begin(_in_vain(step, item.outgoing, contact, reason))
        return
    end_unproven(step, (item.peer,))
    peer = Peer(
        item.session, item.peer, item.address, item.who, extended=item.extended, http=item.http,
        life=item.life, stamp=item.stamp, delays=item.delays, publics=item.publics,
    )  # fmt: skip
    step.sessions.peers[item.session] = peer
    step.sessions.of.setdefault(item.peer, set()).add(item.session)
    if first is not None:
        answered(step, first, item)
    keep_head(step, item)
    # After the session is in the tables: if its manager runs twice, all its sessions learn it.
    met(step, peer)
    contact = step.sessions.contacts.answered(item.outgoing, item.session)
    step.begin(_serve(step, peer, first, contact))
    step.act(Ready(item.session))


def _serve(
    step: Step, peer: Peer, first: OutgoingQueue | None, contact: ConnectAttempt | None
) -> Iterator[None]:
    """Let a new session serve the queue that it was made for, those that have waited for the same
    address, and those whose manager is known by GUID."""
    asked: dict[AnyQueue | None, None] = {first: None}
    if contact is not None:
        asked |= dict.fromkeys(numbered(step.state, contact.taken()))
    known = dict.fromkeys(step.names.by_guid.get(peer.peer, ()))

    def serve(some: list[OutgoingQueue]) -> None:
        if step.sessions.peers.get(peer.session) is not peer:
            _missed(step, some, "the session was closed again")
            return
        peers = step.sessions.peers
        served = [one for one in some if one is first or one.session not in peers]
        for outgoing in served:
            reason = may_not_serve(step, outgoing, peer.who, peer.peer)
            if reason:
                _missed(step, [outgoing], reason)
                continue
            if outgoing in asked:
                bind(step, outgoing, peer)
            attach(step, outgoing, peer)
        for outgoing in sorted(served, key=attrgetter("number")):
            if outgoing.session == peer.session:
                _ask_receiver(step, outgoing)

    return some_at_a_time(step.state, asked | known, serve)


def end_unproven(step: Step, guids: Iterable[bytes]) -> None:
    """End sessions accepted without a proof, if their queue managers have one by now."""
    for guid in guids:
        for number in unproven_sessions(step, guid):
            step.act(CloseSession(number, "this queue manager is believed over TLS alone by now"))


def ask_receivers(step: Step) -> None:
    """Let outgoing queues use sessions that were open before, from this step on."""
    while step.sessions.served:
        number, _ = step.sessions.served.popitem()
        outgoing = step.state.all_queues.get(number)
        if isinstance(outgoing, OutgoingQueue) and outgoing.session in step.sessions.peers:
            _ask_receiver(step, outgoing)


def _ask_receiver(step: Step, outgoing: OutgoingQueue) -> None:
    """Ask what only the receiver knows."""
    inquire(step, outgoing)
    ask(step, outgoing)
    if outgoing.of_earlier_life(step.state.stamp):
        question(step, outgoing)


def _turned_away(step: Step, item: SessionOpened, first: OutgoingQueue | None) -> str:
    """Return the reason to refuse a new session, or ""."""
    # It may have connected to itself on purpose: messages wait under a name that has become one of
    # its own.
    if item.peer == step.identity.guid and not (
        item.life == step.state.lives.id and (first is None or is_local(step, first.name))
    ):
        answered_as_us(step, item)
        return led_back(step, first, item)
    if step.state.offline_s:
        return "this queue manager was disconnected by an operator"
    if step.settings.hardened and not item.http:
        return "this queue manager is hardened: it talks over HTTP only"
    return not_believed(step, item)


@rule_for(SessionClosed)
def closed(step: Step, item: SessionClosed) -> None:
    """Remove a closed session; what was under way on it goes out again on the next one."""
    peer = step.sessions.peers.pop(item.session, None)
    if peer is None:
        return
    step.sessions.early.closed(item.session)
    note_posted(step, peer, under_way=True)
    sessions = step.sessions.of[peer.peer]
    sessions.discard(item.session)
    if not sessions:
        del step.sessions.of[peer.peer]
    contact = step.sessions.contacts.closed(item.session)

    def lose(some: list[OutgoingQueue]) -> None:
        for outgoing in some:
            if outgoing.session == item.session:
                over(step, outgoing, item.reason, idle=item.idle)

    step.begin(some_at_a_time(step.state, numbered(step.state, sorted(peer.outgoing)), lose))
    step.sessions.contacts.release(contact)


@rule_for(ConnectFailed)
def connect_failed(step: Step, item: ConnectFailed) -> None:
    """Record that the destination cannot be reached now."""
    contact = step.sessions.contacts.answered(item.outgoing, reason=item.reason)
    step.begin(_in_vain(step, item.outgoing, contact, item.reason, item.status))


def _in_vain(
    step: Step, caller: int, contact: ConnectAttempt | None, reason: str,
    status: ConnectionStatus = ConnectionStatus.UNKNOWN_FAILURE,
) -> Iterator[None]:  # fmt: skip
    """Tell all queues that waited for a session that it was not made."""
    waiting = dict.fromkeys([caller, *(contact.taken() if contact is not None else ())])

    def work(some: list[OutgoingQueue]) -> None:
        _missed(step, some, reason, status)

    yield from some_at_a_time(step.state, numbered(step.state, waiting), work)
    step.sessions.contacts.release(contact)


def _missed(
    step: Step, some: list[OutgoingQueue], reason: str,
    status: ConnectionStatus = ConnectionStatus.UNKNOWN_FAILURE,
) -> None:  # fmt: skip
    """Tell some queues that waited for a session that it was not made."""
    for outgoing in some:
        if outgoing.link is Link.CONNECTING:
            over(step, outgoing, reason, status=status)
        elif outgoing.link is Link.PUT_OFF and not outgoing.pace.due_us:
            # The session was asked for by another queue; but it is known now that there is none.
            outgoing.happens(LinkEvent.WAKE)
            if outgoing.pending() and not held(step, outgoing):
                put_off(step, outgoing)


def contact_due(
    step: Step, timed: tuple[tuple[str, str, bytes, str, str], bool, tuple[str, ...]]
) -> None:
    """Try an address again."""
    first, anywhere, addresses = timed
    contact = step.sessions.contacts.get((*first, None if anywhere else addresses))
    if contact is None or not 0 < contact.retry_us <= step.now.mono_us:
        return
    contact.retry_us = 0

    def work(some: list[OutgoingQueue]) -> None:
        for outgoing in some:
            if outgoing.link is Link.PUT_OFF and outgoing.retry_us <= step.now.mono_us:
                wake(step, outgoing)

    step.begin(some_at_a_time(step.state, numbered(step.state, contact.taken()), work))
    step.sessions.contacts.release(contact)


@rule_for(SessionAcked)
def acked(step: Step, item: SessionAcked) -> None:
    """Apply the peer's counts of received messages and of recoverable ones that are durable there.

    A refusal (over HTTP, 400) answers only the last of them: those answered before it have been
    delivered, no matter what becomes of the others. It makes no acknowledgment message (Q-5,
    HTTP-10). A message that left before may have arrived then, and is in doubt.
    """
    peer = step.sessions.peers.get(item.session)
    if peer is None:
        return
    acknowledged_more(step, peer, item.messages)
    build = ChangeBuilder(step)
    # Not simply the first ones: express messages end when they were received, recoverable ones
    # when they are durable, and the two counts advance separately.
    kept = []
    released: dict[tuple[int, int], set[int]] = {}
    for entry in peer.plain:
        messages, recoverable, number, index, first, count = entry
        by_messages = recoverable < 0
        done = item.messages >= messages if by_messages else item.recoverable >= recoverable
        if not done:
            kept.append(entry)
            continue
        queue = step.state.all_queues.get(number)
        if not isinstance(queue, OutgoingQueue):
            continue
        lane = queue.lanes[index]
        gone = released.setdefault((number, index), set())
        for at, size in lane.ranges(AVAILABLE, first, end=first + count):
            # A message transmitted twice on this session is listed twice (after a resume).
            if item.refused and messages == item.messages:
                reason = MessageClass.NACK_BAD_DESTINATION_QUEUE
                if queue.left_before(index, at):
                    gave_up(build, queue, index, at, size, reason)
                else:
                    move = RangeChange(Op.END, number, index, at, size, reason)
                    end_range(build, move, Ending.REFUSED_THERE, reason)
                if index == FORWARD_LANE:
                    # Its sender gets no report, and has it in doubt when its time is over.
                    step.notice("a message that was passed on was refused", queue.key,
                                to=str(queue.name))  # fmt: skip
            elif gone.isdisjoint(range(at, at + size)):
                handed_over(build, number, index, at, size)
            else:
                for counter in range(at, at + size):
                    if counter not in gone:
                        handed_over(build, number, index, counter, 1)
            gone.update(range(at, at + size))
    if len(kept) != len(peer.plain):
        peer.plain.clear()
        peer.plain.extend(kept)
    peer.answered = max(peer.answered, item.messages)
    note_posted(step, peer)
    # If a crash loses this, these messages go out once more; repetitions are known (EOD-27).
    step.record(build.change, forced=False)
