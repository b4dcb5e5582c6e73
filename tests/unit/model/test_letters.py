"""Which letters are meant: identifiers in each form that people have, and no mistyped ones."""

from __future__ import annotations

import pytest

from onceq.client import why
from onceq.errors import InvalidParameter
from onceq.model.identity import MessageId
from onceq.model.letters import ENDS, POISON, REASONS, Letter, filter_of
from onceq.model.message import Message
from onceq.model.resultcodes import REFUSALS, MessageClass, is_refused_there


@pytest.mark.parametrize("end", [one for one in MessageClass if one.negative])
def test_each_end_has_a_word_and_a_sentence(end: MessageClass) -> None:
    """Without them a list of dead letters has an empty cell, and nothing selects them."""
    letter = Letter("SYSTEM$;DEADXACT", Message(b"", MessageId(bytes(16), 1), message_class=end))
    assert letter.reason in set(REASONS) - {POISON}
    assert "class" not in letter.why
    assert filter_of(reason=letter.reason).reason == letter.reason


@pytest.mark.parametrize("end", sorted(REFUSALS))
def test_each_refusal_is_called_one(end: MessageClass) -> None:
    refused = is_refused_there(end)
    assert (ENDS[end][0] == "refused") == refused
    assert (end in why._REFUSED) == refused


@pytest.mark.parametrize("text", ["{%s}/4711", r"{%s}\4711", "%s/4711", r"%s\4711"])
def test_an_identifier_is_read_in_every_form(text: str) -> None:
    guid = "03020100-0504-0706-0809-0a0b0c0d0e0f"
    assert filter_of(id=text % guid).id == rf"{{{guid}}}\4711"


@pytest.mark.parametrize("text", ["nonsense", "4711", "{03020100}/4711"])
def test_what_is_no_identifier_is_refused_and_not_looked_for(text: str) -> None:
    with pytest.raises(InvalidParameter, match="no identifier of a message"):
        filter_of(id=text)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Refused", "refused"), ("in-doubt", "in doubt"), ("0x8002", "0x8002"), ("8002", "0x8002"),
        ("c004", "0xc004"), ("0xC004", "0xc004"), ("32770", "0x8002"), ("0xD123", "0xd123"),
        ("nack-reach-queue-timeout", "0x8002"), ("class-0xd123", "0xd123"),
    ],
)  # fmt: skip
def test_a_reason_is_a_word_or_a_class_as_people_write_it(said: str, meant: str) -> None:
    assert filter_of(reason=said).reason == meant


@pytest.mark.parametrize("said", ["8", "0x8", "9999", "0x0002", "0x18002", "0xzz", "gone", "-1"])
def test_what_is_no_class_is_refused_with_those_that_are(said: str) -> None:
    with pytest.raises(InvalidParameter, match=r"expired.* 0x8002 nack-reach-queue-timeout"):
        filter_of(reason=said)
