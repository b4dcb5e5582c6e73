"""Find a session for outgoing queues: use an open one, or ask for one.

Each address has at most one request for a session at a time, made for the first queue. The other
queues to that address wait for it; if it fails, all are tried again together after a while (Q-9).
``sessions.py`` applies the outcome to them, a bounded number in each step.

Upholds: I24 (no step is longer the more queues there are), I26 (liveness).
"""

from __future__ import annotations

from onceq.core.decision import Connect, Ready
from onceq.core.names import direct_name_of, is_local, lead_of
from onceq.core.peers.strangers import doubtful, may_connect, retry_s
from onceq.core.peers.trust import bind, connected_name, may_not_serve, pins
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer
from onceq.core.state.positions import LinkEvent
from onceq.core.state.queues import TRANSACTIONAL_LANE
from onceq.core.step.connections import ConnectAttempt, Way
from onceq.core.step.step import Step, Timer
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.names import Kind, url_of
from onceq.model.resultcodes import ConnectionStatus


def connect(step: Step, outgoing: OutgoingQueue, *, at_once: bool = False) -> None:
    """Use an open session, ask for one, or wait for the one that was asked for.

    Args:
        at_once: Connect even if an attempt has just failed.
    """
    if not may_connect(step, outgoing):
        put_off_alone(step, outgoing, step.later_us(retry_s(step, outgoing)))
        return
    contacts, way = step.sessions.contacts, way_of(step, outgoing)
    contact = None if way is None else contacts.get(way)
    if contact is not None and contact.retry_us > step.now.mono_us and not at_once:
        _wait(step, outgoing, contact)
        return
    name = outgoing.name
    where = f"{name.protocol}:{name.host}" if name.host else guid_text(name.guid)
    outgoing.tried(ConnectionStatus.IN_PROGRESS, step.now.wall_s, where)
    if way is None:
        return
    peer = _session(step, outgoing, contact)
    if peer is not None:
        bind(step, outgoing, peer)
        attach(step, outgoing, peer)
        # Ask before anything is transmitted: a receiver may forget streams that it has left.
        step.sessions.served[outgoing.number] = None
        return
    contact = contact or contacts.of(way)
    if not contact.caller and contacts.calls(outgoing.number):
        # It has called another address before, and that answer is still open.
        put_off_alone(step, outgoing, step.later_us(retry_s(step, outgoing)))
        contacts.release(contact)
        return
    outgoing.happens(LinkEvent.CONNECT)
    contact.waiting[outgoing.number] = None
    if not contact.caller:
        contacts.call(contact, outgoing.number)
        step.act(Connect(outgoing.number, *way[:4], homes=way[5]))


def way_of(step: Step, outgoing: OutgoingQueue) -> Way | None:
    """Return where an outgoing queue leads; None for a public one the directory has not placed
    (DL-14)."""
    name = outgoing.name
    if is_local(step, name):
        return ("", "", step.identity.guid, "", "", None)
    pinned = connected_name(step, outgoing) if pins(step) else ""
    if name.kind is Kind.PRIVATE:
        via = step.names.routes_to.get(name.guid)
        if via is not None:
            return ("OS", via, NO_GUID, "", pinned, None)
        # A directory may have joined a direct name to it, for which no source gives an address
        # now; the peer must have the GUID.
        directory, direct = step.names.directory, direct_name_of(outgoing)
        if (
            direct is None
            or step.names.book.find(guid_text(name.guid))[0]
            or (directory is not None and directory.computer_of(name.guid) is not None)
        ):
            return ("", "", name.guid, "", "", None)
        return (direct.protocol, direct.host, name.guid, "", "", None)
    if name.kind is Kind.PUBLIC:
        lead = lead_of(step, outgoing)
        if lead is None:
            return None
        protocol, host, guid = lead
        return (protocol, host, guid, "", pinned, None)
    url = url_of(name) if outgoing.over_http else ""
    homes = None if outgoing.homes is None else tuple(sorted(outgoing.homes))
    return (name.protocol, name.host, NO_GUID, url, pinned, homes)


def _session(step: Step, outgoing: OutgoingQueue, contact: ConnectAttempt | None) -> Peer | None:
    """Return a session that may serve an outgoing queue, if there is one."""
    sessions, guid = step.sessions, NO_GUID
    if outgoing.name.kind is Kind.PRIVATE and outgoing.name.guid not in step.names.routes_to:
        guid = outgoing.name.guid
    elif outgoing.name.kind is Kind.PUBLIC:
        lead = lead_of(step, outgoing)
        guid = lead[2] if lead is not None else NO_GUID
    if guid != NO_GUID and guid in sessions.of:
        # Sets have no order, and equal inputs must give equal decisions (I27).
        found = sessions.peers[min(sessions.of[guid])]
        return None if may_not_serve(step, outgoing, found.who, guid) else found
    peer = sessions.peers.get(contact.session) if contact is not None else None
    # Over HTTP each queue has its own session.
    if peer is None or peer.http or may_not_serve(step, outgoing, peer.who, peer.peer):
        return None
    return peer


def attach(step: Step, outgoing: OutgoingQueue, peer: Peer) -> None:
    """Let a session serve an outgoing queue; retransmit what is unacknowledged.

    It replaces any other session (both sides may connect at once), so one stream never uses two
    sessions.
    """
    before = step.sessions.peers.get(outgoing.session)
    if before is not None:
        before.outgoing.discard(outgoing.number)
        before.turns.drop(outgoing.number)
    outgoing.happens(LinkEvent.ATTACH, session=peer.session)
    outgoing.tried(ConnectionStatus.ESTABLISHED, step.now.wall_s, peer.address)
    if outgoing.name.protocol == "OS":
        step.sessions.called(peer.peer, outgoing.name.host)
    outgoing.connected_s, outgoing.knows_delays = step.now.wall_s, peer.delays
    outgoing.trouble.reason = ""
    outgoing.trouble.attempts = 0
    outgoing.rewind()
    # The receiver may have all of it, and only need to say so: a few messages ask.
    lane = outgoing.lanes.get(TRANSACTIONAL_LANE)
    outgoing.repair.probing = (
        lane is not None and not peer.http
        and lane.available > 0 and lane.first_available() <= outgoing.ever_sent
    )  # fmt: skip
    peer.outgoing.add(outgoing.number)
    has_turn(step, outgoing)


def has_turn(step: Step, outgoing: OutgoingQueue) -> None:
    """Mark that an outgoing queue has something to send on its session."""
    peer = step.sessions.peers.get(outgoing.session)
    if peer is not None:
        step.sessions.full_windows.discard(outgoing.number)
        peer.turns.note(outgoing.number)
        step.act(Ready(peer.session))


# ---- later -------------------------------------------------------------------------------


def put_off(step: Step, outgoing: OutgoingQueue) -> None:
    """Try again later, together with all queues that lead to the same address."""
    way = None if doubtful(step, outgoing) else way_of(step, outgoing)
    if way is None:
        put_off_alone(step, outgoing, step.later_us(retry_s(step, outgoing)))
        return
    contact = step.sessions.contacts.of(way)
    if contact.caller:
        # Another queue has begun to connect meanwhile.
        outgoing.happens(LinkEvent.CONNECT)
        contact.waiting[outgoing.number] = None
        return
    if contact.retry_us <= step.now.mono_us:
        contact.retry_us = step.later_us(retry_s(step, outgoing))
        # Timers of equal time are compared, and a way without addresses is not comparable.
        step.timer(contact.retry_us, Timer.CONTACT, (way[:5], way[5] is None, way[5] or ()))
    _wait(step, outgoing, contact)


def _wait(step: Step, outgoing: OutgoingQueue, contact: ConnectAttempt) -> None:
    """Let a queue wait for the next attempt at its address."""
    outgoing.happens(LinkEvent.PUT_OFF, retry_us=contact.retry_us)
    contact.waiting[outgoing.number] = None
    trouble = outgoing.trouble
    if not trouble.reason:
        trouble.reason = contact.reason
        trouble.since_s = trouble.last_s = step.now.wall_s


def put_off_alone(step: Step, outgoing: OutgoingQueue, retry_us: int) -> None:
    """Try again at the queue's own time."""
    outgoing.happens(LinkEvent.PUT_OFF, retry_us=retry_us)
    # A separate timer: an acknowledgment may stop the resend timer meanwhile.
    step.timer(retry_us, Timer.CONNECT, outgoing.number)
