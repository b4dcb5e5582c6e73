"""Who answers a hello, as far as it says so."""

from __future__ import annotations

import pytest

from onceq.client.link import Greeting, read_greeting
from onceq.errors import MalformedPacket
from onceq.model.limits import OUTCOME_AGE_S
from onceq.wire.app import frames


def head(*fields: object) -> memoryview:
    """The head of a welcome."""
    (piece,) = frames.frame(1, 1, fields)
    return memoryview(piece)[frames.HEADER.size :]


def test_what_is_not_said_has_its_default() -> None:
    said = read_greeting(head(1, "ALPHA", bytes(16), 77))
    assert said == Greeting("ALPHA", bytes(16), 77, OUTCOME_AGE_S)


def test_what_a_later_version_says_is_passed_over() -> None:
    assert read_greeting(head(1, "A", bytes(16), 7, 1 << 20, 60, 9, "more")).outcome_age_s == 60


def test_what_is_no_welcome_is_malformed() -> None:
    with pytest.raises(MalformedPacket):
        read_greeting(head("no", "A"))
