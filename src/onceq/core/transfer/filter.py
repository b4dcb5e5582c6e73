"""The receiver filter: where an arriving run stands in its stream, and what is made of it.

Pure decisions about numbers; nothing is stored or sent here. What they are based on, and why they
keep messages single and in order, is in ``core/transfer/incoming_states.py``.

Upholds: I4 (accepted at most once), I5 (commit order), I24 (bounded memory).
"""

from __future__ import annotations

from onceq.core.transfer.incoming_states import VERDICTS, Standing, StreamState, Verdict
from onceq.model.record import Record


class Judgment(Record, frozen=True):
    """Verdicts on one run: its first ``duplicates`` messages are repetitions, the rest is judged
    by ``verdict``."""

    verdict: Verdict
    duplicates: int = 0


def judge(
    *, stream: int, last: int, arrived: int, number: int, previous: int, count: int = 1
) -> Judgment:
    """Say which messages of a run may enter their destination queue now.

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
        # A smaller previous number is no gap: the head of what is unacknowledged names 0, whatever
        # this receiver has accepted before it (EOD-7).
        elif known == 0 and previous > last:
            standing = Standing.AHEAD
        else:
            standing = Standing.NEXT  # behind what is known of the run, if anything is
    return Judgment(VERDICTS[state][standing], known)


def contradicted() -> Judgment:
    """The verdict on a run of which a number was accepted with another message."""
    return Judgment(VERDICTS[StreamState.PRESENT][Standing.ANOTHER])
