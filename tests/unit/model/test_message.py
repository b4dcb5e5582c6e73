"""A message as applications see it."""

from __future__ import annotations

import pytest

from onceq.errors import BodyNotJson
from onceq.model.identity import MessageId, guid_bytes
from onceq.model.message import BODY_TYPE, Message

GUID = guid_bytes("01234567-89ab-cdef-0123-456789abcdef")


def test_the_transaction_of_a_message() -> None:
    message = Message(b"x", MessageId(GUID, 1), transaction=0x0001_0203)
    assert message.transaction_id == GUID + b"\x03\x02\x01\x00"
    assert message.text == "x"


def test_a_body_that_is_json() -> None:
    message = Message(b'{"n": [1, 2]}', MessageId(GUID, 1), body_type=BODY_TYPE)
    assert message.is_json
    assert message.json() == {"n": [1, 2]}
    assert message.json(dict[str, list[int]]) == {"n": [1, 2]}


def test_a_body_that_is_not_json_is_named() -> None:
    message = Message(b"{", MessageId(GUID, 17), r"DIRECT=OS:A\private$\q", lookup_id=5)
    assert not message.is_json
    with pytest.raises(BodyNotJson) as caught:
        message.json()
    for part in (str(message.id), message.destination, "lookup identifier 5"):
        assert part in caught.value.text
