"""From a packet to what it says: every header with its checks, and the Message of it.

Nothing from outside is believed: each length is held against what is there before anything is
taken (I24). ``headers`` keeps every field as it stands, so that ``build`` gives back the same
bytes; ``decode`` is what an application sees. Offsets and meaning: wire-mqqb sections 3 and 4.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from onceq.errors import MalformedPacket
from onceq.model.identity import NO_GUID, MessageId, guid_text
from onceq.model.limits import LABEL_CHARS_MAX, PACKET_BYTES_MAX
from onceq.model.message import Acknowledge, Delivery, Journal, Message
from onceq.model.run import Buffer
from onceq.packet import layout as at
from onceq.packet.encode import PADDING, Address
from onceq.packet.reader import Reader

_BASE = struct.Struct("<BBH4sII")
_USER = struct.Struct("<16s16sIIII")
_ORDER = struct.Struct("<IQII")
_SECURITY = struct.Struct("<HHHHII")
_PROPERTIES = struct.Struct("<BBH20sIIIIIIII")
_DEBUG = struct.Struct("<HH")
_SECTION = struct.Struct("<HHI")
_ADDRESSES = struct.Struct("<IHHI")


@dataclass(frozen=True, slots=True)
class UserHeaders:
    """A user packet, taken apart.

    ``padding`` and ``reserved`` keep bytes without meaning as they came; ``security`` and
    ``rest`` are carried along and not interpreted, as are bytes after the last
    announced header (at ``end``), which are ignored (wire-mqqb 4.13).
    """

    flags: int
    time_to_reach_queue: int
    source: bytes
    destination_manager: bytes
    time_to_be_received: int
    sent_time: int
    message: int
    user_flags: int
    destination: Address
    admin: Address
    response: Address
    connector: bytes
    tx: tuple[int, int, int, int] | None
    tx_connector: bytes
    security: bytes
    properties: tuple[int | bytes, ...]
    label: str
    extension: bytes
    body: bytes
    rest: bytes
    offsets: tuple[int, int]
    end: int
    reserved: int = 0
    padding: tuple[bytes, ...] = field(default=())

    @property
    def tx_offset(self) -> int:
        """Offset of the TransactionHeader; 0 if there is none."""
        return self.offsets[0]


def headers(packet: Buffer) -> UserHeaders:
    """Take a whole user packet apart.

    Raises:
        MalformedPacket: It is not one; the text names field and offset.
    """
    reader = Reader(packet)
    version, reserved, flags, signature, size, reach = reader.unpack(_BASE, "BaseHeader")
    _check_base(reader, version, signature, size)
    if flags & at.BASE_INTERNAL:
        raise reader.fault("an internal packet is not a message")
    start = reader.at
    source, manager, receive, sent, message, user_flags = reader.unpack(_USER, "UserHeader")
    padding: list[bytes] = []
    destination = _address(reader, start, user_flags >> at.USER_DESTINATION_SHIFT & 7,
                           (3, 5, 7), "destination", padding)  # fmt: skip
    admin = _address(reader, start, user_flags >> at.USER_ADMIN_SHIFT & 7,
                     (0, 2, 3, 5, 6, 7), "admin queue", padding)  # fmt: skip
    response = _address(reader, start, user_flags >> at.USER_RESPONSE_SHIFT & 7,
                        (0, 1, 2, 3, 4, 5, 6, 7), "response queue", padding)  # fmt: skip
    connector = reader.take(16, "ConnectorType") if user_flags & at.USER_CONNECTOR else b""
    reader.align(start, "UserHeader padding")
    tx, tx_at, tx_connector = None, 0, b""
    if user_flags & at.USER_TRANSACTION:
        tx_at = reader.at
        tx = reader.unpack(_ORDER, "TransactionHeader")
        if tx[0] & at.TX_CONNECTOR:
            tx_connector = reader.take(16, "ConnectorQMGuid")
        if not user_flags & at.USER_RECOVERABLE:
            raise reader.fault("a transactional message must be recoverable")
    security = _security(reader) if user_flags & at.USER_SECURITY else b""
    if not user_flags & at.USER_PROPERTIES:
        raise reader.fault("MessagePropertiesHeader is missing")
    properties_at = reader.at
    fixed, label, extension, body = _properties(reader, padding)
    rest_at = reader.at
    _skip_rest(reader, flags, user_flags)
    return UserHeaders(
        flags, reach, bytes(source), bytes(manager), receive, sent, message, user_flags,
        destination, admin, response, connector, tx, tx_connector, security, fixed, label,
        extension, body, bytes(packet[rest_at:]), (tx_at, properties_at), reader.at, reserved,
        tuple(padding),
    )  # fmt: skip


def _check_base(reader: Reader, version: int, signature: object, size: int) -> None:
    if version != at.VERSION:
        raise MalformedPacket(f"version {version:#x} where 0x10 must stand")
    if signature != at.SIGNATURE:
        raise MalformedPacket(f"signature {signature!r} where LIOR must stand")
    if size != reader.end or size > PACKET_BYTES_MAX:
        raise MalformedPacket(f"a packet of {reader.end} bytes says that it has {size}")


def _address(
    reader: Reader, start: int, kind: int, legal: tuple[int, ...], what: str, padding: list[bytes]
) -> Address:
    if kind not in legal:
        raise reader.fault(f"{what} has type {kind}, which is not legal")
    if kind in (2, 3, 4):
        return Address(kind, number=reader.unpack(at.U32, what)[0])
    if kind == 5:
        return Address(kind, guid=reader.take(16, what))
    if kind == 6:
        return Address(kind, reader.take(16, what), reader.unpack(at.U32, what)[0])
    if kind == 7:
        (size,) = reader.unpack(_U16, what)
        text = reader.text(size, what)
        pad = reader.at
        reader.align(start, f"{what} padding")
        padding.append(bytes(reader.data[pad : reader.at]))
        return Address(kind, direct=text)
    return Address(kind)


_U16 = struct.Struct("<H")


def _security(reader: Reader) -> bytes:
    """The whole header; its sizes are believed only as far as the packet reaches."""
    start = reader.at
    _, sender, key, signature, certificate, provider = reader.unpack(_SECURITY, "SecurityHeader")
    for size, what in (
        (sender, "SecurityID"), (key, "EncryptionKey"), (signature, "Signature"),
        (certificate, "SenderCert"), (provider, "ProviderInfo"),
    ):  # fmt: skip
        reader.need((size + 3) // 4 * 4, what)
    return bytes(reader.data[start : reader.at])


def _properties(
    reader: Reader, padding: list[bytes]
) -> tuple[tuple[int | bytes, ...], str, bytes, bytes]:
    start = reader.at
    fixed = reader.unpack(_PROPERTIES, "MessagePropertiesHeader")
    label_chars, body_size, allocated, extension_size = fixed[1], fixed[6], fixed[7], fixed[11]
    if label_chars > LABEL_CHARS_MAX + 1:
        raise reader.fault(f"a label of {label_chars} characters")
    label = reader.text(2 * label_chars, "label") if label_chars else ""
    extension = reader.take(extension_size, "extension")
    if allocated < body_size:
        raise reader.fault(f"a body of {body_size} bytes in a place for {allocated}")
    body = reader.take(body_size, "body")
    if allocated > body_size:
        reader.need(allocated - body_size, "body allocation")
    pad = reader.at
    reader.align(start, "body padding")
    padding.append(bytes(reader.data[pad : reader.at]))
    return fixed, label, extension, body


def _skip_rest(reader: Reader, flags: int, user_flags: int) -> None:
    """Step over Debug, Soap and MultiQueueFormat headers; what follows them is ignored."""
    if flags & at.BASE_DEBUG:
        kind, _ = reader.unpack(_DEBUG, "DebugHeader")
        if kind & 3 == 1:
            reader.need(16, "DebugHeader queue")
    if user_flags & at.USER_SOAP:
        for what in ("SoapHeader", "SoapBody"):
            _, _, chars = reader.unpack(_SECTION, what)
            reader.need(2 * chars, what)
            reader.align(0, what)
    if user_flags & at.USER_MULTIQUEUE:
        for what in ("destinations", "admin queues", "response queues"):
            start = reader.at
            size, _, _, _ = reader.unpack(_ADDRESSES, what)
            if size < _ADDRESSES.size:
                raise reader.fault(f"{what}: a header of {size} bytes")
            reader.at = start
            reader.need((size + 3) // 4 * 4, what)
        _, _, size = reader.unpack(_SECTION, "signature")
        reader.need((size + 3) // 4 * 4, "signature")


def build(parts: UserHeaders) -> bytes:
    """The bytes of a packet that was taken apart."""
    user = bytearray(
        _USER.pack(
            parts.source, parts.destination_manager, parts.time_to_be_received, parts.sent_time,
            parts.message, parts.user_flags,
        )
    )  # fmt: skip
    pads = list(parts.padding)
    for address in (parts.destination, parts.admin, parts.response):
        raw = address.pack(len(user))
        if address.kind == 7:
            pad = pads.pop(0)
            raw = raw[: len(raw) - len(pad)] + pad
        user += raw
    user += parts.connector
    user += PADDING[len(user) % 4]
    out = bytearray(16) + user
    if parts.tx is not None:
        out += _ORDER.pack(*parts.tx) + parts.tx_connector
    out += parts.security
    out += _PROPERTIES.pack(*parts.properties)
    if parts.properties[1]:
        out += (parts.label + "\0").encode("utf-16-le")
    out += parts.extension + parts.body
    out += bytes(int(parts.properties[7]) - int(parts.properties[6])) + pads.pop(0)
    out += parts.rest
    _BASE.pack_into(
        out, 0, at.VERSION, parts.reserved, parts.flags, at.SIGNATURE, len(out),
        parts.time_to_reach_queue,
    )  # fmt: skip
    return bytes(out)


def name_of(address: Address, *, source: bytes, manager: bytes) -> str:
    """The format name of a queue in a packet; "" for none.

    Args:
        source: GUID of the sending manager, for private queues on its host.
        manager: GUID of the destination's manager.
    """
    if address.kind == 7:
        return f"DIRECT={address.direct}"
    if address.kind in (2, 3):
        host = source if address.kind == 2 else manager
        return f"PRIVATE={guid_text(host)}\\{address.number:08x}"
    if address.kind == 5:
        return f"PUBLIC={guid_text(address.guid)}"
    if address.kind == 6:
        return f"PRIVATE={guid_text(address.guid)}\\{address.number:08x}"
    return ""


def _response(parts: UserHeaders, admin: str) -> str:
    if parts.response.kind == 1:
        return admin
    if parts.response.kind == 4:
        host = parts.admin.guid if parts.admin.kind == 6 else parts.source
        return f"PRIVATE={guid_text(host)}\\{parts.response.number:08x}"
    return name_of(parts.response, source=parts.source, manager=parts.destination_manager)


def decode(
    packet: Buffer,
    *,
    arrived_time: int = 0,
    lookup_id: int = 0,
    abort_count: int = 0,
    message_class: int | None = None,
) -> Message:
    """The message of a packet, as an application sees it; raises MalformedPacket."""
    parts = headers(packet)
    fixed = parts.properties
    admin = name_of(parts.admin, source=parts.source, manager=parts.destination_manager)
    tx_flags, stream, number, previous = parts.tx if parts.tx is not None else (0, 0, 0, 0)
    user = parts.user_flags
    journal = Journal.DEADLETTER if user & at.USER_DEADLETTER else Journal.NONE
    if user & at.USER_JOURNAL:
        journal |= Journal.JOURNAL
    return Message(
        body=parts.body,
        id=MessageId(parts.source, parts.message),
        destination=name_of(
            parts.destination, source=parts.source, manager=parts.destination_manager or NO_GUID
        ),
        label=parts.label,
        priority=parts.flags & at.BASE_PRIORITY_MASK,
        delivery=Delivery.RECOVERABLE if user & at.USER_RECOVERABLE else Delivery.EXPRESS,
        acknowledge=Acknowledge(int(fixed[0]) & 0x0F),
        journal=journal,
        message_class=int(fixed[2]) if message_class is None else message_class,
        app_specific=int(fixed[5]),
        body_type=int(fixed[4]),
        correlation_id=bytes(fixed[3]),  # type: ignore[arg-type]
        time_to_reach_queue=parts.time_to_reach_queue,
        time_to_be_received=parts.time_to_be_received,
        admin_queue=admin,
        response_queue=_response(parts, admin),
        extension=parts.extension,
        sent_time=parts.sent_time,
        arrived_time=arrived_time,
        lookup_id=lookup_id,
        transactional=parts.tx is not None,
        stream=stream,
        number=number,
        previous=previous,
        transaction=(tx_flags & at.TX_NUMBER_MASK) >> at.TX_NUMBER_SHIFT,
        first_in_transaction=bool(tx_flags & at.TX_FIRST),
        last_in_transaction=bool(tx_flags & at.TX_LAST),
        final_ack_wanted=bool(tx_flags & at.TX_FINAL_ACK),
        hops=user & at.USER_HOPS_MASK,
        abort_count=abort_count,
    )


def tx_offset(packet: Buffer) -> int:
    """Where the TransactionHeader of a packet begins; 0 if it has none."""
    return headers(packet).offsets[0]


def set_previous(packet: bytearray | memoryview, start: int, size: int, previous: int) -> None:
    """Write another previous number into a packet inside a larger buffer (EOD-6)."""
    offset = tx_offset(packet[start : start + size])
    assert offset, "only transactional messages have a previous number"
    at.U32.pack_into(packet, start + offset + at.TX_PREVIOUS, previous)


def set_class(packet: bytearray | memoryview, start: int, size: int, value: int) -> None:
    """Write another message class into a packet inside a larger buffer (Q-15)."""
    offset = headers(packet[start : start + size]).offsets[1]
    struct.pack_into("<H", packet, start + offset + at.PROP_CLASS, value)
