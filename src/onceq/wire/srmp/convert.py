"""Convert messages at rest, which are packets, into envelopes, and envelopes into packets.

Lost is what SRMP has no place for: the number of the transaction, the request for negative
acknowledgments of arrival (a refusal is the answer 400 there), the lists of several destinations,
and all but the first of several administration or response queues.

Also here:

* The entity of an SRMP request: an envelope alone, or an envelope, a body and maybe an extension.
* Mapping files of MSMQ (MC-MQSRM 3.1.1.1.10): their content, and their faults.

Upholds: I9 as far as bytes go (streams, numbers and identifiers are where they were given), I24.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from onceq.errors import IllegalFormatName, MalformedPacket
from onceq.model.http import Arrival, HttpNames
from onceq.model.identity import NO_GUID, MessageId
from onceq.model.limits import XML_TEXT_BYTES_MAX
from onceq.model.marks import NEVER_S, without_trace
from onceq.model.message import (
    NO_CORRELATION,
    PRIORITY_DEFAULT,
    Acknowledge,
    Delivery,
    Journal,
    Message,
    Properties,
)
from onceq.model.names import Kind, parse_format_name, url_of
from onceq.model.resultcodes import MessageClass
from onceq.model.run import Run
from onceq.packet import address
from onceq.packet.acks import ack_class, final_ack, order_ack, parse_final_ack, parse_order_ack
from onceq.packet.address import DIRECT, NOWHERE, Address
from onceq.packet.arrived import ArrivedRun, cut
from onceq.packet.decode import decode, set_previous
from onceq.packet.encode import HASH_SHA1, encode_run, template
from onceq.packet.headers import headers
from onceq.wire.srmp.envelope import (
    FOREVER_S,
    LABEL_PREFIX,
    Envelope,
    Msmq,
    Receipt,
    StreamPart,
    StreamReceipt,
)

# ---- convert -------------------------------------------------------------------------------------


RECEIPT_LABEL: Final = "QM Ordering Ack"
RECEIPT_LIFE_S: Final = 4 * 24 * 3600
"""Seconds that a receipt may take, as Windows sets it."""


# ---- out ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Post:
    """One message to be sent.

    Attributes:
        body: None for receipts, which have no parts.
        extension: Empty if there is none.
        recoverable: Whether it survives restarts.
        place: Stream and number of a transactional message; zeros for others.
        message: Its identifier.
        hops: How many managers have passed it on, this one included.
    """

    envelope: Envelope
    body: bytes | None
    recoverable: bool
    place: tuple[int, int]
    message: MessageId
    extension: bytes = b""
    hops: int = 0


def name_of_url(url: str) -> str:
    """Return a direct name without ``DIRECT=``, for a URL; raises MalformedPacket."""
    try:
        (name,) = parse_format_name(f"DIRECT={url}")
    except (IllegalFormatName, ValueError):
        raise MalformedPacket(f"{url} is not the address of a queue") from None
    if name.kind is not Kind.DIRECT or not name.protocol.startswith("HTTP"):
        raise MalformedPacket(f"{url} is not an HTTP address")
    return name.direct


def post_of(
    packet: bytes, url: str, own: bytes, names: HttpNames,
    announced: Callable[[bytes, int], str | None] = lambda source, stream: None,
) -> Post:  # fmt: skip
    """Return what is sent to a URL for a packet.

    Args:
        announced: Maps source and stream to the direct name for receipts, for streams that are
            passed on.
    """
    parts = headers(packet)
    user = parts.user
    id = MessageId(user.source, user.message)
    hops = user.flags & address.USER_HOPS_MASK
    if ack_class(parts):
        recoverable = bool(user.flags & address.USER_RECOVERABLE)
        receipt = _receipt(packet, url, user.source, user.sent_time)
        return Post(receipt, None, recoverable, (0, 0), id, hops=hops)
    message = decode(packet)
    # Fields of the packet, not as applications see them: half surrogates, and the mark of a
    # returned message, go along. The mark of a trace does not: over HTTP no peer announces that it
    # knows it.
    label = parts.properties.label.partition("\0")[0]
    extension = without_trace(parts.properties.extension)
    mine = user.source == own
    head = bool(message.stream) and not message.previous
    receipts = names.receipts_for(url) if head and mine else ""
    if message.stream and not mine:
        name = announced(user.source, message.stream)
        receipts = _url_or_none(f"DIRECT={name}") if name else ""
    return Post(
        replace(_envelope(message, url, receipts, parts.properties.hash), label=label),
        None if message.message_class and not message.body and not extension else message.body,
        message.delivery is Delivery.RECOVERABLE,
        (message.stream, message.number),
        id,
        extension,
        hops,
    )


def _receipt(packet: bytes, url: str, own: bytes, sent: int) -> Envelope:
    """Return an order acknowledgment as a stream receipt, a final one with its commitment
    (HTTP-4)."""
    receipts: tuple[Receipt, ...] = ()
    if ack_class(headers(packet)) == MessageClass.ORDER_ACK:
        ack = parse_order_ack(packet)
        destination = headers(packet).user.destination_manager
        message_class = int(MessageClass.ORDER_ACK)
        told = StreamReceipt(destination, ack.stream, ack.number)
    else:
        final = parse_final_ack(packet)
        told = StreamReceipt(final.source, final.stream, final.number)
        message_class = final.message_class
        positive = not message_class & 0x8000
        receipts = (Receipt(sent, positive, final.message, final.source),)
    number = headers(packet).user.message
    msmq = Msmq(message_class, 0, source=own, reach_by=sent + RECEIPT_LIFE_S)
    return Envelope(
        url, RECEIPT_LABEL, number, own, headers(packet).user.response.direct, sent=sent,
        stream_receipt=told, receipts=receipts, msmq=msmq,
    )  # fmt: skip


def _envelope(m: Message, url: str, receipts: str, hash_algorithm: int) -> Envelope:
    """Return the envelope of a message.

    Args:
        receipts: Where the receipts of its stream go, if it announces that. The first
            unacknowledged message does, each time that it is sent: so a receiver that has
            restarted, or never got the first message, learns it (HTTP-5). A message that is passed
            on for another sender always does.
    """
    stream = None
    if m.stream:
        previous = None if m.previous == m.number - 1 else m.previous
        stream = StreamPart(m.id.source, m.stream, m.number, previous, receipts)
    # As Windows: a message that never expires in its queue has the last date of all here, and a
    # TTrq before it (MC-MQSRM 2.2.6.17).
    reach = min(m.sent_time + m.time_to_reach_queue, FOREVER_S)
    receive = min(m.sent_time + m.time_to_be_received, FOREVER_S)
    admin = _url_or_none(m.admin_queue)
    committed = Acknowledge.POSITIVE_RECEIVE | Acknowledge.NEGATIVE_RECEIVE
    told = (_make(m),) if m.message_class else ()
    return Envelope(
        to=url,
        label=m.label,
        number=m.id.number,
        source=m.id.source,
        response=_url_or_none(m.response_queue) or _other(m.response_queue),
        expires=receive,
        sent=m.sent_time,
        durable=m.delivery is Delivery.RECOVERABLE,
        delivery_to=admin if m.acknowledge & Acknowledge.POSITIVE_ARRIVAL else "",
        commitment_to=admin if m.acknowledge & committed else "",
        positive=bool(m.acknowledge & Acknowledge.POSITIVE_RECEIVE),
        negative=bool(m.acknowledge & Acknowledge.NEGATIVE_RECEIVE),
        stream=stream,
        receipts=told,
        msmq=Msmq(
            m.message_class, m.priority, bool(m.journal & Journal.JOURNAL),
            bool(m.journal & Journal.DEADLETTER), m.correlation_id, m.trace, m.app_specific,
            m.body_type, hash_algorithm, m.first_in_transaction, m.last_in_transaction,
            m.id.source, reach,
        ),
    )  # fmt: skip


def _make(m: Message) -> Receipt:
    """Return an acknowledgment message as a receipt (6)."""
    original = MessageId.unpack(m.correlation_id)
    if m.message_class == MessageClass.ACK_REACH_QUEUE:
        return Receipt(m.sent_time, None, original.number, original.source)
    positive = not m.message_class & 0x8000
    return Receipt(m.sent_time, positive, original.number, original.source)


def _url_or_none(text: str) -> str:
    try:
        name = parse_format_name(text)[0] if text else None
    except IllegalFormatName:
        return ""
    return url_of(name) if name is not None and name.protocol.startswith("HTTP") else ""


def _other(text: str) -> str:
    """Return a response queue that is no URL; the first of several."""
    return LABEL_PREFIX + text.partition(",")[0] if text else ""


# ---- in ----------------------------------------------------------------------------------


def runs_of(
    e: Envelope, body: bytes, extension: bytes, arrival: Arrival, own: bytes, hops: int = 0
) -> list[ArrivedRun]:
    """Return the runs that arrive: messages for a queue, or acknowledgments for streams.

    Args:
        arrival: Its destination; a message that does not stay here has ``onward`` set.
        hops: How many have passed it on before.

    Returns:
        Nothing for a receipt that concerns another manager (HTTP-14).

    Raises:
        MalformedPacket: It is invalid.
    """
    to = arrival.url
    onward = "" if arrival.here else name_of_url(to)
    if e.stream_receipt is not None:
        told = e.stream_receipt
        if told.source != own and arrival.here:
            return []
        acker = e.msmq.source if e.msmq is not None else e.source
        (run,) = cut_one(_hopped(_ack_of(e, told, acker, told.source), hops))
        return [replace(run, http=True, onward=onward)] if onward else [run]
    (run,) = cut_one(_hopped(_packet(e, body, extension, to), hops))
    stream = e.stream.receipts_to if e.stream is not None else ""
    # Only a request for dead letters gets a report of a message's end; a journal copy of the
    # sender's needs only the stream receipt (HTTP-4, HTTP-13).
    wants = 1 if run.dead_letter else 0
    receipts = name_of_url(stream) if stream else ""
    sent_to = e.to if e.to != to else ""
    return [replace(run, http=True, wants=wants, receipts=receipts, sent_to=sent_to, onward=onward)]


def _hopped(packet: bytes, hops: int) -> bytes:
    """Return the packet of a message that was passed on before."""
    if not hops:
        return packet
    changed = bytearray(packet)
    (flags,) = address.U32.unpack_from(changed, address.OFF_USER_FLAGS)
    address.U32.pack_into(changed, address.OFF_USER_FLAGS, flags | hops & address.USER_HOPS_MASK)
    return bytes(changed)


def cut_one(packet: bytes) -> list[ArrivedRun]:
    """Return one packet as a run."""
    run = Run.of((packet,))
    return cut(run.data, run.lengths)


def _ack_of(e: Envelope, told: StreamReceipt, acker: bytes, to: bytes) -> bytes:
    commitment = next((r for r in e.receipts if r.decision is not None), None)
    if commitment is None:
        return order_ack(
            own=acker, own_message=e.number, sent_time=e.sent, address="",
            destination_manager=to, stream=told.stream, number=told.last,
            queue=_queue_of(e),
        )  # fmt: skip
    given = e.msmq.message_class if e.msmq is not None else 0
    message_class = int(MessageClass.ACK_RECEIVE)
    if not commitment.decision:
        negative = given & 0x8000
        message_class = given if negative else int(MessageClass.NACK_RECEIVE_TIMEOUT)
    return final_ack(
        own=acker, own_message=e.number, sent_time=e.sent, destination_manager=to,
        message_class=message_class, stream=told.stream, number=told.last,
        previous=told.last - 1, source=to, message=commitment.number, queue=_queue_of(e),
    )  # fmt: skip


def _queue_of(e: Envelope) -> str:
    """Return the URL of the queue that a receipt is about; "" if it names no valid one."""
    return _response(e.response).direct if e.response else ""


def _packet(e: Envelope, body: bytes, extension: bytes, to: str) -> bytes:
    m = e.msmq or Msmq(priority=PRIORITY_DEFAULT)
    source, number = (m.source, e.number) if e.msmq is not None else (NO_GUID, 1)
    stream = e.stream
    if stream is not None:
        source = stream.source
    acknowledge = Acknowledge.POSITIVE_ARRIVAL if e.delivery_to else Acknowledge.NONE
    if e.commitment_to:
        acknowledge |= Acknowledge.POSITIVE_RECEIVE if e.positive else Acknowledge.NONE
        acknowledge |= Acknowledge.NEGATIVE_RECEIVE if e.negative else Acknowledge.NONE
    admin = e.delivery_to or e.commitment_to
    journal = Journal.DEADLETTER if m.dead_letter else Journal.NONE
    journal |= Journal.JOURNAL if m.journal else Journal.NONE
    reach, receive = _lifetime(e, e.expires), NEVER_S
    if e.msmq is not None:
        reach, receive = _lifetime(e, m.reach_by), reach
    made = template(
        source=source,
        destination=_address(to),
        admin=_address(admin) if admin else NOWHERE,
        response=_response(e.response),
        properties=Properties(
            label=e.label or "", priority=m.priority,
            delivery=Delivery.RECOVERABLE if e.durable or stream else Delivery.EXPRESS,
            acknowledge=acknowledge, journal=journal, app_specific=m.app,
            body_type=m.body_type, correlation_id=m.correlation or NO_CORRELATION,
            time_to_reach_queue=reach, time_to_be_received=receive, extension=extension,
            trace=m.trace,
        ),
        sent_time=e.sent,
        transactional=stream is not None,
        message_class=m.message_class,
        hash_algorithm=m.hash if e.msmq is not None else HASH_SHA1,
    )  # fmt: skip
    run = encode_run(
        made, Run.of((body,)), first_message=number,
        stream=stream.stream if stream else 0, first_number=stream.current if stream else 0,
        first=m.first, last=m.last,
    )  # fmt: skip
    if stream is None or stream.previous is None:
        return bytes(run.data)
    packet = bytearray(run.data)
    set_previous(packet, 0, len(packet), stream.previous)
    return bytes(packet)


def _lifetime(e: Envelope, until: int) -> int:
    """Return the seconds from the sent time; the end of signed time means "never"."""
    return NEVER_S if until >= FOREVER_S else max(until - e.sent, 0)


def _address(url: str) -> Address:
    return Address(DIRECT, direct=name_of_url(url))


def _response(text: str) -> Address:
    """Return a response queue: a URL, or ``MSMQ:`` and a format name; invalid ones are left out."""
    if not text:
        return NOWHERE
    if not text.startswith(LABEL_PREFIX):
        try:
            return _address(text)
        except MalformedPacket:
            return NOWHERE
    try:
        (name, *more) = parse_format_name(text.removeprefix(LABEL_PREFIX))
    except IllegalFormatName:
        return NOWHERE
    if more or name.kind not in (Kind.DIRECT, Kind.PRIVATE, Kind.PUBLIC):
        return NOWHERE
    if name.kind is Kind.DIRECT:
        return Address(DIRECT, direct=name.direct)
    if name.kind is Kind.PRIVATE:
        return Address(6, guid=name.guid, number=name.number)
    return Address(5, guid=name.guid)


# ---- mime ----------------------------------------------------------------------------------------


BOUNDARY: Final = "MSMQ - SOAP boundary, 26500"
ENVELOPE_TYPE: Final = "text/xml"
ENVELOPE_BYTES_MAX: Final = 4 * XML_TEXT_BYTES_MAX

_BOUNDARY = re.compile(r'boundary\s*=\s*(?:"([^"]{1,200})"|([^\s;"]{1,200}))', re.IGNORECASE)
_LENGTH = re.compile(rb"(?im)^content-length:[ \t]*(\d{1,12})[ \t]*\r?$")
_ID = re.compile(rb"(?im)^content-id:[ \t]*([^\r\n]{1,200})")


def write(
    envelope: bytes, body: bytes | None, sender: str, extension: bytes = b""
) -> tuple[str, bytes]:
    """Return content type and entity.

    Written without a line end before the delimiters, as Windows does (MC-MQSRM 4.1); read by the
    declared lengths, or by the delimiter where there are none, with and without that line end.

    Args:
        body: None: there is only the envelope.
        sender: GUID of the sending manager, as text.
        extension: A further part behind the body, if there is any.
    """
    if body is None:
        assert not extension, "what has an extension has a body, empty as it may be"
        return ENVELOPE_TYPE, envelope
    delimiter = f"--{BOUNDARY}".encode()
    head = b"\r\nContent-Type: text/xml; charset=UTF-8\r\nContent-Length: %d\r\n\r\n"
    parts = [delimiter, head % len(envelope), envelope]
    for name, content in (("body", body), ("extension", extension)):
        if content or name == "body":
            head = b"\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n"
            id = f"Content-Id: {name}@{sender}\r\n\r\n".encode()
            parts += (delimiter, head % len(content), id, content)
    parts += (delimiter, b"--\r\n")
    return f'multipart/related; boundary="{BOUNDARY}"; type=text/xml', b"".join(parts)


def read(content_type: str, entity: bytes) -> tuple[bytes, bytes, bytes]:
    """Return envelope, body and extension of an entity; raises MalformedPacket."""
    if not content_type.casefold().lstrip().startswith("multipart/"):
        if len(entity) > ENVELOPE_BYTES_MAX:
            raise MalformedPacket(f"an envelope of {len(entity)} bytes")
        return entity, b"", b""
    match = _BOUNDARY.search(content_type)
    if match is None:
        raise MalformedPacket("a message of several parts without a boundary")
    delimiter = b"--" + (match[1] or match[2]).encode("latin-1", "replace")
    at = entity.find(delimiter)
    if at < 0:
        raise MalformedPacket("a message of several parts without its delimiter")
    envelope: bytes | None = None
    body, extension = b"", b""
    at += len(delimiter)
    # Three parts are known, and the end: a stranger cannot make this loop longer.
    for _ in range(4):
        if entity.startswith(b"--", at):
            break
        head, content, at = _part(entity, at, delimiter)
        if envelope is None:
            envelope = content
            continue
        id = _ID.search(head)
        if id is not None and id[1].strip().lower().startswith(b"extension@"):
            extension = content
        else:
            body = content
    if envelope is None:
        raise MalformedPacket("a message of several parts without an envelope")
    if len(envelope) > ENVELOPE_BYTES_MAX:
        raise MalformedPacket(f"an envelope of {len(envelope)} bytes")
    return envelope, body, extension


def _part(entity: bytes, at: int, delimiter: bytes) -> tuple[bytes, bytes, int]:
    """Return head, content and the position behind the next delimiter."""
    end, skip = entity.find(b"\r\n\r\n", at), 4
    if end < 0:
        end, skip = entity.find(b"\n\n", at), 2
    if end < 0 or end - at > 4_096:
        raise MalformedPacket("a part without the end of its head")
    head, start = entity[at:end], end + skip
    length = _LENGTH.search(head)
    if length is not None:
        stop = start + int(length[1])
        for gap in (b"", b"\r\n", b"\n"):
            if entity.startswith(gap + delimiter, stop):
                return head, entity[start:stop], stop + len(gap) + len(delimiter)
        raise MalformedPacket(f"a part of {int(length[1])} bytes, behind which no delimiter stands")
    stop = entity.find(delimiter, start)
    if stop < 0:
        raise MalformedPacket("a part without an end")
    content = entity[start:stop]
    return head, content.removesuffix(b"\r\n"), stop + len(delimiter)
