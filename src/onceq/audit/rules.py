"""What is wrong with a copy: each rule is one condition over the ledger of copies.

A rule speaks only where the histories are complete enough to be certain: what was cut off, or is
not written yet, is no loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from onceq.audit.arrays import (
    NONE,
    Column,
    Ints,
    Mask,
    begins,
    coded,
    grouped,
    highest_before,
    ordered,
    ranks,
)
from onceq.audit.copies import Copies, path_of
from onceq.audit.events import ABSENT
from onceq.audit.facts import Facts
from onceq.model.spelling import local
from onceq.model.traced import TRAILER_BYTES

SLACK_US: Final = 300 * 1_000_000
"""Clocks of two managers may differ by so much."""


LANE: Final = "lane"
"""All copies of one lane."""
QUEUE: Final = "queue"
"""All copies that were accepted in one queue."""
MESSAGE: Final = "message"
"""All copies of one message."""


@dataclass(frozen=True, slots=True)
class Certain:
    """Where the absence of an event means that nothing happened, shape (copies,) each.

    Attributes:
        hole: The receiver tells of everything up to a later message of the stream.
        end: The receiver tells of everything up to after its acknowledgment.
        sender: The sender tells of everything up to after its arrival.
        receiver: There is a whole history of the receiver.
    """

    hole: Mask
    end: Mask
    sender: Mask
    receiver: Mask


@dataclass(frozen=True, slots=True)
class Rule:
    """One way in which a copy can contradict an invariant.

    Attributes:
        invariant, fault: Its names.
        looks_at: What it compares, for people.
        of: Which copies it looks at; None for all.
        wrong: Which of them are wrong.
        said: What is said of such a copy; names in braces are counts of it.
        within: What must be looked at together: LANE, QUEUE or MESSAGE.
    """

    invariant: str
    fault: str
    looks_at: str
    of: Callable[[Copies, Certain], Mask] | None
    wrong: Callable[[Copies, Certain], Mask]
    said: str
    within: str = LANE


def certain(copies: Copies, *, settled: bool) -> Certain:
    """Where the histories are complete enough.

    Args:
        settled: Nothing was under way when the histories were taken: what is missing is lost.
    """
    known, lanes, streamed = copies.known, copies.lanes, copies.streamed
    accepted, committed = copies.accepted > 0, copies.committed > 0
    number = copies.number
    later = number < lanes.most(number, accepted & streamed)[lanes.of]
    before = lanes.least(number, accepted & streamed)[lanes.of]
    earlier = (before != NONE) & (before < number)
    later_sent = number < lanes.most(number, committed & streamed)[lanes.of]
    whole = known.whole[copies.to]
    reaches = whole | (known.unbroken[copies.to] & earlier)
    acked, taken = copies.acked.time, copies.taken.time
    late = (acked != NONE) & (known.up_to[copies.to] - SLACK_US > acked)
    early = (taken != NONE) & (known.up_to[copies.source] - SLACK_US > taken)
    hole = reaches & later
    return Certain(
        hole=hole,
        end=hole | (whole & late) | (reaches & settled),
        sender=known.whole[copies.source] & (settled | later_sent | early | ~streamed),
        receiver=whole,
    )


def _streamed(copies: Copies, _: Certain) -> Mask:
    return copies.streamed


def _left_of_nothing(copies: Copies, certain: Certain) -> Mask:
    there = certain.receiver & (copies.accepted == 0) & (copies.queue_ends > 0)
    return np.asarray(there & copies.streamed)


def _gap(copies: Copies, _: Certain) -> Mask:
    nothing = copies.accepted + copies.refused + copies.given_up + copies.not_received
    return np.asarray((copies.committed > 0) & (nothing + copies.confirmed == 0))


def _native(copies: Copies) -> Mask:
    """Copies that were not sent over HTTP. What comes from there is another packet, which knows
    nothing of the number of its transaction, and where a name leads to may change with a mapping.
    """
    http = [name.upper().startswith("DIRECT=HTTP") for name in copies.queues]
    return ~np.array([*http, False])[copies.put.queue]


def _arrivals(copies: Copies, _: Certain) -> Mask:
    """Copies whose packet arrives as it was sent, and of which sender and receiver both tell."""
    return np.asarray(copies.put.there & copies.taken.there & _native(copies))


def _unlike(column: str) -> Callable[[Copies, Certain], Mask]:
    """Whether what was committed and what was accepted differ in a column that both have."""

    def differ(copies: Copies, _: Certain) -> Mask:
        one, other = getattr(copies.put, column), getattr(copies.taken, column)
        return np.asarray((one != NONE) & (other != NONE) & (one != other))

    return differ


def _resized(copies: Copies, sure: Certain) -> Mask:
    """Whether the packet had another size; the mark of a trace is cut out on the way to a queue
    manager that knows of none."""
    cut_out = copies.put.size - copies.taken.size == TRAILER_BYTES
    return np.asarray(_unlike("size")(copies, sure) & ~cut_out)


def _bodies(copies: Copies) -> list[tuple[Ints, Ints]]:
    """The sums of the body where one manager saw it and where the next did."""
    came = np.where(copies.taken.there, copies.taken.crc, copies.put.crc)
    return [(copies.put.crc, copies.taken.crc), (came, copies.got.crc)]


def _summed(copies: Copies, _: Certain) -> Mask:
    """Copies whose body was summed at two places at least, also by way of HTTP."""
    found = np.zeros(len(copies), np.bool_)
    for one, other in _bodies(copies):
        found |= (one != NONE) & (other != NONE)
    return found


def _rewritten(copies: Copies, _: Certain) -> Mask:
    """Whether its body was another one later."""
    wrong = np.zeros(len(copies), np.bool_)
    for one, other in _bodies(copies):
        wrong |= (one != NONE) & (other != NONE) & (one != other)
    return wrong


def _misled(copies: Copies, _: Certain) -> Mask:
    """Accepted in another queue than most of its lane, or than its format name says.

    A name may not say its queue (``PRIVATE=``). So the queue that it says is asked for only where
    any of the lane came into it.
    """
    queues = copies.queues
    paths: dict[str, int] = {}
    path = np.array([*(paths.setdefault(local(path_of(q)), len(paths)) for q in queues), ABSENT])
    there = path[copies.taken.queue]
    meant = path[copies.put.queue]
    taken = copies.taken.there
    lane, lanes = copies.lanes.of, copies.lanes
    as_named = lanes.some(taken & (there == meant))[lane]
    code, (in_lane, at) = coded(lane[taken], there[taken])
    often = np.bincount(code, minlength=len(at))
    best = np.full(lanes.count, ABSENT, np.int64)
    order = ordered(often)
    best[in_lane[order]] = at[order]  # the last write stays, which is the most frequent
    wanted = np.where(as_named, meant, best[lane])
    return np.asarray(taken & _native(copies) & (wanted != ABSENT) & (there != wanted))


def _too_early(copies: Copies, _: Certain) -> Mask:
    """Whether anything that follows stands before what it follows in the log of one manager."""
    unbroken = copies.known.unbroken
    wrong = np.zeros(len(copies), np.bool_)
    for first, then, of in (
        (copies.taken, copies.got, True), (copies.put, copies.acked, True),
        (copies.put, copies.got, ~copies.streamed),
    ):  # fmt: skip
        same = first.there & (first.manager == then.manager) & unbroken[first.manager]
        wrong |= of & same & (then.position < first.position)
    return wrong


def _vanished(copies: Copies, _: Certain) -> Mask:
    """Whether numbers before this one are told of by nobody, though its sender tells everything."""
    rows = np.flatnonzero(copies.streamed & copies.known.whole[copies.source])
    wrong = np.zeros(len(copies), np.bool_)
    if len(rows):
        lane, number = copies.lanes.of[rows], copies.number[rows]
        first = np.zeros(len(rows), np.bool_)
        first[begins(lane)] = True
        before = np.where(first, 0, np.concatenate(([0], number[:-1])))
        wrong[rows] = (number != before + 1) & (copies.follows[rows] == 0)
    return wrong


def _again(copies: Copies, _: Certain) -> Mask:
    """Whether its message was accepted in its queue under another number as well, before.

    One send may name a queue twice, by two names: then it comes by two ways, once by each.
    """
    rows = np.flatnonzero(copies.taken.there & (copies.message != NONE))
    taken = copies.taken.take(rows)
    return later(copies, rows, taken.manager, taken.place, copies.source[rows],
                  copies.message[rows], *_ways(copies, rows))  # fmt: skip


def _ways(copies: Copies, rows: Ints) -> tuple[Column, Column]:
    """What each copy came by: its outgoing queue, where its sender tells; else its stream. A stream
    may be followed by another from the same outgoing queue: that is one way."""
    outgoing = copies.outgoing[rows]
    own = outgoing != NONE
    return own, np.where(own, outgoing, copies.stream[rows])


def _elsewhere(copies: Copies, _: Certain) -> Mask:
    """Whether it was received at another place than where it was put, or moved to last.

    A move may stand in a part of its manager's history that is missing.
    """
    came, got, moved = copies.taken, copies.got, copies.moved
    wrong = np.zeros(len(copies), np.bool_)
    for column in ("manager", "place", "lookup"):
        here = np.where(copies.streamed, getattr(came, column), getattr(copies.put, column))
        here = np.where(moved.there, getattr(moved, column), here)
        wrong |= here != getattr(got, column)
    there = np.where(copies.streamed, came.there, copies.put.there) & got.there
    return there & copies.known.unbroken[got.manager] & wrong


def _shared(copies: Copies, _: Certain) -> Mask:
    """Whether another message was accepted at the same place."""
    rows = np.flatnonzero(copies.taken.there)
    taken = copies.taken.take(rows)
    return later(copies, rows, taken.manager, taken.place, taken.lookup)


def later(copies: Copies, rows: Ints, *columns: Column) -> Mask:
    """Which of these rows are not the first with their values in the columns."""
    wrong = np.zeros(len(copies), np.bool_)
    order, groups = grouped(*columns)
    wrong[rows[order]] = np.arange(len(rows)) != groups.starts[groups.of]
    return wrong


def _misnumbered(copies: Copies, _: Certain) -> Mask:
    """Whether a copy of a stream was committed before one with a smaller number."""
    rows = np.flatnonzero(copies.streamed & copies.put.there)
    put = copies.put.take(rows)
    return _falling(copies, rows, put, ranks(put.position, put.ordinal))


def _misplaced(copies: Copies, _: Certain) -> Mask:
    """Whether a copy of a stream stands in its queue before one with a smaller number."""
    rows = np.flatnonzero(copies.streamed & copies.taken.there)
    taken = copies.taken.take(rows)
    return _falling(copies, rows, taken, ranks(taken.lookup))


def _falling(copies: Copies, rows: Ints, at: Facts, place: Ints) -> Mask:
    """Which of these rows have a smaller place than one before them in their lane and queue."""
    wrong = np.zeros(len(copies), np.bool_)
    if len(rows):
        order, groups = grouped(copies.lanes.of[rows], at.manager, at.place)
        wrong[rows[order]] = highest_before(place[order], groups) > place[order]
    return wrong


def _split(copies: Copies, _: Certain) -> Mask:
    """Whether another copy of the same message was committed in another transaction."""
    wrong = np.zeros(len(copies), np.bool_)
    transaction = copies.put.transaction
    rows = np.flatnonzero((transaction != NONE) & (copies.message != NONE))
    order, groups = grouped(copies.source[rows], copies.message[rows])
    there = transaction[rows[order]]
    wrong[rows[order]] = there != there[groups.starts][groups.of]
    return wrong


def _out_of_order(copies: Copies, _: Certain) -> Mask:
    """Whether it was accepted after one that its sender committed later; without the sender's
    history, after one with a greater number."""
    rows = np.flatnonzero(copies.taken.there & copies.streamed)
    wrong = np.zeros(len(copies), np.bool_)
    if not len(rows):
        return wrong
    taken, put = copies.taken.take(rows), copies.put.take(rows)
    own, way = _ways(copies, rows)
    sent = ranks(np.where(own, put.position, copies.number[rows]), np.where(own, put.ordinal, 0))
    ways = coded(taken.manager, taken.place, copies.source[rows], own, way)[0]
    order = ordered(ways, taken.position, taken.ordinal)
    groups = grouped(ways[order])[1]
    wrong[rows[order]] = highest_before(sent[order], groups) > sent[order]
    return wrong


RULES: Final = (
    Rule("I2", "torn-send", "transactions of all copies of one message",
         lambda c, _: c.put.there, _split,
         "another copy of the same message was committed in another transaction", MESSAGE),
    Rule("I3", "phantom", "what is in a queue was committed by its sender",
         lambda c, sure: sure.sender,
         lambda c, _: (c.committed == 0) & ((c.accepted > 0) | (c.queue_ends > 0)),
         "it is in a queue, and its sender never committed it"),
    Rule("I3", "from-nowhere", "what left a queue had come into it",
         lambda c, sure: sure.receiver & c.streamed, _left_of_nothing,
         "it left a queue that it never came into"),
    Rule("I3", "misdelivered", "queue of the acceptance with the destination of the commit",
         lambda c, _: c.taken.there & _native(c), _misled,
         "it was accepted in another queue than the one that it was sent to"),
    Rule("I3", "altered", "size of the packet at the acceptance and at the commit",
         _arrivals, _resized,
         "its packet had another size when it was accepted than when it was committed"),
    Rule("I3", "body-altered", "sums (CRC-32) of the body at the commit, the acceptance and the "
         "reception", _summed, _rewritten,
         "its body was another one when it was accepted, or received, than before"),
    Rule("I3", "torn", "transaction at the acceptance and at the commit",
         _arrivals, _unlike("transaction"),
         "it was accepted as part of another transaction than it was committed in"),
    Rule("I3", "effect-before-cause", "positions in the log: commit, acceptance, reception, "
         "acknowledgment", lambda c, sure: c.got.there | c.acked.there, _too_early,
         "it was received, or its acknowledgment came, before it was there"),
    Rule("I4", "accepted-twice", "acceptances", None, lambda c, _: c.accepted > 1,
         "accepted {accepted} times"),
    Rule("I4", "committed-twice", "commits to local queues", lambda c, _: ~c.streamed,
         lambda c, _: c.committed > 1, "committed {committed} times to one queue"),
    Rule("I4", "received-twice", "receptions", None, lambda c, _: c.received > 1,
         "received {received} times"),
    Rule("I4", "accepted-again", "identifiers that one queue accepted from one outgoing queue",
         lambda c, _: c.taken.there & (c.message != NONE), _again,
         "the same message was accepted in the same queue under another number as well", QUEUE),
    Rule("I5", "out-of-order", "acceptances of each sender in one queue, in the order of commits",
         lambda c, _: c.taken.there & c.streamed, _out_of_order,
         "accepted after one that was committed later", QUEUE),
    Rule("I6", "gap", "messages before one that was accepted",
         lambda c, sure: sure.hole & c.streamed, _gap,
         "a later message of its stream was accepted, this one never"),
    Rule("I6", "number-missing", "numbers of each stream, which follow each other from 1",
         lambda c, _: c.streamed & c.known.whole[c.source], _vanished,
         "nobody tells of the number before it, though its sender's history is whole"),
    Rule("I7", "number-reused", "identifiers under one number", None,
         lambda c, _: (c.messages > 1) | ((c.committed > 1) & c.streamed),
         "one number in one stream stands for {messages} messages, committed {committed} times"),
    Rule("I7", "numbered-out-of-order", "numbers of each stream, in the order of commits",
         lambda c, _: c.put.there & c.streamed, _misnumbered,
         "committed before one with a smaller number"),
    Rule("I10", "released-twice", "releases at its sender", None,
         lambda c, _: c.acknowledged > 1, "its sender forgot it {acknowledged} times"),
    Rule("I10", "released-unaccepted", "what its sender forgot as acknowledged",
         lambda c, sure: sure.end & (c.acknowledged > 0),
         lambda c, _: (c.accepted == 0) & (c.refused == 0),
         "its sender was told that it arrived, and forgot it; it never arrived"),
    Rule("I11", "two-ends", "ends in its queue", None,
         lambda c, _: (c.queue_ends > 1) & (c.received <= 1),
         "it ended {queue_ends} times in its queue"),
    Rule("I11", "refused-twice", "refusals", None,
         lambda c, _: c.refused > 1, "refused {refused} times"),
    Rule("I11", "two-ends-at-sender", "ends at its sender", None,
         lambda c, _: c.sender_ends > 1,
         "its sender has noted {sender_ends} ends of it"),
    Rule("I11", "accepted-after-not-delivered", "the sender's word with the receiver's", None,
         lambda c, _: (c.not_delivered > 0) & (c.accepted > 0),
         "its sender says that it was not delivered, and it was accepted"),
    Rule("I11", "accepted-and-refused", "acceptances with refusals", None,
         lambda c, _: (c.accepted > 0) & (c.refused > 0), "it was accepted and refused"),
    Rule("I11", "confirmed-unreceived", "confirmations with receptions",
         lambda c, _: (c.confirmed > 0) & c.known.unbroken[c.to] & (c.accepted > 0),
         lambda c, _: (c.received == 0) & (c.queue_ends > 0),
         "its sender was told that it was received; it was not"),
    Rule("I11", "received-and-not", "notices of no reception with receptions", None,
         lambda c, _: (c.not_received > 0) & (c.received > 0),
         "its sender was told that it was not received; it was"),
    Rule("I18", "received-elsewhere", "place of the reception with the place of the arrival",
         lambda c, _: c.got.there, _elsewhere,
         "it was received at another place than where it had come, and nobody moved it"),
    Rule("I18", "place-shared", "messages at one place of a queue",
         lambda c, _: c.taken.there, _shared,
         "another message was accepted at the same place", QUEUE),
    Rule("I18", "placed-out-of-order", "places of each stream in its queue",
         lambda c, _: c.taken.there & c.streamed, _misplaced,
         "it stands before one with a smaller number of its stream"),
)  # fmt: skip
"""Every rule about copies; ``letters`` has those about what managers say of them."""
