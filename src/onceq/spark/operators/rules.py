"""The rules of delivery on arrays: what the queue manager decides message by message, for many.

Pure functions of numpy arrays, used by the streaming and the batch operators alike. Each decides
as the core does on every input (``tests/property/test_spark_rules.py`` compares them); where rows
of a stream come in such an order that a formula over the whole array cannot be exact, they are
decided one by one.

Upholds: I4 (accepted at most once), I5 (commit order), I7 (numbers are for ever).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Streams = npt.NDArray[np.uint64]
Codes = npt.NDArray[np.int8]
Flags = npt.NDArray[np.bool_]

NUMBER_MAX: Final = (1 << 32) - 1
"""Sequence numbers have 32 bits in a packet; 0 is no number."""

ACCEPT, DUPLICATE, GAP, STALE, MALFORMED = range(5)
VERDICTS: Final = ("accept", "duplicate", "gap", "stale stream", "malformed")
"""The words of the core's receiver filter by code; ``malformed`` is what its decoder refuses."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What the receiver filter says.

    Attributes:
        verdicts: Code of each row.
        streams, lasts: Of each key afterwards: the stream it is in (0: none), and the number of
            the last message that was accepted in it.
    """

    verdicts: Codes
    streams: Streams
    lasts: Ints


def judge(
    keys: Ints, arrived: Streams, numbers: Ints, previous: Ints, streams: Streams, lasts: Ints
) -> Judged:
    """Decide which messages may enter their queues, in the order in which they stand here.

    What is next in its stream is accepted; a newer stream takes over with a message that nothing
    precedes; everything else is a duplicate, comes too early, or belongs to a stream that was left
    (EOD-21 to EOD-26).

    Args:
        keys: For each row the place of its pair of sender and queue in ``streams``.
        arrived, numbers, previous: Stream, number and previous number of each row.
        streams, lasts: Of each key before; zeros where nothing is known.
    """
    verdicts = np.empty(len(keys), np.int8)
    streams, lasts = streams.copy(), lasts.copy()
    order = np.argsort(keys, kind="stable")
    key, stream = keys[order], arrived[order]
    found = np.full(len(keys), STALE, np.int8)
    # The stream of a key only ever rises, so what is older than the one at the start is stale
    # wherever it stands.
    live = stream >= streams[key]
    at = np.flatnonzero(live)
    if len(at):
        found[at] = _live(
            key[at], stream[at], numbers[order][at], previous[order][at], streams, lasts
        )
    verdicts[order] = found
    return Judged(verdicts, streams, lasts)


def _live(
    key: Ints, stream: Streams, number: Ints, before: Ints, streams: Streams, lasts: Ints
) -> Codes:
    """The rows of one key after another; changes ``streams`` and ``lasts``."""
    new_key = np.concatenate(([True], key[1:] != key[:-1]))
    part_begins = new_key | np.concatenate(([True], stream[1:] != stream[:-1]))
    known = _highest_before(key, stream, number, part_begins, streams, lasts)
    early = before > known
    # A formula is exact where nothing comes too early and no stream is gone back to: then the last
    # accepted number is the highest one so far. Other keys are decided row by row.
    back = ~new_key & np.concatenate(([False], stream[1:] < stream[:-1]))
    bad = np.zeros(len(streams), np.bool_)
    bad[key[early | back]] = True
    found = np.where(number > known, ACCEPT, DUPLICATE).astype(np.int8)
    slow = bad[key]
    at = np.flatnonzero(slow)
    if len(at):
        found[at] = _one_by_one(key[at], stream[at], number[at], before[at], streams, lasts)
    ends = np.concatenate((new_key[1:], [True])) & ~slow
    end_keys = key[ends]
    streams[end_keys] = stream[ends]
    lasts[end_keys] = np.maximum(known, number)[ends]
    return found


def _highest_before(
    key: Ints, stream: Streams, number: Ints, begins: Flags, streams: Streams, lasts: Ints
) -> Ints:
    """For each row the highest number before it in its stream; what was known counts."""
    start = np.where(stream == streams[key], lasts[key], 0)
    # Parts are told apart by their upper half, so that one running maximum serves all of them.
    upper = (np.cumsum(begins) - 1) << 32
    highest: Ints = np.maximum.accumulate(upper | np.maximum(number, start)) & NUMBER_MAX
    known: Ints = np.concatenate(([0], highest[:-1]))
    known[begins] = start[begins]
    return known


def _one_by_one(
    key: Ints, stream: Streams, number: Ints, before: Ints, streams: Streams, lasts: Ints
) -> list[int]:
    """The seed's algorithm to the letter; changes ``streams`` and ``lasts``."""
    found: list[int] = []
    at, current, last = -1, 0, 0
    rows: Any = zip(key.tolist(), stream.tolist(), number.tolist(), before.tolist(), strict=True)
    for k, s, n, p in rows:
        if k != at:
            if at >= 0:
                streams[at], lasts[at] = current, last
            at, current, last = k, int(streams[k]), int(lasts[k])
        if s < current:
            found.append(STALE)
        elif s > current:
            if p:
                found.append(GAP)
            else:
                found.append(ACCEPT)
                current, last = s, n
        elif n <= last:
            found.append(DUPLICATE)
        elif p > last:
            found.append(GAP)
        else:
            found.append(ACCEPT)
            last = n
    streams[at], lasts[at] = current, last
    return found
