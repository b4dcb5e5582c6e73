"""Options of commands that list what there may be very much of, and how the list is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar

from onceq.cli import out
from onceq.cli.parameters import Option
from onceq.model.wording import plural

if TYPE_CHECKING:
    from onceq.model.views.pages import Page

V = TypeVar("V")

Sort = Annotated[
    str,
    Option(
        "--sort", metavar="BY", show_default=False,
        help="messages (most first), bytes, oldest (the oldest message first) or number (as they "
        "were made) [else by name].",
    ),
]  # fmt: skip
Part = Annotated[
    str,
    Option("--name", metavar="TEXT", show_default=False, help="Those with this in their names."),
]
Limit = Annotated[int, Option("--limit", metavar="N", min=0, help="At most N rows; 0: all.")]


class OfAll(Protocol[V]):
    """``queues`` or ``outgoing`` of a queue manager."""

    def __call__(self, *, only: str, part: str) -> list[V]: ...


def listed(
    everything: OfAll[V], some: Callable[..., Page[V]], *, sort: str, only: str, part: str,
    limit: int,
) -> tuple[list[V], int | None]:  # fmt: skip
    """What is to be listed, and how many there are; None: more, and nobody has counted them.

    The queue manager sorts and cuts, so that it does not tell of thousands of which a few are
    shown; what is listed as a whole and by name is sorted here.
    """
    if not (sort or limit):
        found = everything(only=only, part=part)
        return found, len(found)
    found, after = [], ""
    while True:
        left = limit - len(found) if limit else 0
        page = some(sort=sort or "name", only=only, part=part, after=after, limit=left)
        found += page.views
        after = page.next
        if not after or (limit and len(found) >= limit):
            return found, (None if after else len(found)) if page.of is None else page.of


def tell_others(shown: int, of: int | None, what: str) -> None:
    """Say how many are not in the list; None: nobody has counted them."""
    if of is None:
        out.note("there are more; --limit 0 shows all")
    elif of > shown:
        out.note(f"{plural(of - shown, f'other {what}')} not shown; --limit 0 shows all")
