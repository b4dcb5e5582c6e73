"""A message of a key, at a place of its queue."""

from __future__ import annotations

from onceq.model.identity import MessageId
from onceq.model.message import Message


def message(place: int, key: str = "") -> Message:
    """Its label is the key."""
    return Message(body=b"", id=MessageId(bytes(16), place), label=key, lookup_id=place)
