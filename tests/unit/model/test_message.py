"""A message as applications see it."""

from __future__ import annotations

from onceq.model.identity import MessageId, guid_bytes
from onceq.model.message import Message

GUID = guid_bytes("01234567-89ab-cdef-0123-456789abcdef")


def test_the_transaction_of_a_message() -> None:
    message = Message(b"x", MessageId(GUID, 1), transaction=0x0001_0203)
    assert message.transaction_id == GUID + b"\x03\x02\x01\x00"
    assert message.text == "x"
