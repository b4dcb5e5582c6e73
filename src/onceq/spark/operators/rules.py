"""The rules of delivery on arrays: what the queue manager decides message by message, for many.

Pure functions of numpy arrays, used by the streaming and the batch operators alike. Each decides
as the core does on every input (``tests/property/test_spark_*.py`` compare them); where rows of a
stream come in such an order that a formula over the whole array cannot be exact, they are
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
    # Numbers of sixteen bits are put in order several times as fast.
    few = len(streams) <= 1 << 16
    order = np.argsort(keys.astype(np.uint16) if few else keys, kind="stable")
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


# ---- numbering -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Numbered:
    """Places in streams.

    Attributes:
        numbers: Of each row; 0: it is at or before a place that was numbered already.
        lasts, commits, sends: Of each key afterwards: the last number given, and the commit and
            the send that it was given to.
    """

    numbers: Ints
    lasts: Ints
    commits: Ints
    sends: Ints


def number(
    keys: Ints, commits: Ints, sends: Ints, lasts: Ints, at_commits: Ints, at_sends: Ints,
    known: Flags,
) -> Numbered:  # fmt: skip
    """Give each message the next number of its stream, in the order of commits and, inside a
    transaction, of sends (EOD-3 to EOD-5). The number before is the previous one.

    What comes for a place that numbering has reached is a repetition, or too late to stand in
    commit order; it gets no number.

    Args:
        keys: For each row the place of its pair of sender and queue in ``lasts``.
        commits, sends: Its transaction's place among the commits of the sender, and its own place
            in the transaction.
        lasts: Last number given in the stream of each key; 0: none yet.
        at_commits, at_sends: Commit and send that numbering has reached.
        known: Whether it has reached any place of a key.
    """
    lasts, at_commits, at_sends = lasts.copy(), at_commits.copy(), at_sends.copy()
    numbers = np.zeros(len(keys), np.int64)
    order = np.lexsort((sends, commits, keys))
    key, commit, send = keys[order], commits[order], sends[order]
    later = (commit > at_commits[key]) | ((commit == at_commits[key]) & (send > at_sends[key]))
    new = later | ~known[key]
    if len(key):
        same = (key[1:] == key[:-1]) & (commit[1:] == commit[:-1]) & (send[1:] == send[:-1])
        new[1:] &= ~same
    order, key, commit, send = order[new], key[new], commit[new], send[new]
    if not len(key):
        return Numbered(numbers, lasts, at_commits, at_sends)
    begins = np.concatenate(([True], key[1:] != key[:-1]))
    first = np.flatnonzero(begins)
    place = np.arange(len(key)) - np.repeat(first, np.diff(np.append(first, len(key)))) + 1
    given = lasts[key] + place
    numbers[order] = given
    ends = np.append(first[1:], len(key)) - 1
    lasts[key[ends]], at_commits[key[ends]], at_sends[key[ends]] = (
        given[ends], commit[ends], send[ends],
    )  # fmt: skip
    return Numbered(numbers, lasts, at_commits, at_sends)


def renewable(streams: Streams, lasts: Ints, acknowledged: Ints) -> Flags:
    """Which keys begin a new stream with their next message: those of whose stream everything is
    acknowledged (EOD-12). Their numbers begin at 1 again, and places stay as they are.

    Args:
        streams, lasts: Of each key: its stream (0: none), and the last number given there.
        acknowledged: Up to where its messages were acknowledged, as far as was heard.
    """
    return (streams > 0) & (lasts > 0) & (acknowledged >= lasts)
