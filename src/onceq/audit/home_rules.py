"""What is wrong with copies at one queue manager: each rule is one condition, as in ``rules``.

A message that never leaves its manager has no stream. What the stream proves of others its place
and its commit prove of it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from onceq.audit.arrays import NONE, Mask, coded, grouped, highest_before, lane_of, ordered
from onceq.audit.copies import Copies
from onceq.audit.facts import Facts
from onceq.audit.rules import Certain, Rule, later


def _at_home(copies: Copies, _: Certain) -> Mask:
    """Copies that were committed to a queue of their own manager, with their places. One that was
    put back has given places and positions twice."""
    put = copies.put
    there = ~copies.streamed & put.there & (put.lookup != NONE)
    return np.asarray(there & copies.known.unbroken[put.manager])


def _shared_at_home(copies: Copies, certain: Certain) -> Mask:
    """Whether another message was committed to the same place."""
    rows = np.flatnonzero(_at_home(copies, certain))
    put = copies.put.take(rows)
    return later(copies, rows, put.manager, put.place, put.lookup)


def _misplaced_at_home(copies: Copies, certain: Certain) -> Mask:
    """Whether it stands, in its lane of the queue, before one that was committed earlier."""
    rows = np.flatnonzero(_at_home(copies, certain))
    wrong = np.zeros(len(copies), np.bool_)
    if not len(rows):
        return wrong
    put = copies.put.take(rows)
    lookup = put.lookup
    lanes = coded(put.manager, put.place, lane_of(lookup))[0]
    order = ordered(lanes, put.position, put.ordinal)
    groups = grouped(lanes[order])[1]
    wrong[rows[order]] = highest_before(lookup[order], groups) > lookup[order]
    return wrong


def _in_transactions(copies: Copies, _: Certain) -> Mask:
    """Copies whose transaction is told by its number."""
    put = copies.put
    numbered = put.there & (put.transaction != NONE)
    return np.asarray(numbered & copies.known.unbroken[put.manager])


def _torn_commit(copies: Copies, _: Certain) -> Mask:
    """Whether another message of its transaction and lane was committed by another record."""
    rows = np.flatnonzero(_in_transactions(copies, _))
    put = copies.put.take(rows)
    order, groups = grouped(copies.lanes.of[rows], put.manager, put.transaction)
    position = put.position[order]
    wrong = np.zeros(len(copies), np.bool_)
    wrong[rows[order]] = position != position[groups.starts][groups.of]
    return wrong


def _came(copies: Copies) -> Facts:
    """The event by which each copy came into the queue that it is received from."""
    rows = np.where(copies.streamed, copies.taken.rows, copies.put.rows)
    return Facts(copies.put.columns, rows)


def _received_resized(copies: Copies, _: Certain) -> Mask:
    """Whether its packet had another size when it was received than when it had come."""
    came, got = _came(copies).size, copies.got.size
    return np.asarray((came != NONE) & (got != NONE) & (came != got))


RULES: Final = (
    Rule("I2", "torn-commit", "positions in the log of each transaction's commits",
         _in_transactions, _torn_commit,
         "another message of its transaction was committed by another record"),
    Rule("I3", "resized", "size of the packet at the reception and at the arrival",
         lambda c, _: c.got.there & _came(c).there, _received_resized,
         "its packet had another size when it was received than when it had come"),
    Rule("I5", "own-out-of-order", "places in each local queue, in the order of commits",
         _at_home, _misplaced_at_home,
         "it stands before one that was committed earlier"),
    Rule("I18", "own-place-shared", "messages at one place of a local queue", _at_home,
         _shared_at_home,
         "another message was committed to the same place"),
)  # fmt: skip
