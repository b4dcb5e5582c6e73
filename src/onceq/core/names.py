"""From names to queues: which queue of this manager, or which outgoing queue, a name means.

A name that leads to this computer must name a queue that exists (FN-3); any other name gets an
outgoing queue, without a round trip (FN-4). Lists are replaced by their members, and names that are
known to mean one queue share one outgoing queue (EOD-3). A name that needs a directory where there
is none is refused, and with it the whole send (FN-11).

Also here:

* Which queues of this manager take transactional messages, and which take all others (Q-4).
* Names in packets: destinations, lists of them, queues for answers, and the way back.

Upholds: I2 (a send is refused as a whole, and not thrown away).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onceq import errors
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queue_tables import (
    DEAD_LETTER,
    DEAD_XACT,
    JOURNAL,
    ORDER_QUEUE_NUMBER,
    queue_key_of,
    stream_key_of_number,
)
from onceq.core.state.queues import AnyQueue, Queue
from onceq.core.state.setups import AliasJoined, MakerKnown, OutgoingOpened, OutgoingWanted
from onceq.core.step.connections import Mode, Target
from onceq.core.step.step import Step, refusal
from onceq.errors.base import not_transactional
from onceq.model.addresses import is_one_of, means_itself
from onceq.model.directory import Computer, Snapshot
from onceq.model.identity import NO_GUID
from onceq.model.limits import ANSWER_QUEUES_MAX, OUTGOING_NAMES_MAX, STRANGER_QUEUES_MAX
from onceq.model.message import Properties
from onceq.model.names import (
    FormatName,
    Kind,
    Suffix,
    check_send,
    elements_of,
    in_order,
    may_receive,
    parse_any,
    parse_format_name,
    queue_key,
)
from onceq.model.shares import Thing
from onceq.packet.address import (
    DIRECT,
    MULTI_DIRECT,
    ON_DESTINATION,
    PUBLIC,
    Address,
    Element,
    MultiNames,
)

# ---- resolve -------------------------------------------------------------------------------------


TARGETS_MAX = 4_096

_SYSTEM = {
    Suffix.DEADXACT: DEAD_XACT,
    Suffix.DEADLETTER: DEAD_LETTER,
    Suffix.JOURNAL: JOURNAL,
}


def is_local(step: Step, name: FormatName) -> bool:
    """Return whether a name leads to this computer."""
    if name.kind is Kind.DIRECT:
        return name.protocol in ("OS", "TCP") and name.host.casefold() in step.names.own_names
    if name.kind in (Kind.PRIVATE, Kind.MACHINE):
        return name.guid == step.identity.guid
    if name.kind is Kind.PUBLIC:
        queue = None if step.names.directory is None else step.names.directory.queues.get(name.guid)
        if queue is not None and not means_itself(queue.computer):
            own = step.identity.name.casefold(), step.names.called.casefold()
            return queue.computer.casefold() in own
        return name.guid in step.state.public
    return False


def read_directory(step: Step, what: str) -> Snapshot:
    """Return the directory for an operation that needs it.

    Raises:
        UnsupportedOperation: There is none.
        NoDirectory: It cannot be read now.
    """
    if step.names.mode is Mode.WORKGROUP:
        raise errors.UnsupportedOperation(
            f"{what} needs a directory, and this queue manager runs without one; use direct or "
            "private names, or name a directory in the configuration"
        )
    if step.names.mode is Mode.OFFLINE or step.names.directory is None:
        raise errors.NoDirectory(
            f"{what} needs the directory: {step.names.directory_trouble or 'not read yet'}"
        )
    return step.names.directory


def local_queue(step: Step, name: FormatName) -> Queue:
    """Return the queue of this manager that a local name means; raises QueueNotFound."""
    state = step.state
    of_computer = name.kind is Kind.DIRECT and not name.queue
    if name.kind is Kind.MACHINE or (of_computer and name.suffix in _SYSTEM):
        queue = state.all_queues.get(_SYSTEM.get(name.suffix, 0))
    elif name.kind is Kind.PUBLIC and name.suffix is Suffix.NONE:
        queue = state.public.get(name.guid)
    elif name.suffix is Suffix.JOURNAL:
        queue = local_queue(step, replace(name, suffix=Suffix.NONE)).journal
    elif name.suffix is not Suffix.NONE:
        raise errors.QueueNotFound(f"{name}: this queue manager keeps no such queue")
    elif name.subqueue:
        queue = local_queue(step, replace(name, subqueue="")).subs.get(name.subqueue.casefold())
    elif name.kind is Kind.PRIVATE:
        queue = state.all_queues.get(name.number)
        if isinstance(queue, Queue) and queue.system:
            queue = None
    else:
        queue = state.queues.get(queue_key(name.private, name.queue))
    if not isinstance(queue, Queue):
        raise errors.QueueNotFound(
            f"there is no queue {name.direct or name.text} on {step.identity.name}; "
            # Not every client may learn whether there is a private one.
            + (
                ""
                if name.private or not name.queue
                else rf"a private one is private$\{name.queue}; "
            )
            + "'queue list' shows what there is, 'queue create' makes one"
        )
    return queue


def destinations(
    step: Step, text: str, *, transactional: bool, by: str, stranger: bool = False,
    answer: bool = False,
) -> tuple[Target, ...]:  # fmt: skip
    """Return the destinations of a send, each once; the order depends only on the names (FN-13).

    Args:
        by: The owner of an outgoing queue that has to be opened (``outgoing_for``).
        stranger: Only a stranger wants it, for acknowledgments.
        answer: It is for acknowledgments.

    Raises:
        OnceqError: One element cannot be sent to; then the others get nothing, either.
    """
    known = step.names.targets.get(text)
    if known is not None and not any(
        (target.queue.homes is not None and not answer)
        or (target.queue.for_strangers and not stranger)
        for target in known
        if isinstance(target.queue, OutgoingQueue)
    ):
        return known
    elements = elements_of(text)
    found: dict[int, Target] = {}
    for element in in_order(members(step, elements)):
        check_send(element, transactional=transactional)
        if is_local(step, element) and not waits_elsewhere(step, element):
            target = Target(local_queue(step, element), element, element)
        else:
            outgoing = outgoing_for(step, element, by=by, stranger=stranger, answer=answer)
            target = Target(outgoing, outgoing.name, element)
        found.setdefault(target.queue.number, target)
    targets = tuple(found.values())
    if any(waits_elsewhere(step, target.name) for target in targets):
        return targets  # until that queue is empty: resolved again each time
    if len(step.names.targets) >= TARGETS_MAX:
        step.names.targets.clear()
    step.names.targets[text] = targets
    return targets


def waits_elsewhere(step: Step, name: FormatName) -> bool:
    """Return whether messages wait in an outgoing queue under a name that has become one of this
    computer: until they have arrived here, nothing that is sent to that name overtakes them."""
    outgoing = step.state.outgoing_of(name.key())
    return outgoing is not None and outgoing.pending() and is_local(step, name)


def members(step: Step, elements: tuple[FormatName, ...]) -> Sequence[FormatName]:
    """Return the names of a send with lists replaced by their members (FN-13, DL-2).

    Raises:
        UnsupportedOperation, NoDirectory: One of them needs a directory (FN-11).
        QueueNotFound: It has no such list or queue.
    """
    for name in elements:
        if name.kind is Kind.DL or (name.kind is Kind.PUBLIC and not is_local(step, name)):
            return read_directory(step, str(name)).expand(elements)
    return elements


def outgoing_for(
    step: Step, name: FormatName, *, by: str, stranger: bool = False, answer: bool = False,
    homes: frozenset[str] | None = frozenset(),
) -> OutgoingQueue:  # fmt: skip
    """Return the outgoing queue of a destination, opened now if there is none (FN-4).

    Args:
        by: Its owner, if it is opened now (``Step.known_by``, ``shares.answered``).
        stranger: Only a stranger wants it: there are fewer of those, and they are forgotten sooner.
        answer: Only an answer wants it, for which another manager has asked.
        homes: Where one that is opened for answers may be connected to
            (``core/peers/answer_addresses.py``);
            empty: not specified. None: anywhere.

    Raises:
        InsufficientResources: There are too many already, or its owner has too many.
    """
    state = step.state
    outgoing = known_outgoing(step, name)
    if outgoing is None:
        own = state.makers.counts[Thing.OUTGOING].of(by)
        full = refusal(step, by, Thing.OUTGOING, own, len(state.outgoing))
        if full:
            raise errors.InsufficientResources(full)
        if stranger and len(state.answering) >= STRANGER_QUEUES_MAX:
            raise errors.InsufficientResources(
                f"there are {STRANGER_QUEUES_MAX} outgoing queues for strangers already"
            )
        kept: tuple[str, ...] | None = None
        # As long as every sender was free, answers had no specified address.
        if (
            answer and homes is not None and name.kind is Kind.DIRECT
            and (homes or state.homes_kept)
        ):  # fmt: skip
            kept = tuple(sorted(homes))
        step.setup(
            OutgoingOpened(
                number=state.next_number,
                name=str(name),
                marked=True,
                for_strangers=stranger,
                homes=kept,
            ),
            forced=False,
        )
        outgoing = state.outgoing[name.key()]
        if by:
            step.setup(MakerKnown(number=outgoing.number, who=by), forced=False)
        if name.kind is Kind.PRIVATE:
            step.names.by_guid.setdefault(name.guid, []).append(outgoing)
        place = _place_of(step, name)
        if place:
            step.names.places[place] = outgoing
        return outgoing
    shares = name.key() != outgoing.name.key()
    if shares and state.aliases.get(name.key()) is not outgoing:
        if len(state.aliases) >= OUTGOING_NAMES_MAX:
            raise errors.InsufficientResources(
                f"outgoing queues have {OUTGOING_NAMES_MAX} more names"
            )
        step.setup(AliasJoined(number=outgoing.number, name=str(name)), forced=False)
    if (outgoing.for_strangers and not stranger) or (outgoing.homes is not None and not answer):
        step.setup(OutgoingWanted(number=outgoing.number, answers=answer), forced=False)
    return outgoing


def known_outgoing(step: Step, name: FormatName) -> OutgoingQueue | None:
    """Return the outgoing queue that a name has, or that another name for the same place has, which
    it shares from its first use on; None: there is none yet.

    A name keeps its outgoing queue, so that nothing overtakes what waits there. Joined names stay
    joined while no directory can be read, or a name would overtake itself; that ends when a
    directory does not say any more that the two names are one place.
    """
    state = step.state
    outgoing = state.outgoing.get(name.key())
    if outgoing is not None:
        return outgoing
    place, outgoing = _place_of(step, name), state.aliases.get(name.key())
    if outgoing is not None:
        known = step.names.directory if step.names.mode is Mode.ONLINE else None
        if known is None or (place and place == known.place_of(outgoing.name)):
            return outgoing
    return step.names.places.get(place)


def _place_of(step: Step, name: FormatName) -> str:
    return "" if step.names.directory is None else step.names.directory.place_of(name)


def index_by_guid(step: Step) -> None:
    """Rebuild, after a restart, the index of outgoing queues whose manager is known by GUID."""
    step.names.by_guid.clear()
    for outgoing in step.state.outgoing.values():
        if outgoing.name.kind is Kind.PRIVATE:
            step.names.by_guid.setdefault(outgoing.name.guid, []).append(outgoing)
    index_places(step)


def index_places(step: Step) -> None:
    """Rebuild the index of each place's outgoing queue; of several always the one that was opened
    first, so that its stream continues."""
    step.names.places.clear()
    if step.names.directory is None:
        return
    for outgoing in sorted(step.state.outgoing.values(), key=lambda one: one.number):
        place = step.names.directory.place_of(outgoing.name)
        if place:
            step.names.places.setdefault(place, outgoing)


def computer_of(step: Step, name: FormatName) -> Computer | None:
    """Return where a public queue is by the directory; None if that is unknown."""
    if step.names.directory is None:
        return None
    queue = step.names.directory.queues.get(name.guid)
    return (
        None
        if queue is None
        else step.names.directory.computer(queue.computer) or Computer(queue.computer)
    )


def lead_of(step: Step, outgoing: OutgoingQueue) -> tuple[str, str, bytes] | None:
    """Return how to find the manager of a public queue: protocol and host of a name, or its GUID
    alone. None while that is unknown (DL-14).

    The directory goes first. Where it has no entry, a direct name that was joined to the queue
    still leads there; and a manager that has answered under the name has what it was given, even if
    the queue has left the directory since.
    """
    computer = computer_of(step, outgoing.name)
    if computer is not None:
        return "OS", computer.name, computer.guid
    direct = direct_name_of(outgoing)
    if direct is not None:
        return direct.protocol, direct.host, NO_GUID
    guid = step.state.bindings.guid_of(outgoing.bound_name)
    directory = step.names.directory
    known = directory.computer_of(guid) if directory is not None and guid else None
    if known is not None:
        return "OS", known.name, guid
    return ("", "", guid) if guid else None


def direct_name_of(outgoing: OutgoingQueue) -> FormatName | None:
    """Return a direct name that shares the outgoing queue of a public one (EOD-3)."""
    for text in outgoing.also.values():
        (name,) = parse_format_name(text)
        if name.kind is Kind.DIRECT:
            return name
    return None


def find_outgoing(step: Step, text: str) -> OutgoingQueue:
    """Return the outgoing queue that a name means; raises QueueNotFound."""
    (element,) = one_name(text)
    outgoing = step.state.outgoing_of(element.key())
    if outgoing is None:
        raise errors.QueueNotFound(
            f"there is no outgoing queue for {text}; 'outgoing list' shows what there is"
        )
    return outgoing


def find_source(step: Step, text: str) -> Queue | OutgoingQueue:
    """Return the source of a receive or peek: a local queue, or an outgoing queue to look into."""
    known = step.names.sources.get(text)
    if known is not None and step.state.all_queues.get(known.number) is known:
        return known
    (element,) = one_name(text)
    may_receive(element)
    if is_local(step, element):
        queue = local_queue(step, element)
        if len(step.names.sources) >= TARGETS_MAX:
            step.names.sources.clear()
        step.names.sources[text] = queue
        return queue
    outgoing = step.state.outgoing_of(element.key())
    if outgoing is None:
        raise errors.QueueNotFound(
            f"{text} is not a queue of {step.identity.name}: messages are received where their "
            "queue is; connect to that queue manager"
        )
    return outgoing


def one_name(text: str) -> tuple[FormatName]:
    """Parse a name that must have one element."""
    elements = parse_any(text)
    if len(elements) != 1:
        raise errors.UnsupportedFormatName(
            f"{text}: a name with several elements is for sending only"
        )
    return (elements[0],)


def find_queue(step: Step, text: str) -> Queue:
    """Return the local queue that a name means; raises QueueNotFound."""
    queue = find_source(step, text)
    if not isinstance(queue, Queue):
        raise errors.QueueNotFound(f"{text} is an outgoing queue; see 'outgoing show'")
    return queue


# ---- queue kinds ---------------------------------------------------------------------------------


def wrong_kind(targets: tuple[Target, ...], *, transactional: bool) -> errors.WrongQueueKind:
    """Return why the queues of this manager among some destinations cannot be sent to, if one does
    not take such messages. Those of other managers are unknown."""
    kinds: dict[bool, str] = {}
    for target in targets:
        if isinstance(target.queue, Queue):
            kinds.setdefault(target.queue.properties.transactional, target.queue.title)
    if len(kinds) == 2:
        return errors.WrongQueueKind(
            f"{kinds[True]} takes only messages that are sent in transactions, and {kinds[False]} "
            "only others, so one send cannot reach both; send to them apart"
        )
    if transactional:
        return not_transactional(kinds[False])
    return errors.WrongQueueKind(
        f"{kinds[True]} is transactional, and takes only what is sent in a transaction; leave "
        "transactional=False out"
    )


def kind_of(targets: tuple[Target, ...]) -> bool | None:
    """Return whether the queues of this manager among some destinations are transactional; None:
    there are none.

    Raises:
        WrongQueueKind: Some are, and others are not.
    """
    kinds = {t.queue.properties.transactional for t in targets if isinstance(t.queue, Queue)}
    if len(kinds) == 2:
        raise wrong_kind(targets, transactional=True)
    return kinds.pop() if kinds else None


# ---- packet names --------------------------------------------------------------------------------


PUBLIC_KEY = "#5:"


def address_of(step: Step, target: Target) -> tuple[Address, bytes]:
    """Return a destination as packets have it, and the GUID of its manager (zero for direct).

    A name in a packet must mean the same to every reader: a name that is local here is written with
    the name of this computer. An arriving packet names its destination, and that text is also the
    key of its stream.
    """
    name = target.name
    if name.kind is Kind.PUBLIC and isinstance(target.queue, Queue):
        path = queue_key_of(target.queue.properties)
        return Address(DIRECT, direct=f"OS:{step.names.called}\\{path}"), NO_GUID
    if name.kind is Kind.PUBLIC:
        computer = computer_of(step, name)
        return address_of_name(name), NO_GUID if computer is None else computer.guid
    return address_of_name(name), name.guid


def address_of_name(name: FormatName) -> Address:
    """Return the queue of another manager as all packets name it: messages, and questions about
    their streams (``core/transfer/abandoned_streams.py``). Its key there is made of this."""
    if name.kind is Kind.DIRECT:
        return Address(DIRECT, direct=name.direct)
    if name.kind is Kind.PUBLIC:
        return Address(PUBLIC, guid=name.guid)
    assert name.kind is Kind.PRIVATE, name
    return Address(ON_DESTINATION, number=name.number)


def answer_names(step: Step, text: str, *, lists: bool = False) -> tuple[FormatName, ...]:
    """Return the administration or response queues of a name, as other managers know them.

    Args:
        lists: Whether distribution lists may be among them: response queues may be lists, and the
            application that answers resolves them.

    Raises:
        UnsupportedFormatName: One of them is nothing that messages can be sent to.
        IllegalFormatName: They are more than ANSWER_QUEUES_MAX.
    """
    elements = parse_any(text) if text else ()
    if len(elements) > ANSWER_QUEUES_MAX:
        raise errors.IllegalFormatName(
            f"{len(elements)} administration or response queues; at most {ANSWER_QUEUES_MAX}"
        )
    names: list[FormatName] = []
    for name in elements:
        listed = lists and name.kind is Kind.DL
        if not listed and (
            name.kind not in (Kind.DIRECT, Kind.PRIVATE, Kind.PUBLIC)
            or name.suffix is not Suffix.NONE or name.subqueue
        ):  # fmt: skip
            raise errors.UnsupportedFormatName(
                f"{name} cannot be an administration or response queue"
            )
        names.append(name if listed else for_others(step, name))
    return tuple(names)


def for_others(step: Step, name: FormatName) -> FormatName:
    """Return a name that means the same to every reader, with this computer's public name instead
    of the one that each computer has for itself (finding K13)."""
    if name.protocol in ("OS", "TCP") and name.host.casefold() in step.names.everybody:
        return replace(name, protocol="OS", host=step.names.called)
    return name


def check_answers(step: Step, targets: Sequence[Target], admin: str) -> None:
    """Check that HTTP messages get acknowledgments over HTTP only (HTTP-11).

    Raises:
        UnsupportedFormatName: An administration queue has another kind of name.
    """
    over_http = [t for t in targets if isinstance(t.queue, OutgoingQueue) and t.queue.over_http]
    if not over_http:
        return
    for name in answer_names(step, admin):
        if not name.protocol.startswith("HTTP"):
            raise errors.UnsupportedFormatName(
                f"{name} cannot be the administration queue of a message to {over_http[0].text}: "
                "acknowledgments of what goes over HTTP come to an HTTP address (HTTP-11)"
            )


def answer_address(step: Step, text: str) -> Address:
    """Return an administration or response queue as packets have it; the first of several."""
    names = answer_names(step, text, lists=True)
    if not names or names[0].kind is Kind.DL:
        return Address(0)
    name = names[0]
    if name.kind is Kind.DIRECT:
        return Address(7, direct=name.direct)
    if name.kind is Kind.PRIVATE:
        if name.guid == step.identity.guid:
            return Address(2, number=name.number)
        return Address(6, guid=name.guid, number=name.number)
    return Address(5, guid=name.guid)


def lists_of(
    step: Step, destination: str, properties: Properties, by: str
) -> MultiNames | None:  # fmt: skip
    """Return the lists of names that packets carry: if there are several destinations (FN-16), or
    several administration or response queues (ACK-10, FN-9).

    The destinations are the given name, and behind it, if it contains a distribution list, all
    queues that this stands for, in their order (DL-11, DL-12).
    """
    lists = [
        tuple(_list_element(step, name) for name in names)
        if len(names) > 1 or any(name.kind is Kind.DL for name in names)
        else ()
        for names in (
            answer_names(step, properties.admin_queue),
            answer_names(step, properties.response_queue, lists=True),
        )
    ]
    given = parse_any(destination)
    if len(given) == 1 and given[0].kind is not Kind.DL:
        return MultiNames((), *lists) if any(lists) else None
    whole = [_list_element(step, name) for name in given]
    if any(name.kind is Kind.DL for name in given):
        stands_for = {
            str(element).casefold(): element
            for target in destinations(step, destination, transactional=False, by=by)
            for element in (_list_element(step, target.name),)
        }
        whole += [stands_for[key] for key in sorted(stands_for)]
    return MultiNames(tuple(whole), *lists)


def _list_element(step: Step, name: FormatName) -> Element:
    """Return a destination as a list element: a public queue by its direct name, because the
    alignment of its GUID there is not published (U16)."""
    if name.kind is Kind.PUBLIC:
        queue = None if step.names.directory is None else step.names.directory.queues.get(name.guid)
        if queue is not None:
            return Element(MULTI_DIRECT, direct=queue.direct.removeprefix("DIRECT="))
    return Element.of(for_others(step, name))


def other_computer(step: Step, address: Address) -> str:
    """Return the name of the computer that a packet is for, if it is not one of this one's; else
    "".

    An address says where a computer is, not which one it is; over HTTP names are judged before
    (HTTP-6).
    """
    if address.kind != 7 or address.direct[:3].upper() != "OS:":
        return ""
    host = address.direct[3:].partition("\\")[0]
    return "" if is_one_of(host, step.names.own_names) else host


def arrival_key(step: Step, address: Address, sent_to: str = "") -> tuple[str, Queue | None]:
    """Return the destination of an arrived packet: the key of its stream, and its queue, if any.

    The TCP connection has reached us, so the host part of a direct name is not compared
    (MS-MQQB 3.1.5.8.5), unless an operator wants it to be. But it is part of the key: a sender
    numbers by the name that it uses, so that two spellings of one queue are two streams (U10).

    Args:
        sent_to: The URL that its sender has used, if a redirection has turned it into this address.
    """
    state = step.state
    queue: AnyQueue | None = None
    if address.kind == 7 and address.direct[:4].upper() == "HTTP":
        (name,) = parse_format_name(f"DIRECT={address.direct}")
        key, queue = name.direct.casefold(), state.queues.get(queue_key(name.private, name.queue))
    elif address.kind == 7:
        key = address.direct.casefold()
        queue = state.queues.get(key.partition("\\")[2])
        if step.settings.own_names_only and other_computer(step, address):
            queue = None
    elif address.kind == 3 and address.number != ORDER_QUEUE_NUMBER:
        key, queue = stream_key_of_number(address.number), state.all_queues.get(address.number)
    elif address.kind == 5:
        key, queue = public_key(address.guid), state.public.get(address.guid)
    else:
        key = f"#{address.kind}:{address.guid.hex()}"
    if not isinstance(queue, Queue) or queue.system:
        queue = None
    return sent_to.casefold() or key, queue


def arrival_name(address: Address) -> str:
    """Return the name, as rights have it, of the queue here that a packet is for, even if there is
    none; "" where the packet has a number or a GUID."""
    if address.kind != 7:
        return ""
    if address.direct[:4].upper() == "HTTP":
        (name,) = parse_format_name(f"DIRECT={address.direct}")
        return queue_key(name.private, name.queue)
    return address.direct.casefold().partition("\\")[2].partition(";")[0]


def public_key(guid: bytes) -> str:
    """Return the key of the streams to a public queue that is named by its GUID."""
    return PUBLIC_KEY + guid.hex()
