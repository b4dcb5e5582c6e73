"""A user packet parsed into its headers, with every check, and put together again.

Nothing from outside is believed: each length is compared with the bytes that are there before
anything is taken. Every field is kept unchanged, padding and reserved bytes too, so that
``encode_headers(headers(packet)) == packet`` for every well-formed packet. Bytes after the last
announced header are kept and counted, never interpreted (U14).

Also here:

* A cursor over bytes from outside: it cannot step outside them, and reports where they are wrong.
* Remove the marks of traces from packets for a queue manager that has not announced traces.

Upholds: I24.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any, Final

from onceq.errors import MalformedPacket, PeerError
from onceq.model.limits import LABEL_CHARS_MAX, PACKET_BYTES_MAX
from onceq.model.marks import TRACED_MARK, place_of
from onceq.model.record import Record
from onceq.model.run import Buffer
from onceq.packet import address as at
from onceq.packet.address import DIRECT, LIST_HEADER, NOWHERE, Address

# ---- reader --------------------------------------------------------------------------------------


class PacketReader:
    """Reads one packet from front to back; every fault is a MalformedPacket with its offset.

    Every size that a packet declares is compared with the remaining bytes before anything is taken,
    so that nothing is allocated without them. ``need`` does it; the others compare by themselves
    first and call ``need`` for its error: a packet has some fifteen fields, and a call for each was
    an eighth of the cost of a received message.

    Attributes:
        at: Offset of the next byte.
        paddings: The padding bytes stepped over so far, piece by piece.
    """

    __slots__ = ("at", "data", "end", "paddings")

    def __init__(self, data: Buffer, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end
        self.paddings: list[bytes] = []

    def fault(self, what: str) -> MalformedPacket:
        """Return an error that names this place."""
        return MalformedPacket(f"{what}, at byte {self.at} of a packet of {self.end}")

    def need(self, size: int, what: str) -> int:
        """Step over ``size`` bytes; return where they begin."""
        start = self.at
        if size > self.end - start:
            raise self.fault(f"{what} needs {size} bytes, {self.end - start} are left")
        self.at = start + size
        return start

    def take(self, size: int, what: str) -> bytes:
        """Return the next bytes."""
        start = self.at
        if size > self.end - start:
            self.need(size, what)
        self.at = end = start + size
        return bytes(self.data[start:end])

    def unpack(self, form: struct.Struct, what: str) -> tuple[Any, ...]:
        """Return the next fields."""
        start = self.at
        if form.size > self.end - start:
            self.need(form.size, what)
        self.at = start + form.size
        return form.unpack_from(self.data, start)

    def wide(self, size: int, what: str) -> str:
        """Return the UTF-16 text of the next ``size`` bytes, without the NUL that ends it.

        Half surrogates are kept unchanged: the field is an array of 16-bit characters, and a label
        that is not quite text is no reason to stop a stream of messages.
        """
        start = self.at
        if size > self.end - start:
            self.need(size, what)
        self.at = end = start + size
        raw = bytes(self.data[start:end])
        if size % 2 or raw[-2:] != b"\0\0":
            raise self.fault(f"{what} is not terminated")
        return raw[:-2].decode("utf-16-le", "surrogatepass")

    def align(self, start: int, what: str) -> None:
        """Step to the next multiple of 4 counted from ``start``; what is skipped is kept."""
        skipped = self.at
        end = skipped + (start - skipped) % 4
        if end > self.end:
            self.need(end - skipped, f"padding of {what}")
        self.at = end
        self.paddings.append(bytes(self.data[skipped:end]))


# ---- headers -------------------------------------------------------------------------------------


LEGAL_DESTINATION: Final = frozenset((0, 3, 5, 7))
LEGAL_ADMIN: Final = frozenset((0, 2, 3, 5, 6, 7))
LEGAL_RESPONSE: Final = frozenset(range(8))
"""Legal name types of the three queues (3). A message without destination (0) is well-formed, so
that the core can refuse it by name."""

_BASE = struct.Struct("<BBH4sII")
_USER = struct.Struct("<16s16sIIII")
_TRANSACTION = struct.Struct("<IQII")
_SECURITY = struct.Struct("<HHHHII")
_PROPERTIES = struct.Struct("<BBH20sIIIIIIII")
_DEBUG = struct.Struct("<HH")
_SECTION = struct.Struct("<HHI")
_COUNT = struct.Struct("<H")


class BaseHeader(Record, frozen=True):
    """(MS-MQMQ 2.2.19.1) ``time_to_reach_queue`` in seconds."""

    reserved: int
    flags: int
    time_to_reach_queue: int


class UserHeader(Record, frozen=True):
    """(MS-MQMQ 2.2.19.2) Times in seconds; ``sent_time`` since 1970 UTC."""

    source: bytes
    destination_manager: bytes
    time_to_be_received: int
    sent_time: int
    message: int
    flags: int
    destination: Address
    admin: Address
    response: Address
    connector: bytes


class TransactionHeader(Record, frozen=True):
    """(MS-MQMQ 2.2.20.5)"""

    flags: int
    stream: int
    number: int
    previous: int
    connector: bytes


class SecurityHeader(Record, frozen=True):
    """(MS-MQMQ 2.2.20.6) A claim, never a proof: carried along and not evaluated."""

    flags: int
    sender: bytes
    key: bytes
    signature: bytes
    certificate: bytes
    provider: bytes


class PropertiesHeader(Record, frozen=True):
    """(MS-MQMQ 2.2.19.3)

    Attributes:
        label_chars: LabelLength unchanged: 0 for no label, else with its terminator.
        body_allocated: AllocationBodySize.
        slack: Bytes between the end of an encrypted body and the end of its place.
    """

    flags: int
    label_chars: int
    message_class: int
    correlation: bytes
    body_type: int
    app_specific: int
    body_allocated: int
    privacy: int
    hash: int
    encryption: int
    label: str
    extension: bytes
    body: bytes
    slack: bytes


class DebugHeader(Record, frozen=True):
    """(MS-MQMQ 2.2.20.8) ``queue`` is a GUID, or empty."""

    flags: int
    reserved: int
    queue: bytes


class PacketHeaders(Record, frozen=True):
    """Every field of a user packet.

    Attributes:
        soap, multi: Bytes of these headers, checked for their sizes only.
        trailing: What follows the last announced header.
        paddings: Padding bytes as they came, in order; what is missing is zero.
        offsets: Of the TransactionHeader (0: none) and the MessagePropertiesHeader.
    """

    base: BaseHeader
    user: UserHeader
    transaction: TransactionHeader | None
    security: SecurityHeader | None
    properties: PropertiesHeader
    debug: DebugHeader | None
    soap: bytes
    multi: bytes
    trailing: bytes
    paddings: tuple[bytes, ...]
    offsets: tuple[int, int]

    @property
    def encrypted(self) -> bool:
        """Return whether the body must not be taken for what the sender wrote."""
        return self.security is not None and bool(self.security.flags & at.SECURITY_ENCRYPTED)


# ---- parsing -----------------------------------------------------------------------------


def headers(packet: Buffer) -> PacketHeaders:
    """Parse a whole user packet.

    Raises:
        MalformedPacket: It is not one; the text names field and offset.
    """
    reader = PacketReader(packet)
    version, reserved, flags, signature, size, reach = reader.unpack(_BASE, "BaseHeader")
    if version != at.VERSION:
        raise MalformedPacket(f"version {version:#x} where 0x10 must stand, at byte 0")
    if signature != at.SIGNATURE:
        raise MalformedPacket(f"signature {signature.hex()} where LIOR must stand, at byte 4")
    if size != reader.end or size > PACKET_BYTES_MAX:
        raise MalformedPacket(f"PacketSize {size} of a packet of {reader.end}, at byte 8")
    if flags & at.BASE_INTERNAL:
        raise MalformedPacket("an internal packet where a message must be, at byte 2")
    base = BaseHeader(reserved, flags, reach)
    user = _user(reader)
    transaction, transaction_at = None, 0
    if user.flags & at.USER_TRANSACTION:
        transaction_at = reader.at
        tx_flags, stream, number, previous = reader.unpack(_TRANSACTION, "TransactionHeader")
        connector = reader.take(16, "ConnectorQMGuid") if tx_flags & at.TX_CONNECTOR else b""
        transaction = TransactionHeader(tx_flags, stream, number, previous, connector)
        if not user.flags & at.USER_RECOVERABLE:
            raise reader.fault("a transactional message must be recoverable")
    security = None
    if user.flags & at.USER_SECURITY:
        # Each part takes its size rounded up to 4; the flag AI is ignored (Windows: 0).
        start = reader.at
        security_flags, *sizes = reader.unpack(_SECURITY, "SecurityHeader")
        claims = []
        names = ("SecurityID", "EncryptionKey", "Signature", "SenderCert", "ProviderInfo")
        for size, what in zip(sizes, names, strict=True):
            claims.append(reader.take(size, what))
            reader.align(start, what)
        security = SecurityHeader(security_flags, *claims)
    if not user.flags & at.USER_PROPERTIES:
        raise reader.fault("the MessagePropertiesHeader is missing")
    properties_at = reader.at
    encrypted = security is not None and bool(security.flags & at.SECURITY_ENCRYPTED)
    properties = _properties(reader, encrypted)
    debug = None
    if base.flags & at.BASE_DEBUG:
        debug_flags, reserved = reader.unpack(_DEBUG, "DebugHeader")
        queue = reader.take(16, "QueueIdentifier") if debug_flags & 3 == 1 else b""
        debug = DebugHeader(debug_flags, reserved, queue)
    soap = b""
    if user.flags & at.USER_SOAP:
        # Two sections of text; the second's alignment is not published, and assumed (U16).
        start = reader.at
        for what in ("SoapHeader", "SoapBody"):
            _, _, chars = reader.unpack(_SECTION, what)
            reader.need(2 * chars, what)
            reader.need(-(reader.at - start) % 4, what)
        soap = bytes(reader.data[start : reader.at])
    multi = _multi(reader) if user.flags & at.USER_MULTIQUEUE else b""
    return PacketHeaders(
        base, user, transaction, security, properties, debug, soap, multi,
        bytes(packet[reader.at :]), tuple(reader.paddings), (transaction_at, properties_at),
    )  # fmt: skip


def user_header(packet: Buffer) -> UserHeader:
    """Return the UserHeader alone of a checked packet, which may be cut off behind it."""
    return _user(PacketReader(packet, at.BASE_HEADER))


def _user(reader: PacketReader) -> UserHeader:
    start = reader.at
    source, manager, receive, sent, message, flags = reader.unpack(_USER, "UserHeader")
    if flags & at.USER_DELIVERY_MASK not in (0, at.USER_RECOVERABLE):
        raise reader.fault(f"delivery mode {(flags & at.USER_DELIVERY_MASK) >> 5}")
    kind = flags >> at.USER_DESTINATION_SHIFT & 7
    destination = _address(reader, start, kind, LEGAL_DESTINATION, "DestinationQueue")
    # Most messages name neither of the others.
    kind = flags >> at.USER_ADMIN_SHIFT & 7
    admin = _address(reader, start, kind, LEGAL_ADMIN, "AdminQueue") if kind else NOWHERE
    kind = flags >> at.USER_RESPONSE_SHIFT & 7
    response = _address(reader, start, kind, LEGAL_RESPONSE, "ResponseQueue") if kind else NOWHERE
    connector = reader.take(16, "ConnectorType") if flags & at.USER_CONNECTOR else b""
    return UserHeader(
        source, manager, receive, sent, message, flags, destination, admin, response, connector
    )


def _address(
    reader: PacketReader, start: int, kind: int, legal: frozenset[int], what: str
) -> Address:
    if kind not in legal:
        raise reader.fault(f"{what} has type {kind}, which is not legal")
    if kind in (2, 3, 4):
        return Address(kind, number=reader.unpack(at.U32, what)[0])
    if kind == 5:
        return Address(kind, guid=reader.take(16, what))
    if kind == 6:
        return Address(kind, reader.take(16, what), reader.unpack(at.U32, what)[0])
    if kind == DIRECT:
        (size,) = reader.unpack(_COUNT, what)
        text = reader.wide(size, what)
        if not text or "\0" in text or not text.isprintable():
            raise reader.fault(f"{what} is not a name")
        reader.align(start, what)
        return Address(kind, direct=text)
    return Address(kind) if kind else NOWHERE


def _properties(reader: PacketReader, encrypted: bool) -> PropertiesHeader:
    start = reader.at
    (
        flags, label_chars, message_class, correlation, body_type, app_specific, size, allocated,
        privacy, hashed, encryption, extension_size,
    ) = reader.unpack(_PROPERTIES, "MessagePropertiesHeader")  # fmt: skip
    if label_chars > LABEL_CHARS_MAX + 1:
        raise reader.fault(f"LabelLength {label_chars}")
    if allocated < size:
        raise reader.fault(f"MessageSize {size} in an AllocationBodySize of {allocated}")
    label = reader.wide(2 * label_chars, "Label") if label_chars else ""
    extension = reader.take(extension_size, "ExtensionData") if extension_size else b""
    body = reader.take(size, "MessageBody")
    slack = reader.take(allocated - size, "MessageBody") if encrypted else b""
    reader.align(start, "MessagePropertiesHeader")
    return PropertiesHeader(
        flags, label_chars, message_class, correlation, body_type, app_specific, allocated,
        privacy, hashed, encryption, label, extension, body, slack,
    )  # fmt: skip


def _multi(reader: PacketReader) -> bytes:
    """Skip three lists and a signature by their sizes."""
    start = reader.at
    for what in ("Destination", "Admin", "Response"):
        at_list = reader.at
        size, *_ = reader.unpack(LIST_HEADER, f"{what} of MultiQueueFormatHeader")
        if size < LIST_HEADER.size:
            raise reader.fault(f"{what} of MultiQueueFormatHeader has HeaderSize {size}")
        reader.at = at_list
        reader.need(size + 3 & ~3, f"{what} of MultiQueueFormatHeader")
    _, _, size = reader.unpack(_SECTION, "Signature of MultiQueueFormatHeader")
    reader.need(size + 3 & ~3, "Signature of MultiQueueFormatHeader")
    return bytes(reader.data[start : reader.at])


# ---- putting together --------------------------------------------------------------------


def encode_headers(parts: PacketHeaders) -> bytes:
    """Return the bytes of a parsed packet; sizes are those of the parts."""
    paddings = iter(parts.paddings)
    out = bytearray(at.BASE_HEADER)
    start, user = len(out), parts.user
    out += _USER.pack(
        user.source, user.destination_manager, user.time_to_be_received, user.sent_time,
        user.message, user.flags,
    )  # fmt: skip
    for address in (user.destination, user.admin, user.response):
        if address.kind == DIRECT:
            text = (address.direct + "\0").encode("utf-16-le", "surrogatepass")
            out += _COUNT.pack(len(text)) + text
            _pad(out, start, paddings)
        else:
            out += address.pack(0)
    out += user.connector
    tx = parts.transaction
    if tx is not None:
        out += _TRANSACTION.pack(tx.flags, tx.stream, tx.number, tx.previous) + tx.connector
    security = parts.security
    if security is not None:
        start = len(out)
        claims = (
            security.sender, security.key, security.signature, security.certificate,
            security.provider,
        )  # fmt: skip
        out += _SECURITY.pack(security.flags, *map(len, claims))
        for claim in claims:
            out += claim
            _pad(out, start, paddings)
    start, properties = len(out), parts.properties
    out += _PROPERTIES.pack(
        properties.flags, properties.label_chars, properties.message_class,
        properties.correlation, properties.body_type, properties.app_specific,
        len(properties.body), properties.body_allocated, properties.privacy, properties.hash,
        properties.encryption, len(properties.extension),
    )  # fmt: skip
    if properties.label_chars:
        out += (properties.label + "\0").encode("utf-16-le", "surrogatepass")
    out += properties.extension + properties.body + properties.slack
    _pad(out, start, paddings)
    if parts.debug is not None:
        out += _DEBUG.pack(parts.debug.flags, parts.debug.reserved) + parts.debug.queue
    out += parts.soap + parts.multi + parts.trailing
    _BASE.pack_into(
        out, 0, at.VERSION, parts.base.reserved, parts.base.flags, at.SIGNATURE, len(out),
        parts.base.time_to_reach_queue,
    )  # fmt: skip
    return bytes(out)


def _pad(out: bytearray, start: int, paddings: Iterator[bytes]) -> None:
    size = -(len(out) - start) % 4
    kept = next(paddings, b"")
    out += kept if len(kept) == size else bytes(size)


# ---- untraced ------------------------------------------------------------------------------------


_MARK: Final = re.compile(re.escape(TRACED_MARK))


def untraced_packets(data: Buffer) -> Buffer:
    """Return user packets one after another, without the marks of traces; ``data`` itself if there
    are none.

    A message keeps its mark where it is stored (``model/marks.py``), as another session may carry
    it to a manager that knows marks. Outgoing packets are checked here, by one search for the mark
    in all of them; packets that contain it are copied without it. Nothing else in them changes: the
    mark has a multiple of four bytes, so even the padding is the same.
    """
    if _MARK.search(data) is None:
        return data
    view = memoryview(data)
    made: list[Buffer] = []
    start = 0
    while start < len(view):
        end = start + at.packet_size(view, start)
        packet = view[start:end]
        made.append(_untraced(bytes(packet)) if _MARK.search(packet) is not None else packet)
        start = end
    return b"".join(made)


def _untraced(packet: bytes) -> bytes:
    try:
        parts = headers(packet)
    except PeerError:
        # An unreadable packet is none of ours, and has no mark.
        return packet
    first, last = place_of(parts.properties.extension)
    if first == last:
        return packet
    properties = parts.offsets[1]
    extension = properties + at.PROPERTIES_HEADER + 2 * parts.properties.label_chars
    changed = bytearray(packet)
    at.U32.pack_into(changed, at.OFF_PACKET_SIZE, len(packet) - (last - first))
    size = len(parts.properties.extension) - (last - first)
    at.U32.pack_into(changed, properties + at.OFF_EXTENSION_SIZE, size)
    del changed[extension + first : extension + last]
    return bytes(changed)
