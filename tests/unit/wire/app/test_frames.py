"""Frames between applications and queue managers: whole, cut anywhere, and malformed."""

from __future__ import annotations

import struct
from array import array

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.errors import MalformedPacket
from onceq.model import requests
from onceq.model.limits import CLIENT_FRAME_BYTES_MAX
from onceq.model.results import Sent
from onceq.model.run import LENGTH_TYPE, Run
from onceq.wire.app import frames
from onceq.wire.app.frames import Parser


def whole(request: int, code: int, head: object, *data: bytes) -> bytes:
    return b"".join(frames.frame(request, code, head, *data))


def cut(stream: bytes, sizes: list[int]) -> list[tuple[int, int, bytes, bytes]]:
    """What a parser makes of a stream that comes in pieces of these sizes."""
    parser, found, at = Parser(), [], 0
    for size in [*sizes, len(stream)]:
        for request, code, head, data in parser.feed(stream[at : at + size]):
            found.append((request, code, bytes(head), bytes(data)))
        at += size
    return found


def test_a_frame_has_the_bytes_that_the_documentation_shows() -> None:
    raw = whole(3, requests.Abort.code, [5])
    assert raw.hex(" ") == "0e 00 00 00 03 00 00 00 07 00 00 00 02 00 00 00 91 05"


@given(st.lists(st.integers(0, 40), max_size=40), st.lists(st.binary(max_size=50), max_size=8))
def test_it_does_not_matter_where_a_stream_is_cut(sizes: list[int], bodies: list[bytes]) -> None:
    stream = b"".join(
        whole(number, requests.Send.code, [0, []], body) for number, body in enumerate(bodies, 1)
    )
    found = cut(stream, sizes)
    assert [(request, data) for request, _, _, data in found] == list(enumerate(bodies, 1))


def test_a_frame_under_way_says_how_much_it_lacks() -> None:
    parser = Parser()
    raw = whole(1, requests.Send.code, [0, []], b"x" * 100)
    assert parser.wanted == frames.HEADER.size
    assert parser.feed(raw[:20]) == []
    assert parser.wanted == len(raw) - 20
    assert len(parser.feed(raw[20:])) == 1
    assert parser.wanted == frames.HEADER.size


@pytest.mark.parametrize(
    "header",
    [
        struct.pack("<IIHHI", CLIENT_FRAME_BYTES_MAX + 1, 1, 5, 0, 2),
        struct.pack("<IIHHI", 11, 1, 5, 0, 0),
        struct.pack("<IIHHI", 14, 1, 5, 0, 3),
        struct.pack("<IIHHI", 14, 1, 5, 1, 2),
        struct.pack("<IIHHI", 0xFFFF_FFFF, 1, 5, 0, 0xFFFF_FFFF),
    ],
    ids=["too large", "smaller than its header", "head over the end", "not zero", "all ones"],
)
def test_a_header_that_cannot_be_is_refused_before_its_body_comes(header: bytes) -> None:
    with pytest.raises(MalformedPacket):
        Parser().feed(header)


def test_the_largest_frame_passes() -> None:
    parser = Parser()
    header = struct.pack("<IIHHI", CLIENT_FRAME_BYTES_MAX, 1, 5, 0, 0)
    assert parser.feed(header) == []
    assert parser.wanted == CLIENT_FRAME_BYTES_MAX - 12


def test_runs_cross_as_one_table_and_one_piece() -> None:
    runs = [Run.of([b"a", b"bb"]), Run.of([b""]), Run.of([b"ccc"])]
    data = memoryview(b"".join(frames.pack_runs(runs)))
    assert bytes(data[:16]) == struct.pack("<4I", 1, 2, 0, 3)
    found = frames.unpack_run(data, 4)
    assert [bytes(body) for body in found] == [b"a", b"bb", b"", b"ccc"]


def test_large_runs_are_not_copied_and_small_ones_keep_nothing_alive() -> None:
    large = Run.of([b"x" * frames.VIEW_BYTES_MIN])
    raw = memoryview(b"".join(frames.pack_runs([large])))
    assert isinstance(frames.unpack_run(raw, 1).data, memoryview)
    small = memoryview(b"".join(frames.pack_runs([Run.of([b"x"])])))
    assert isinstance(frames.unpack_run(small, 1).data, bytes)


@pytest.mark.parametrize(
    ("data", "count"),
    [(b"", 1), (struct.pack("<I", 5) + b"1234", 1), (struct.pack("<I", 3) + b"1234", 1),
     (b"", -1), (b"", 1 << 62), (b"left over", 0)],
)  # fmt: skip
def test_lengths_that_do_not_add_up_are_refused(data: bytes, count: int) -> None:
    with pytest.raises(MalformedPacket):
        frames.unpack_run(memoryview(data), count)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode([1, 2, 3, 4]),
        msgspec.msgpack.encode(["text"]),
        msgspec.msgpack.encode({"number": 1}),
        msgspec.msgpack.encode([1 << 63]) + b"x",
        b"\x91" * 100_000,
        b"\x91\xa2\xff\xfe",
    ],
)
def test_heads_that_make_no_sense_are_refused(raw: bytes) -> None:
    with pytest.raises(MalformedPacket):
        frames.decode_head(raw, Sent)


def test_a_hello_of_a_later_version_can_be_read() -> None:
    raw = msgspec.msgpack.encode([2, "later", "", "", {"more": 1}])
    head = frames.decode_head(raw, frames.Hello)
    assert head.version == 2


def test_tables_of_numbers_must_be_whole() -> None:
    lookups = array("Q", [1, 2]).tobytes()
    arrived = array(LENGTH_TYPE, [3, 4]).tobytes()
    assert [list(t) for t in frames.tables(lookups, arrived, arrived)] == [[1, 2], [3, 4], [3, 4]]
    with pytest.raises(MalformedPacket):
        frames.tables(lookups[:-1], arrived, arrived)
