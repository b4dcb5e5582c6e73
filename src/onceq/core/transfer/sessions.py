"""Sessions with other managers, as far as the core cares: who is there, and what got across.

The protocol of a session (windows, counts, timers) is ``wire/mqqb/session.py``; here it is only
open, closed, or acknowledging. A session acknowledgment ends the wait of messages that are not
transactional (express ones when received, recoverable ones when durable there); it never lets a
transactional message be forgotten (EOD-49).

Upholds: I10, I25 (two managers with one identity are noticed), I26.
"""

from __future__ import annotations

from onceq.core.decision import CloseSession, Ready
from onceq.core.ending.ending import end_range
from onceq.core.ending.table import Ending
from onceq.core.inputs.inputs import ConnectFailed, SessionAcked, SessionClosed, SessionOpened
from onceq.core.peers.duplicate_identity import acknowledged_more, answered_as_us, met
from onceq.core.peers.trust import bind, pinned_to_another
from onceq.core.state.link_states import Link
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queues import OutgoingQueue, Peer
from onceq.core.state.records import Op, RangeChange
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step
from onceq.core.transfer.forward import FORWARD_LANE
from onceq.core.transfer.in_doubt import inquire
from onceq.core.transfer.outgoing_queue import attach, handed_over, lost
from onceq.core.transfer.stranded import question
from onceq.core.transfer.untold import ask
from onceq.model.classes import MessageClass


def opened(step: Step, item: SessionOpened) -> None:
    """A session is ready."""
    outgoing = step.state.all_queues.get(item.outgoing)
    reason = _turned_away(step, item)
    if not reason and isinstance(outgoing, OutgoingQueue):
        reason = pinned_to_another(step, outgoing, item.peer)
    if reason:
        step.act(CloseSession(item.session, reason))
        if isinstance(outgoing, OutgoingQueue) and outgoing.link is Link.CONNECTING:
            lost(step, outgoing, reason)
        return
    peer = Peer(
        item.session, item.peer, item.address, extended=item.extended, http=item.http,
        life=item.life, stamp=item.stamp,
    )  # fmt: skip
    step.sessions.peers[item.session] = peer
    step.sessions.of.setdefault(item.peer, set()).add(item.session)
    # After the session is in the tables: if its manager runs twice, it is told so on all of them.
    met(step, peer)
    if isinstance(outgoing, OutgoingQueue):
        bind(step, outgoing, peer)
        attach(step, outgoing, peer)
    for waiting in step.names.by_guid.get(item.peer, ()):
        if not waiting.session and waiting is not outgoing:
            attach(step, waiting, peer)
    for number in sorted(peer.outgoing):
        served = step.state.all_queues[number]
        assert isinstance(served, OutgoingQueue)
        inquire(step, served)
        ask(step, served)
        if served.of_earlier_life(step.state.stamp):
            question(step, served)
    step.act(Ready(item.session))


def _turned_away(step: Step, item: SessionOpened) -> str:
    """Why a session is closed as soon as it is there; "" if it is not."""
    if item.peer == step.identity.guid:
        answered_as_us(step, item)
        return "identity-clash: the peer claims our own identity"
    if step.state.offline_s:
        return "this queue manager was disconnected by an operator"
    if step.settings.hardened and not item.http:
        return "this queue manager is hardened: it talks over HTTP only"
    return ""


def closed(step: Step, item: SessionClosed) -> None:
    """A session is over: what was under way on it goes out again on the next."""
    peer = step.sessions.peers.pop(item.session, None)
    if peer is None:
        return
    step.sessions.early.closed(item.session)
    sessions = step.sessions.of[peer.peer]
    sessions.discard(item.session)
    if not sessions:
        del step.sessions.of[peer.peer]
    for number in sorted(peer.outgoing):
        outgoing = step.state.all_queues.get(number)
        if isinstance(outgoing, OutgoingQueue) and outgoing.session == item.session:
            lost(step, outgoing, item.reason, idle=item.idle)
            _ask_later(step, outgoing)


def connect_failed(step: Step, item: ConnectFailed) -> None:
    """The destination cannot be reached now."""
    outgoing = step.state.all_queues.get(item.outgoing)
    if isinstance(outgoing, OutgoingQueue) and outgoing.link is Link.CONNECTING:
        lost(step, outgoing, item.reason, status=item.status)
        _ask_later(step, outgoing)


def _ask_later(step: Step, outgoing: OutgoingQueue) -> None:
    """What was to be tried once has been tried, and may have arrived (CNF-4)."""
    if not outgoing.inquiry_us:
        inquire(step, outgoing)


def acked(step: Step, item: SessionAcked) -> None:
    """The peer has got so many messages, and so many recoverable ones are durable there.

    A refusal (over HTTP, 400) is the answer to the last of them alone: what was answered before it
    has been delivered, whatever becomes of the others. It makes no acknowledgment message (Q-5,
    HTTP-10).
    """
    peer = step.sessions.peers.get(item.session)
    if peer is None:
        return
    acknowledged_more(step, peer, item.messages)
    build = ChangeBuilder(step)
    # Not simply the first ones: express messages end when they were received, recoverable ones
    # when they are durable, and the two counts do not move together.
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
            # What was transmitted twice on this session stands here twice (after a resume).
            if item.refused and messages == item.messages:
                reason = MessageClass.NACK_BAD_DESTINATION_QUEUE
                move = RangeChange(Op.END, number, index, at, size, reason)
                end_range(build, move, Ending.REFUSED_THERE, reason)
                if index == FORWARD_LANE:
                    # Its sender hears nothing, and has it in doubt when its time is over.
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
    # Lost in a crash, these messages go out once more, and are known as repetitions (EOD-27).
    step.record(build.change, forced=False)
