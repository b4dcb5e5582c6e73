"""Message numbers: given once, whatever happens (PRP-3).

Upholds: I7 (numbers for ever).
"""

from __future__ import annotations

from onceq.core.state.records import Change
from onceq.core.state.setups import NumbersReserved
from onceq.core.step.step import Step
from onceq.model.limits import MESSAGE_NUMBER_MAX

NUMBERS_RESERVED = 1 << 16
"""Message numbers that one durable reservation covers."""


def take_numbers(step: Step, change: Change, count: int) -> int:
    """The first of ``count`` consecutive message numbers, which a change takes.

    Zero means "not assigned" on the wire, so a block never contains it.
    """
    state = step.state
    first = change.next_message or state.next_message
    if first + count - 1 > MESSAGE_NUMBER_MAX:
        first = 1
        # They begin again, and the ceiling of the round before would allow them all at once.
        state.number_ceiling = 0
    after = first + count
    if after > state.number_ceiling:
        # What is sent express stands in no record that anybody waits for, but its numbers must
        # not come again: the receiver would take the next message for a repetition.
        step.setup(NumbersReserved(ceiling=after + NUMBERS_RESERVED))
    change.next_message = after if after <= MESSAGE_NUMBER_MAX else 1
    return first
