"""Long lists, returned a page at a time: chosen, sorted and cut here, so that no client gets 20,000
views to show 50 (finding U6).

A walk over everything finds a page, some of it in each step. The walk keeps the first ones that it
has met, and nothing is ever sorted as a whole. A list that is kept in its order is walked from
where the page begins to where it is full. Each thing has its own place in each order, so a client
can page through a list while things come and go.

Upholds: I24 (no step is longer the more there is, and no answer larger).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

from onceq.core.step.step import Step
from onceq.errors import InvalidParameter
from onceq.model.limits import QUEUES_MEASURED_AT_ONCE, VIEWS_AT_ONCE
from onceq.model.record import Record
from onceq.model.requests import Look
from onceq.model.requests.request import quoted
from onceq.model.views.view import Page

T = TypeVar("T")
V = TypeVar("V")
Place = tuple[Any, ...]
"""The position of a thing in an order: comparable with all others, and equal to none."""

LATER: Final = object()
"""Replaces an answer that comes when everything was examined."""


class PageOrder(Record, Generic[T], frozen=True):
    """An order of a list.

    Attributes:
        place: Returns the place of a thing.
        types: Types of the parts of a place.
    """

    place: Callable[[Step, T], Place]
    types: tuple[type, ...]


class PagedListing(Record, Generic[T, V], frozen=True):
    """The parts of a list.

    Attributes:
        all: Everything that there is, in its own list; the filter hides what an actor may not
            see.
        show: The view of one.
        orders: By their names. The first one is the default.
        fits: Which of them are asked for, and may be seen.
        behind: Where they are kept in the first order: those behind a place.
        there: Whether one still exists, if it can go while others are examined.
        most: The largest number on one page.
    """

    all: Callable[[Step, Look], Iterable[T]]
    show: Callable[[Step, T], V]
    orders: Mapping[str, PageOrder[T]]
    fits: Callable[[Step, Look], Callable[[T], bool]] = lambda step, item: lambda one: True
    behind: Callable[[Step, Place], Iterable[T]] | None = None
    there: Callable[[Step, T], bool] = lambda step, one: True
    most: int = VIEWS_AT_ONCE


def page(listing: PagedListing[T, V]) -> Callable[[Step, Look], object]:
    """Return the rule that answers a look at such a list."""

    def begin(step: Step, item: Look) -> object:
        name, order = _order(listing, item)
        step.begin(_walk(step, item, listing, name, order, _after(item, name, order)))
        return LATER

    return begin


def choice(value: str, of: Iterable[str], what: str) -> str:
    """Return one of several words; raises InvalidParameter."""
    if value not in of:
        raise InvalidParameter(
            f"{what} {quoted(value)}: it is one of {', '.join(one for one in of if one)}"
        )
    return value


def _order(listing: PagedListing[T, V], item: Look) -> tuple[str, PageOrder[T]]:
    """Return an order with its name, which a page carries: places of several orders look alike."""
    name = item.sort or next(iter(listing.orders))
    return name, listing.orders[choice(name, listing.orders, "there is no order")]


def _after(item: Look, name: str, order: PageOrder[T]) -> Place:
    """Return the place that a page begins behind; () is before all."""
    if not item.after:
        return ()
    try:
        said = json.loads(item.after)
    except (ValueError, RecursionError):
        said = None
    order_said, *place = said if isinstance(said, list) and said else ("",)
    found = tuple(place)
    if order_said != name or tuple(map(type, found)) != order.types:
        raise InvalidParameter(f"{quoted(item.after)} is no page of this list in this order")
    return found


def _walk(
    step: Step,
    item: Look,
    listing: PagedListing[T, V],
    name: str,
    order: PageOrder[T],
    after: Place,
) -> Iterator[None]:
    most = min(item.limit or listing.most, listing.most)
    fits = listing.fits(step, item)
    behind = listing.behind if order is next(iter(listing.orders.values())) else None
    found: list[tuple[Place, T]] = []
    count = 0
    things = listing.all(step, item) if behind is None else behind(step, after)
    for at, one in enumerate(things, 1):
        if fits(one):
            count += 1
            place = order.place(step, one)
            if place > after:
                found.append((place, one))
            if behind is not None and len(found) > most:
                break
        if not at % QUEUES_MEASURED_AT_ONCE:
            found = _first(found, most)
            yield
    found = _first(found, most)
    more = len(found) > most
    del found[most:]
    next_ = json.dumps((name, *found[-1][0])) if more else ""
    views = tuple(listing.show(step, one) for _, one in found if listing.there(step, one))
    step.answer(item.owner, item.request, Page(views, next_, count if behind is None else None))


def _first(found: list[tuple[Place, T]], most: int) -> list[tuple[Place, T]]:
    """Return what may be on the page, and one more if there is one."""
    return sorted(found, key=itemgetter(0))[: most + 1]
