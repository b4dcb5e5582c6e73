"""Packets about messages in doubt: round trips, bounds, and told apart from acknowledgments."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.errors import MalformedPacket
from onceq.model.limits import INQUIRY_STREAMS_MAX, PASSED_RANGES_MAX
from onceq.packet.acks import (
    EndsAsked,
    EndsOpen,
    Inquiry,
    StillOpen,
    StreamMemory,
    ack_class,
    ends_asked,
    ends_open,
    inquiry,
    is_settling,
    order_ack,
    packed,
    parse_settling,
    settlement,
)
from onceq.packet.address import Address
from onceq.packet.arrived import ORDER_ACK, SETTLING, cut
from onceq.packet.headers import headers

A, B = b"A" * 16, b"B" * 16
u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
addresses = (
    st.builds(Address, st.just(7), direct=st.text("abc\\$é:", max_size=40))
    | st.builds(Address, st.just(3), number=u32)
    | st.builds(Address, st.just(5), guid=st.binary(min_size=16, max_size=16))
)
inquiries = st.builds(
    Inquiry, addresses,
    st.lists(st.tuples(u64, u32), max_size=INQUIRY_STREAMS_MAX).map(tuple),
)  # fmt: skip
ranges = st.lists(st.tuples(u32, u32), max_size=5).map(tuple)
memories = st.lists(st.builds(StreamMemory, u64, u32, u32, st.booleans(), ranges), max_size=8)


def asked(said: Inquiry) -> bytes:
    return inquiry(said, own=A, own_message=1, sent_time=2, destination_manager=B)


def told(said: list[StreamMemory]) -> bytes:
    return settlement(said, own=A, own_message=1, sent_time=2, destination_manager=B)


def body(raw: bytes) -> bytes:
    return packed(A, 1, 2, "", B, 0xFF, 0, raw)  # type: ignore[arg-type]


@given(inquiries)
def test_inquiries_come_back_as_they_were(said: Inquiry) -> None:
    packet = asked(said)
    assert is_settling(headers(packet))
    assert ack_class(headers(packet)) == 0
    assert parse_settling(packet) == said


@given(memories)
def test_settlements_come_back_as_they_were(said: list[StreamMemory]) -> None:
    packet = told(said)
    assert ack_class(headers(packet)) == 0
    assert parse_settling(packet) == said


ends = st.builds(
    EndsAsked,
    st.lists(st.tuples(u64, u32, u32), max_size=INQUIRY_STREAMS_MAX).map(tuple),
)
still = st.builds(
    StillOpen, u32, u32, st.builds(StreamMemory, u64, u32, u32, st.booleans(), ranges), ranges
)
opened = st.builds(EndsOpen, st.lists(still, max_size=8).map(tuple))


@given(ends, opened)
def test_what_is_asked_and_told_of_ends_comes_back_as_it_was(
    said: EndsAsked, answered: EndsOpen
) -> None:
    one = ends_asked(said, own=A, own_message=1, sent_time=2, destination_manager=B)
    two = ends_open(answered, own=A, own_message=1, sent_time=2, destination_manager=B)
    for packet in (one, two):
        assert is_settling(headers(packet))
        assert ack_class(headers(packet)) == 0
        assert len(headers(packet).properties.body) != 36
    assert (parse_settling(one), parse_settling(two)) == (said, answered)


def test_they_are_no_order_acknowledgments_and_these_are_none_of_them() -> None:
    one = order_ack(
        own=A, own_message=1, sent_time=2, address="", destination_manager=B,
        stream=int.from_bytes(b"OQX1\0\0\0\1", "little"), number=3,
    )  # fmt: skip
    two = asked(Inquiry(Address(7, direct="OS:B\\private$\\q"), ((1, 2),)))
    three = told([StreamMemory(1, 1, 5, True, ((2, 3),))])
    runs = cut(one + two + three, array("I", map(len, (one, two, three))))
    assert [run.kind for run in runs for _ in run.packets] == [ORDER_ACK, SETTLING, SETTLING]
    assert not any(run.recoverable for run in runs)


@pytest.mark.parametrize("name", ["", "x", "xx" * 4, "OS:B\\private$\\" + "q" * 9])
def test_no_body_has_the_size_of_an_acknowledgment(name: str) -> None:
    for streams in range(4):
        packet = asked(Inquiry(Address(7, direct=name), ((1, 2),) * streams))
        assert len(headers(packet).properties.body) != 36


@given(st.binary(max_size=80))
def test_whatever_stands_in_a_body_is_read_or_refused(raw: bytes) -> None:
    try:
        parse_settling(body(b"OQX1" + raw))
    except MalformedPacket:
        pass


@pytest.mark.parametrize(
    "raw",
    [
        b"OQX1",
        b"OQX1\x03" + bytes(20),
        b"OQX1\x01\x05\x00\x00" + bytes(4) + b"\x0f\x00" + bytes(15),
        b"OQX1\x01\x06\x00\x00" + bytes(4) + b"\x10\x00" + bytes(16),
        b"OQX1\x01\x07" + (INQUIRY_STREAMS_MAX + 1).to_bytes(2, "little") + bytes(600),
        b"OQX1\x02\x00\x01\x00" + bytes(6) + bytes(17)
        + (PASSED_RANGES_MAX + 1).to_bytes(2, "little") + bytes(2000),
        b"OQX1\x06\x00\x02\x00" + bytes(6) + bytes(31),
        b"OQX1\x07\x00\x01\x00" + bytes(6) + bytes(16) + bytes(19)
        + (PASSED_RANGES_MAX + 1).to_bytes(2, "little") + bytes(2000),
        b"OQX1\x07\x00\x01\x00" + bytes(6) + b"\x01" + bytes(200),
        b"OQX1\x01\x07\x00\x00" + bytes(4) + b"\x02\x00\xff\xff",
    ],
)  # fmt: skip
def test_more_than_the_bounds_or_less_than_it_says_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedPacket):
        parse_settling(body(raw))


def test_what_a_memory_says_of_a_number() -> None:
    here = StreamMemory(1, 3, 9, False, ((5, 6),))
    assert [here.arrived(n) for n in (2, 3, 4, 5, 6, 7, 9, 10)] == [
        None, True, True, False, False, True, True, None,
    ]  # fmt: skip
    assert StreamMemory(1, 1, 9, True).arrived(10) is False
