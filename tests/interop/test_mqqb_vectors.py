"""Published packets, byte for byte (P12): what is in them, and the same bytes again.

Each file's ``# expect`` lines say what must be found. All real bytes of Windows among them come
from one capture in MS-MQQB 4.1.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from onceq.errors import MalformedPacket
from onceq.model.identity import MessageId, guid_bytes, guid_text
from onceq.model.message import Acknowledge, Delivery
from onceq.model.settings import Settings
from onceq.packet.arrived import USER, cut
from onceq.packet.decode import decode, encode_headers, glance, headers, properties_offset
from onceq.wire.mqqb.internal import (
    Cutter,
    Establish,
    InternalPacket,
    Parameters,
    SessionHeader,
    UserPackets,
    parse,
)
from onceq.wire.mqqb.session import Closed, Session

VECTORS = Path(__file__).parent / "vectors"
PING = "mqqb-01-ping-request"
ESTABLISH = "mqqb-03-establish-connection-request"
PARAMETERS = ("mqqb-05-connection-parameters-request", "mqqb-06-connection-parameters-response")
TRUNCATED = "mqqb-07-user-message-express-as-printed"
MESSAGE = "mqqb-07r-user-message-express-reconstructed"
ACK = "mqqb-08-session-ack"
SCANNER = "mqqb-09-establish-connection-request-zero-padding"
STORED_FORM = "mqqb-10-user-message-srmp-in-binary"
CLIENT = "557358d1-9150-9595-4997-b6e611ea26c6"
FOREIGN = "43cd8907-394c-8f11-4445-9078909ea0fc"


def vector(name: str) -> bytes:
    """The bytes of a vector."""
    lines = (VECTORS / f"{name}.hex").read_text().splitlines()
    data = bytes.fromhex(" ".join(line for line in lines if not line.startswith("#")))
    (length,) = [line.split()[2] for line in lines if line.startswith("# length:")]
    assert len(data) == int(length)
    return data


def whole(data: bytes) -> list[UserPackets | InternalPacket]:
    """What the cutter makes of bytes."""
    found: list[UserPackets | InternalPacket] = []
    for piece in Cutter().feed(data):
        if isinstance(piece, MalformedPacket):
            raise piece
        found.append(piece)
    return found


# ---- packets of the session ----------------------------------------------------------------------


def test_establish_connection() -> None:
    data = vector(ESTABLISH)
    packet = parse(data)
    assert isinstance(packet, Establish)
    assert guid_text(packet.client) == CLIENT
    assert guid_text(packet.server) == FOREIGN
    assert (packet.stamp_ms, packet.system, packet.refused) == (501140046, 0x0310, False)
    assert packet.padding == b"\x5a" * 512
    assert packet.reserved == (0xC0, 0)
    assert packet.encode() == data


def test_establish_connection_with_zero_padding() -> None:
    data = vector(SCANNER)
    packet = parse(data)
    assert isinstance(packet, Establish)
    assert packet.padding == bytes(512)
    assert packet.encode() == data
    captured = parse(vector(ESTABLISH))
    assert isinstance(captured, Establish)
    assert (packet.client, packet.server) == (captured.client, captured.server)


@pytest.mark.parametrize("name", PARAMETERS)
def test_connection_parameters(name: str) -> None:
    data = vector(name)
    packet = parse(data)
    assert packet == Parameters(1496, 120_000, 64, reserved=(0xC0, 0))
    assert packet.encode() == data


def test_session_ack() -> None:
    data = vector(ACK)
    packet = parse(data)
    assert packet == SessionHeader(1, 0, 0, 0, 0, 64, reserved=(0xCD, 0))
    assert packet.encode() == data


@pytest.mark.parametrize("name", [ESTABLISH, SCANNER, *PARAMETERS, ACK])
def test_our_own_packets_have_the_flags_of_the_published_ones(name: str) -> None:
    data = bytearray(vector(name))
    data[1] = 0
    packet = parse(data)
    assert packet.reserved[0] == 0
    assert packet.encode() == data


def test_scanner_is_answered_and_refused() -> None:
    """The acceptor answers a foreign ServerGuid with CS=1 and closes (U8)."""
    own = bytes(range(16))
    session = Session(initiator=False, own_id=own, settings=Settings(), now_us=0)
    events = session.receive(vector(SCANNER), 0)
    assert [type(event) for event in events] == [Closed]
    (answer,) = session.take_output()
    assert bytes(answer[2:16]).hex() == "0b004c494f523c020000ffffffff"
    packet = parse(answer)
    assert isinstance(packet, Establish)
    assert packet.refused
    assert packet.server == own
    assert guid_text(packet.client) == CLIENT
    assert (packet.stamp_ms, packet.system, packet.padding) == (501140046, 0x110, b"\x5a" * 512)


def test_ping_is_not_a_packet_of_a_session() -> None:
    """UDP pings are not done; on TCP they are strangers."""
    with pytest.raises(MalformedPacket):
        whole(vector(PING))


# ---- messages ------------------------------------------------------------------------------------


def test_user_message_headers() -> None:
    data = vector(MESSAGE)
    parts = headers(data)
    base, user, props = parts.base, parts.user, parts.properties
    assert (base.flags, base.time_to_reach_queue) == (0x0003, 345_600)
    assert guid_text(user.source) == CLIENT
    assert user.destination_manager == bytes(16)
    assert (user.time_to_be_received, user.sent_time, user.message) == (
        0xFFFFFFFF, 0x524F494C, 2286
    )  # fmt: skip
    assert user.flags == 0x00281C00
    assert (user.destination.kind, user.destination.direct) == (7, "OS:a04bm02\\q")
    assert (user.admin.kind, user.response.kind) == (0, 0)
    assert struct.unpack_from("<H", data, 64) == (26,)
    assert parts.security is not None
    assert (parts.security.flags, len(parts.security.sender)) == (1, 28)
    assert parts.security.sender == struct.pack(
        "<BB6s5I", 1, 5, b"\0\0\0\0\0\5", 21, 3181267629, 1039849782, 3663111779, 1000
    )
    assert (parts.security.key, parts.security.signature) == (b"", b"")
    assert (parts.security.certificate, parts.security.provider) == (b"", b"")
    assert parts.offsets == (0, 0x88)
    assert (props.flags, props.label, props.label_chars) == (0x0F, "mqsender label", 15)
    assert (props.message_class, props.body_type, props.body_allocated) == (0, 8, 2000)
    assert (props.privacy, props.hash, props.encryption) == (0, 0x8004, 0x6801)
    assert props.extension == b""
    assert props.body == ("a" * 1000).encode("utf-16-le")
    assert (parts.transaction, parts.debug, parts.soap, parts.multi) == (None, None, b"", b"")
    assert parts.trailing == b""


def test_user_message_as_an_application_sees_it() -> None:
    message = decode(vector(MESSAGE))
    assert message.id == MessageId(guid_bytes(CLIENT), 2286)
    assert message.destination == "DIRECT=OS:a04bm02\\q"
    assert message.label == "mqsender label"
    assert (message.priority, message.delivery) == (3, Delivery.EXPRESS)
    assert message.acknowledge == Acknowledge(15)
    assert message.body_type == 8
    assert not message.transactional
    assert message.body.decode("utf-16-le") == "a" * 1000


def test_user_message_arrives() -> None:
    data = vector(MESSAGE)
    (found,) = whole(data)
    assert isinstance(found, UserPackets)
    (run,) = cut(found.data, found.lengths)
    assert (run.kind, run.transactional, run.recoverable, run.priority) == (USER, False, False, 3)
    assert (run.source, run.first_message) == (guid_bytes(CLIENT), 2286)
    assert (run.wants, run.acknowledge) == (0, 0), "all levels, but no queue to tell (ACK-1)"
    assert bytes(run.packets.data) == data


def test_two_messages_of_windows_are_one_run() -> None:
    data = vector(MESSAGE) * 2
    (found,) = whole(data)
    assert isinstance(found, UserPackets)
    (run,) = cut(found.data, found.lengths)
    assert list(run.packets.lengths) == [2224, 2224]


def test_truncated_message_is_incomplete_and_not_bad() -> None:
    cutter = Cutter()
    assert cutter.feed(vector(TRUNCATED)) == []
    assert cutter.waiting == 1650
    (found,) = cutter.feed(vector(MESSAGE)[1650:])
    assert isinstance(found, UserPackets)
    assert bytes(found.data) == vector(MESSAGE)
    assert cutter.waiting == 0


def test_stored_form_is_framed_and_decoded() -> None:
    data = vector(STORED_FORM)
    (found,) = whole(data)
    assert isinstance(found, UserPackets)
    assert list(found.lengths) == [2380]
    parts = headers(data)
    user, props = parts.user, parts.properties
    assert parts.base.flags == 0x0003
    assert (user.source, user.destination_manager) == (bytes(16), bytes(16))
    assert (user.time_to_be_received, user.sent_time, user.message) == (0, 1690217059, 1)
    assert user.flags == 0x02201C01
    assert user.destination.direct == "http://192.168.10.100/msmq/private$/queuejumper"
    assert struct.unpack_from("<H", data, 64) == (96,)
    assert parts.offsets == (0, 0xA4)
    assert properties_offset(data) == 0xA4
    assert (props.label, props.body) == ("poc", b"")
    assert len(parts.trailing) == 2380 - 0xE4
    assert struct.unpack_from("<HHI", parts.trailing) == (0, 0, 539)
    compound = parts.trailing[0x524 - 0xE4 :]
    assert struct.unpack_from("<HHIII", compound) == (500, 0, 1036, 7, 995)
    assert struct.unpack_from("<I", parts.trailing, 0x940 - 0xE4) == (12,)
    message = decode(data)
    assert (message.hops, message.body) == (1, b"")


@pytest.mark.parametrize("name", [MESSAGE, STORED_FORM])
def test_well_formed_messages_give_the_same_bytes_again(name: str) -> None:
    data = vector(name)
    assert encode_headers(headers(data)) == data


@pytest.mark.parametrize("name", [MESSAGE, STORED_FORM])
def test_glance_agrees_with_headers(name: str) -> None:
    data = vector(name)
    seen, parts = glance(data), headers(data)
    assert (seen.size, seen.source, seen.message, seen.user_flags) == (
        len(data), parts.user.source, parts.user.message, parts.user.flags
    )  # fmt: skip
    assert (seen.tx_offset, seen.transactional) == (0, False)


# ---- numbers -------------------------------------------------------------------------------------


def test_stream_numbers_are_one_64_bit_number() -> None:
    """data-01: ordinal low, timestamp high."""
    lines = (VECTORS / "data-01-txsequenceid.txt").read_text().split("#---")[1].splitlines()
    values = dict(line.split(None, 1) for line in lines if line)
    (number,) = struct.unpack("<Q", bytes.fromhex(values["wire8"]))
    assert number == int(values["decimal"]) == int(values["hex"], 16)
    assert number & 0xFFFFFFFF == int(values["ordinal"])
    assert number >> 32 == int(values["timestamp"].split()[0])


def test_message_identifiers_are_guid_and_number() -> None:
    """data-02: 16 bytes of GUID, 4 of number."""
    lines = (VECTORS / "data-02-objectid-base64.txt").read_text().split("#---")[1].splitlines()
    values = dict(line.split(None, 1) for line in lines if line)
    raw = bytes.fromhex(values["bytes20"])
    found = MessageId.unpack(raw)
    assert guid_text(found.source) == values["lineage"]
    assert found.number == int(values["uniquifier"])
    assert found.pack() == raw
