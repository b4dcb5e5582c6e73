"""What one application may have of the tables that all of them share.

To open a transaction, to decide for a partner, to prepare the anchor of a group or to use a name
for one takes no right at any queue, only to be known. Each of these tables has one limit for all,
so whoever filled one would keep everybody else from his work, and some entries wait for ever. So
nobody who needs rights at all has more than a share of one (``APPLICATION_SHARE``). Whoever runs
the queue manager has what there is.

What is counted is what is there: nothing is kept beside the tables, and nobody counts before a
table is as full as one share.

Upholds: I24.
"""

from __future__ import annotations

from collections.abc import Iterable

from onceq.core.step.step import Step
from onceq.model.limits import APPLICATION_SHARE


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


def room_to_begin(step: Step, owner: int, most: int) -> bool:
    """Whether an application may have one more transaction open. Each transaction asks."""
    units = step.units.transactions
    if len(units) < most // APPLICATION_SHARE:
        return True
    owners = (step.known_by(tx.owner) for tx in units.values())
    return room_for(step.known_by(owner), owners, len(units), most)
