"""A session whose peer does wrong, or does what the published pages leave open."""

from __future__ import annotations

import struct

import pytest

from onceq.errors import MalformedPacket, PeerError, ProtocolState
from onceq.wire.mqqb.internal import SessionHeader
from onceq.wire.mqqb.session import Acked, Arrived, Closed
from tests.unit.wire.mqqb.pair import CP, EC, USER, header, opened, users

# ---- the peer does wrong -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [{"sent": 2}, {"sent": 4}, {"sent": 0}, {"sent_recoverable": 1}, {"sent_recoverable": 3},
     {"sent": 2, "sent_recoverable": 1}],
)  # fmt: skip
def test_counts_that_differ_close_after_what_they_acknowledge(values: dict[str, int]) -> None:
    session = opened()
    events = session.receive(header(received=5, base=1, flags=0xF, **values).encode(), 0)
    assert events[0] == Acked(5, 4)
    assert isinstance(events[1], Closed)
    assert isinstance(events[1].error, ProtocolState)


def test_counts_that_agree() -> None:
    assert opened().receive(header(received=5).encode(), 0) == [Acked(5, 0)]


@pytest.mark.parametrize("received", [6, 100, 65_535])
def test_acknowledging_what_was_not_sent(received: int) -> None:
    (event,) = opened().receive(header(received=received).encode(), 0)
    assert isinstance(event, Closed)
    assert isinstance(event.error, ProtocolState)


@pytest.mark.parametrize(
    ("base", "flags", "durable"),
    [
        (0, 0, 0), (1, 0b1, 1), (1, 0b11, 2), (1, 0b1111, 4), (1, 0b101, 1), (1, 0b10, 1),
        (2, 0b1, 2), (4, 0b1, 4), (3, 0b10, 3), (4, 0, 4),
        (5, 0b1, 0), (1, 0b11111, 0), (1, 0xFFFFFFFF, 0), (65_535, 1, 0), (0, 0b1, 0), (0, 0b11, 0),
    ],
)  # fmt: skip
def test_what_flags_acknowledge(base: int, flags: int, durable: int) -> None:
    """The base and all before it, and what follows without a hole; never more than was sent."""
    events = opened().receive(header(base=base, flags=flags).encode(), 0)
    assert events == ([Acked(0, durable)] if durable else [])


def test_durable_counts_never_fall() -> None:
    session = opened()
    assert session.receive(header(base=1, flags=0b1111).encode(), 0) == [Acked(0, 4)]
    assert session.receive(header(base=1, flags=0b11, received=1).encode(), 0) == [Acked(1, 4)]


MALFORMED = {
    "stranger": b"GET / HTTP/1.1\r\n",
    "tiny": b"\x10\0\0\0LIOR" + struct.pack("<I", 19),
    "huge": b"\x10\0\0\0LIOR" + struct.pack("<I", 0x00400001),
    "label": USER[:-60] + b"\xff" * 60,
    "type": USER[:60] + b"\xff\xff\xff\xff" + USER[64:],
    "internal type": CP[:18] + b"\x07\0" + CP[20:],
    "internal size": EC[:18] + b"\x03\0" + EC[20:],
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("before", [b"", USER])
def test_malformed_packets_close(name: str, before: bytes) -> None:
    session = opened()
    *events, event = session.receive(before + MALFORMED[name], 0)
    assert isinstance(event, Closed)
    assert isinstance(event.error, MalformedPacket)
    assert event.reason.startswith("malformed-packet: ")
    assert session.closed
    assert (session.room, session.next_timer()) == (0, None)
    assert all(isinstance(other, Arrived) for other in events)


@pytest.mark.parametrize("lie", [0, 1, 0x00400000, 0x00400001, 1 << 31, 0xFFFFFFFF])
@pytest.mark.parametrize("offset", [8, 64, 118, 122, 138])
def test_lying_lengths_close(offset: int, lie: int) -> None:
    """Whatever a length says, the session answers with events and never with another error."""
    session = opened()
    data = bytearray(users(1, size=40).data)
    struct.pack_into("<I", data, offset, lie)
    for event in session.receive(bytes(data), 0):
        if isinstance(event, Closed):
            assert isinstance(event.error, PeerError)


@pytest.mark.parametrize("inside", [True, False])
def test_every_truncation_with_a_fitting_size_closes(inside: bool) -> None:
    for size in range(20, len(USER)):
        data = USER[:8] + struct.pack("<I", size) + USER[12:size]
        session = opened()
        (event,) = session.receive(data + (USER if inside else b""), 0)
        assert isinstance(event, Closed)
        assert isinstance(event.error, MalformedPacket)


# ---- session headers carried by messages ---------------------------------------------------------


def carrying(head: SessionHeader, *, inside: bool, recoverable: bool = True) -> bytes:
    data = bytearray(users(1, recoverable=recoverable).data)
    data[2] |= 0x10
    data += head.pack()
    if inside:
        struct.pack_into("<I", data, 8, len(data))
    return bytes(data)


@pytest.mark.parametrize("recoverable", [True, False])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("counted", [0, 1])
def test_carried_headers(counted: int, inside: bool, recoverable: bool) -> None:
    """Inside or behind the size (U1), counting their own message or not (U2)."""
    more = 1 if counted and recoverable else 0
    head = header(received=5, base=1, flags=0b1111, sent=3 + counted, sent_recoverable=2 + more)
    session = opened()
    arrived, acked = session.receive(carrying(head, inside=inside, recoverable=recoverable), 0)
    assert isinstance(arrived, Arrived)
    assert (arrived.messages, arrived.recoverable) == (1, int(recoverable))
    (packet,) = arrived.runs[0].packets
    assert bytes(packet) == users(1, recoverable=recoverable).data
    assert acked == Acked(5, 4)


@pytest.mark.parametrize("sent", [2, 5])
def test_carried_headers_that_count_otherwise(sent: int) -> None:
    head = header(received=5, sent=sent, sent_recoverable=2)
    events = opened().receive(carrying(head, inside=True), 0)
    assert [type(event) for event in events] == [Arrived, Acked, Closed]


def test_carried_headers_half_counted() -> None:
    head = header(sent=4, sent_recoverable=2)
    *_, event = opened().receive(carrying(head, inside=False), 0)
    assert isinstance(event, Closed)
