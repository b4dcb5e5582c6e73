"""Frames between applications and queue managers: whole, cut anywhere, and malformed."""

from __future__ import annotations

import struct
from array import array
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.errors import MalformedPacket
from onceq.model.limits import CLIENT_FRAME_BYTES_MAX
from onceq.model.results import Sent
from onceq.model.run import LENGTH_TYPE, Run
from onceq.wire.app import frames
from onceq.wire.app.frames import Code, Parser

ITEM = frames.Item("private$\\q", {"label": "x"}, 0, 2)
HEADS: list[tuple[int, Any]] = [
    (Code.HELLO, frames.Hello(1, "test")),
    (Code.OPEN, frames.Open("private$\\q", 1, 0)),
    (Code.CLOSE, frames.Number(4)),
    (Code.BEGIN, frames.Number(1)),
    (Code.SEND, frames.SendHead(0, [ITEM])),
    (Code.COMMIT, frames.CommitHead(1, bytes(16), 1, [ITEM])),
    (Code.ABORT, frames.Number(1)),
    (Code.RECEIVE, frames.ReceiveHead("q", 1, 10, 100, -1, False, 0, 0, 0)),
    (Code.REMOVE, frames.RemoveHead("q", 1, 1, 2)),
    (Code.CANCEL, frames.Number(9)),
    (Code.OUTCOME, frames.OutcomeHead(bytes(16), 1)),
    (Code.CREATE, frames.CreateHead({"name": "q"})),
    (Code.DELETE, frames.Named("q")),
    (Code.PURGE, frames.Named("q")),
    (Code.STEER, frames.SteerHead("q", "pause")),
    (Code.STREAM, frames.StreamHead("reset", "q", "A", "why")),
    (Code.LOOK, frames.LookHead("queues", "")),
    (Code.SET, frames.SetHead("q", {"label": "x"})),
    (Code.CURSOR, frames.Number(3)),
    (Code.UNCURSOR, frames.Number(4)),
    (Code.MOVE, frames.MoveHead("q", "q;retry", 17, 1, 0)),
    (Code.REJECT, frames.RejectHead("q", 1, [17, 18], True)),
    (Code.CLAIM, frames.ClaimHead("q", 1, [(17, 18), (20, 20)])),
    (Code.FETCH, frames.FetchHead("q", 1, 17, 20, 1 << 20)),
    (Code.LIST, frames.ListHead("add", "shops", ["DL=x"])),
    (Code.BRANCH, frames.BranchHead("commit", 0, 7, b"g", b"b", 1, True)),
    (Code.DECIDE, frames.DecideHead("enlist", 3, b"g", "db")),
    (Code.PREPARE, frames.PrepareHead(3, 7, b"g", b"b", [frames.Item("q", {}, 0, 1)])),
    (Code.GROUP, frames.GroupHead("commit", "app", "q", 3, b"onceq-", [(b"g", b"group.0")])),
    (Code.HOLD, frames.HoldHead("keep", 3)),
]


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


@pytest.mark.parametrize(("code", "head"), HEADS, ids=[Code(code).name for code, _ in HEADS])
def test_every_request_comes_back_as_it_was(code: int, head: object) -> None:
    ((request, seen, raw, data),) = Parser().feed(whole(7, code, head))
    assert (request, seen, bytes(data)) == (7, code, b"")
    assert frames.decode_request(seen, raw) == head


def test_every_request_code_is_tested() -> None:
    assert {code for code, _ in HEADS} == set(frames.REQUESTS) == set(Code)


def test_a_frame_has_the_bytes_that_the_documentation_shows() -> None:
    raw = whole(3, Code.ABORT, frames.Number(5))
    assert raw.hex(" ") == "0e 00 00 00 03 00 00 00 07 00 00 00 02 00 00 00 91 05"


@given(st.lists(st.integers(0, 40), max_size=40), st.lists(st.binary(max_size=50), max_size=8))
def test_it_does_not_matter_where_a_stream_is_cut(sizes: list[int], bodies: list[bytes]) -> None:
    stream = b"".join(
        whole(number, Code.SEND, frames.SendHead(0, []), body)
        for number, body in enumerate(bodies, 1)
    )
    found = cut(stream, sizes)
    assert [(request, data) for request, _, _, data in found] == list(enumerate(bodies, 1))


def test_a_frame_under_way_says_how_much_it_lacks() -> None:
    parser = Parser()
    raw = whole(1, Code.SEND, frames.SendHead(0, []), b"x" * 100)
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
        frames.decode_request(Code.BEGIN, raw)
    with pytest.raises(MalformedPacket):
        frames.decode_head(raw, Sent)


def test_broken_text_and_deep_nesting_are_refused_too() -> None:
    for raw in (b"\x92\xa2\xff\xfe\xa0", b"\x91\x81\xa1k" + b"\x91" * 100_000):
        for code in (Code.LOOK, Code.CREATE):
            with pytest.raises(MalformedPacket):
                frames.decode_request(code, raw)


@pytest.mark.parametrize("code", [0, 17, 0x101, 0xFFFF])
def test_unknown_codes_are_refused(code: int) -> None:
    with pytest.raises(MalformedPacket):
        frames.decode_request(code, b"\x90")


def test_a_hello_of_a_later_version_can_be_read() -> None:
    head = frames.decode_request(Code.HELLO, msgspec.msgpack.encode([2, "later", {"more": 1}]))
    assert head.version == 2


def test_tables_of_numbers_must_be_whole() -> None:
    lookups = array("Q", [1, 2]).tobytes()
    arrived = array(LENGTH_TYPE, [3, 4]).tobytes()
    assert [list(t) for t in frames.tables(lookups, arrived, arrived)] == [[1, 2], [3, 4], [3, 4]]
    with pytest.raises(MalformedPacket):
        frames.tables(lookups[:-1], arrived, arrived)
