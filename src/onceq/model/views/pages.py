"""A page of a list that may be long.

Upholds: what is on a page is bounded (``VIEWS_AT_ONCE``). In an order by number or by name, going
from page to page meets each that was there all the time once, and what comes or goes meanwhile once
or not at all. What another order has moved meanwhile may be met twice, or not.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from onceq.model.views.view import View

LISTS_AT_ONCE: Final = 10
"""Distribution lists on one page: each has up to DIRECTORY_MEMBERS_MAX names."""

T_co = TypeVar("T_co", covariant=True)


class Page(View, Generic[T_co], frozen=True):
    """Some of a list.

    Attributes:
        views: What is on this page, in its order.
        next: What to ask for the next page with; "": this is the last one.
        of: How many there are on all pages; None where nobody has counted them.
    """

    views: tuple[T_co, ...] = ()
    next: str = ""
    of: int | None = None
