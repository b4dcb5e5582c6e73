"""The receiver filter: find the position of an arriving run in its stream, and judge it.

Pure decisions about numbers; nothing is stored or sent here. ``core/transfer/incoming_states.py``
says what they are based on, and why they keep messages single and in order.

Upholds: I4 (accepted at most once), I5 (commit order), I24 (bounded memory).
"""

from __future__ import annotations

from onceq.core.transfer.incoming_states import VERDICTS, Standing, StreamState, Verdict
from onceq.model.record import Record


class Judgment(Record, frozen=True):
    """Verdicts on one run: its first ``duplicates`` messages are repetitions, and ``verdict``
    judges the rest."""

    verdict: Verdict
    duplicates: int = 0


def judge(
    *, stream: int, last: int, arrived: int, number: int, previous: int, count: int = 1
) -> Judgment:
    """Return which messages of a run may enter their destination queue now.

    Args:
        stream: Stream that this receiver is in for the sender and the queue; 0 if none.
        last: Number of the last message accepted in it; 0 if none.
        arrived: Stream of the run.
        number: Number of its first message; the others follow one by one.
        previous: Previous number of its first message; each other one's is the number before.
        count: How many messages.

    Returns:
        ACCEPT: all but the first ``duplicates`` messages are next. Otherwise none is.
    """
    known = 0
    if arrived > stream:
        state = StreamState.NEW
        standing = Standing.AHEAD if previous else Standing.FIRST
    else:
        state = StreamState.PRESENT if arrived == stream else StreamState.LEFT
        known = min(max(last - number + 1, 0), count) if arrived == stream else 0
        if known == count:
            standing = Standing.REPEATED
        # A smaller previous number is no gap: the first unacknowledged message names 0, even if
        # this receiver has accepted messages before it (EOD-7).
        elif known == 0 and previous > last:
            standing = Standing.AHEAD
        else:
            standing = Standing.NEXT  # behind what is known of the run, if anything is
    return Judgment(VERDICTS[state][standing], known)


def contradicted() -> Judgment:
    """Return the verdict on a run if one of its numbers was accepted with another message."""
    return Judgment(VERDICTS[StreamState.PRESENT][Standing.ANOTHER])
