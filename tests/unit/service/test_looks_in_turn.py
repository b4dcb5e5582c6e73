"""Looks of one application are answered one after the other (finding S10)."""

from __future__ import annotations

from onceq.errors import InvalidParameter
from onceq.model import requests
from onceq.model.views.view import Page
from onceq.wire.app.frames import FAILED
from tests.unit.service.talk import Talk

MANY_LOOKS = 3_000
"""More than may be nested in each other."""


def test_a_look_waits_for_the_answer_to_the_one_before() -> None:
    talk = Talk()
    talk.ask_all(*[requests.Look("queues")] * 3, requests.PurgeQueue("q"))
    for number in (2, 3, 4):
        assert [item.request for item in talk.engine.items] == list(range(2, number + 1))
        assert talk.full(), "what was asked behind it waits, and nothing more is read"
        talk.engine.answer(number, Page())
    assert [type(item).__name__ for item in talk.engine.items] == ["Look"] * 3 + ["PurgeQueue"]
    assert not talk.full()
    assert [number for number, _, _ in talk.transport.sent] == [2, 3, 4]


def test_a_look_that_is_alone_delays_nothing() -> None:
    talk = Talk()
    talk.ask_all(requests.PurgeQueue("q"), requests.Look("queues"))
    assert len(talk.engine.items) == 2
    assert not talk.full()
    talk.engine.answer(3, InvalidParameter("no"))
    talk.ask(4, requests.Look("queues"))
    assert len(talk.engine.items) == 3


def test_very_many_are_refused_one_after_the_other() -> None:
    talk = Talk()
    wrong = requests.Look("queues", limit=-1)
    talk.ask_all(requests.Look("queues"), *[wrong] * MANY_LOOKS, requests.Look("queues"))
    talk.engine.answer(2, Page())
    failed = [code for _, code, _ in talk.transport.sent if code & FAILED]
    assert len(failed) == MANY_LOOKS
    assert [item.request for item in talk.engine.items] == [2, MANY_LOOKS + 3]
