"""From a packet to the message that an application sees, and quick reads of a few fields.

``decode`` is complete and checks everything. The quick reads (``glance``, ``tx_offset`` and the
like) read what they need at its offset and check only that it is there: they serve packets that
were checked when they arrived, or were made here.

Also here:

* The lists of names that a packet of a send to several queues carries (MS-MQMQ 2.2.20.1, FN-16).
* Bodies of a run of packets, without decoding the rest.

Upholds: I24; I7 and I8 in so far as ``set_previous`` writes only the previous number.
"""

from __future__ import annotations

import struct
from typing import Final

from onceq.errors import MalformedPacket
from onceq.model.identity import MessageId
from onceq.model.limits import FORMAT_NAME_CHARS_MAX, FORMAT_NAME_ELEMENTS_MAX
from onceq.model.marks import undelayed, unmarked, untraced
from onceq.model.message import Acknowledge, Delivery, Journal, Message
from onceq.model.record import Record
from onceq.model.run import Buffer, Run
from onceq.packet import address as at
from onceq.packet.address import (
    DIRECT,
    LIST_HEADER,
    MULTI_DIRECT,
    MULTI_LIST,
    MULTI_PRIVATE,
    MULTI_PUBLIC,
    Address,
    Element,
    MultiNames,
    name_of,
    response_name,
)
from onceq.packet.headers import PacketHeaders, PacketReader, encode_headers, headers

# ---- multi ---------------------------------------------------------------------------------------


ELEMENTS_MAX: Final = 2 * FORMAT_NAME_ELEMENTS_MAX
"""A name as given and the queues that it stands for (DL-11)."""

_COUNT = struct.Struct("<H")


def parse_multi(raw: bytes) -> MultiNames:
    """Read the bytes of a MultiQueueFormatHeader.

    Nothing on the way of a message needs them: the UserHeader names the queue that a copy goes to.
    So they are skipped on arrival, and read only for a view.

    Raises:
        MalformedPacket: They are not one, or have more elements than ELEMENTS_MAX.
    """
    reader = PacketReader(raw)
    lists = [
        _list(reader, which, what)
        for which, what in (
            (at.MULTI_DESTINATION, "Destination"),
            (at.MULTI_ADMIN, "Admin"),
            (at.MULTI_RESPONSE, "Response"),
        )
    ]
    return MultiNames(*lists)


def split_destinations(
    elements: tuple[Element, ...],
) -> tuple[tuple[Element, ...], tuple[Element, ...]]:
    """Return the given name, and the queues that it stood for (DL-11, DL-12).

    Without a distribution list they are the same. Else the queues follow the name, each once and
    sorted, and the name's own queues are among them: so they begin at the first place from which on
    every name is greater than the one before.
    """
    lists = [index for index, one in enumerate(elements) if one.kind == MULTI_LIST]
    if not lists:
        return elements, elements
    keys = [str(one).casefold() for one in elements]
    start = len(elements)
    while start > lists[-1] + 1 and (start == len(keys) or keys[start - 1] < keys[start]):
        start -= 1
    while start < len(elements) and not set(keys[lists[-1] + 1 : start]) <= set(keys[start:]):
        start += 1
    return elements[:start], elements[start:]


def _list(reader: PacketReader, which: int, what: str) -> tuple[Element, ...]:
    start = reader.at
    size, identifier, _, count = reader.unpack(LIST_HEADER, what)
    if identifier != which:
        raise reader.fault(f"{what} has HeaderID {identifier:#x} where {which:#x} must stand")
    if size < LIST_HEADER.size:
        raise reader.fault(f"{what} has HeaderSize {size}")
    if count > ELEMENTS_MAX:
        raise reader.fault(f"{what} has ElementCount {count}; legal are {ELEMENTS_MAX}")
    reader.at = start
    reader.need(size, what)
    inner = PacketReader(reader.data, start + LIST_HEADER.size, reader.at)
    elements = tuple(_element(inner, start, what) for _ in range(count))
    if inner.at != inner.end:
        raise inner.fault(f"{what} has {inner.end - inner.at} bytes after its last element")
    reader.align(start, what)
    return elements


def _element(reader: PacketReader, start: int, what: str) -> Element:
    (kind,) = reader.unpack(_COUNT, what)
    if kind == MULTI_DIRECT:
        return Element(kind, direct=_text(reader, what))
    if kind not in (MULTI_PUBLIC, MULTI_PRIVATE, MULTI_LIST):
        raise reader.fault(f"{what} has an element of type {kind}")
    reader.align(start, what)
    guid = reader.take(16, what)
    number = reader.unpack(at.U32, what)[0] if kind == MULTI_PRIVATE else 0
    return Element(kind, guid, number)


def _text(reader: PacketReader, what: str) -> str:
    """Read UTF-16 up to its NUL, which is searched only in the bytes that are there."""
    first = reader.at
    there = bytes(reader.data[first : min(first + 2 * FORMAT_NAME_CHARS_MAX + 2, reader.end)])
    end = there.find(b"\0\0")
    while end % 2 and end >= 0:
        end = there.find(b"\0\0", end + 1)  # halves of two characters
    if end < 0:
        raise reader.fault(f"a name in {what} is not terminated")
    text = reader.wide(end + 2, what)
    if not text.isprintable():
        raise reader.fault(f"a name in {what} is not a name")
    return text


# ---- decode --------------------------------------------------------------------------------------


__all__ = [
    "Address", "Glance", "PacketHeaders", "decode", "encode_headers", "glance", "headers",
    "message_of", "name_of", "properties_offset", "set_class", "set_previous", "tx_offset",
]  # fmt: skip

ACKNOWLEDGE_MASK: Final = 0x0F
NAME_BYTES: Final = (0, 0, 4, 4, 4, 16, 20)
"""Bytes of a name in a UserHeader by its type; direct names have a length of their own."""

# Making a flag of Python costs several calls; there are few of them.
_ACKNOWLEDGES: Final = tuple(map(Acknowledge, range(ACKNOWLEDGE_MASK + 1)))
_JOURNALS: Final = tuple(map(Journal, range(4)))
_JOURNAL_SHIFT: Final = at.USER_DEADLETTER.bit_length() - 1
"""DEADLETTER and JOURNAL are adjacent bits, as in ``Journal``."""

_U16 = struct.Struct("<H")


# ---- complete ----------------------------------------------------------------------------


def decode(packet: Buffer) -> Message:
    """Return the message of a single packet, as an application sees it.

    Raises:
        MalformedPacket: It is not a packet; the text names field and offset.
    """
    return message_of(headers(packet))


def message_of(
    parts: PacketHeaders,
    *,
    arrived_time: int = 0,
    lookup_id: int = 0,
    abort_count: int = 0,
    moves: tuple[int, int] = (0, 0),
    note: int = 0,
    attempts: int = 0,
    failure: str = "",
) -> Message:
    """Return the message of a parsed packet, with what its queue knows of it.

    Args:
        arrived_time: Seconds since 1970 UTC, when it entered its queue; 0: it has not.
        moves: How often it was moved between subqueues, and the second of the last time.
        note: What is known beside the class (``Message.note``).
        attempts: How often its receive failed.
        failure: The reason that the last receiver gave.
    """
    user, props, tx = parts.user, parts.properties, parts.transaction
    names = {"source": user.source, "manager": user.destination_manager}
    lists = _lists(parts.multi) if parts.multi else _NO_LISTS
    marks = _marks(props.extension) if props.extension else _NO_MARKS
    extension, returned, traceparent, deliver_at = marks
    return Message(
        body=props.body,
        id=MessageId(user.source, user.message),
        destination=name_of(user.destination, **names),
        label=_clean(props.label) if props.label else "",
        priority=parts.base.flags & at.BASE_PRIORITY_MASK,
        delivery=Delivery.RECOVERABLE if user.flags & at.USER_RECOVERABLE else Delivery.EXPRESS,
        acknowledge=_ACKNOWLEDGES[props.flags & ACKNOWLEDGE_MASK],
        journal=_JOURNALS[user.flags >> _JOURNAL_SHIFT & 3],
        message_class=props.message_class,
        app_specific=props.app_specific,
        body_type=props.body_type,
        correlation_id=props.correlation,
        time_to_reach_queue=parts.base.time_to_reach_queue,
        time_to_be_received=user.time_to_be_received,
        admin_queue=lists.admin or (name_of(user.admin, **names) if user.admin.kind else ""),
        response_queue=lists.response
        or (response_name(user.response, user.admin, **names) if user.response.kind else ""),
        extension=extension,
        returned=returned,
        deliver_at=deliver_at,
        sent_time=user.sent_time,
        arrived_time=arrived_time,
        lookup_id=lookup_id,
        transactional=tx is not None,
        stream=tx.stream if tx else 0,
        # Without a stream these are the position in its transaction (``packet/survey.py``).
        number=tx.number if tx and tx.stream else 0,
        previous=tx.previous if tx and tx.stream else 0,
        transaction=(tx.flags & at.TX_NUMBER_MASK) >> at.TX_NUMBER_SHIFT if tx else 0,
        first_in_transaction=bool(tx and tx.flags & at.TX_FIRST),
        last_in_transaction=bool(tx and tx.flags & at.TX_LAST),
        final_ack_wanted=bool(tx and tx.flags & at.TX_FINAL_ACK),
        hops=user.flags & at.USER_HOPS_MASK,
        abort_count=abort_count,
        move_count=moves[0],
        last_move_time=moves[1],
        trace=bool(parts.base.flags & at.BASE_TRACE),
        sent_to=lists.sent_to,
        copies_to=lists.copies_to,
        note=note,
        traceparent=traceparent,
        attempts=attempts,
        failure=failure,
    )


class _Lists(Record, frozen=True):
    sent_to: str = ""
    copies_to: str = ""
    admin: str = ""
    response: str = ""


_NO_LISTS: Final = _Lists()


_NO_MARKS: Final = (b"", 0, "", 0)


def _marks(extension: bytes) -> tuple[bytes, int, str, int]:
    """Return an extension without our own marks, and what these say: how often the message was
    returned, its trace, and when it is due."""
    plain, deliver_at = undelayed(extension)
    plain, traceparent = untraced(plain)
    return *unmarked(plain), traceparent, deliver_at


def _lists(multi: bytes) -> _Lists:
    """Return several queues as multiple-element names; "" if there is only one, or if the lists are
    invalid (the names in the UserHeader count then)."""
    try:
        found = parse_multi(multi)
    except MalformedPacket:
        return _NO_LISTS
    given, copies = split_destinations(found.destination)
    texts = (",".join(map(str, names)) for names in (given, copies, found.admin, found.response))
    return _Lists(*texts)


def _clean(label: str) -> str:
    """Return a label as printable text: up to its first NUL, with half surrogates replaced."""
    text = label.partition("\0")[0]
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# ---- quick -------------------------------------------------------------------------------


class Glance(Record, frozen=True):
    """The fields of a packet that do not need its names, label or body.

    Attributes:
        size: Of the packet, in bytes.
        tx_offset: Of the TransactionHeader from the packet's start; 0 if there is none.
        stream, number, previous: Zeros if there is none.
    """

    size: int
    priority: int
    time_to_reach_queue: int
    source: bytes
    destination_manager: bytes
    time_to_be_received: int
    sent_time: int
    message: int
    user_flags: int
    tx_offset: int
    stream: int
    number: int
    previous: int

    @property
    def transactional(self) -> bool:
        """Return whether it has a TransactionHeader."""
        return bool(self.user_flags & at.USER_TRANSACTION)

    @property
    def recoverable(self) -> bool:
        """Return whether it has delivery mode 1; transactional messages always have."""
        return bool(self.user_flags & at.USER_RECOVERABLE)


_FIXED = struct.Struct("<BBH4sII16s16sIIII")
_ORDER = struct.Struct("<QII")


def glance(packet: Buffer, start: int = 0) -> Glance:
    """Read the fixed fields of the packet that begins at ``start``.

    Raises:
        MalformedPacket: It does not begin like one, or ends too early.
    """
    try:
        (
            version, _, flags, signature, size, reach, source, manager, receive, sent, message,
            user_flags,
        ) = _FIXED.unpack_from(packet, start)  # fmt: skip
        offset = tx_offset(packet, start)
        order = _ORDER.unpack_from(packet, start + offset + at.TX_STREAM) if offset else (0, 0, 0)
    except struct.error as error:
        raise MalformedPacket(f"a packet of {len(packet) - start} bytes ends too early") from error
    if version != at.VERSION or signature != at.SIGNATURE:
        raise MalformedPacket(f"no packet begins at byte {start}")
    return Glance(
        size, flags & at.BASE_PRIORITY_MASK, reach, source, manager, receive, sent, message,
        user_flags, offset, *order,
    )  # fmt: skip


def _names_end(packet: Buffer, start: int) -> tuple[int, int]:
    """Return where the UserHeader ends, from the packet's start, and its flags."""
    try:
        (flags,) = at.U32.unpack_from(packet, start + at.OFF_USER_FLAGS)
        end = at.OFF_NAMES
        for shift in (at.USER_DESTINATION_SHIFT, at.USER_ADMIN_SHIFT, at.USER_RESPONSE_SHIFT):
            kind = flags >> shift & 7
            if kind == DIRECT:
                end = end + 2 + int(_U16.unpack_from(packet, start + end)[0]) + 3 & ~3
            else:
                end += NAME_BYTES[kind]
    except struct.error as error:
        raise MalformedPacket(f"a packet of {len(packet) - start} bytes ends too early") from error
    return end + (16 if flags & at.USER_CONNECTOR else 0), flags


def tx_offset(packet: Buffer, start: int = 0) -> int:
    """Return the TransactionHeader's offset from the start of the packet; 0 if it has none.

    Raises:
        MalformedPacket: The packet, which begins at ``start``, ends before it.
    """
    end, flags = _names_end(packet, start)
    return end if flags & at.USER_TRANSACTION else 0


def properties_offset(packet: Buffer, start: int = 0) -> int:
    """Return the MessagePropertiesHeader's offset from the start of the packet.

    Raises:
        MalformedPacket: The packet, which begins at ``start``, ends before it.
    """
    end, flags = _names_end(packet, start)
    try:
        if flags & at.USER_TRANSACTION:
            (tx_flags,) = at.U32.unpack_from(packet, start + end)
            end += at.TX_HEADER + (16 if tx_flags & at.TX_CONNECTOR else 0)
        if flags & at.USER_SECURITY:
            sizes = struct.unpack_from("<HHHHII", packet, start + end)[1:]
            end += at.SECURITY_HEADER + sum(size + 3 & ~3 for size in sizes)
    except struct.error as error:
        raise MalformedPacket(f"a packet of {len(packet) - start} bytes ends too early") from error
    return end


def set_previous(packet: bytearray | memoryview, start: int, size: int, previous: int) -> None:
    """Write another previous number into a packet inside a larger buffer (EOD-6).

    Args:
        start, size: Where the packet is; it must be one that was checked, and transactional.
    """
    offset = tx_offset(packet, start)
    assert offset, "only transactional messages have a previous number"
    assert offset + at.TX_HEADER <= size, "the TransactionHeader is inside its packet"
    at.U32.pack_into(packet, start + offset + at.TX_PREVIOUS, previous)


def set_places(
    packets: bytearray, start: int, count: int, stream: int, number: int, previous: int
) -> None:
    """Write another stream into consecutive packets, with consecutive numbers.

    Args:
        start: Where the first is; all must have been checked, and be transactional.
        number, previous: Of the first; each further one has the next, linked to the one before.
    """
    for n in range(number, number + count):
        offset = tx_offset(packets, start)
        assert offset, "only transactional messages are in a stream"
        at.PLACE.pack_into(packets, start + offset + at.TX_STREAM, stream, n, previous)
        previous = n
        start += at.packet_size(packets, start)


def set_class(packet: bytearray | memoryview, start: int, size: int, message_class: int) -> None:
    """Write another class into a packet inside a larger buffer, as dead letters have it.

    Args:
        start, size: Where the packet is; it must be one that was checked.
    """
    offset = properties_offset(packet, start)
    assert offset + at.PROPERTIES_HEADER <= size, "the properties are inside their packet"
    _U16.pack_into(packet, start + offset + at.PROP_CLASS, message_class)


# ---- bodies --------------------------------------------------------------------------------------


_SIZES = struct.Struct("<II")

_Layout = tuple[bytes, bytes, bytes, int, int, int]
_layouts: list[_Layout] = [(b"", b"", b"", 0, 0, 0)]
"""Of the packet parsed last: a caller that takes one message at a time finds it here again."""


def bodies(run: Run) -> list[bytes]:
    """Return the body of each packet; raises MalformedPacket.

    Most packets of a run have the same headers except for sizes and numbers. If the bytes that
    decide the layout equal those of the packet before, the body is at the same offset; any other
    packet is parsed with all its checks.
    """
    data = run.data if isinstance(run.data, bytes) else bytes(run.data)
    found: list[bytes] = []
    add = found.append
    start = 0
    base, shape, label, names_end, prop, body_at = _layouts[0]
    sizes, u32 = _SIZES.unpack_from, at.U32.unpack_from
    for length in run.lengths:
        known = (
            names_end
            and length >= body_at
            and data[start : start + at.OFF_PACKET_SIZE] == base
            and u32(data, start + at.OFF_PACKET_SIZE)[0] == length
            and data[start + at.OFF_USER_FLAGS : start + names_end] == shape
            and data[start + prop + 1 : start + prop + 2] == label
            and not u32(data, start + prop + at.OFF_EXTENSION_SIZE)[0]
        )
        if known:
            size, allocated = sizes(data, start + prop + at.OFF_BODY_SIZE)
            known = size == allocated and body_at + size <= length
        if known:
            add(data[start + body_at : start + body_at + size])
        else:
            parts = headers(data[start : start + length])
            add(parts.properties.body)
            tx, prop = parts.offsets
            names_end = 0
            tx_part = parts.transaction
            plain = parts.security is None and (tx_part is None or not tx_part.connector)
            if plain and not parts.properties.extension:
                names_end = tx or prop
                shape = data[start + at.OFF_USER_FLAGS : start + names_end]
                label = data[start + prop + 1 : start + prop + 2]
                body_at = prop + at.PROPERTIES_HEADER + 2 * label[0]
                base = data[start : start + at.OFF_PACKET_SIZE]
                _layouts[0] = (base, shape, label, names_end, prop, body_at)
        start += length
    return found
