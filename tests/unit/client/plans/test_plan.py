"""Long lists are asked for some at a time, until there are no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onceq.client.plans.plan import Plan, all_outgoing, look_on
from onceq.errors import InvalidParameter
from onceq.model import requests
from onceq.model.views import looks
from onceq.model.views.queues import OutgoingView, QueueView


def run(plan: Plan[Any], answer: Callable[[str, str], object]) -> list[Any]:
    """Answer whatever a plan asks; what it returns."""
    reply: Any = None
    try:
        while True:
            asked = plan.throw(reply) if isinstance(reply, Exception) else plan.send(reply)
            assert isinstance(asked.asked, requests.Look)
            reply = answer(asked.asked.what, asked.asked.name)
    except StopIteration as over:
        return list(over.value)


def test_it_goes_on_behind_the_last_until_there_is_nothing() -> None:
    pages = {
        "0": [OutgoingView(number=2), OutgoingView(number=5)], "5": [OutgoingView(number=9)],
        "9": [],
    }  # fmt: skip
    asked: list[str] = []

    def answer(what: str, name: str) -> object:
        assert what == "outgoing-behind"
        asked.append(name)
        return pages[name]

    assert [one.number for one in run(all_outgoing(), answer)] == [2, 5, 9]
    assert asked == ["0", "5", "9"]


def test_it_goes_on_behind_a_queue_and_not_behind_one_of_its_subqueues() -> None:
    some = [QueueView(number=7), QueueView(number=30, parent="q")]
    plan = look_on(looks.QUEUES, looks.QUEUES_BEHIND, lambda one: 0 if one.parent else one.number)
    found = run(plan, lambda what, name: {"0": some, "7": []}[name])
    assert found == some


def test_a_queue_manager_that_does_not_know_it_is_asked_for_all() -> None:
    def answer(what: str, name: str) -> object:
        if what == "outgoing":
            return [OutgoingView(destination="OS:B")]
        return InvalidParameter(f"there is no view {what!r}")

    assert run(all_outgoing(), answer) == [OutgoingView(destination="OS:B")]
