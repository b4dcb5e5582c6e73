"""What a sender remembers of its attempts: connections, times, and what it has sent again.

All of it belongs to the running process, and begins anew with it.

Upholds: I24 (each is bounded), I26.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from onceq.model.connection import ConnectionStatus
from onceq.model.limits import HOLE_MESSAGES
from onceq.model.record import Record


@dataclass(slots=True)
class Pace:
    """When a stream is sent again (EOD-16 to EOD-18). Monotonic microseconds; 0: not running."""

    due_us: int = 0
    timeouts: int = 0
    started_us: int = 0


@dataclass(slots=True)
class Repair:
    """What goes out again before anything else, because its receiver lacks it
    (``core/transfer/hole_repair.py``).

    Attributes:
        ranges: First and last counter of each, in order; transmitted with the next room.
        about: Stream and number of the acknowledgment that was followed last; zeros: none was.
        times: How often that one was followed.
        end: The last counter of the hole that it named.
        until: The last counter that was sent again on account of a hole, or has come by itself.
        count: How many of a hole are sent again at a time.
        again_us: Before this time (monotonic) nothing up to ``until`` goes out again.
        heard: Session, stream and number of the last acknowledgment that says nothing of holes.
        guessed: The one of these that was taken for a hole.
        asked: How many messages ask what their receiver has, and the counter of the last of them;
            zeros: none do.
        probing: The session is new, and its receiver may have all that was sent before it: only a
            few go out until an order acknowledgment says where to go on.
    """

    ranges: list[tuple[int, int]] = field(default_factory=list)
    about: tuple[int, int] = (0, 0)
    times: int = 0
    end: int = 0
    until: int = 0
    count: int = HOLE_MESSAGES
    again_us: int = 0
    heard: tuple[int, int, int] = (0, 0, 0)
    guessed: tuple[int, int, int] = (0, 0, 0)
    asked: tuple[int, int] = (0, 0)
    probing: bool = False


@dataclass(slots=True)
class Ends:
    """When to ask of which acknowledged messages the end will be told
    (``core/transfer/untold.py``).

    Attributes:
        due_us: When; 0: no such timer runs.
        asked: How often it was asked without an answer.
        begin: By stream: the first number that the next question is about; all are if none is here.
        goes_on: The position from which on is asked next, if not all could be asked about at once.
        open: Streams of the question, all parts of it, that nothing was heard about yet.
    """

    due_us: int = 0
    asked: int = 0
    begin: dict[int, int] = field(default_factory=dict)
    goes_on: int = 0
    open: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Inquiries:
    """When to ask about messages in doubt (``core/transfer/in_doubt.py``).

    Attributes:
        due_us: When; 0: no such timer runs.
        asked: How often it was asked without an answer.
        goes_on: The stream from which on is asked next, if not all could be asked about at once.
    """

    due_us: int = 0
    asked: int = 0
    goes_on: int = 0

    def over(self) -> None:
        """There is nothing to ask about."""
        self.due_us = self.asked = self.goes_on = 0


@dataclass(slots=True)
class Trouble:
    """Why an outgoing queue cannot move, in times and words for ``why``."""

    reason: str = ""
    since_s: int = 0
    last_s: int = 0
    attempts: int = 0


class Attempt(Record, frozen=True):
    """One attempt to connect (Q-10): seconds since 1970, and the reason in words."""

    status: ConnectionStatus
    at_s: int
    address: str
    reason: str = ""
