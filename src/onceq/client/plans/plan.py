"""What a plan is, and how it asks: the answer of a request has the type that the request names."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias, TypeVar

from onceq.client.link import LinkRequest, Session
from onceq.model import requests
from onceq.model.views.looks import LookEntry
from onceq.model.views.view import Page
from onceq.packet.arrived import Batch

T = TypeVar("T")
V = TypeVar("V")

Plan: TypeAlias = Generator[LinkRequest, Any, T]
"""Yields requests, is sent their results, and returns what the caller gets."""


def _nothing() -> Plan[None]:
    return
    yield


DONE: Final = _nothing()
"""A plan that is over: an operation returns it that has nothing to ask. It can run any number of
times, and a caller who knows it need not run it (``_run`` of a transaction): most sends only add to
the content of the commit, and a plan for each send cost a third of its time."""
for _ in DONE:
    raise AssertionError("a plan that asks nothing has asked")


def ask(
    request: requests.Request,
    answer: type[T],
    *,
    late: Callable[[Batch | None], None] | None = None,
) -> Plan[T]:
    """One request.

    Args:
        answer: What it is answered with; the link has decoded it as that.
        late: See ``LinkRequest``.
    """
    result: T = yield LinkRequest(request, late=late)
    return result


def within(plan: Plan[T], until: float | None) -> Plan[T]:
    """A plan of a call that has a time-out, which no answer of a silent manager outlasts.

    Args:
        until: When its time is over, by the clock of the session; None: it has none.
    """
    try:
        request = next(plan)
        while True:
            request.until = until
            try:
                result = yield request
            except BaseException as error:  # noqa: BLE001 - the plan sees every error
                request = plan.throw(error)
            else:
                request = plan.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


def look_at(look: LookEntry[T], name: str = "") -> Plan[T]:
    """Ask a queue manager for one of its views."""
    return ask(requests.Look(look.what, name), look.kind)


def look_at_page(
    session: Session, look: LookEntry[Page[V]], name: str = "", **asked: Any
) -> Plan[Page[V]]:
    """A page of a list.

    Args:
        asked: after, limit, sort, only and part, as a ``LookEntry`` has them.
    """
    return ask(requests.Look(look.what, name, **asked), look.kind)


def look_at_all(
    session: Session, look: LookEntry[Page[V]], name: str = "", **asked: Any
) -> Plan[list[V]]:
    """All pages of a list: nobody waits while the queue manager tells of many thousands. What comes
    or goes meanwhile may be in it or not."""
    found: list[V] = []
    after = ""
    while True:
        page = yield from look_at_page(session, look, name, after=after, **asked)
        found += page.views
        after = page.next
        if not after:
            return found


def do(request: requests.Request) -> Plan[None]:
    """One request whose answer says only that it was done."""
    yield LinkRequest(request)


def tell(request: requests.Request, *, lazy: bool = False, unhurried: bool = False) -> Plan[None]:
    """One request whose answer nobody waits for; see ``LinkRequest``."""
    yield LinkRequest(request, waits=False, lazy=lazy, unhurried=unhurried)
