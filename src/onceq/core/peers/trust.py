"""Whose word counts: which manager may acknowledge what was sent here, and send for another one.

Acknowledgments let a sender forget committed messages, so they count only from the manager that
the messages were transmitted to: for a private name that is the GUID in it, for a public or direct
one the manager that proved itself when the name was connected to. It may speak on any session of
its own, and through a router. Messages count only under the GUID of their session, or from a
manager that the configuration names as a router. Anything else is ignored, counted, and reported at
most once an hour for each address.

Without TLS the GUID of a session is a claim, which is judged by what is known of that GUID and of
the address (``model/identification.py``). ``docs/decisions/0011-whose-word-counts.md`` has what
that leaves open, and what holds over HTTP.

Also here:

* Tell senders why their messages are turned away, and show an operator what receivers tell us.

Upholds: I10 (release only on truth), I13, I24, I28.
"""

from __future__ import annotations

from onceq.core.decision import Ready
from onceq.core.inputs import SessionOpened
from onceq.core.names import computer_of, lead_of, outgoing_for
from onceq.core.state.in_doubt_table import Doubt
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer
from onceq.core.state.position_block import AVAILABLE, AWAITING
from onceq.core.state.queue_tables import ORDER_QUEUE_NUMBER, title_of
from onceq.core.state.queues import TRANSACTIONAL_LANE
from onceq.core.state.setups import AddressBound, NameBound, PeerProven
from onceq.core.step.step import Step
from onceq.errors import InsufficientResources
from onceq.hidden import quote_word
from onceq.model.identification import Identification, Proof, why_not_guid, why_not_name
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.limits import NOTES_MAX, REFUSED_AHEAD_MAX, STREAM_AHEAD_S_MAX
from onceq.model.names import Kind, parse_format_name
from onceq.model.resultcodes import MessageClass
from onceq.packet.acks import FUTURE as BEGINS_AHEAD
from onceq.packet.acks import NO_ROOM, STALE, FinalAck, OrderAck, TurnedAway, turned_away
from onceq.packet.arrived import ArrivedRun

# ---- trust ---------------------------------------------------------------------------------------


STAMP_SHIFT = 32
"""The high half of a stream identifier is the second in which its manager began it (EOD-14)."""


def disbelieve(step: Step, peer: Peer, what: str, **values: object) -> None:
    """Count something that is not believed, and report it to the operator now and then."""
    step.sessions.disbelieved[what] += 1
    step.notice(what, peer.address, address=peer.address, peer=guid_text(peer.peer),
                so_far=step.sessions.disbelieved[what], **values)  # fmt: skip


FORGED = "an acknowledgment does not count: it is not from the manager that has the messages"
IMPOSSIBLE = "an acknowledgment does not count: nothing was transmitted under its number"
FOREIGN = "messages of another manager refused: their sender is no router of this one"
CLAIMED = "a queue manager does not count: it is believed over TLS alone, or at another address"
UNNAMED = "a certificate is not for the name that was asked for"
FUTURE = "a message stream from the future refused"
HEARSAY = "a second process with this identity does not count: a stranger tells of it"


# ---- which manager serves what -----------------------------------------------------------------


def serves(
    step: Step, peer: Peer, outgoing: OutgoingQueue, guid: bytes, counter: int | None = None
) -> bool:
    """Return whether a manager's word counts about what was transmitted from an outgoing queue.

    Args:
        peer: The session that it comes on.
        guid: The manager that speaks.
        counter: About which message; None: about any that the manager has served.
    """
    if outgoing.over_http or peer.http:
        # A request proves only that this address can be reached; so it says nothing about what goes
        # over sessions, and is the best proof there is for what goes over HTTP.
        return outgoing.over_http and peer.http
    name = outgoing.bound_name
    if not name:
        return guid == outgoing.name.guid
    now = step.state.bindings.guid_of(name)
    if not now and outgoing.name.kind is Kind.PUBLIC:
        # There may have been no answer for the queue yet: a copy of this manager may have sent what
        # waits there. The directory is no neighbour's word, but a file, in which a manager cannot
        # register another one's queue or name (``directory/contract.py``); and a manager that is
        # connected to through it must have that GUID (``core/transfer/connecting.py``).
        computer = computer_of(step, outgoing.name)
        now = b"" if computer is None or computer.guid == NO_GUID else computer.guid
    if guid == now and (counter is None or counter >= outgoing.served_from):
        return True
    if any(
        guid == before and (counter is None or first <= counter < end)
        for before, first, end in outgoing.served_before
    ):
        return True
    if now or outgoing.served_before:
        return False
    # What was acknowledged before names were bound may end by any manager's word, as it did then.
    return counter is None or outgoing.ordered_lane.state(counter) == AWAITING


def settles(step: Step, peer: Peer, doubt: Doubt, guid: bytes) -> bool:
    """Return whether a manager's word counts about a message in doubt: one that the message may
    have been transmitted to, and not one that answers under its name since.

    Args:
        peer: The session that it comes on.
        guid: The manager that speaks.
    """
    if doubt.given:
        return guid in doubt.given and not peer.http
    queue = step.state.all_queues.get(doubt.outgoing)
    return not isinstance(queue, OutgoingQueue) or serves(step, peer, queue, guid)


def believes_order_ack(step: Step, peer: Peer, ack: OrderAck) -> bool:
    """Return whether an order acknowledgment may release messages."""
    outgoing = step.state.streams.get(ack.stream)
    if outgoing is None or outgoing.head.stream != ack.stream:
        return True  # of a stream that was left, or of no manager: it changes nothing
    # One of number 0 covers nothing, and says only that the beginning of the stream is missing.
    counter = outgoing.reach(ack.number or 1, step.state.stamp)
    if not serves(step, peer, outgoing, ack.acker, counter):
        disbelieve(step, peer, FORGED, claims=guid_text(ack.acker), queue=str(outgoing.name))
        return False
    if not ack.number and peer.extended and ack.tells_holes:
        return True
    more = ack.number > 0 and counter > outgoing.ever_sent
    lane = outgoing.ordered_lane
    beside = counter < lane.next and lane.first_available() <= outgoing.ever_sent
    if more and (beside or outgoing.of_earlier_life(step.state.stamp)):
        # A copy beside this one has sent more of what waits in both; one that was restored without
        # notice knows less (``core/peers/duplicate_identity.py``). The acknowledgment counts up to
        # what this one has transmitted.
        return True
    return _possible(step, peer, outgoing, ack, counter)


def believes_final_ack(step: Step, peer: Peer, ack: FinalAck) -> bool:
    """Return whether a final acknowledgment may end a message, or settle a doubt."""
    state = step.state
    doubt = state.doubts.find(ack.stream, ack.number)
    if doubt is not None:
        if settles(step, peer, doubt, ack.acker):
            return True
        queue = state.all_queues.get(doubt.outgoing)
        name = title_of(queue) if queue is not None else ""
        disbelieve(step, peer, FORGED, claims=guid_text(ack.acker), queue=name)
        return False
    outgoing = state.streams.get(ack.stream)
    if outgoing is None:
        return True
    base = outgoing.base_of(ack.stream)
    if base is None:
        return True
    served = serves(step, peer, outgoing, ack.acker, base + ack.number)
    if not served and not _told_on_the_way(step, peer, outgoing, ack):
        disbelieve(step, peer, FORGED, claims=guid_text(ack.acker), queue=str(outgoing.name))
        return False
    if sent_elsewhere(outgoing, ack) and ack.stream >> STAMP_SHIFT != state.stamp:
        # A number of an earlier life belongs to one message, no matter which copy has sent it. One
        # of the present life may be another's, where memory was copied: it does not count, and
        # sending asks the receiver.
        return True
    return _possible(step, peer, outgoing, ack, base + ack.number)


def sent_elsewhere(outgoing: OutgoingQueue, ack: FinalAck) -> int:
    """Return the counter of a final acknowledgment's message, if it waits here and was never
    transmitted: another manager with this identity has sent its copy. Else 0."""
    counter = (outgoing.base_of(ack.stream) or 0) + ack.number
    waits = outgoing.ordered_lane.state(counter) == AVAILABLE and counter > outgoing.ever_sent
    return counter if waits and outgoing.place_of(counter) == (ack.stream, ack.number) else 0


def _told_on_the_way(step: Step, peer: Peer, outgoing: OutgoingQueue, ack: FinalAck) -> bool:
    """Return whether a router reports that a message has made too many hops: only such a message
    does not reach its manager, so the router that it was given to is believed."""
    via = step.names.routes_to.get(outgoing.name.guid) if not outgoing.bound_name else None
    if via is None or ack.message_class != MessageClass.NACK_HOP_COUNT_EXCEEDED:
        return False
    return step.state.bindings.guid_of(router_name(via)) == peer.peer


def refused_later(step: Step, peer: Peer, ack: FinalAck) -> bool:
    """Return whether a repetition has ended, by the word of another manager than the destination:
    the one that answers a post over HTTP (400), or a router. It has seen this transmission, and not
    the ones before it."""
    doubt = step.state.doubts.find(ack.stream, ack.number)
    outgoing = step.state.streams.get(ack.stream)
    if doubt is not None:
        asked = step.state.all_queues.get(doubt.outgoing)
        outgoing = asked if isinstance(asked, OutgoingQueue) else outgoing
    if outgoing is None:
        return False
    # Receipts come over connections of their own: this one carries only answers.
    answered = peer.http and outgoing.session == peer.session
    if not answered and (ack.acker == outgoing.name.guid or not _told_on_the_way(
        step, peer, outgoing, ack
    )):  # fmt: skip
        return False
    base = outgoing.base_of(ack.stream)
    return base is None or outgoing.left_before(TRANSACTIONAL_LANE, base + ack.number)


def _possible(
    step: Step, peer: Peer, outgoing: OutgoingQueue, ack: OrderAck | FinalAck, counter: int
) -> bool:
    if ack.number > 0 and counter <= outgoing.ever_sent:
        return True
    disbelieve(step, peer, IMPOSSIBLE, queue=str(outgoing.name), number=ack.number)
    return False


# ---- which manager may send for another -----------------------------------------------------


def speaks_for(step: Step, peer: Peer, run: ArrivedRun) -> str:
    """Return why a session may not bring a run of another manager; "" if it may."""
    routers = {router_name(via) for via in step.names.routes_to.values()}
    if any(step.state.bindings.guid_of(name) == peer.peer for name in routers):
        if peer.who.proof is Proof.CERTIFICATE or not has_proof(step, peer.who, run.source):
            return ""
        return why_not_guid(peer.who, run.source, proven=True)
    disbelieve(step, peer, FOREIGN, claims=guid_text(run.source))
    return (
        f"it sent messages of another queue manager, {guid_text(run.source)}, and is not a router "
        "of this one ([routes] in the configuration)"
    )


def router_name(via: str) -> str:
    """Return the name by which a router is bound."""
    return f"os:{via}".casefold()


def unknown_routers(step: Step) -> list[OutgoingQueue]:
    """Return outgoing queues to routers that were never met: connecting to their names shows who
    they are; their own claim is never used."""
    bound = step.state.bindings
    found: dict[str, OutgoingQueue] = {}
    for guid, via in step.names.routes_to.items():
        name = router_name(via)
        if not bound.guid_of(name) and name not in found:
            text = f"PRIVATE={guid_text(guid)}\\{ORDER_QUEUE_NUMBER:08x}"
            try:
                found[name] = outgoing_for(step, parse_format_name(text)[0], by="")
            except InsufficientResources:
                break  # a start does not fail for that; the router is asked when there is room
    return list(found.values())


def refused_as_future(step: Step, peer: Peer, source: bytes, stream: int) -> bool:
    """Return whether to refuse a stream because it claims to begin later than any clock in use can
    be ahead of this one.

    What follows it in order would be stale until then, so it is never recorded. The claim may be
    true of a manager that was once started with a wrong clock: an operator who knows that confirms
    it (``ClocksAhead``).
    """
    begun_s = stream >> STAMP_SHIFT
    if begun_s <= step.now.wall_s + STREAM_AHEAD_S_MAX:
        return False
    if begun_s <= step.state.clocks_ahead.until_s(source):
        return False
    refused = step.sessions.watch.refused_ahead
    if source not in refused and len(refused) >= REFUSED_AHEAD_MAX:
        del refused[next(iter(refused))]
    refused[source] = max(stream, refused.get(source, 0))
    disbelieve(step, peer, FUTURE, source=guid_text(source), stream=f"{stream:#018x}")
    return True


# ---- which manager answers under a name -----------------------------------------------------


def connected_name(step: Step, outgoing: OutgoingQueue) -> str:
    """Return the name that a session for an outgoing queue is made to; "" for a GUID alone."""
    via = step.names.routes_to.get(outgoing.name.guid) if not outgoing.bound_name else None
    return outgoing.bound_name if via is None else router_name(via)


def bind(step: Step, outgoing: OutgoingQueue, peer: Peer) -> None:
    """Bind an outgoing queue's name to the manager of the session that was made for it."""
    name = connected_name(step, outgoing)
    if not name or outgoing.over_http:
        return
    known = step.state.bindings.get(name)
    if known is not None and known.guid == peer.peer:
        return
    if known is None and step.state.bindings.full:
        step.notice("too many names: who answers under them is not remembered", name=name)
        return
    if known is None:
        step.setup(NameBound(name=name, guid=peer.peer, since_s=step.now.wall_s), forced=False)
    else:
        rebind(step, name, peer.peer)
        step.sessions.disbelieved[MOVED] += 1
        step.notice(MOVED, name, name=name, before=guid_text(known.guid), now=guid_text(peer.peer),
                    address=peer.address)  # fmt: skip


def has_proof(step: Step, who: Identification, guid: bytes) -> bool:
    """Return whether a queue manager is believed only with a certificate: it has shown one before,
    was given one here, or has rights that name one."""
    if step.state.proofs.proven(guid) or guid in step.doors.issued:
        return True
    # Where nothing can be proven, such a right has no use and no meaning.
    return who.proof is Proof.ADDRESS and step.state.policy.names_peer(guid)


def not_believed(step: Step, item: SessionOpened) -> str:
    """Return why a session does not count for the manager that it claims to be; "" if it does,
    which is remembered."""
    if item.http:
        return ""
    who, proofs = item.who, step.state.proofs
    before = proofs.at(who.actor.name) if who.proof is Proof.ADDRESS else b""
    reason = why_not_guid(
        who, item.peer, proven=has_proof(step, who, item.peer), before=(before,) if before else ()
    )
    if reason:
        step.sessions.disbelieved[CLAIMED] += 1
        step.notice(CLAIMED, item.address, address=item.address, claims=guid_text(item.peer))
        return reason
    if proofs.full:
        return ""
    if who.proof is Proof.CERTIFICATE and not proofs.proven(item.peer):
        step.setup(PeerProven(guid=item.peer), forced=False)
    elif who.proof is Proof.ADDRESS and not (before or who.guids):
        step.setup(AddressBound(address=who.actor.name, guid=item.peer))
    return ""


def unproven_sessions(step: Step, guid: bytes) -> list[int]:
    """Return sessions accepted without a certificate for a manager that has a proof by now."""
    peers = (step.sessions.peers[number] for number in sorted(step.sessions.of.get(guid, ())))
    return [
        peer.session for peer in peers
        if not peer.http and peer.who.proof not in (Proof.CERTIFICATE, Proof.ITSELF)
        and has_proof(step, peer.who, guid)
    ]  # fmt: skip


def may_not_serve(step: Step, outgoing: OutgoingQueue, who: Identification, guid: bytes) -> str:
    """Return why a manager may not get what waits in an outgoing queue; "" if it may."""
    if outgoing.over_http or who.proof is Proof.ITSELF:
        return ""
    kind, to = outgoing.name.kind, outgoing.name.guid
    lead = lead_of(step, outgoing) if kind is Kind.PUBLIC else None
    # Which manager has the queue by its name, or by the directory; and the computer that is looked
    # up by its name or address ("": by a GUID).
    holder, host = b"", outgoing.name.host
    if kind is Kind.PRIVATE:
        holder, host = to, step.names.routes_to.get(to, "")
    elif lead is not None:
        holder, host = lead[2], lead[1]
    if holder == guid and (kind is Kind.PRIVATE or holder != NO_GUID):
        return ""
    name = connected_name(step, outgoing)
    plain = who.proof is not Proof.CERTIFICATE
    if plain and outgoing.name.kind is Kind.PRIVATE and to != guid and has_proof(step, who, to):
        return why_not_guid(who, to, proven=True)
    known = step.state.bindings.get(name) if name else None
    bound = known.guid if known is not None else b""
    if not bound and host:
        # No manager can take another one's name in the directory.
        directory = step.names.directory
        entry = directory.computer(host) if directory is not None else None
        if entry is not None and entry.guid == guid != NO_GUID:
            return ""
    pinned = pins(step) or (plain and bool(bound) and has_proof(step, who, bound))
    reason = why_not_name(who, guid, host, bound, pinned=pinned) if name else ""
    if not reason:
        return ""
    step.sessions.disbelieved[MOVED if bound else UNNAMED] += 1
    step.notice(MOVED if bound else UNNAMED, name, name=name, before=guid_text(bound or NO_GUID),
                now=guid_text(guid))  # fmt: skip
    if bound:
        return (
            f"{reason}, and names stay with whom they had: to let it, onceq peer forget "
            f"{quote_word(name)}"
        )
    return (
        f"{reason}: correct the address of {host} in [peers] in onceq.toml, in the directory or in "
        f"DNS; if {host} is one more name of that queue manager, "
        f"onceq peer forget {quote_word(host)} --to {guid_text(guid)} says so"
    )


def pins(step: Step) -> bool:
    """Return whether a name stays with the manager that has answered under it."""
    return step.settings.pin_peers or step.doors.identity


def rebind(step: Step, name: str, guid: bytes, *, by_hand: bool = False) -> None:
    """Record that another manager answers under a name from now on, or is said to."""
    sent = [
        [outgoing.number, outgoing.ever_sent]
        for outgoing in step.state.outgoing_under(name)
        if outgoing.ever_sent < outgoing.ordered_lane.next - 1
    ]
    step.setup(NameBound(name=name, guid=guid, since_s=step.now.wall_s, sent=sent, by_hand=by_hand))


MOVED = "another queue manager answers under a known name"


# ---- refusals ------------------------------------------------------------------------------------


TOLD_EVERY_US = 5_000_000
WORDS = {
    STALE: "it is in a newer stream and takes these for old repetitions",
    BEGINS_AHEAD: "this stream begins in its future: a clock is wrong by days, or was when this "
    "manager started; 'onceq peer accept' over there takes what is honest",
    NO_ROOM: "it has no room for what strangers leave behind",
}


def note(step: Step, peer: Peer, packet: bytes) -> bool:
    """Send a packet that is never stored on a session, if not too many wait there already; return
    whether there was room.

    A receiver does not acknowledge messages of a stream that it has left, of one from the future,
    or of one for which it has no room; their sender would only see that nothing is acknowledged.
    Between two onceq managers the receiver sends the reason (``packet/acks.py``), at most once in
    TOLD_EVERY_US for each queue and session; the sender shows it (``outgoing why``) until something
    is acknowledged.
    """
    if len(peer.notes) >= NOTES_MAX:
        return False
    peer.notes.append(packet)
    step.act(Ready(peer.session))
    return True


def turn_away(step: Step, peer: Peer, run: ArrivedRun, reason: int, *, here: int) -> None:
    """Send the reason to the sender of a run that is turned away."""
    key = (run.source, run.stream)
    if not peer.extended or run.source != peer.peer or step.now.mono_us < peer.turned.get(key, 0):
        return
    # Forgetting all of them costs at most one more packet for each.
    if len(peer.turned) >= NOTES_MAX:
        peer.turned.clear()
    peer.turned[key] = step.now.mono_us + TOLD_EVERY_US
    said = TurnedAway(run.stream, here, reason)
    note(step, peer, turned_away(
        said, own=step.identity.guid, own_message=step.passing_number(),
        sent_time=step.now.wall_s, destination_manager=peer.peer,
    ))  # fmt: skip


def turned_away_by(step: Step, peer: Peer, said: TurnedAway) -> None:
    """Record that the receiver of a stream turns its messages away."""
    outgoing = step.state.streams.get(said.stream)
    if outgoing is None or not outgoing.unacknowledged or outgoing.head.stream != said.stream:
        return
    if not serves(step, peer, outgoing, peer.peer):
        return
    words = WORDS.get(said.reason, f"reason {said.reason}")
    if outgoing.turned_away is None:
        step.notice("our messages are turned away by their receiver", str(outgoing.name),
                    queue=str(outgoing.name), why=words, stream=f"{said.stream:#018x}",
                    there=f"{said.there:#018x}")  # fmt: skip
    outgoing.turned_away = (words, said.there, step.now.wall_s)
