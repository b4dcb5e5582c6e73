"""Bytes that nobody should send (P10): every parser answers with a value or a MalformedPacket.

Well-formed packets are changed in a few places, cut, doubled and mixed; the published ones are
among them. ``ONCEQ_FUZZ_EXAMPLES`` makes it longer than a change allows.
"""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceq.errors import MalformedPacket, PeerError
from onceq.model.marks import delayed, trace_trailer, undelayed, without_trace
from onceq.model.message import Journal, Properties
from onceq.model.run import Run
from onceq.model.settings import Settings
from onceq.packet.acks import final_ack, order_ack, parse_final_ack, parse_order_ack
from onceq.packet.address import Address, Element, MultiNames
from onceq.packet.arrived import LastShape, cut
from onceq.packet.decode import (
    decode,
    encode_headers,
    glance,
    headers,
    parse_multi,
    properties_offset,
    tx_offset,
)
from onceq.packet.encode import encode_run, template
from onceq.packet.headers import untraced_packets
from onceq.wire.mqqb.internal import Establish, Parameters, SessionHeader, parse
from onceq.wire.mqqb.session import Acked, Arrived, Closed, Session

EXAMPLES = int(os.environ.get("ONCEQ_FUZZ_EXAMPLES", "400"))
FUZZ = settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= 400)
VECTORS = Path(__file__).parent.parent / "interop" / "vectors"


def vectors() -> list[bytes]:
    found = []
    for path in sorted(VECTORS.glob("mqqb-*.hex")):
        lines = path.read_text().splitlines()
        found.append(bytes.fromhex(" ".join(line for line in lines if line[:1] != "#")))
    assert len(found) == 9
    return found


def packets(
    *, transactional: bool, multi: MultiNames | None = None, extension: bytes = b"extension"
) -> list[bytes]:
    made = template(
        source=b"S" * 16, destination=Address(7, direct="OS:B\\private$\\q"), multi=multi,
        admin=Address(2, number=5), response=Address(4, number=6), sent_time=1,
        properties=Properties(label="label", journal=Journal.JOURNAL, extension=extension),
        transactional=transactional,
    )  # fmt: skip
    run = encode_run(made, Run.of([b"one", b"two", b"three"]), first_message=1,
                     stream=9 * transactional, first_number=int(transactional))  # fmt: skip
    return [bytes(packet) for packet in run]


TRACE = trace_trailer("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
NAMES = MultiNames((Element(3, direct="OS:A\\q"), Element(2, b"g" * 16, 1), Element(6, b"g" * 16)))
USERS = [
    *packets(transactional=True), *packets(transactional=False),
    *packets(transactional=True, multi=NAMES),
    *packets(transactional=True, extension=delayed(b"extension", 1_700_000_000)),
    *packets(transactional=False, extension=delayed(b"", 1_700_000_001)),
    *packets(transactional=True, extension=b"extension" + TRACE),
    *packets(transactional=False, extension=delayed(TRACE, 1_700_000_002)),
    order_ack(own=b"S" * 16, own_message=1, sent_time=1, address="10.0.0.5",
              destination_manager=bytes(16), stream=9, number=1),
    final_ack(own=b"S" * 16, own_message=1, sent_time=1, destination_manager=b"d" * 16,
              message_class=0x8000, stream=9, number=1, previous=0, source=b"S" * 16, message=1),
]  # fmt: skip
INTERNAL = [
    Establish(b"A" * 16, bytes(16), 1).encode(), Parameters(500, 20_000, 64).encode(),
    SessionHeader(0, 0, 0, 0, 0, 64).encode(), SessionHeader(1, 1, 1, 3, 3, 64).encode(),
]  # fmt: skip
CORPUS = [*USERS, *INTERNAL, *vectors()]
NUMBERS = [0, 1, 2, 3, 19, 20, 0xFF, 0x400000, 0x400001, 1 << 31, 0xFFFFFFFF]


@st.composite
def hostile(draw: st.DrawFn, corpus: list[bytes]) -> bytes:
    """A packet changed in a few places; its size fits again, more often than not."""
    data = bytearray(draw(st.sampled_from(corpus)))
    end = min(len(data), 400)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, end - 1))
        how = draw(st.integers(0, 2))
        if how == 0:
            data[at] = draw(st.integers(0, 255))
        elif how == 1:
            value = draw(st.sampled_from(NUMBERS)).to_bytes(4, "little")
            size = draw(st.sampled_from([1, 2, 4]))
            data[at : at + size] = value[:size]
        else:
            data[at] ^= 1 << draw(st.integers(0, 7))
    if draw(st.booleans()):
        data = data[: draw(st.integers(0, len(data)))]
    elif draw(st.booleans()):
        data += draw(st.binary(max_size=40))
    if draw(st.integers(0, 3)) and len(data) >= 12:
        data[8:12] = len(data).to_bytes(4, "little")
    return bytes(data)


def allowed(call: Callable[[bytes], object], data: bytes) -> None:
    with contextlib.suppress(MalformedPacket):
        call(data)


@FUZZ
@given(hostile(CORPUS) | st.binary(max_size=200))
def test_headers_and_decode(data: bytes) -> None:
    for call in (decode, glance, tx_offset, properties_offset, parse_multi, parse):
        allowed(call, data)
    allowed(parse_order_ack, data)
    allowed(parse_final_ack, data)
    try:
        parts = headers(data)
    except MalformedPacket:
        return
    assert encode_headers(parts) == data
    str(decode(data)).encode()
    assert tx_offset(data) == parts.offsets[0]
    assert properties_offset(data) == parts.offsets[1]
    allowed(parse_multi, parts.multi)


@FUZZ
@given(st.lists(hostile(USERS) | st.sampled_from(USERS), min_size=1, max_size=5))
def test_cut(items: list[bytes]) -> None:
    """``cut`` accepts exactly what taking every packet apart accepts."""
    data, lengths = b"".join(items), array("I", map(len, items))
    good = True
    for item in items:
        try:
            tx = headers(item).transaction
            good = good and (tx is None or tx.number > 0)
        except MalformedPacket:
            good = False
    if not good:
        with pytest.raises(MalformedPacket):
            cut(data, lengths)
        return
    runs = cut(data, lengths)
    assert b"".join(bytes(run.packets.data) for run in runs) == data
    at = 0
    for run in runs:
        assert len(run.message_numbers) == len(run.packets) > 0
        for offset, packet in enumerate(run.packets):
            assert bytes(packet) == items[at]
            parts = headers(packet)
            assert run.message_numbers[offset] == parts.user.message
            assert (run.source, run.destination) == (parts.user.source, parts.user.destination)
            assert run.due == undelayed(parts.properties.extension)[1]
            left = headers(untraced_packets(items[at]))
            assert left.properties.extension == without_trace(parts.properties.extension)
            assert (left.properties.body, left.multi) == (parts.properties.body, parts.multi)
            tx = parts.transaction
            assert run.transactional == (tx is not None)
            if tx is not None:
                assert (tx.stream, tx.number) == (run.stream, run.first_number + offset)
                before = run.first_previous if not offset else tx.number - 1
                assert tx.previous == before
            at += 1


@FUZZ
@given(st.lists(hostile(USERS) | st.sampled_from(USERS), min_size=1, max_size=6))
def test_what_came_before_changes_nothing(items: list[bytes]) -> None:
    """A packet that is held against the one before it is judged as it is by itself."""
    last = LastShape()
    for item in items:
        lengths = array("I", (len(item),))
        try:
            by_itself = cut(item, lengths)
        except MalformedPacket:
            with pytest.raises(MalformedPacket):
                cut(item, lengths, last)
        else:
            assert cut(item, lengths, last) == by_itself


@FUZZ
@given(st.lists(hostile(USERS), min_size=1, max_size=3), st.binary(max_size=12))
def test_cut_with_lengths_that_lie(items: list[bytes], lengths: bytes) -> None:
    table = array("I", [*map(len, items), *lengths])
    data = b"".join(items)
    if sum(table) != len(data):
        with pytest.raises(MalformedPacket):
            cut(data, table)


@FUZZ
@given(
    st.booleans(), st.integers(0, 2),
    st.lists(hostile(CORPUS) | st.sampled_from(CORPUS) | st.binary(max_size=40), max_size=6),
    st.integers(1, 3000),
)  # fmt: skip
def test_session(initiator: bool, ready: int, items: list[bytes], step: int) -> None:
    """Whatever comes in whatever pieces: events, and at most one end."""
    session = Session(initiator=initiator, own_id=b"A" * 16, settings=Settings(), now_us=0)
    if initiator:
        session.start()
    greetings = [Establish(b"A" * 16 if initiator else b"B" * 16, b"C" * 16 if initiator else
                           bytes(16), 0).encode(), INTERNAL[1]]  # fmt: skip
    data = b"".join(greetings[:ready] + items)
    ends = 0
    for at in range(0, len(data), step):
        for event in session.receive(data[at : at + step], at):
            if isinstance(event, Closed):
                ends += 1
                assert event.error is None or isinstance(event.error, PeerError)
            elif isinstance(event, Arrived):
                session.persisted(event.recoverable, at)
            elif isinstance(event, Acked):
                assert (event.messages, event.recoverable) == (0, 0)
        assert session.room <= Settings().session_window_messages
    assert ends == session.closed
    for part in session.take_output():
        assert len(part) in (32, 36, 572)
