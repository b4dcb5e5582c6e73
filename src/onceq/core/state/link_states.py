"""The link of an outgoing queue to its destination: one table of states by event, and its theory.

An outgoing queue outlives every session. Messages gather in it whether anybody can be reached or
not, and one session may serve many. What the queue itself knows of a session is in one of five
states, and two numbers belong to them: the session, if there is one, and the time of the next
attempt, if one was put off. Both are 0 in all other states, so that no rule has to ask for more
than one of them.

Three things are no states of the link, because they are true of it in any:

* An operator has paused the queue, or disconnected this manager; the hardened manager does not use
  the protocol. Then nothing leaves, and no link is made; one that is there may go on for a while.
* Nothing waits in it. A link is made for messages, or to ask the receiver for what only he knows.
* Messages were transmitted, and no order acknowledgment came. That is a matter of the stream, which
  outlives the link as well (``Pace``).

What operators see, by MSMQ's names, follows from all of these together
(``core/transfer/outgoing_states.py``). ``docs/reference/states.md`` shows both, drawn from
``LINKS``.

Upholds: I26 (whatever ends a link leads to the next attempt, or waits for an event that does).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


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
