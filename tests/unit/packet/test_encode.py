"""Runs of packets: sizes, numbers, limits."""

from __future__ import annotations

import struct
from array import array
from typing import Any

import pytest

from onceq.errors import BodyTooLarge
from onceq.model.identity import MessageId
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.run import Run
from onceq.packet.decode import decode
from onceq.packet.encode import encode_fronts, encode_run
from onceq.packet.own import own_headers
from tests.unit.packet.samples import SOURCE, made


def test_layout_of_a_transactional_message() -> None:
    """The defaults for a message to Windows, byte for byte."""
    run = encode_run(
        made(), Run.of([b"hello"]), first_message=17, stream=0x432B164300000006, first_number=1,
        transaction=5, first=True, last=True,
    )  # fmt: skip
    name = "OS:BETA\\private$\\stock\0".encode("utf-16-le")
    expected = (
        b"\x10\0\0\0LIOR" + struct.pack("<II", 16 + 48 + 48 + 20 + 56 + 8, 0xFFFFFFFF)
        + SOURCE + bytes(16) + struct.pack("<III", 0xFFFFFFFF, 1_700_000_000, 17)
        + struct.pack("<I", 0x00301C20)
        + struct.pack("<H", len(name)) + name
        + struct.pack("<I", 4 | 8 | 5 << 4) + bytes.fromhex("0600000043162b43")
        + struct.pack("<II", 1, 0)
        + struct.pack("<BBH20sII", 0, 0, 0, bytes(20), 0, 0)
        + struct.pack("<IIIIII", 5, 5, 0, 0x8004, 0x6801, 0) + b"hello\0\0\0"
    )  # fmt: skip
    assert bytes(run.data) == expected
    assert list(run.lengths) == [len(expected)]


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 300])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 1024])
def test_equal_bodies(count: int, size: int) -> None:
    bodies = [bytes([i % 251]) * size for i in range(count)]
    run = encode_run(
        made(), Run.of(bodies), first_message=100, stream=9, first_number=40, first=True, last=True
    )
    messages = [decode(packet) for packet in run]
    assert [m.body for m in messages] == bodies
    assert [m.id for m in messages] == [MessageId(SOURCE, 100 + i) for i in range(count)]
    assert [(m.number, m.previous) for m in messages] == [(40 + i, 39 + i) for i in range(count)]
    assert [m.first_in_transaction for m in messages] == [i == 0 for i in range(count)]
    assert [m.last_in_transaction for m in messages] == [i == count - 1 for i in range(count)]
    assert {m.stream for m in messages} == {9}


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 300])
@pytest.mark.parametrize("stream", [0, 9])
@pytest.mark.parametrize(("transactional", "transaction"), [(True, 5), (False, 0)])
def test_fronts_are_what_packets_begin_with(
    count: int, stream: int, *, transactional: bool, transaction: int
) -> None:
    headers = made(transactional=transactional)
    bodies = Run.of([bytes([i % 251]) * (i % 5 * 9) for i in range(count)])
    places: dict[str, Any] = {
        "first_message": (1 << 32) - 3, "stream": stream, "first_number": 40 if stream else 0,
        "transaction": transaction, "first": transactional, "last": transactional,
    }  # fmt: skip
    whole = encode_run(headers, bodies, **places)
    fronts = encode_fronts(headers, whole.lengths, **places)
    size = headers.properties
    assert fronts.lengths == whole.lengths
    assert bytes(fronts.data) == b"".join(bytes(packet[:size]) for packet in whole)


@pytest.mark.parametrize("count", [999, 1000, 1001, 2000, 2500])
@pytest.mark.parametrize("size", [0, 1, 202, 701])
def test_many_equal_bodies_are_as_batches_of_one(count: int, size: int) -> None:
    bodies = [i.to_bytes(4, "big").rjust(size, b".")[-size or 4 :][:size] for i in range(count)]
    first = (1 << 16) - 700
    together = encode_run(made(), Run.of(bodies), first_message=first, stream=2, first_number=first)
    apart = [
        encode_run(made(), Run.of([b]), first_message=first + i, stream=2, first_number=first + i)
        for i, b in enumerate(bodies)
    ]
    assert bytes(together.data) == b"".join(bytes(run.data) for run in apart)
    assert list(together.lengths) == [run.lengths[0] for run in apart]


@pytest.mark.parametrize("label", ["row {}", "row {:06}", ""])
@pytest.mark.parametrize("more", [0, 2])
@pytest.mark.parametrize("size", [0, 3, 5_000])
def test_many_headers_of_their_own_are_as_batches_of_one(size: int, more: int, label: str) -> None:
    count = 2_100 if size < 1_000 else 1_100
    labels = [label.format(i) for i in range(count)]
    bodies = [bytes([i % 251]) * (size + i % (more + 1)) for i in range(count)]
    own = own_headers(count, {"label": labels})
    together = encode_run(
        made(), Run.of(bodies), first_message=0xFFFFFFF0, stream=2, first_number=8, own=own
    )
    apart = [
        encode_run(
            made(), Run.of([body]), first_message=(0xFFFFFFF0 + i - 1) % 0xFFFFFFFF + 1, stream=2,
            first_number=8 + i, own=own.part(i, 1),
        )
        for i, body in enumerate(bodies)
    ]  # fmt: skip
    assert bytes(together.data) == b"".join(bytes(run.data) for run in apart)
    assert list(together.lengths) == [run.lengths[0] for run in apart]


def test_a_packet_too_large_is_named_in_a_later_block() -> None:
    count = 1_500
    bodies = Run.of([b"x"] * (count - 1) + [bytes(PACKET_BYTES_MAX)])
    own = own_headers(count, {"label": ["l"] * count})
    with pytest.raises(BodyTooLarge, match=f"message {count - 1} of the batch"):
        encode_run(made(), bodies, first_message=1, own=own)


def test_bodies_of_several_sizes_are_as_equal_ones() -> None:
    bodies = [b"x" * size for size in (0, 1, 1, 5, 4096, 3, 3, 3, 2, 1024, 7)]
    together = encode_run(made(), Run.of(bodies), first_message=3, stream=2, first_number=8)
    apart = [
        encode_run(made(), Run.of([body]), first_message=3 + i, stream=2, first_number=8 + i)
        for i, body in enumerate(bodies)
    ]
    assert bytes(together.data) == b"".join(bytes(run.data) for run in apart)
    assert list(together.lengths) == [run.lengths[0] for run in apart]


def test_bodies_may_be_any_buffer() -> None:
    lengths = array("I", (3, 3))
    plain = encode_run(made(), Run(b"abcdef", lengths), first_message=1)
    view = memoryview(bytearray(b"--abcdef--"))[2:8]
    assert bytes(encode_run(made(), Run(view, lengths), first_message=1).data) == bytes(plain.data)


def test_no_bodies() -> None:
    assert len(encode_run(made(), Run.of([]), first_message=1)) == 0


def test_message_to_a_local_queue_has_no_place_in_a_stream() -> None:
    run = encode_run(made(), Run.of([b"a", b"b"]), first_message=1)
    assert [(m.transactional, m.stream, m.number, m.previous) for m in map(decode, run)] == [
        (True, 0, 0, 0)
    ] * 2


def test_message_numbers_wrap_and_leave_out_zero() -> None:
    for count in (4, 12):
        run = encode_run(made(), Run.of([b"x"] * count), first_message=0xFFFFFFFE)
        expected = [0xFFFFFFFE, 0xFFFFFFFF, *range(1, count - 1)]
        assert [decode(packet).id.number for packet in run] == expected


def test_sequence_numbers_never_wrap() -> None:
    last = encode_run(made(), Run.of([b""]), first_message=1, stream=1, first_number=0xFFFFFFFF)
    assert decode(last.data).number == 0xFFFFFFFF
    with pytest.raises(AssertionError):
        encode_run(made(), Run.of([b""] * 2), first_message=1, stream=1, first_number=0xFFFFFFFF)


def test_too_large_a_body_is_named() -> None:
    one = made()
    largest = PACKET_BYTES_MAX - one.overhead
    run = encode_run(one, Run.of([bytes(largest)]), first_message=1)
    assert len(run.data) == PACKET_BYTES_MAX
    with pytest.raises(BodyTooLarge, match="message 1 of the batch"):
        encode_run(one, Run.of([b"", bytes(largest + 1)]), first_message=1)
