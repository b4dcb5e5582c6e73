"""From names to queues: which queue of this manager, or which outgoing queue, a name means.

A name that leads to this computer must name a queue that exists (FN-3); any other name
gets an outgoing queue, without a round trip (FN-4). Lists are replaced by their members, and names
that are known to mean one queue share one outgoing queue (EOD-3). Whatever needs a directory where
there is none is refused, and with it the whole send (FN-11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onceq.core.desk import Desk, Mode, Target
from onceq.core.holders import Outgoing, Queue
from onceq.core.state import (
    DEAD_LETTER,
    DEAD_XACT,
    JOURNAL,
    ORDER_QUEUE_NUMBER,
    queue_key_of,
    stream_key_of_number,
)
from onceq.errors import (
    IllegalFormatName,
    InsufficientResources,
    NoDirectory,
    QueueNotFound,
    TransactionUsage,
    UnsupportedFormatName,
    UnsupportedOperation,
)
from onceq.model.directory import Computer, Snapshot
from onceq.model.identity import NO_GUID
from onceq.model.limits import ANSWER_QUEUES_MAX, FORMAT_NAME_ELEMENTS_MAX, OUTGOING_QUEUES_MAX
from onceq.model.message import Properties
from onceq.model.names import (
    FormatName,
    Kind,
    Suffix,
    may_receive,
    may_send,
    parse_any,
    parse_format_name,
    queue_key,
)
from onceq.packet.address import MULTI_DIRECT, Address, Element, MultiNames

TARGETS_MAX = 4_096
PUBLIC_KEY = "#5:"

_SYSTEM = {
    Suffix.DEADXACT: DEAD_XACT,
    Suffix.DEADLETTER: DEAD_LETTER,
    Suffix.JOURNAL: JOURNAL,
}


def is_local(desk: Desk, name: FormatName) -> bool:
    """Whether a name leads to this computer."""
    if name.kind is Kind.DIRECT:
        return name.protocol in ("OS", "TCP") and name.host.casefold() in desk.own_names
    if name.kind in (Kind.PRIVATE, Kind.MACHINE):
        return name.guid == desk.identity.guid
    if name.kind is Kind.PUBLIC:
        queue = None if desk.directory is None else desk.directory.queues.get(name.guid)
        if queue is not None:
            return queue.computer.casefold() == desk.identity.name.casefold()
        return public_queue(desk, name.guid) is not None
    return False


def public_queue(desk: Desk, guid: bytes) -> Queue | None:
    """The public queue of this manager that has a GUID."""
    for queue in desk.state.queues.values():
        properties = queue.properties
        if properties.instance == guid and not properties.private and not queue.system:
            return queue
    return None


def read_directory(desk: Desk, what: str) -> Snapshot:
    """The directory, where it is needed.

    Raises:
        UnsupportedOperation: There is none.
        NoDirectory: It cannot be read now.
    """
    if desk.mode is Mode.WORKGROUP:
        raise UnsupportedOperation(
            f"{what} needs a directory, and this queue manager runs without one; use direct or "
            "private names, or name a directory in the configuration"
        )
    if desk.mode is Mode.OFFLINE or desk.directory is None:
        raise NoDirectory(f"{what} needs the directory: {desk.directory_trouble or 'not read yet'}")
    return desk.directory


def local_queue(desk: Desk, name: FormatName) -> Queue:
    """The queue of this manager that a local name means; raises QueueNotFound."""
    state = desk.state
    of_computer = name.kind is Kind.DIRECT and not name.queue
    if name.kind is Kind.MACHINE or (of_computer and name.suffix in _SYSTEM):
        holder = state.holders.get(_SYSTEM.get(name.suffix, 0))
    elif name.kind is Kind.PUBLIC and name.suffix is Suffix.NONE:
        holder = public_queue(desk, name.guid)
    elif name.suffix is Suffix.JOURNAL:
        holder = local_queue(desk, replace(name, suffix=Suffix.NONE)).journal
    elif name.suffix is not Suffix.NONE:
        raise QueueNotFound(f"{name}: this queue manager keeps no such queue")
    elif name.subqueue:
        holder = local_queue(desk, replace(name, subqueue="")).subs.get(name.subqueue.casefold())
    elif name.kind is Kind.PRIVATE:
        holder = state.holders.get(name.number)
        if isinstance(holder, Queue) and holder.system:
            holder = None
    else:
        holder = state.queues.get(queue_key(name.private, name.queue))
    if not isinstance(holder, Queue):
        raise QueueNotFound(
            f"there is no queue {name.direct or name.text} on {desk.identity.name}; "
            "'queue list' shows what there is, 'queue create' makes one"
        )
    return holder


def destinations(desk: Desk, text: str, *, transactional: bool) -> tuple[Target, ...]:
    """The destinations of a send, each once, in an order that depends on the names only (FN-13).

    Raises:
        OnceqError: One element cannot be sent to; then nothing goes to the others either.
    """
    known = desk.targets.get(text)
    if known is not None:
        return known
    elements = parse_any(text)
    if len(elements) > FORMAT_NAME_ELEMENTS_MAX:
        raise IllegalFormatName(f"{len(elements)} elements; at most {FORMAT_NAME_ELEMENTS_MAX}")
    found: dict[int, Target] = {}
    for element in sorted(members(desk, elements), key=lambda name: name.key()):
        check_send(element, transactional=transactional)
        holder: Queue | Outgoing
        if is_local(desk, element):
            holder = local_queue(desk, element)
        else:
            holder = outgoing_for(desk, element)
            element = holder.name
        found.setdefault(holder.number, Target(holder, str(element)))
    targets = tuple(found.values())
    if len(desk.targets) >= TARGETS_MAX:
        desk.targets.clear()
    desk.targets[text] = targets
    return targets


def members(desk: Desk, elements: tuple[FormatName, ...]) -> Sequence[FormatName]:
    """Names of a send with what lists stand for in place of the lists (FN-13, DL-2).

    Raises:
        UnsupportedOperation, NoDirectory: One of them needs a directory (FN-11).
        QueueNotFound: It has no such list or queue.
    """
    for name in elements:
        if name.kind in (Kind.PUBLIC, Kind.DL) and (
            name.kind is Kind.DL or not (desk.mode is Mode.WORKGROUP and is_local(desk, name))
        ):
            return read_directory(desk, str(name)).expand(elements)
    return elements


def check_send(name: FormatName, *, transactional: bool) -> None:
    """Refuse names that cannot be sent to by this manager."""
    if name.kind is Kind.MULTICAST:
        if transactional:
            raise TransactionUsage(f"{name}: multicast is never part of a transaction (FN-17)")
        raise UnsupportedOperation(f"{name}: onceq does not do multicast")
    may_send(name)
    if name.kind is Kind.CONNECTOR:
        raise UnsupportedOperation(f"{name}: there are no connectors to foreign systems")


def outgoing_for(desk: Desk, name: FormatName) -> Outgoing:
    """The outgoing queue of a destination, opened now if there is none (FN-4)."""
    state = desk.state
    place = desk.directory.place_of(name) if desk.directory is not None else ""
    # A name keeps the outgoing queue that it has, so that nothing overtakes what waits there; a new
    # name of a place that is known joins the others.
    outgoing = state.outgoing.get(name.key()) or desk.places.get(place)
    if outgoing is None:
        if len(state.outgoing) >= OUTGOING_QUEUES_MAX:
            raise InsufficientResources(f"there are {OUTGOING_QUEUES_MAX} outgoing queues already")
        desk.setup("outgoing", forced=False, number=state.next_number, name=str(name))
        outgoing = state.outgoing[name.key()]
        if name.kind is Kind.PRIVATE:
            desk.by_guid.setdefault(name.guid, []).append(outgoing)
        if place:
            desk.places[place] = outgoing
    return outgoing


def index_by_guid(desk: Desk) -> None:
    """Find again, after a restart, the outgoing queues whose manager is known by GUID."""
    desk.by_guid.clear()
    for outgoing in desk.state.outgoing.values():
        if outgoing.name.kind is Kind.PRIVATE:
            desk.by_guid.setdefault(outgoing.name.guid, []).append(outgoing)
    index_places(desk)


def index_places(desk: Desk) -> None:
    """Find the outgoing queue of each place again; of several the one that was opened first, for
    ever, so that its stream goes on."""
    desk.places.clear()
    if desk.directory is None:
        return
    for outgoing in sorted(desk.state.outgoing.values(), key=lambda one: one.number):
        place = desk.directory.place_of(outgoing.name)
        if place:
            desk.places.setdefault(place, outgoing)


def computer_of(desk: Desk, name: FormatName) -> Computer | None:
    """Where the directory says that a public queue is; None if it is not known."""
    if desk.directory is None:
        return None
    queue = desk.directory.queues.get(name.guid)
    return (
        None
        if queue is None
        else desk.directory.computer(queue.computer) or Computer(queue.computer)
    )


def find_outgoing(desk: Desk, text: str) -> Outgoing:
    """The outgoing queue that a name means; raises QueueNotFound."""
    (element,) = one_name(text)
    outgoing = desk.state.outgoing.get(element.key())
    if outgoing is None:
        raise QueueNotFound(
            f"there is no outgoing queue for {text}; 'outgoing list' shows what there is"
        )
    return outgoing


def find_source(desk: Desk, text: str) -> Queue | Outgoing:
    """What to receive or peek from: a local queue, or an outgoing queue to look into."""
    known = desk.sources.get(text)
    if known is not None and desk.state.holders.get(known.number) is known:
        return known
    (element,) = one_name(text)
    may_receive(element)
    if is_local(desk, element):
        queue = local_queue(desk, element)
        if len(desk.sources) >= TARGETS_MAX:
            desk.sources.clear()
        desk.sources[text] = queue
        return queue
    outgoing = desk.state.outgoing.get(element.key())
    if outgoing is None:
        raise QueueNotFound(
            f"{text} is not a queue of {desk.identity.name}: messages are received where their "
            "queue is; connect to that queue manager"
        )
    return outgoing


def one_name(text: str) -> tuple[FormatName]:
    """Parse a name that must have one element."""
    elements = parse_any(text)
    if len(elements) != 1:
        raise UnsupportedFormatName(f"{text}: a name with several elements is for sending only")
    return (elements[0],)


def address_of(desk: Desk, target: Target) -> tuple[Address, bytes]:
    """How a destination stands in a packet, and the GUID of its manager (zero for direct)."""
    (name,) = one_name(target.text)
    if name.kind is Kind.DIRECT:
        return Address(7, direct=name.direct), NO_GUID
    if name.kind is Kind.PRIVATE:
        return Address(3, number=name.number), name.guid
    if name.kind is Kind.PUBLIC and isinstance(target.holder, Outgoing):
        computer = computer_of(desk, name)
        return Address(5, guid=name.guid), NO_GUID if computer is None else computer.guid
    assert isinstance(target.holder, Queue)
    path = queue_key_of(target.holder.properties)
    return Address(7, direct=f"OS:{desk.identity.name}\\{path}"), NO_GUID


def answer_names(desk: Desk, text: str, *, lists: bool = False) -> tuple[FormatName, ...]:
    """The administration or response queues that a name stands for, as other managers know them.

    Args:
        lists: Whether distribution lists may be among them: as response queues they may, and
            whoever answers resolves them.

    Raises:
        UnsupportedFormatName: One of them is nothing that messages can be sent to.
        IllegalFormatName: They are more than ANSWER_QUEUES_MAX.
    """
    elements = parse_any(text) if text else ()
    if len(elements) > ANSWER_QUEUES_MAX:
        raise IllegalFormatName(
            f"{len(elements)} administration or response queues; at most {ANSWER_QUEUES_MAX}"
        )
    return tuple(_answer_name(desk, element, lists=lists) for element in elements)


def _answer_name(desk: Desk, name: FormatName, *, lists: bool) -> FormatName:
    if lists and name.kind is Kind.DL:
        return name
    if name.kind not in (Kind.DIRECT, Kind.PRIVATE, Kind.PUBLIC) or (
        name.suffix is not Suffix.NONE or name.subqueue
    ):
        raise UnsupportedFormatName(f"{name} cannot be an administration or response queue")
    return replace(name, host=desk.identity.name) if name.host == "." else name


def check_answers(desk: Desk, targets: Sequence[Target], admin: str) -> None:
    """Over HTTP acknowledgments come back over HTTP only (HTTP-11).

    Raises:
        UnsupportedFormatName: An administration queue has another kind of name.
    """
    over_http = [t for t in targets if isinstance(t.holder, Outgoing) and t.holder.over_http]
    if not over_http:
        return
    for name in answer_names(desk, admin):
        if not name.protocol.startswith("HTTP"):
            raise UnsupportedFormatName(
                f"{name} cannot be the administration queue of a message to {over_http[0].text}: "
                "acknowledgments of what goes over HTTP come to an HTTP address (HTTP-11)"
            )


def answer_address(desk: Desk, text: str) -> Address:
    """How an administration or response queue stands in a packet; the first, if it is several."""
    names = answer_names(desk, text, lists=True)
    if not names or names[0].kind is Kind.DL:
        return Address(0)
    name = names[0]
    if name.kind is Kind.DIRECT:
        return Address(7, direct=name.direct)
    if name.kind is Kind.PRIVATE:
        if name.guid == desk.identity.guid:
            return Address(2, number=name.number)
        return Address(6, guid=name.guid, number=name.number)
    return Address(5, guid=name.guid)


def lists_of(desk: Desk, destination: str, properties: Properties) -> MultiNames | None:
    """The lists of names that packets carry: where there are several destinations (FN-16), or
    several administration or response queues (ACK-10, FN-9).

    The destinations are the name as it was given, and behind it, if there is a distribution list
    in it, all queues that it stands for, in their order (DL-11, DL-12).
    """
    lists = [
        tuple(_list_element(desk, name) for name in names)
        if len(names) > 1 or any(name.kind is Kind.DL for name in names)
        else ()
        for names in (
            answer_names(desk, properties.admin_queue),
            answer_names(desk, properties.response_queue, lists=True),
        )
    ]
    given = parse_any(destination)
    if len(given) == 1 and given[0].kind is not Kind.DL:
        return MultiNames((), *lists) if any(lists) else None
    whole = [_list_element(desk, name) for name in given]
    if any(name.kind is Kind.DL for name in given):
        stands_for = {
            str(element).casefold(): element
            for target in destinations(desk, destination, transactional=False)
            for element in (_list_element(desk, one_name(target.text)[0]),)
        }
        whole += [stands_for[key] for key in sorted(stands_for)]
    return MultiNames(tuple(whole), *lists)


def _list_element(desk: Desk, name: FormatName) -> Element:
    """A destination as it stands in a list: a public queue by its direct name, because how its
    GUID would be aligned there is not published (U16)."""
    if name.kind is Kind.PUBLIC:
        queue = None if desk.directory is None else desk.directory.queues.get(name.guid)
        if queue is not None:
            return Element(MULTI_DIRECT, direct=queue.direct.removeprefix("DIRECT="))
    if name.host == ".":
        name = replace(name, host=desk.identity.name)
    return Element.of(name)


def arrival_key(desk: Desk, address: Address) -> tuple[str, Queue | None]:
    """Where an arrived packet wants to go: the key of its stream, and the queue if there is one.

    The TCP connection has reached us, so the host part of a direct name is not compared
    (wire-mqqb section 9). But it is part of the key: a sender numbers by the name that it uses,
    so that two spellings of one queue are two streams (wire-mqqb 8.1, U10).
    """
    state = desk.state
    if address.kind == 7 and address.direct[:4].upper() == "HTTP":
        (name,) = parse_format_name(f"DIRECT={address.direct}")
        queue = state.queues.get(queue_key(name.private, name.queue))
        return name.direct.casefold(), queue if queue is not None and not queue.system else None
    if address.kind == 7:
        key = address.direct.casefold()
        queue = state.queues.get(key.partition("\\")[2])
        return key, queue if queue is not None and not queue.system else None
    if address.kind == 3 and address.number != ORDER_QUEUE_NUMBER:
        holder = state.holders.get(address.number)
        key = stream_key_of_number(address.number)
        return key, holder if isinstance(holder, Queue) and not holder.system else None
    if address.kind == 5:
        return public_key(address.guid), public_queue(desk, address.guid)
    return f"#{address.kind}:{address.guid.hex()}", None


def public_key(guid: bytes) -> str:
    """The key of the streams to a public queue that is named by its GUID."""
    return PUBLIC_KEY + guid.hex()


def find_queue(desk: Desk, text: str) -> Queue:
    """The local queue that a name means; raises QueueNotFound."""
    holder = find_source(desk, text)
    if not isinstance(holder, Queue):
        raise QueueNotFound(f"{text} is an outgoing queue; see 'outgoing show'")
    return holder
