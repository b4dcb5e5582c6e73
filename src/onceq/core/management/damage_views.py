"""What was set aside as damaged, for operators: look at it, drop it, look for more."""

from __future__ import annotations

from onceq.core.decision import Scrub
from onceq.core.inputs.damage import Scrubbed
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.setups import DamageDropped
from onceq.core.state.state import DAMAGED
from onceq.core.step.step import Step
from onceq.errors import InvalidParameter, MessageNotFound
from onceq.model.requests import Steer, SteerOutgoing
from onceq.model.views.managers import DamageView

RATE_DIGITS = 18
"""Of a number of bytes in a second that is believed."""


def damages(step: Step) -> list[DamageView]:
    """What was set aside, but for what has turned out to have arrived meanwhile."""
    lane = step.state.all_queues[DAMAGED].lanes[0]
    found: list[DamageView] = []
    for entry in step.state.damages:
        count, reason = entry.count, entry.reason
        if entry.first:
            end = entry.first + entry.count
            count = sum(n for _, n in lane.ranges(AVAILABLE, entry.first, end=end))
            reason = lane.classes.get(entry.first, reason)
        if count:
            found.append(
                DamageView(
                    entry.number, entry.queue, entry.lookup, count, entry.bytes, entry.address,
                    entry.at_s, reason,
                )
            )  # fmt: skip
    return found


def drop(step: Step, text: str) -> int:
    """Forget one entry, or all of them (""); their messages are gone for good then.

    Returns:
        How many messages those were.

    Raises:
        MessageNotFound: There is no such entry.
    """
    known = {str(entry.number): entry for entry in step.state.damages}
    if text and text not in known:
        raise MessageNotFound(f"nothing that was set aside has the number {text}")
    chosen = [known[text]] if text else list(known.values())
    count = sum(view.count for view in damages(step) if not text or str(view.number) == text)
    for entry in chosen:
        step.setup(DamageDropped(number=entry.number))
    return count


# ---- scrubs -------------------------------------------------------------------------------------


def scrub(step: Step, item: SteerOutgoing) -> None:
    """Let the engine look at every stored byte, or stop it.

    Raises:
        InvalidParameter: The rate is none.
    """
    rate = 0
    if item.action is Steer.SCRUB:
        text = item.destination or str(step.settings.scrub_bytes_s)
        if not text.isdecimal() or len(text) > RATE_DIGITS or not int(text):
            raise InvalidParameter(f"a scrub reads a number of bytes in a second, not {text!r}")
        rate = int(text)
    step.act(Scrub(rate))
    step.answer(item.owner, item.request, None)


def scrubbed(step: Step, item: Scrubbed) -> None:
    """Remember how far a scrub has come, for whoever looks."""
    step.scrub = item.view
