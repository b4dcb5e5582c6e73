"""Which letters are named: several, whole or by their beginning, and never two by one name."""

from __future__ import annotations

import pytest

from onceq.cli.letters import chosen, missing, short
from onceq.errors import InvalidParameter
from onceq.model.identity import MessageId, guid_bytes
from onceq.model.letters import ALL, DEAD_XACT, Letter, filter_of
from onceq.model.message import Message

ONE = MessageId(guid_bytes("5e8d28e9-df6b-4ad0-af3d-3077caa5676c"), 17)
ALIKE = MessageId(guid_bytes("5e8d28e9-0000-4ad0-af3d-3077caa5676c"), 17)
NEXT = MessageId(ONE.source, 18)


def letter(id: MessageId, label: str = "") -> Letter:
    return Letter(DEAD_XACT, Message(b"", id, label=label))


def test_several_may_be_named_whole_and_short() -> None:
    which = chosen([str(ONE).upper(), short(NEXT)], ALL)
    assert which != ALL
    assert missing(which) == [str(ONE)[1:37] + "/17", "5e8d28e9/18"]
    assert [which.fits(letter(one), 0) for one in (ONE, NEXT, ALIKE)] == [True, True, False]
    assert missing(which) == missing(ALL) == []


def test_what_else_was_said_holds_too() -> None:
    which = chosen([short(ONE)], filter_of(label="rush"))
    assert [which.fits(letter(ONE, label), 0) for label in ("", "a RUSH order")] == [False, True]


def test_without_names_it_is_the_filter_that_was_given() -> None:
    rest = filter_of(label="rush")
    assert chosen([], rest) is rest


def test_a_beginning_that_two_have_is_refused() -> None:
    which = chosen([short(ONE)], ALL)
    assert which.fits(letter(ONE), 0)
    assert which.fits(letter(ONE), 0), "a copy of it, for another destination"
    with pytest.raises(InvalidParameter, match=r"5e8d28e9/17 is the beginning of .*0000.*df6b"):
        which.fits(letter(ALIKE), 0)


@pytest.mark.parametrize("text", ["", "17", "5e8d/17", "5e8d28e9", "zzzzzzzz/17", "5e8d28e9/x"])
def test_what_names_no_message_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="no identifier of a message"):
        chosen([text], ALL)
