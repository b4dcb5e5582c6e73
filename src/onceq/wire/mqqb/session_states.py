"""The states of a protocol session, and which packets each takes: one table, and its theory.

A session is set up by two questions and two answers, asked by whoever has connected. First each
side says who it is (EstablishConnection), then both agree on the times and the window of the
acknowledgments (ConnectionParameters). Both sides walk through the same states: the one that has
connected by the answers, the other one by the questions, which it answers at once. Nothing may be
sent before the session is OPEN, because no window is agreed on yet.

There is no way back, and no repair. A packet in a state that does not take it, counts that do not
agree (MS-MQQB 3.1.5.5), a refusal, a wait that is over, or a close by either side: each ends the
session. That is enough, because a session holds nothing that matters: what it has not acknowledged
is transmitted again on the next one, and the receiver filter turns repetitions away.

``docs/reference/states.md`` shows the table as a picture, drawn from ``TAKES``.

Upholds: I26 (every state but OPEN and CLOSED is left in bounded time).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from onceq.wire.mqqb.cutter import UserPackets
from onceq.wire.mqqb.internal import Establish, Parameters, SessionHeader


class State(Enum):
    """Where a session is; the value goes on with "a packet came while"."""

    NEW = "new"
    """Connected, and nothing said yet."""
    WAITING_ESTABLISH = "waiting for EstablishConnection"
    """For the question of whoever has connected, or for the answer to it."""
    WAITING_PARAMETERS = "waiting for ConnectionParameters"
    """Both have said who they are."""
    OPEN = "open"
    """Messages and acknowledgments pass, in both directions."""
    CLOSED = "closed"
    """Over, for whatever reason."""


TAKES: Final[Mapping[State, Mapping[type, State]]] = {
    State.NEW: {},
    State.WAITING_ESTABLISH: {Establish: State.WAITING_PARAMETERS},
    State.WAITING_PARAMETERS: {Parameters: State.OPEN},
    State.OPEN: {SessionHeader: State.OPEN, UserPackets: State.OPEN},
    State.CLOSED: {},
}
"""The packets that a state takes, and the state to which each leads if it refuses nothing. Any
other packet ends the session; what comes behind its end is not looked at."""
BEGIN: Final[Mapping[bool, State]] = {True: State.NEW, False: State.WAITING_ESTABLISH}
"""The first state of the side that has connected (``start`` leads on), and of the other one."""
