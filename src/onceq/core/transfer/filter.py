"""The receiver filter: which arriving messages of a stream are accepted.

Networks repeat, delay and reorder. The receiver needs no history to undo that: for each sender
and destination queue it keeps the stream it is in and the number of the last message it accepted.
Everything here is a pure decision; nothing is stored or sent.

Upholds: I4 (accepted at most once), I5 (commit order), I24 (bounded memory).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """What the filter says about an arriving message."""

    ACCEPT = "accept"
    DUPLICATE = "duplicate"
    GAP = "gap"
    STALE_STREAM = "stale stream"
    CONFLICT = "identity used twice"
    """The number was accepted, with another message (``core/state/last_accepted.py``)."""


@dataclass(frozen=True, slots=True)
class Judgment:
    """Verdicts on one run: its first ``duplicates`` messages are repetitions, the rest is judged
    by ``verdict``."""

    verdict: Verdict
    duplicates: int = 0


def judge(
    *, stream: int, last: int, arrived: int, number: int, previous: int, count: int = 1
) -> Judgment:
    """Say which messages of a run may enter their destination queue now.

    A run of a newer stream is accepted only when nothing precedes it. A stream that is merely
    different is not enough: the first message of a stream already left behind may still be on
    its way, and taking it would deliver it twice (EOD-23, EOD-24).

    Args:
        stream: Stream that this receiver is in for the sender and the queue; 0 if none.
        last: Number of the last message accepted in it; 0 if none.
        arrived: Stream of the run.
        number: Number of its first message; the others follow one by one.
        previous: Previous number of its first message; each other one's is the number before.
        count: How many messages.

    Returns:
        ACCEPT: all but the first ``duplicates`` messages are next. Otherwise none is. DUPLICATE
        and STALE_STREAM mean that the sender has not heard an order acknowledgment yet, so one
        is due. GAP means that an earlier message has yet to arrive.
    """
    if arrived < stream:
        return Judgment(Verdict.STALE_STREAM)
    if arrived > stream:
        return Judgment(Verdict.ACCEPT if previous == 0 else Verdict.GAP)
    known = min(max(last - number + 1, 0), count)
    if known == count:
        return Judgment(Verdict.DUPLICATE, count)
    if known == 0 and previous > last:
        return Judgment(Verdict.GAP)
    return Judgment(Verdict.ACCEPT, known)
