"""Answers go home: the computers to which an acknowledgment or a receipt may be sent.

A message names the queues that its acknowledgments go to, and the head of a stream over HTTP the
one for its receipts. Without a rule, a sender that may send to one queue here could make this
computer speak to any other one, and to itself. So an answer goes where its sender is, or where its
sender may send:

* to a queue manager by its GUID, if that is the sender's;
* to the address that the message came from;
* to a name that has led to the sender's GUID before, or is in its certificate;
* to any other computer, if the sender has the right ``forward``, and so brings others' messages;
* to a queue at which the sender was granted ``send`` by a pattern that names other computers: it
  begins with ``direct=``, ``private=`` or ``public=``.

It never goes to loopback or link-local addresses, unless an operator names them: by such a grant,
in ``plain_peers``, or in ``[peers]``. A sender on this computer that is free needs no right.

Only a connection shows where a name leads. So the outgoing queue keeps the addresses that it may be
connected to, its *homes*, durably, and each connection is compared with them.

Also here:

* Acknowledgments between managers over HTTP: they go to an address that the sender chooses.

Upholds: I28, I9, I24 (receipts for one that cannot be reached do not pile up).
"""

from __future__ import annotations

from typing import Final

from onceq.core.names import computer_of, known_outgoing, outgoing_for
from onceq.core.peers.strangers import known
from onceq.core.rights import sender_of
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Peer, Progress
from onceq.core.state.records import PUT_EXPRESS
from onceq.core.state.setups import OutgoingHomes, ReceiptsTo
from onceq.core.step.step import ChangeBuilder, Step, answered, take_numbers
from onceq.errors import InsufficientResources
from onceq.model.addresses import AWAY, address_of, is_near, means_itself
from onceq.model.identity import read_number
from onceq.model.limits import HTTP_RECEIPTS_MAX
from onceq.model.names import FormatName, Kind, parse_format_name, url_of
from onceq.model.patterns import QueueName
from onceq.model.rights import Actor, ActorKind, Right
from onceq.model.run import Run
from onceq.packet.acks import order_ack

# ---- homes ---------------------------------------------------------------------------------------


ANYWHERE: Final = None
"""Homes of a queue that may be connected to at any address."""
NOWHERE: Final[frozenset[str]] = frozenset()
Homes = frozenset[str] | None
HOMES_MAX: Final = 16
"""Addresses of one outgoing queue for answers: a name has one sender, or few."""


def goes_home(step: Step, peer: Peer, source: bytes, name: FormatName) -> bool:
    """Return whether an answer for a queue of another computer may be sent; see ``homes_of``.

    Applications here may send to that queue, too. Then the name leads where they intend, and must
    be known to be the sender's.
    """
    homes = homes_of(step, peer, source, name)
    if homes is ANYWHERE:
        return True
    outgoing = known_outgoing(step, name)
    if outgoing is None:
        return homes != NOWHERE
    if outgoing.homes is not None:
        return homes != NOWHERE and len(homes | outgoing.homes) <= HOMES_MAX
    if AWAY in homes or address_of(host_in(name)):
        return homes != NOWHERE
    there = step.sessions.peers.get(outgoing.session)
    return there is not None and address_of(there.address) in homes


def expect_answer(step: Step, peer: Peer, source: bytes, name: FormatName) -> None:
    """Store the homes of an answer that may be sent, before the message that asks for it.

    Raises:
        InsufficientResources: There are too many outgoing queues.
    """
    homes, outgoing = homes_of(step, peer, source, name), known_outgoing(step, name)
    if name.kind is not Kind.DIRECT or (homes is ANYWHERE and not step.state.homes_kept):
        return
    if outgoing is None:
        stranger = not known(step, source)
        outgoing_for(step, name, by=answered(source), stranger=stranger, answer=True, homes=homes)
        return
    kept = outgoing.homes
    if kept is None:
        # An application has opened it. It must not be tidied away before the answer, which would
        # then find no address.
        if not outgoing.answers:
            step.setup(OutgoingHomes(number=outgoing.number, homes=None), forced=False)
        return
    if homes is not ANYWHERE and homes <= kept:
        return
    more = None if homes is ANYWHERE else sorted(homes | kept)
    if more is not None and len(more) > HOMES_MAX:
        return
    step.setup(OutgoingHomes(number=outgoing.number, homes=more), forced=False)


def homes_of(step: Step, peer: Peer, source: bytes, name: FormatName) -> Homes:
    """Return where an answer for a queue of another computer may go.

    Args:
        peer: The session on which the message came that asks for it.
        source: GUID of the manager that has sent the message.
        name: Of the queue that the answer is for.

    Returns:
        IP addresses, among them maybe AWAY; ANYWHERE; or NOWHERE: it may not be sent.
    """
    actor, place = sender_of(peer, source), QueueName(str(name).casefold())
    if peer.actor.free or step.state.policy.allows_elsewhere(actor, Right.SEND, place):
        return ANYWHERE
    if name.kind is Kind.PRIVATE:
        return ANYWHERE if name.guid in (source, peer.peer) else NOWHERE
    if name.kind is Kind.PUBLIC:
        computer = computer_of(step, name)
        if computer is None and step.names.directory is None:
            # Answers wait for the directory, and go where an operator has written there.
            return ANYWHERE
        return ANYWHERE if computer is not None and computer.guid == source else NOWHERE
    if name.kind is not Kind.DIRECT:
        return NOWHERE
    own = address_of(peer.address)
    # A client on loopback with a certificate may come from far, through a tunnel.
    known = not is_near(own) or peer.actor.kind is ActorKind.ADDRESS
    if not known:
        # The configuration may say where the host of the name is.
        http = name.protocol[:4] == "HTTP"
        key = url_of(name).partition("//")[2].partition("/")[0] if http else ""
        known = bool(step.names.book.find(f"{name.protocol}://{key}" if key else name.host)[0])
    home = frozenset((own,)) if own and known else NOWHERE
    host = host_in(name)
    said = address_of(host)
    if said:
        away = frozenset((said,)) if not is_near(said) and _passes_on(step, peer.actor) else NOWHERE
        return frozenset((said,)) & home | away
    if means_itself(host):
        return home if is_near(own) else NOWHERE
    if _passes_on(step, peer.actor) or host.casefold() in peer.who.names:
        return home | {AWAY}
    bound = step.state.bindings.guid_of(f"{name.protocol}:{host}".casefold())
    if name.protocol.startswith("HTTP") or not bound:
        return home
    return home | {AWAY} if bound == source else NOWHERE


def host_in(name: FormatName) -> str:
    """Return the host of a direct name, without the port that HTTP has."""
    host, _, port = name.host.rpartition(":")
    return host if host and read_number(port) is not None else name.host


def _passes_on(step: Step, actor: Actor) -> bool:
    return step.state.policy.judge(actor, Right.FORWARD).allowed


# ---- http receipts -------------------------------------------------------------------------------


RECEIPT_LANE = 7
"""Receipts go before other messages that are not transactional."""


def learn_address(
    step: Step, source: bytes, stream: int, name: str, *, left: int, queue: str
) -> bool:
    """Remember where receipts of a stream go; it is durable with what is accepted now.

    The head of a stream names the address for its receipts (HTTP-5), each time that it comes: a
    repetition may name another one, if the sender's address has changed (HTTP-6). Order
    acknowledgments go there as express messages of our own, final ones as recoverable ones: both
    are ordinary outgoing messages, and become stream receipts when they leave (``wire/srmp``). They
    wait no longer than a message without a stated lifetime: a stranger chooses the address, which
    may never be reached.

    The outgoing queue for them is opened now, so that no sender makes us promise receipts that
    cannot be sent: strangers choose the addresses, and the number of outgoing queues is limited.

    Args:
        left: The stream that the sender has left for the same queue: its address is forgotten.
        queue: URL under which the sender knows the destination queue: receipts name it.

    Returns:
        Whether receipts can be sent there.
    """
    if step.state.receipts.of_stream(source, stream) == name:
        return True
    if _way(step, name, source) is None:
        return False
    step.setup(
        ReceiptsTo(source=source, stream=stream, name=name, left=left, queue=queue), forced=False
    )
    return True


def _way(step: Step, name: str, source: bytes) -> OutgoingQueue | None:
    try:
        return outgoing_for(
            step, parse_format_name(f"DIRECT={name}")[0], by=answered(source),
            stranger=not known(step, source), answer=True,
        )  # fmt: skip
    except InsufficientResources as error:
        step.notice("no outgoing queue for receipts", name, address=name, reason=error.text)
        return None


def address_for(step: Step, source: bytes, stream: int, *, http: bool) -> OutgoingQueue | None:
    """Return the outgoing queue for receipts of a stream; None if it did not come over HTTP.

    Args:
        http: Whether the message of the receipt came over HTTP. Its stream may have been left
            since: then the address counts that its sender has announced last.
    """
    receipts = step.state.receipts
    name = receipts.of_stream(source, stream)
    if name is None and http:
        name = receipts.of_source(source)
    return None if name is None else _way(step, name, source)


def post_receipt(step: Step, progress: Progress, name: str) -> None:
    """Send an order acknowledgment; if many wait already, the sender will ask again (EOD-36)."""
    outgoing = _way(step, name, progress.source)
    if outgoing is None:
        return
    lane = outgoing.lanes[RECEIPT_LANE]
    if lane.available >= HTTP_RECEIPTS_MAX:
        return
    build = ChangeBuilder(step)
    packet = order_ack(
        own=step.identity.guid,
        own_message=take_numbers(build.step, build.change, 1),
        sent_time=step.now.wall_s,
        address="",
        destination_manager=progress.source,
        stream=progress.stream,
        number=progress.last,
        queue=step.state.receipts.queue_of(progress.source, progress.stream),
    )
    build.put_copy(
        outgoing.number, Run.of((packet,)), lane=RECEIPT_LANE, expires=step.reach_by_s(),
        flags=PUT_EXPRESS,
    )  # fmt: skip
    step.record(build.change, forced=False)
