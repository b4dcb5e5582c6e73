"""Names in packets: destinations, lists of them, queues for answers, and the way back.

A name in a packet must mean the same to every reader: a name that is local here is written with the
name of this computer. An arriving packet names its destination, and that text is also the key of
its stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onceq.core.names.resolve import computer_of, destinations
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queue_tables import ORDER_QUEUE_NUMBER, queue_key_of, stream_key_of_number
from onceq.core.state.queues import AnyQueue, Queue
from onceq.core.step.connections import Target
from onceq.core.step.step import Step
from onceq.errors import IllegalFormatName, UnsupportedFormatName
from onceq.model.addresses import is_one_of
from onceq.model.identity import NO_GUID
from onceq.model.limits import ANSWER_QUEUES_MAX
from onceq.model.message import Properties
from onceq.model.names import FormatName, Kind, Suffix, parse_any, parse_format_name, queue_key
from onceq.packet.address import (
    DIRECT,
    MULTI_DIRECT,
    ON_DESTINATION,
    PUBLIC,
    Address,
    Element,
    MultiNames,
)

PUBLIC_KEY = "#5:"


def address_of(step: Step, target: Target) -> tuple[Address, bytes]:
    """Return a destination as packets have it, and the GUID of its manager (zero for direct)."""
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
        raise IllegalFormatName(
            f"{len(elements)} administration or response queues; at most {ANSWER_QUEUES_MAX}"
        )
    return tuple(_answer_name(step, element, lists=lists) for element in elements)


def _answer_name(step: Step, name: FormatName, *, lists: bool) -> FormatName:
    if lists and name.kind is Kind.DL:
        return name
    if name.kind not in (Kind.DIRECT, Kind.PRIVATE, Kind.PUBLIC) or (
        name.suffix is not Suffix.NONE or name.subqueue
    ):
        raise UnsupportedFormatName(f"{name} cannot be an administration or response queue")
    return for_others(step, name)


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
            raise UnsupportedFormatName(
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
