"""Messages that were set aside as damaged, for operators: list them, drop them, scrub for more."""

from __future__ import annotations

from typing import Final

from onceq.core.decision import Scrub
from onceq.core.inputs.inputs import Scrubbed
from onceq.core.management.paging import Listing, Order
from onceq.core.state.log_space import Damage
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queue_tables import DAMAGED
from onceq.core.state.setups import DamageDropped
from onceq.core.step.step import Step
from onceq.errors import InvalidParameter, MessageNotFound
from onceq.model.numbers import read_number
from onceq.model.requests import Steer, SteerOutgoing
from onceq.model.views.managers import DamageView
from onceq.model.views.view import copy_by_name

RATE_MAX = 10**18 - 1
"""Of a number of bytes in a second that is believed."""


def left(step: Step, entry: Damage) -> int:
    """Return how many messages of an entry are still set aside: some were found to have arrived."""
    if not entry.first:
        return entry.count
    lane, end = step.state.all_queues[DAMAGED].lanes[0], entry.first + entry.count
    return sum(count for _, count in lane.ranges(AVAILABLE, entry.first, end=end))


def _view(step: Step, entry: Damage) -> DamageView:
    classes = step.state.all_queues[DAMAGED].lanes[0].classes
    reason = classes.get(entry.first, entry.reason) if entry.first else entry.reason
    return copy_by_name(DamageView, entry, count=left(step, entry), reason=reason)


DAMAGES: Final[Listing[Damage, DamageView]] = Listing(
    lambda step, item: list(step.state.damages),
    _view,
    {"number": Order(lambda step, one: (one.number,), (int,))},
    lambda step, item: lambda one: left(step, one) > 0,
)
"""Messages set aside, without those that have proved to have arrived meanwhile."""


def drop(step: Step, text: str) -> int:
    """Forget one entry, or all of them (""); their messages are then gone permanently.

    Returns:
        How many messages those were.

    Raises:
        MessageNotFound: There is no such entry.
    """
    known = {str(entry.number): entry for entry in step.state.damages}
    if text and text not in known:
        raise MessageNotFound(f"nothing that was set aside has the number {text}")
    chosen = [known[text]] if text else list(known.values())
    count = sum(left(step, entry) for entry in chosen)
    for entry in chosen:
        step.setup(DamageDropped(number=entry.number))
    return count


# ---- scrubs -------------------------------------------------------------------------------------


def scrub(step: Step, item: SteerOutgoing) -> None:
    """Let the engine verify every stored byte, or stop it.

    Raises:
        InvalidParameter: The rate is invalid.
    """
    rate = 0
    if item.action is Steer.SCRUB:
        text = item.destination or str(step.settings.scrub_bytes_s)
        rate = read_number(text, RATE_MAX) or 0
        if not rate:
            raise InvalidParameter(f"a scrub reads a number of bytes in a second, not {text!r}")
    step.act(Scrub(rate))
    step.answer(item.owner, item.request, None)


def scrubbed(step: Step, item: Scrubbed) -> None:
    """Record the progress of a scrub, for views."""
    step.scrub = item.view
