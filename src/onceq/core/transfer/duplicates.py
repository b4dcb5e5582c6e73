"""Messages outside transactions that come again (EOD-27).

A repetition has the sent time of the first, too: an identifier that comes with another one was
given again, by another life of its manager (``core/peers/lives.py``), and is another message.

Upholds: I7, I24 (bounded in number and time).
"""

from __future__ import annotations

from onceq.core.step.step import Step
from onceq.model.identity import NO_GUID
from onceq.model.limits import DUPLICATE_AGE_S_MAX
from onceq.packet.arrived import ArrivedRun

UNKNOWN_TIME = 0
"""Sent time of what was seen before sent times were kept."""


def new_places(step: Step, run: ArrivedRun, key: str) -> list[int]:
    """Which messages of a run outside transactions have not come before, by place in it."""
    # Backwards, so that of a number that comes twice in the run the first place is kept.
    firsts = {number: i for i, number in reversed(list(enumerate(run.message_numbers)))}
    if run.source == NO_GUID:  # over HTTP a message may come without an identifier
        return sorted(firsts.values())
    seen, source, sent = step.state.seen, run.source, run.sent_time
    old = step.now.wall_s - DUPLICATE_AGE_S_MAX
    return sorted(
        i
        for n, i in firsts.items()
        if seen.get((source, key, n, sent), 0) <= old
        and seen.get((source, key, n, UNKNOWN_TIME), 0) <= old
    )
