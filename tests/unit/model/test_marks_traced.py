"""The mark of a message of a trace, behind the extension and before the mark of a delayed one."""

from __future__ import annotations

import pytest

from onceq.errors import IllegalPropertyValue
from onceq.model.marks import (
    TRACE_BYTES,
    TRACED_MARK,
    delayed,
    marked,
    trace_trailer,
    undelayed,
    unmarked,
    untraced,
    without_trace,
)

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TEXT = f"00-{TRACE}-{PARENT}-01"


@pytest.mark.parametrize("extension", [b"", b"x", b"0123456789ab", bytes(1000)])
@pytest.mark.parametrize("text", [TEXT, f"00-{TRACE}-{PARENT}-00", f"00-{TRACE}-{PARENT}-ff"])
def test_a_mark_goes_and_comes_off(extension: bytes, text: str) -> None:
    assert untraced(extension + trace_trailer(text)) == (extension, text)
    assert untraced(extension) == (extension, "")


def test_the_padding_of_a_packet_is_the_same_without_it() -> None:
    assert len(trace_trailer(TEXT)) == TRACE_BYTES
    assert TRACE_BYTES % 4 == 0


@pytest.mark.parametrize("text", [f"01-{TRACE}-{PARENT}-01", f"fe-{TRACE}-{PARENT}-01-more"])
def test_a_later_version_is_written_as_the_one_that_is_known(text: str) -> None:
    assert untraced(trace_trailer(text)) == (b"", TEXT)


@pytest.mark.parametrize(
    "text",
    [
        "x", TEXT.upper(), TEXT[:-1], f"{TEXT}-more", f"{TEXT}\n", f"ff{TEXT[2:]}", f" {TEXT}",
        f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", f"01{TEXT[2:]}-{'x' * 500}",
        f"00-{TRACE}-{PARENT}-٠١",
    ],
)  # fmt: skip
def test_other_text_is_refused_with_what_it_should_be(text: str) -> None:
    with pytest.raises(IllegalPropertyValue, match="leave it out where there is no trace") as told:
        trace_trailer(text)
    assert len(told.value.text) < 500


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(IllegalPropertyValue, match="as W3C Trace Context has it"):
        trace_trailer(b"bytes")  # type: ignore[arg-type]


@pytest.mark.parametrize("at", [0, *range(26, TRACE_BYTES)])  # all but identifiers and flags
def test_bytes_in_bad_shape_are_a_part_of_the_extension(at: int) -> None:
    raw = bytearray(b"x" + trace_trailer(TEXT))
    raw[1 + at] ^= 0x41
    assert untraced(bytes(raw)) == (bytes(raw), "")
    assert without_trace(bytes(raw)) == raw


@pytest.mark.parametrize("zeros", [(1, 17), (17, 25)])
def test_identifiers_of_zeros_are_none(zeros: tuple[int, int]) -> None:
    raw = bytearray(trace_trailer(TEXT))
    raw[slice(*zeros)] = bytes(zeros[1] - zeros[0])
    assert untraced(bytes(raw)) == (bytes(raw), "")


@pytest.mark.parametrize("end", [b"", TRACED_MARK, b"1" + TRACED_MARK, trace_trailer(TEXT) + b"1"])
def test_other_bytes_are_no_mark(end: bytes) -> None:
    assert untraced(end) == (end, "")
    assert without_trace(end) == end


def test_it_stands_between_the_mark_of_a_returned_message_and_that_of_a_delayed_one() -> None:
    whole = delayed(marked(b"x", 3) + trace_trailer(TEXT), 7)
    plain, due_s = undelayed(whole)
    plain, text = untraced(plain)
    assert (unmarked(plain), text, due_s) == ((b"x", 3), TEXT, 7)
    assert without_trace(whole) == delayed(marked(b"x", 3), 7)


def test_one_behind_another_leaves_neither() -> None:
    assert without_trace(b"x" + trace_trailer(TEXT) * 3) == b"x"
    assert without_trace(delayed(trace_trailer(TEXT) * 2, 7)) == delayed(b"", 7)
