"""What each operation of a record does to the state of a position: one table, and its theory.

A position is the place of one message in one queue. It begins AVAILABLE and ends REMOVED; its
counter is never given again. What lies between is what keeps a message where it is while somebody
else has not decided yet:

* LOCKED: a transaction has received the message. The message stays where it is, so that an abort
  gives it back to its own place (I17); nobody else receives it, and it does not expire (CNF-3).
* PURGING: an operator has purged the queue meanwhile. The transaction was given the message before,
  so the purge does not take it away: a commit receives it all the same, and only an abort lets
  the purge win (Q-43). Without this state an abort would bring a purged message back.
* AWAITING: in an outgoing queue only. The destination has the message, so it is never transmitted
  again; its sender wants to know how it ends, so it is not forgotten yet (EOD-11).

Prepared branches, dead letters in doubt and messages in the subqueue ``retry`` have no states of
their own: they are LOCKED or AVAILABLE, and a table beside the queue says what is special.

A record names an operation and a range, never a state. The state follows from this table, while
running and when a store is read again (I22), in one place (``State.apply``). An operation takes
its range in one of two ways:

* A *strict* one is decided about positions whose states are known: each of them is in one of the
  states that the table names. If one is not, the record and the queue disagree, and nothing goes
  on: an assertion fails, and a store with such a record does not open.
* The others concern what is left of a range. Between a receive and its abort, single messages of
  the range may have been ended (set aside as damaged, say); an operator purges whatever is there.
  Positions in states that the table does not name stay as they are.

``docs/reference/states.md`` shows the table as a picture, drawn from ``TRANSITIONS``.

Upholds: I2, I17, I22.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from onceq.core.state.position_block import AVAILABLE, AWAITING, KEPT, LOCKED, PURGING, REMOVED
from onceq.core.state.positions import Positions
from onceq.core.state.records import Op
from onceq.model.record import Record

NAMES: Final[Mapping[int, str]] = {
    AVAILABLE: "available",
    LOCKED: "locked",
    PURGING: "purging",
    AWAITING: "awaiting",
    REMOVED: "removed",
}
"""The states in words."""


class Transition(Record, frozen=True):
    """What an operation does to the positions of a range.

    Attributes:
        moves: From a state to a state, in the order in which they are carried out.
        strict: Whether every position of the range must be in one of these states.
        ends: Whether no message of the range is left, whatever its state was.
    """

    moves: tuple[tuple[int, int], ...]
    strict: bool = True
    ends: bool = False


_ENDS: Final = Transition(tuple((state, REMOVED) for state in KEPT), ends=True)
_GIVES_BACK: Final = Transition(((PURGING, REMOVED), (LOCKED, AVAILABLE)), strict=False)

TRANSITIONS: Final[Mapping[int, Transition]] = {
    Op.LOCK: Transition(((AVAILABLE, LOCKED),)),
    Op.UNLOCK: _GIVES_BACK,
    Op.RETURN: _GIVES_BACK,
    Op.PURGE: Transition(
        ((LOCKED, PURGING), (AVAILABLE, REMOVED), (AWAITING, REMOVED)), strict=False
    ),
    Op.AWAIT: Transition(((AVAILABLE, AWAITING),)),
    Op.REMOVE: _ENDS,
    Op.RELEASE: _ENDS,
    Op.END: _ENDS,
    Op.SHIFT: _ENDS,
    Op.SETTLE: Transition((), strict=False),
}
"""By operation. A move to another queue (SHIFT) ends a position, too: the message gets another one
there, which begins AVAILABLE."""

GIVES_BACK: Final = frozenset(
    op for op, transition in TRANSITIONS.items() if AVAILABLE in dict(transition.moves).values()
)
"""Operations after which a message can be received that could not be before."""


def concerned(
    lane: Positions, transition: Transition, first: int, count: int
) -> Iterator[tuple[int, int, int, int]]:
    """The parts of a range that an operation concerns which is not strict.

    Returns:
        For each its first counter, its count, and the states from which and to which it goes.
    """
    for old, new in transition.moves:
        for start, size in list(lane.ranges(old, first, end=first + count)):
            yield start, size, old, new
