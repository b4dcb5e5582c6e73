"""State machines as tables: of the link of an outgoing queue, and of the position of a message.

``docs/reference/states.md`` shows both, drawn from ``LINKS`` and ``TRANSITIONS``.

**Links.** An outgoing queue outlives every session, and one session may serve many queues. What the
queue knows of a session is in one of five states, and two numbers belong to them: the session, if
there is one, and the time of the next attempt, if it was put off. Both are 0 in all other states.
Three things are not states of the link, because they can hold in any of them: an operator has
paused the queue or disconnected this manager; nothing waits in the queue; and messages were
transmitted without an order acknowledgment, which is a matter of the stream (``ResendTimer``).
Operators see MSMQ's names, which follow from all of these together
(``core/transfer/outgoing_queue.py``).

**Positions.** A position is the place of one message in one queue. It begins AVAILABLE and ends
REMOVED; its counter is never given again. Between them a message stays because a decision is open:

* LOCKED: a transaction has received the message. An abort gives it back to its own place (I17);
  nobody else receives it, and it does not expire (CNF-3).
* PURGING: an operator has purged the queue meanwhile. The transaction got the message before, so a
  commit still receives it, and only an abort lets the purge win (Q-43). Without this state an abort
  would bring a purged message back.
* AWAITING: in an outgoing queue only. The destination has the message, so it is never transmitted
  again; its sender wants to know how it ends, so it is not forgotten yet (EOD-11).

Prepared branches, dead letters in doubt and messages in the subqueue ``retry`` have no states of
their own: they are LOCKED or AVAILABLE, and a table beside the queue says what is special.

A record names an operation and a range, never a state: the state follows from the table, in one
place (``State.apply``). A *strict* operation is decided about positions whose states are known; if
one of them is in another state, the record and the queue disagree: an assertion fails, and a store
with such a record does not open. The other operations concern what is left of a range, and leave
positions in states that the table does not name as they are.

Upholds: I2, I17, I22, I26 (whatever ends a link leads to the next attempt, or waits for an event
that does).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

from onceq.core.state.position_block import AVAILABLE, AWAITING, KEPT, LOCKED, PURGING, REMOVED
from onceq.core.state.positions import Positions
from onceq.core.state.records import Op
from onceq.model.record import Record


class Link(Enum):
    """Whether there is a session with the destination."""

    NONE = "none"
    """No session, and none under way."""
    CONNECTING = "connecting"
    """A session was asked for."""
    CONNECTED = "connected"
    """A session serves it."""
    CLOSING = "closing"
    """A session serves it that an operator has had closed."""
    PUT_OFF = "put off"
    """The next attempt has its time."""


class LinkEvent(Enum):
    """What happens to a link."""

    CONNECT = "connect"
    """A session is asked for."""
    ATTACH = "attach"
    """A session serves it from now on, whoever has asked for it; or another one than before."""
    DISCONNECT = "disconnect"
    """An operator has disconnected this manager."""
    LOSE = "lose"
    """The session is over, or none came about (Q-9)."""
    PUT_OFF = "put off"
    """It is to be tried again, and not before a certain time."""
    WAKE = "wake"
    """That time has come, or does not count any more."""


LINKS: Final[Mapping[LinkEvent, Mapping[Link, Link]]] = {
    LinkEvent.CONNECT: {Link.NONE: Link.CONNECTING},
    LinkEvent.ATTACH: dict.fromkeys(Link, Link.CONNECTED),
    LinkEvent.DISCONNECT: {Link.CONNECTED: Link.CLOSING, Link.CLOSING: Link.CLOSING},
    LinkEvent.LOSE: dict.fromkeys((Link.CONNECTING, Link.CONNECTED, Link.CLOSING), Link.NONE),
    LinkEvent.PUT_OFF: {Link.NONE: Link.PUT_OFF},
    LinkEvent.WAKE: {link: link for link in Link} | {Link.PUT_OFF: Link.NONE},
}
"""By event: to which state it leads from each. In a state that is not named it cannot happen."""


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
