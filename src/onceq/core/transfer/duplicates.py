"""Detect repeated messages outside transactions (EOD-27).

A repetition also has the sent time of the first: the same identifier with another sent time is
another message, numbered by another life of its manager (``core/peers/lives.py``).

Upholds: I7, I24 (bounded in number and time).
"""

from __future__ import annotations

from onceq.core.step.step import Step
from onceq.model.identity import NO_GUID
from onceq.model.limits import DUPLICATE_AGE_S_MAX
from onceq.packet.arrived import ArrivedRun

UNKNOWN_TIME = 0
"""Sent time of messages that were seen before sent times were kept."""


def new_places(step: Step, run: ArrivedRun, key: str) -> list[int]:
    """Return the indexes of the messages of a run outside transactions that are new."""
    # Backwards, so that the first index is kept for a number that occurs twice in the run.
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
