"""The small nouns: identifiers, runs, places in the log, classes, times, settings, carets."""

from __future__ import annotations

import uuid
from array import array
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.errors import IllegalPathName
from onceq.model.caret import SHOWN_AFTER, SHOWN_BEFORE, Source
from onceq.model.classes import MessageClass, class_name
from onceq.model.identity import MessageId, TransactionId, guid_bytes, guid_text
from onceq.model.limits import SETTING_NAMES, Settings
from onceq.model.log import (
    BLOCK_BYTES,
    CHECKSUM_BYTES,
    FRAME_ALIGN,
    FRAME_HEADER,
    blocks_of,
    frame_size,
    padded,
)
from onceq.model.message import Message
from onceq.model.run import Run, alike, largest_of, starts_of, total_of
from onceq.model.time import Now

GUID = guid_bytes("01234567-89ab-cdef-0123-456789abcdef")


# ---- identifiers ----------------------------------------------------------------------------


@given(st.uuids())
def test_guids_stand_in_packets_as_published(guid: uuid.UUID) -> None:
    """First three fields little-endian: what Python's own module calls ``bytes_le``."""
    assert guid_bytes(str(guid)) == guid.bytes_le
    assert guid_text(guid.bytes_le) == str(guid)
    assert guid_bytes("{" + str(guid).upper() + "}") == guid.bytes_le


@pytest.mark.parametrize("text", ["", "0" * 32, "01234567-89ab-cdef-0123-456789abcde", "x" * 36])
def test_what_is_not_a_guid(text: str) -> None:
    with pytest.raises(ValueError, match="not a GUID"):
        guid_bytes(text)
    with pytest.raises(ValueError, match="16 bytes"):
        guid_text(text.encode())


@given(st.binary(min_size=16, max_size=16), st.integers(0, 0xFFFF_FFFF))
def test_message_identifiers_come_back(source: bytes, number: int) -> None:
    identifier = MessageId(source, number)
    assert MessageId.parse(str(identifier)) == identifier
    assert MessageId.parse(str(identifier).replace("\\", "/")) == identifier
    assert MessageId.unpack(identifier.pack()) == identifier
    assert len(identifier.pack()) == 20


@pytest.mark.parametrize(
    "text", ["", "5", "{x}\\5", f"{guid_text(GUID)}\\-1", f"{guid_text(GUID)}\\4294967296"]
)
def test_what_is_not_a_message_identifier(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        MessageId.parse(text)


@given(st.binary(min_size=16, max_size=16), st.integers(1, 1 << 62))
def test_transaction_identifiers_come_back(session: bytes, number: int) -> None:
    identifier = TransactionId(session, number)
    assert TransactionId.parse(str(identifier)) == identifier


@pytest.mark.parametrize("text", ["", "5", "00-1", "0" * 32, "0" * 32 + "-x", "0" * 31 + "-1"])
def test_what_is_not_a_transaction_identifier(text: str) -> None:
    with pytest.raises(ValueError, match="not a transaction"):
        TransactionId.parse(text)


def test_packed_identifiers_have_one_size() -> None:
    for size in (0, 19, 21):
        with pytest.raises(ValueError, match="20 bytes"):
            MessageId.unpack(bytes(size))


# ---- runs and the log ----------------------------------------------------------------------


@given(st.lists(st.binary(max_size=20), max_size=20), st.data())
def test_a_part_of_a_run_is_its_messages(items: list[bytes], data: st.DataObject) -> None:
    run = Run.of(items)
    assert len(run) == len(items)
    assert list(map(bytes, run)) == items
    assert run.lengths == array("I", map(len, items))
    first = data.draw(st.integers(0, len(items)))
    count = data.draw(st.integers(0, len(items) - first))
    assert list(map(bytes, run.part(first, count))) == items[first : first + count]


@pytest.mark.parametrize("count", [1, 2, 32, 33, 500])
@given(st.integers(0, 9), st.integers(0, 499), st.integers(0, 9), st.integers(0, 1 << 40))
def test_sums_over_tables_of_lengths(
    count: int, size: int, odd_at: int, odd: int, first: int
) -> None:
    """All alike, or one of them another: the same as looking at each."""
    lengths = array("I", [size]) * count
    lengths[odd_at % count] = odd
    assert alike(lengths) == (len(set(lengths)) == 1)
    assert total_of(lengths) == sum(lengths)
    assert largest_of(lengths) == max(lengths)
    assert list(starts_of(lengths, first)) == list(accumulate(lengths, initial=first))


def test_sums_over_an_empty_table() -> None:
    none = array("I")
    assert (total_of(none), largest_of(none), list(starts_of(none, 5))) == (0, 0, [5])


@given(st.integers(0, 1 << 30))
def test_frames_are_aligned_and_hold_their_payload(size: int) -> None:
    frame = frame_size(size)
    assert frame % FRAME_ALIGN == 0
    table = padded(CHECKSUM_BYTES * blocks_of(size))
    assert 0 <= frame - FRAME_HEADER - size - table < FRAME_ALIGN
    assert (table == 0) == (size <= BLOCK_BYTES)


# ---- classes, times, settings ---------------------------------------------------------------


def test_classes_say_whether_a_message_made_it() -> None:
    for item in MessageClass:
        assert item.negative == item.name.startswith("NACK_")
    assert class_name(0x8009) == "nack-not-transactional-queue"
    assert class_name(0x1234) == "class-0x1234"


def test_seconds_of_packets() -> None:
    assert Now(wall_us=1_999_999, mono_us=5).wall_s == 1


def test_the_resend_table() -> None:
    """EOD-17: three of the first, three of the second, three of the third, then the last."""
    settings = Settings()
    waits = [settings.resend_wait_s(count) for count in range(12)]
    assert waits == [30.0] * 3 + [300.0] * 3 + [1_800.0] * 3 + [21_600.0] * 3
    assert SETTING_NAMES[0] == "resend_first_s"


def test_the_transaction_of_a_message() -> None:
    message = Message(b"x", MessageId(GUID, 1), transaction=0x0001_0203)
    assert message.transaction_id == GUID + b"\x03\x02\x01\x00"
    assert message.text == "x"


# ---- carets ----------------------------------------------------------------------------------


@given(st.text(min_size=1, max_size=300), st.data())
def test_a_caret_stands_below_its_fault(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    sentence, shown, caret = Source(text, IllegalPathName).fault(at, "wrong").text.split("\n")
    assert sentence == f"wrong, at position {at}"
    assert len(shown) <= SHOWN_BEFORE + SHOWN_AFTER + 8
    assert shown.isascii()
    assert shown.isprintable()
    if at < len(text) and text[at].isascii() and text[at].isprintable():
        assert shown[caret.index("^")] == text[at]
