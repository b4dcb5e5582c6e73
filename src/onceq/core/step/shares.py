"""What one application may have of the tables that all of them share.

To open a transaction, to decide for a partner, to prepare the anchor of a group or to use a name
for one takes no right at any queue, only to be known; to hold queues open, and to wait at them, one
at any queue. Each of these tables has one limit for all,
so whoever filled one would keep everybody else from his work, and some entries wait for ever. So
nobody who needs rights at all has more than a share of one (``APPLICATION_SHARE``). Whoever runs
the queue manager has what there is.

What is counted is what is there: nothing is kept beside the tables, and nobody counts before a
table is as full as one share.

Upholds: I24.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from onceq.core.step.step import Step
from onceq.model.limits import APPLICATION_SHARE

K = TypeVar("K")
V = TypeVar("V")


class Owned(Protocol):
    """What an owner has for as long as he is there."""

    @property
    def owner(self) -> int: ...


def room_for(by: str, owners: Iterable[str], count: int, most: int) -> bool:
    """Whether one more entry fits into a table.

    Args:
        by: Whose it would be, as ``Step.known_by`` says it.
        owners: Whose each entry is.
        count: How many entries there are.
        most: The limit of the table.
    """
    share = most // APPLICATION_SHARE
    if not by or count < share:
        return count < most
    return count < most and sum(one == by for one in owners) < share


def room_for_owner(
    step: Step, owner: int, table: Mapping[K, V], whose: Callable[[K, V], int], most: int
) -> bool:
    """The same for what lasts as long as its owner does.

    Args:
        owner: Whose the new entry would be.
        whose: Whose one is; asked only where the table is as full as one share.
    """
    count = len(table)
    if count < most // APPLICATION_SHARE:
        return True
    owners = (step.known_by(whose(key, entry)) for key, entry in table.items())
    return room_for(step.known_by(owner), owners, count, most)


def by_key(key: tuple[int, int], _: object) -> int:
    """The owner of an entry that stands under his number and one of his own."""
    return key[0]


def by_entry(_: object, entry: Owned) -> int:
    """The owner of an entry that says whose it is."""
    return entry.owner
