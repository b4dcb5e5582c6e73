"""Whole transactions in a store that an older onceq has written: its packets have no numbers."""

from __future__ import annotations

from array import array

from onceq.core.decision import Handed
from onceq.model import requests
from onceq.model.requests import PickBy
from onceq.packet.arrived import Batch
from onceq.packet.survey import MessageOrigin, Survey
from onceq.service.answers import picked
from tests.unit.core.alone import Core
from tests.unit.core.state.old_stores import OTHER, Q, Store, item

KEPT = "whole-transactions.txt"
"""Three transactions: m0, m1 and m2, with m1 delayed by a minute; n0 and n1, with one to another
queue between them; one of a single message."""


def heads(core: Core) -> Batch:
    """What a survey of a queue gets."""
    asked = requests.Receive(Q, count_max=100, bytes_max=1 << 20, peek=True, pick=PickBy.HEADS)
    found = core.ask(asked)
    assert isinstance(found, Handed)
    run, _, scanned = picked(found, core.bytes_of(found.pieces))
    zeros = array("I", bytes(4 * len(run)))
    return Batch(run, found.lookups, zeros, zeros, scanned=scanned)


def told(core: Core, survey: Survey) -> list[int]:
    """Of each whole transaction that a survey finds, how many messages it has."""
    return [len(members.lookups) for members in survey.add(heads(core))]


def test_what_an_older_onceq_wrote_is_whole_when_its_message_numbers_prove_it() -> None:
    core = Store.kept(KEPT).recovered(Core())
    found = [MessageOrigin.unpack(raw) for raw in heads(core).run]
    assert {(head.stream, head.number, head.previous) for head in found} == {(0, 0, 0)}
    assert [(head.first, head.last) for head in found] == [
        (True, False), (False, True), (True, False), (False, True), (True, True),
    ]  # fmt: skip
    assert told(core, Survey()) == [1], "m1 is delayed, and n might have been sent here"
    core.pass_time(61)
    survey = Survey()
    assert told(core, survey) == [1, 3]
    assert [len(members.lookups) for members in survey.incomplete()] == [2]


def test_what_is_written_now_needs_no_message_numbers() -> None:
    core = Store.kept(KEPT).recovered(Core())
    body = b"body of a message"
    sends = (item(body), item(body, to=OTHER), item(body, body, delay=60), item(body))
    core.ask(requests.Commit(0, sends))
    assert told(core, Survey()) == [1]
    core.pass_time(61)
    survey = Survey()
    assert told(core, survey) == [1, 3, 4]
    assert len(survey.incomplete()) == 1, "n0 and n1"
