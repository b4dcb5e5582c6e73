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
