"""Long lists are asked for a page at a time, until there are no more."""

from __future__ import annotations

from typing import Any

from onceq.client.link import Greeting, Session
from onceq.client.plans import operate, queues
from onceq.client.plans.plan import Plan
from onceq.model import requests
from onceq.model.views.queues import OutgoingView
from onceq.model.views.view import Page

NOW = Session(Greeting("ALPHA", bytes(16), 0))


def run(plan: Plan[Any], pages: dict[str, Page[Any]]) -> tuple[Any, list[requests.Look]]:
    """Answer whatever a plan asks; what it returns, and what it has asked."""
    asked: list[requests.Look] = []
    reply: Any = None
    try:
        while True:
            request = plan.send(reply).asked
            assert isinstance(request, requests.Look)
            asked.append(request)
            reply = pages[request.after]
    except StopIteration as over:
        return over.value, asked


def test_it_goes_on_from_page_to_page() -> None:
    pages = {
        "": Page((OutgoingView(number=2), OutgoingView(number=5)), "[5]"),
        "[5]": Page((OutgoingView(number=9),)),
    }
    found, asked = run(operate.outgoing(NOW, only="busy"), pages)
    assert [one.number for one in found] == [2, 5, 9]
    assert [(one.what, one.after, one.only) for one in asked] == [
        ("outgoing", "", "busy"), ("outgoing", "[5]", "busy"),
    ]  # fmt: skip


def test_a_page_is_one_request() -> None:
    some: Page[Any] = Page((), "[3]", 7)
    plan = queues.queue_page(NOW, sort="name", part="x", after="[1]", limit=2)
    found, asked = run(plan, {"[1]": some})
    assert found is some
    assert asked == [requests.Look("queues", "", "[1]", 2, "name", "", "x")]
