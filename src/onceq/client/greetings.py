"""Who answers at the other end of a connection."""

from __future__ import annotations

from typing import Any

from onceq.model.limits import OUTCOME_AGE_S
from onceq.model.record import Record
from onceq.wire.app import frames


class Greeting(Record, frozen=True):
    """Who is at the other end, and for how long it answers for old commits (seconds)."""

    name: str
    id: bytes
    now_s: int
    outcome_age_s: int = OUTCOME_AGE_S


def greeting(head: Any) -> Greeting:
    """Who answers a hello; raises MalformedPacket."""
    said = frames.decode_head(head, frames.Welcome)
    return Greeting(said.name, said.id, said.now_s, said.outcome_age_s)
