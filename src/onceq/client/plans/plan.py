"""What a plan is, and how it asks: the answer of a request has the type that the request names."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias, TypeVar

from onceq.client.link import Request
from onceq.errors import InvalidParameter
from onceq.model import requests
from onceq.model.views.looks import OUTGOING, OUTGOING_BEHIND, Look
from onceq.model.views.queues import OutgoingView
from onceq.packet.batch import Batch

T = TypeVar("T")
V = TypeVar("V")

Plan: TypeAlias = Generator[Request, Any, T]
"""Yields requests, is sent their results, and returns what the caller gets."""


def _nothing() -> Plan[None]:
    return
    yield


DONE: Final = _nothing()
"""A plan that is over: what an operation returns that had nothing to ask. It can be gone through as
often as one likes, and whoever knows it need not (``_run`` of a transaction): most sends only add
to what goes with the commit, and to make and run a plan for each cost a third of them."""
for _ in DONE:
    raise AssertionError("a plan that asks nothing has asked")


def ask(
    request: requests.Request, answer: type[T], *, late: Callable[[Batch], None] | None = None
) -> Plan[T]:
    """One request.

    Args:
        answer: What it is answered with; the link has decoded it as that.
        late: See ``Request``.
    """
    result: T = yield Request(request, late=late)
    return result


def look(look: Look[T], name: str = "") -> Plan[T]:
    """What a queue manager tells of itself."""
    return ask(requests.Look(look.what, name), look.kind)


def look_on(whole: Look[list[V]], behind: Look[list[V]], mark: Callable[[V], int]) -> Plan[list[V]]:
    """A list that may be long, some of it at a time: nobody waits while the queue manager tells of
    many thousands. What comes or goes meanwhile may be in it or not.

    Args:
        whole: All at once, for a queue manager that does not tell of some at a time.
        behind: The next ones behind a number.
        mark: The number of one; those with 0 belong to the one before.
    """
    found: list[V] = []
    after = 0
    while True:
        try:
            some = yield from look(behind, str(after))
        except InvalidParameter:
            return (yield from look(whole))
        if not some:
            return found
        found += some
        after = next(number for number in map(mark, reversed(some)) if number)


def all_outgoing() -> Plan[list[OutgoingView]]:
    """All outgoing queues."""
    return look_on(OUTGOING, OUTGOING_BEHIND, lambda one: one.number)


def do(request: requests.Request) -> Plan[None]:
    """One request whose answer says only that it was done."""
    yield Request(request)


def tell(request: requests.Request, *, lazy: bool = False, unhurried: bool = False) -> Plan[None]:
    """One request whose answer nobody waits for; see ``Request``."""
    yield Request(request, waits=False, lazy=lazy, unhurried=unhurried)
