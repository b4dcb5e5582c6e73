"""Which letters are meant: identifiers in each form that people have, and no mistyped ones."""

from __future__ import annotations

import pytest

from onceq.errors import InvalidParameter
from onceq.model.letters import filter_of


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
