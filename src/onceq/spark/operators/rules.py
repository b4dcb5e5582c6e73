"""The rules of delivery on arrays: what the queue manager decides message by message, for many.

Pure functions of numpy arrays, used by the streaming and the batch operators alike. Each decides
as the core does on every input (``tests/property/test_spark_*.py`` compare them): the receiver
filter, sequence numbers, and what becomes of a message that arrives (refused or stored, received or
too late, and which acknowledgments are due). Where rows of a stream come in such an order that a
formula over the whole array cannot be exact, they are decided one by one. Times of ends are whole
seconds since 1970, as packets have them.

Upholds: I4 (accepted at most once), I5 (commit order), I7 (a number is never given twice), I11 (one
end), I12 (one dead letter), I13 (true acknowledgments), I14, I15.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from onceq.model.marks import NEVER_S
from onceq.model.message import Acknowledge, Journal
from onceq.model.resultcodes import MessageClass

FOREVER: Final = int(np.iinfo(np.int64).max)
"""When that leaves of which nobody knows that it ever does."""

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
class FilterVerdicts:
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
) -> FilterVerdicts:
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
    return FilterVerdicts(verdicts, streams, lasts)


def _live(
    key: Ints, stream: Streams, number: Ints, before: Ints, streams: Streams, lasts: Ints
) -> Codes:
    """The rows of one key after another; changes ``streams`` and ``lasts``."""
    new_key = np.concatenate(([True], key[1:] != key[:-1]))
    part_begins = new_key | np.concatenate(([True], stream[1:] != stream[:-1]))
    # For each row the highest number before it in its stream; what was known counts. Parts are told
    # apart by their upper half, so that one running maximum serves all of them.
    start = np.where(stream == streams[key], lasts[key], 0)
    upper = (np.cumsum(part_begins) - 1) << 32
    highest: Ints = np.maximum.accumulate(upper | np.maximum(number, start)) & NUMBER_MAX
    known: Ints = np.concatenate(([0], highest[:-1]))
    known[part_begins] = start[part_begins]
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

    A message for a place that numbering has reached is a repetition, or too late for the order of
    commits; it gets no number.

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


INSECURE: Final = (
    MessageClass.NACK_BAD_DESTINATION_QUEUE, MessageClass.NACK_ACCESS_DENIED,
    MessageClass.NACK_BAD_SIGNATURE, MessageClass.NACK_BAD_ENCRYPTION,
    MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER,
)  # fmt: skip
"""They tell a stranger what exists here, so that they may be suppressed (ACK-7)."""

NOT_YET: Final = -1
"""The time of what has not happened."""
_NEGATIVE: Final = 0x8000


@dataclass(frozen=True, slots=True)
class ArrivingMessages:
    """Messages as they arrive, an array for each field.

    Attributes:
        transactional: Whether they were sent in transactions.
        encrypted: Whether their bodies are.
        sent, arrived, received: When; ``received``: NOT_YET where it was not.
        reach, receive: Their two lifetimes, from when they were sent; NEVER_S: none.
        level: Acknowledgments that they ask for (``Acknowledge``); 0 without a queue for them.
        journal: Copies that they ask for (``Journal``).
        known, ordered, journaled: Of their queues: whether there is one, whether it is
            transactional, and whether it keeps a journal.
        quiet: Whether nothing is to be told or journaled of messages to queues of that name.
    """

    transactional: Flags
    encrypted: Flags
    sent: Ints
    arrived: Ints
    received: Ints
    reach: Ints
    receive: Ints
    level: Ints
    journal: Ints
    known: Flags
    ordered: Flags
    journaled: Flags
    quiet: Flags


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of them.

    Attributes:
        classes: A reason why it did not arrive or was not received, ACK_RECEIVE where it was, or
            ACK_REACH_QUEUE where it waits in its queue.
        told_arrival, told_end: Classes of the acknowledgment messages that are due; 0: none.
        final: Class of the final acknowledgment that its sender's queue manager gets; 0: none.
        dead_here, dead_ordered_here: Whether it is in the dead-letter queue, or the transactional
            one, of this computer.
        dead_at_source, journal_at_source: Whether its sender's queue manager keeps a copy when it
            has heard of the end.
        journal_here: Whether the journal of its queue has a copy.
    """

    classes: Ints
    told_arrival: Ints
    told_end: Ints
    final: Ints
    dead_here: Flags
    dead_ordered_here: Flags
    dead_at_source: Flags
    journal_at_source: Flags
    journal_here: Flags


def settle(
    m: ArrivingMessages, refusals: Ints, now_s: Ints, *, permit_insecure_nacks: bool
) -> Settled:
    """Decide what became of messages until ``now_s``.

    Args:
        refusals: Why they cannot enter their queues, 0 where they can: what ``refused`` says, and
            NACK_QUEUE_EXCEED_QUOTA where nothing else is wrong but there is no room.
    """
    classes = ended(m, refusals, now_s)
    # The sender goes by the name alone; here a queue that there is not is no quiet one.
    heard = ~(m.quiet & m.known)
    level, journal = np.where(heard, m.level, 0), np.where(heard, m.journal, 0)
    negative = (classes & _NEGATIVE) != 0
    received = classes == MessageClass.ACK_RECEIVE
    told_arrival = np.where(refusals > 0, refusals, MessageClass.ACK_REACH_QUEUE)
    asked = np.where(refusals > 0, Acknowledge.NEGATIVE_ARRIVAL, Acknowledge.POSITIVE_ARRIVAL)
    tell = (level & asked) != 0
    if not permit_insecure_nacks:
        tell &= ~np.isin(refusals, INSECURE)
    late = classes == MessageClass.NACK_RECEIVE_TIMEOUT
    tell_end = (received & ((level & Acknowledge.POSITIVE_RECEIVE) != 0)) | (
        late & ((level & Acknowledge.NEGATIVE_RECEIVE) != 0)
    )
    # A refusal is always told to the sender's queue manager, another end where it asked (EOD-39).
    final = m.transactional & ((refusals > 0) | ((journal > 0) & (received | late)))
    wants_dead = (journal & Journal.DEADLETTER) != 0
    return Settled(
        classes=classes,
        told_arrival=np.where(tell, told_arrival, 0),
        told_end=np.where(tell_end, classes, 0),
        final=np.where(final, classes, 0),
        dead_here=~m.transactional & negative & wants_dead,
        dead_ordered_here=classes == MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE,
        dead_at_source=final & negative & wants_dead & ~m.quiet,
        journal_at_source=final & received & ((journal & Journal.JOURNAL) != 0),
        journal_here=received & m.journaled,
    )


def refused(m: ArrivingMessages) -> Ints:
    """Why messages cannot enter their queues, however empty these are (EOD-28, EOD-29); 0 where
    they can. The first reason counts.

    A sender whose clock is ahead is not punished; a time to reach the queue of 0 means one attempt,
    and this is it (CNF-4).
    """
    age = np.maximum(m.arrived - m.sent, 0)
    lifetime = np.minimum(np.where(m.reach == 0, NEVER_S, m.reach), m.receive)
    late = (lifetime < NEVER_S - 1) & (age > lifetime)
    mismatch = np.where(
        m.transactional,
        MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE,
        MessageClass.NACK_NOT_TRANSACTIONAL_MESSAGE,
    )
    reasons: list[Any] = [
        MessageClass.NACK_BAD_DESTINATION_QUEUE,
        mismatch,
        MessageClass.NACK_BAD_ENCRYPTION,
        MessageClass.NACK_REACH_QUEUE_TIMEOUT,
    ]
    found: Ints = np.select(
        [~m.known, m.ordered != m.transactional, m.encrypted, late], reasons, default=0
    ).astype(np.int64)
    return found


def expiries(m: ArrivingMessages) -> Ints:
    """When messages that wait in their queues expire; NEVER_S: never."""
    return np.where(m.receive < NEVER_S - 1, np.minimum(m.sent + m.receive, NEVER_S - 1), NEVER_S)


def in_time(m: ArrivingMessages, expires: Ints) -> Flags:
    """Which messages were received before they expired."""
    found: Flags = (m.received != NOT_YET) & ((expires == NEVER_S) | (m.received < expires))
    return found


def ended(m: ArrivingMessages, refusals: Ints, now_s: Ints) -> Ints:
    """The class of each message's end, or of its arrival where it has none yet (CNF-1)."""
    expires = expiries(m)
    late = (expires != NEVER_S) & ((m.received != NOT_YET) | (now_s >= expires))
    reasons: list[Any] = [
        refusals, MessageClass.ACK_RECEIVE, MessageClass.NACK_RECEIVE_TIMEOUT,
    ]  # fmt: skip
    found: Ints = np.select(
        [refusals > 0, in_time(m, expires), late], reasons, default=MessageClass.ACK_REACH_QUEUE
    ).astype(np.int64)
    return found
