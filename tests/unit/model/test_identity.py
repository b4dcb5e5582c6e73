"""Identifiers: as published, as text, and packed."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceq.model.identity import MessageId, TransactionId, guid_bytes, guid_text

GUID = guid_bytes("01234567-89ab-cdef-0123-456789abcdef")


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
