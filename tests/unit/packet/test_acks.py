"""Order and final acknowledgments: their layout and sizes (MS-MQQB 2.2.4, 2.2.5)."""

from __future__ import annotations

import struct

import pytest

from onceq.errors import MalformedPacket
from onceq.model.identity import NO_GUID
from onceq.packet.acks import (
    FinalAck,
    OrderAck,
    final_ack,
    order_ack,
    parse_final_ack,
    parse_order_ack,
)
from onceq.packet.decode import headers, properties_offset

OWN, SENDER = bytes(range(16)), b"S" * 16
STREAM = 0x432B164300000006
FINAL_CLASSES = (
    0x4000, 0x8000, 0x8001, 0x8002, 0x8003, 0x8004, 0x8005, 0x8006, 0x8007, 0x8009, 0x800A,
    0x800B, 0xC000, 0xC001, 0xC002, 0xC004,
)  # fmt: skip


def order(address: str = "", number: int = 12) -> bytes:
    return order_ack(
        own=OWN, own_message=5, sent_time=1000, address=address,
        destination_manager=NO_GUID if address else SENDER, stream=STREAM, number=number,
    )  # fmt: skip


def final(address: str = "", message_class: int = 0x4000) -> bytes:
    return final_ack(
        own=OWN, own_message=6, sent_time=1000, address=address, destination_manager=SENDER,
        message_class=message_class, stream=STREAM, number=12, previous=9, source=SENDER,
        message=2286,
    )  # fmt: skip


def test_order_ack_to_a_number_byte_for_byte() -> None:
    label = "QM Ordering Ack\0".encode("utf-16-le")
    expected = (
        b"\x10\0\0\0LIOR" + struct.pack("<II", 192, 0xFFFFFFFF)
        + OWN + SENDER + struct.pack("<IIII", 0xFFFFFFFF, 1000, 5, 1 << 21 | 3 << 10)
        + struct.pack("<I", 4)
        + struct.pack("<BBH20sII", 0, 16, 0x00FF, bytes(20), 0, 0)
        + struct.pack("<IIIIII", 36, 36, 0, 0x8004, 0x6801, 0) + label
        + struct.pack("<QII", STREAM, 12, 11) + bytes(20)
    )  # fmt: skip
    assert order() == expected
    assert len(expected) == 192


def test_order_ack_to_an_address() -> None:
    data = order("10.0.0.5")
    assert len(data) == 260
    assert properties_offset(data) == 16 + 120
    parts = headers(data)
    assert parts.user.destination.direct == "TCP:10.0.0.5\\PRIVATE$\\order_queue$"
    assert parts.user.destination_manager == NO_GUID
    assert parts.user.flags == 1 << 21 | 7 << 10
    assert (parts.base.flags, parts.properties.label_chars) == (0, 16)


@pytest.mark.parametrize("address", ["1.2.3.4", "255.255.255.255", "fe80::1", "::1"])
def test_sizes_of_direct_order_acks(address: str) -> None:
    name = f"TCP:{address}\\PRIVATE$\\order_queue$"
    user = 50 + 2 * (len(name) + 1) + 3 & ~3
    assert len(order(address)) == 16 + user + 56 + 32 + 36


@pytest.mark.parametrize("address", ["", "10.0.0.5"])
def test_order_ack_comes_back(address: str) -> None:
    assert parse_order_ack(order(address)) == OrderAck(OWN, STREAM, 12)
    assert parse_order_ack(order(address, 0xFFFFFFFF)).number == 0xFFFFFFFF
    assert parse_order_ack(memoryview(order(address))) == OrderAck(OWN, STREAM, 12)


def test_reserved_bytes_of_an_order_ack_are_not_read() -> None:
    data = order()
    assert parse_order_ack(data[:-20] + b"\xcd" * 20) == OrderAck(OWN, STREAM, 12)


def test_nothing_accepted_is_not_acknowledged() -> None:
    with pytest.raises(AssertionError):
        order(number=0)


@pytest.mark.parametrize("message_class", FINAL_CLASSES)
@pytest.mark.parametrize("address", ["", "10.0.0.5"])
def test_final_ack_comes_back(address: str, message_class: int) -> None:
    data = final(address, message_class)
    assert parse_final_ack(data) == FinalAck(OWN, message_class, STREAM, 12, 9, SENDER, 2286)
    assert headers(data).user.flags & 0x60 == 0x20
    assert len(data) == (260 if address else 192)


def test_final_ack_body() -> None:
    assert headers(final()).properties.body == (
        struct.pack("<QII", STREAM, 12, 9) + SENDER + struct.pack("<I", 2286)
    )


def test_final_ack_needs_a_class_of_its_own() -> None:
    with pytest.raises(AssertionError):
        final(message_class=2)


def test_neither_is_taken_for_the_other() -> None:
    with pytest.raises(MalformedPacket):
        parse_order_ack(final())
    with pytest.raises(MalformedPacket):
        parse_final_ack(order())


@pytest.mark.parametrize("data", [order(), order("10.0.0.5"), final()])
def test_truncated(data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(MalformedPacket):
            parse_order_ack(data[:size])
        with pytest.raises(MalformedPacket):
            parse_final_ack(data[:size])
