"""Packets taken apart: names, offsets, and everything that must be refused."""

from __future__ import annotations

import struct
from array import array
from dataclasses import replace

import pytest

from onceq.errors import MalformedPacket
from onceq.model.message import Journal, Properties
from onceq.model.run import Run
from onceq.packet import layout as at
from onceq.packet.address import (
    DIRECT,
    ON_ADMIN,
    Address,
    Element,
    MultiNames,
    name_of,
    response_name,
)
from onceq.packet.arrived import cut
from onceq.packet.decode import (
    decode,
    encode_headers,
    glance,
    headers,
    properties_offset,
    set_class,
    set_previous,
    tx_offset,
)
from onceq.packet.encode import encode_run
from onceq.packet.headers import DebugHeader, PacketHeaders, SecurityHeader
from onceq.packet.multi import ELEMENTS_MAX, parse_multi
from onceq.packet.templates import template

SOURCE = bytes(range(16))
LIMIT = 0x00400000
LIES = (0, 1, 19, LIMIT, LIMIT + 1, 1 << 31, 0xFFFFFFFF)


def packet(*, transactional: bool = True, body: bytes = b"body!", label: str = "label") -> bytes:
    made = template(
        source=SOURCE, destination=Address(DIRECT, direct="OS:B\\q"),
        admin=Address(DIRECT, direct="OS:ADMIN\\acks"), response=Address(5, b"r" * 16),
        properties=Properties(label=label, journal=Journal.DEADLETTER, extension=b"xyz"),
        sent_time=7, transactional=transactional,
    )  # fmt: skip
    run = encode_run(made, Run.of([body]), first_message=3, stream=transactional * 5,
                     first_number=transactional * 9)  # fmt: skip
    return bytes(run.data)


def every_header() -> PacketHeaders:
    """A packet with each header that exists."""
    parts = headers(packet())
    flags = (
        parts.user.flags | at.USER_SECURITY | at.USER_SOAP | at.USER_MULTIQUEUE | at.USER_CONNECTOR
    )
    assert parts.transaction is not None
    soap = struct.pack("<HHI", 0x320, 0, 3) + b"a\0b\0\0\0" + b"\0\0"
    soap += struct.pack("<HHI", 0x384, 0, 1) + b"\0\0" + b"\0\0"
    return replace(
        parts,
        base=replace(parts.base, flags=at.BASE_DEBUG, reserved=0x5A),
        user=replace(parts.user, flags=flags, connector=b"c" * 16),
        transaction=replace(
            parts.transaction, flags=parts.transaction.flags | at.TX_CONNECTOR, connector=b"C" * 16
        ),
        security=SecurityHeader(1, b"s" * 5, b"k", b"", b"cert", b"p" * 7),
        debug=DebugHeader(1, 0, b"q" * 16),
        soap=soap,
        multi=MultiNames((Element(3, direct="OS:A\\q"),)).pack(),
        trailing=b"trailing",
        paddings=(),
    )


# ---- round trips ---------------------------------------------------------------------------------


def test_every_header_comes_back() -> None:
    data = encode_headers(every_header())
    parts = headers(data)
    wanted = every_header()
    for name in ("base", "user", "transaction", "security", "properties", "debug", "soap",
                 "multi", "trailing"):  # fmt: skip
        assert getattr(parts, name) == getattr(wanted, name), name
    assert encode_headers(parts) == data
    assert tx_offset(data) == parts.offsets[0]
    assert properties_offset(data) == parts.offsets[1]


def test_padding_and_reserved_bytes_come_back() -> None:
    data = bytearray(encode_headers(every_header()))
    clean = bytes(data)
    paddings = 0
    for index in range(len(data)):
        if data[index]:
            continue
        data[index] = 0xEE
        try:
            parts = headers(bytes(data))
        except MalformedPacket:
            data[index] = 0
            continue
        assert encode_headers(parts) == bytes(data), f"byte {index}"
        paddings += parts.paddings != headers(clean).paddings
        data[index] = 0
    assert paddings == sum(map(len, headers(clean).paddings))


# ---- names ---------------------------------------------------------------------------------------

GUID = "03020100-0504-0706-0809-0a0b0c0d0e0f"
OTHER = "6d6d6d6d-6d6d-6d6d-6d6d-6d6d6d6d6d6d"


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (Address(0), ""),
        (Address(2, number=4), f"PRIVATE={GUID}\\00000004"),
        (Address(3, number=0x1F), f"PRIVATE={OTHER}\\0000001f"),
        (Address(5, SOURCE), f"PUBLIC={GUID}"),
        (Address(6, b"m" * 16, 1), f"PRIVATE={OTHER}\\00000001"),
        (Address(7, direct="TCP:10.0.0.1\\q"), "DIRECT=TCP:10.0.0.1\\q"),
    ],
)
def test_names_in_packets_are_format_names(address: Address, text: str) -> None:
    assert name_of(address, source=SOURCE, manager=b"m" * 16) == text
    same = response_name(Address(1), address, source=SOURCE, manager=b"m" * 16)
    assert same == text


@pytest.mark.parametrize(
    ("admin", "text"),
    [
        (Address(2, number=1), f"PRIVATE={GUID}\\00000008"),
        (Address(3, number=1), f"PRIVATE={OTHER}\\00000008"),
        (Address(6, b"m" * 16, 1), f"PRIVATE={OTHER}\\00000008"),
        (Address(5, SOURCE), ""),
        (Address(7, direct="OS:A\\q"), ""),
    ],
)
def test_response_queue_on_the_host_of_the_admin_queue(admin: Address, text: str) -> None:
    response = Address(ON_ADMIN, number=8)
    assert response_name(response, admin, source=SOURCE, manager=b"m" * 16) == text


LEGAL = {"destination": {0, 3, 5, 7}, "admin": {0, 2, 3, 5, 6, 7}, "response": set(range(8))}


@pytest.mark.parametrize("kind", range(8))
@pytest.mark.parametrize("which", LEGAL)
def test_types_of_names(which: str, kind: int) -> None:
    """The table of MS-MQMQ 2.2.19.2: who may have which type."""
    direct = "OS:B\\q" if kind == DIRECT else ""
    guid = b"g" * 16 if kind in (5, 6) else bytes(16)
    number = 77 if kind in (2, 3, 4, 6) else 0
    plain = {name: Address(DIRECT, direct="OS:C\\c") for name in LEGAL}
    address = Address(kind, guid, number, direct)
    made = template(
        source=SOURCE, properties=Properties(), sent_time=1, transactional=True,
        **{**plain, which: address},
    )  # fmt: skip
    data = bytes(encode_run(made, Run.of([b"b"]), first_message=1).data)
    if kind not in LEGAL[which]:
        with pytest.raises(MalformedPacket, match="not legal"):
            headers(data)
        return
    assert getattr(headers(data).user, which) == address
    assert tx_offset(data) == headers(data).offsets[0]


# ---- quick looks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("transactional", [True, False])
def test_glance(start: int, transactional: bool) -> None:
    data = packet(transactional=transactional)
    parts = headers(data)
    seen = glance(b"-" * start + data, start)
    assert (seen.size, seen.message, seen.source) == (len(data), 3, SOURCE)
    assert (seen.transactional, seen.tx_offset) == (transactional, parts.offsets[0])
    assert (seen.stream, seen.number, seen.previous) == ((5, 9, 8) if transactional else (0, 0, 0))
    assert seen.recoverable
    assert at.packet_size(b"-" * start + data, start) == len(data)


def test_glance_at_what_is_no_packet() -> None:
    data = packet()
    for size in range(at.OFF_NAMES + 20):
        with pytest.raises(MalformedPacket):
            glance(data[:size])
    with pytest.raises(MalformedPacket):
        glance(b"\x11" + data[1:])
    with pytest.raises(MalformedPacket):
        properties_offset(data[:40])


def test_previous_is_written_and_nothing_else() -> None:
    first, second = packet(body=b"1"), packet(body=b"22")
    data = bytearray(first + second)
    set_previous(data, len(first), len(second), 0x01020304)
    assert data[: len(first)] == first
    parts = headers(bytes(data[len(first) :]))
    assert parts.transaction is not None
    assert (parts.transaction.previous, parts.transaction.number) == (0x01020304, 9)
    set_previous(data, len(first), len(second), 8)
    assert bytes(data) == first + second


def test_previous_needs_a_transactional_message() -> None:
    data = bytearray(packet(transactional=False))
    with pytest.raises(AssertionError):
        set_previous(data, 0, len(data), 1)


def test_class_is_written_and_nothing_else() -> None:
    data = bytearray(packet() + encode_headers(every_header()))
    start = len(packet())
    before = bytes(data)
    set_class(data, start, len(data) - start, 0x8003)
    assert decode(bytes(data[start:])).message_class == 0x8003
    assert sum(a != b for a, b in zip(before, data, strict=True)) == 2


def test_class_may_be_given_to_decode() -> None:
    assert decode(packet(), message_class=0x8001).message_class == 0x8001


# ---- what must be refused ------------------------------------------------------------------------


def refused(data: bytes) -> None:
    with pytest.raises(MalformedPacket):
        headers(data)
    with pytest.raises(MalformedPacket):
        decode(data)
    with pytest.raises(MalformedPacket):
        cut(data, array("I", (len(data),)))


def relabelled(data: bytes) -> bytes:
    """With a PacketSize that fits, so that only the contents are wrong."""
    return data[:8] + struct.pack("<I", len(data)) + data[12:]


@pytest.mark.parametrize("data", [packet(), encode_headers(every_header())], ids=["few", "all"])
def test_truncated_at_every_byte(data: bytes) -> None:
    trailing = len(headers(data).trailing)
    for size in range(len(data) - trailing):
        refused(data[:size])
        if size >= 12:
            refused(relabelled(data[:size]))


def test_bytes_after_the_last_header_are_kept_and_counted() -> None:
    for extra in (1, 12, 16, 100):
        data = relabelled(packet() + b"\x5a" * extra)
        parts = headers(data)
        assert parts.trailing == b"\x5a" * extra
        assert encode_headers(parts) == data
        assert decode(data).body == b"body!"


FIELDS = {
    "PacketSize": (8, 4),
    "DestinationQueue count": (64, 2),
    "LabelLength": ("p1", 1),
    "MessageSize": ("p32", 4),
    "AllocationBodySize": ("p36", 4),
    "ExtensionSize": ("p52", 4),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("field", FIELDS)
def test_lying_lengths(field: str, lie: int) -> None:
    data = bytearray(packet())
    place, size = FIELDS[field]
    offset = place if isinstance(place, int) else properties_offset(data) + int(place[1:])
    lie &= (1 << 8 * size) - 1
    data[offset : offset + size] = lie.to_bytes(size, "little")
    if field == "AllocationBodySize" and lie >= 5:
        # The allocation of a body that is not encrypted takes no place in the packet.
        assert headers(bytes(data)).properties.body == b"body!"
        return
    if field in ("MessageSize", "ExtensionSize") and lie in (0, 1):
        # What the body no longer reaches is padding, or follows the last header.
        parts = headers(bytes(data))
        left = len(parts.paddings[-1]) + len(parts.trailing)
        assert left == 8 - 5 - 3 + (5 - lie if field == "MessageSize" else 3 - lie)
        return
    if field == "LabelLength" and lie == 0:
        assert headers(bytes(data)).properties.label == ""
        return
    refused(bytes(data))


@pytest.mark.parametrize("lie", [*LIES, 8, 11])
@pytest.mark.parametrize("which", range(5))
def test_lying_lengths_in_the_security_header(which: int, lie: int) -> None:
    data = bytearray(encode_headers(every_header()))
    parts = headers(bytes(data))
    assert parts.security is not None
    start = parts.offsets[0] + at.TX_HEADER + 16
    offset, form = ((2, "<H"), (4, "<H"), (6, "<H"), (8, "<I"), (12, "<I"))[which]
    lie &= 0xFFFF if form == "<H" else 0xFFFFFFFF
    if lie > 16:
        struct.pack_into(form, data, start + offset, lie)
        if lie > len(data):
            refused(bytes(data))


@pytest.mark.parametrize("lie", [0, 1, 11, LIMIT, 1 << 31, 0xFFFFFFFF])
@pytest.mark.parametrize("header", ["soap", "multi"])
def test_lying_lengths_in_late_headers(header: str, lie: int) -> None:
    parts = replace(every_header(), trailing=bytes(400))
    raw = bytearray(getattr(parts, header))
    struct.pack_into("<I", raw, 4 if header == "soap" else 0, lie)
    data = encode_headers(replace(parts, **{header: bytes(raw)}))
    if header == "soap" and lie < 12:
        return
    refused(data)


def change(offset: int, value: bytes) -> bytes:
    data = bytearray(packet())
    data[offset : offset + len(value)] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (0, b"\x11"),
        (4, b"LIOX"),
        (2, b"\x08"),
        (at.OFF_USER_FLAGS, struct.pack("<I", 0x00301C00)),
        (at.OFF_USER_FLAGS, struct.pack("<I", 0x00301C40)),
        (at.OFF_USER_FLAGS, struct.pack("<I", 0x00101C20)),
        (at.OFF_USER_FLAGS, struct.pack("<I", 0x00301820)),
        (66, b"\0\0"),
        (66, b"\x0a\0"),
        (66, b"\x00\xd8"),
        (78, b"x\0"),
    ],
    ids=[
        "version", "signature", "internal", "transactional express", "delivery mode 2",
        "no properties", "destination type 6", "empty name", "control character", "half surrogate",
        "no terminator",
    ],
)  # fmt: skip
def test_malformed(offset: int, value: bytes) -> None:
    refused(change(offset, value))


def test_label_without_its_terminator() -> None:
    data = bytearray(packet())
    end = properties_offset(data) + at.PROPERTIES_HEADER + 2 * 6
    assert data[end - 2 : end] == b"\0\0"
    data[end - 2] = 65
    refused(bytes(data))


def test_label_with_a_nul_inside_ends_there_for_applications() -> None:
    data = bytearray(packet())
    start = properties_offset(data) + at.PROPERTIES_HEADER
    data[start + 4 : start + 6] = b"\0\0"
    assert decode(bytes(data)).label == "la"
    assert encode_headers(headers(bytes(data))) == bytes(data)


def test_errors_name_field_and_offset() -> None:
    data = bytearray(packet())
    data[properties_offset(data) + 1] = 251
    with pytest.raises(MalformedPacket, match=r"Label.*at byte \d+"):
        headers(bytes(data))


def test_encrypted_body_is_marked() -> None:
    parts = every_header()
    assert parts.security is not None
    sealed = replace(
        parts, security=replace(parts.security, flags=at.SECURITY_ENCRYPTED),
        properties=replace(parts.properties, body_allocated=8, slack=b"***"), trailing=b"",
    )  # fmt: skip
    data = encode_headers(sealed)
    assert headers(data).encrypted
    assert headers(data).properties.slack == b"***"
    (run,) = cut(data, array("I", (len(data),)))
    assert run.encrypted


# ---- lists of names ------------------------------------------------------------------------------

LISTS = MultiNames(
    (Element(3, direct="OS:A\\q"), Element(2, SOURCE, 5), Element(6, SOURCE), Element(1, SOURCE)),
    (Element(3, direct="OS:B\\qq"),),
)


def test_lists_of_names_come_back() -> None:
    assert parse_multi(LISTS.pack()) == LISTS


def test_lists_of_names_truncated() -> None:
    data = LISTS.pack()
    for size in range(len(data) - 8):
        with pytest.raises(MalformedPacket):
            parse_multi(data[:size])


@pytest.mark.parametrize(
    ("offset", "form", "value"),
    [
        (0, "<I", 0), (0, "<I", 11), (0, "<I", 0xFFFFFFFF), (4, "<H", 0x65),
        (8, "<I", 5), (8, "<I", 3), (8, "<I", ELEMENTS_MAX + 1), (8, "<I", 0xFFFFFFFF),
        (12, "<H", 4), (12, "<H", 0), (24, "<I", 0x000A000A), (14, "<H", 10), (14, "<H", 0xD800),
    ],
)  # fmt: skip
def test_lists_of_names_that_lie(offset: int, form: str, value: int) -> None:
    raw = bytearray(LISTS.pack())
    struct.pack_into(form, raw, offset, value)
    with pytest.raises(MalformedPacket):
        parse_multi(bytes(raw))


def test_a_name_in_a_list_without_its_end() -> None:
    raw = bytearray(MultiNames((Element(3, direct="OS:A\\q"),)).pack())
    assert raw[26:28] == b"\0\0"
    raw[26] = 65
    with pytest.raises(MalformedPacket, match="not terminated"):
        parse_multi(bytes(raw))
