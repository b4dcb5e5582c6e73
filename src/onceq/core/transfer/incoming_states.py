"""An incoming stream: where an arriving message stands in it, and what follows; the theory.

A network repeats, delays and reorders what it carries. A sender transmits again, after each new
connection, whatever was not acknowledged. A backup may be put back, or a copy run beside its
original. In all of this a receiver must accept each message once and in order (I4, I5), and it
cannot keep a list of what it has accepted (I24). It keeps two numbers for each sender and queue:
the stream that it is in, and the last number that it has accepted there (EOD-21). They are enough
because of three rules that a sender follows:

* *Its streams rise, and a new one begins when nothing of the old one is left* (EOD-12). So a stream
  that is not greater than the present one is over (EOD-23). It is not enough that a stream is
  another one: the first message of a stream that was left may still be under way, and would be
  accepted a second time.
* *A message names the one before it, anew for each transmission* (EOD-6). So it is next if that one
  was accepted, whatever its own number: what expired in between leaves no gap (EOD-8). And a stream
  begins with the message that has nothing before it (EOD-24).
* *A number is given once* (EOD-5, I7). If it comes again with another message, two managers send as
  one. It is not accepted, and not acknowledged either: an acknowledgment would let one of them
  forget a message that nobody has (I9, I25).

Numbers that a message has passed over were never accepted, and never will be; a receiver remembers
them for those who ask what became of a message (``core/state/in_doubt_table.py``).

``core/transfer/filter.py`` says of a run where it stands, ``core/transfer/ordered_arrival.py`` does
what follows. ``docs/reference/states.md`` shows both tables, and the picture that is drawn from
them.

Upholds: I4, I5, I7, I9, I24.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from onceq.model.record import Record


class StreamState(Enum):
    """What a stream is for its receiver."""

    NEW = "new"
    """Greater than the present one, or the first of its sender."""
    PRESENT = "present"
    """Messages of it are accepted, each after the one before."""
    LEFT = "left"
    """Its sender has begun a greater one: nothing of it is accepted any more."""


class Standing(Enum):
    """Where an arriving message stands in its stream."""

    FIRST = "nothing before it"
    """It names no message before it."""
    NEXT = "the next"
    """The one before it was accepted, and it was not."""
    AHEAD = "ahead"
    """The one before it was not accepted."""
    REPEATED = "again"
    """Its number was accepted, with this message as far as is known."""
    ANOTHER = "another message"
    """Its number was accepted, with another message (``core/state/peer_table.py``)."""


class Verdict(Enum):
    """What the receiver makes of an arriving message."""

    ACCEPT = "accept"
    DUPLICATE = "duplicate"
    GAP = "gap"
    STALE_STREAM = "stale stream"
    CONFLICT = "identity used twice"


VERDICTS: Final[Mapping[StreamState, Mapping[Standing, Verdict]]] = {
    StreamState.NEW: {Standing.FIRST: Verdict.ACCEPT, Standing.AHEAD: Verdict.GAP},
    StreamState.PRESENT: {
        Standing.NEXT: Verdict.ACCEPT,
        Standing.AHEAD: Verdict.GAP,
        Standing.REPEATED: Verdict.DUPLICATE,
        Standing.ANOTHER: Verdict.CONFLICT,
    },
    StreamState.LEFT: dict.fromkeys(Standing, Verdict.STALE_STREAM),
}
"""By the state of the stream: what a message is that stands there. A message that stands somewhere
else cannot be: what is first in a stream that is present was accepted, or passed over."""


class Answer(Record, frozen=True):
    """What follows from a verdict.

    Attributes:
        accepted: The message is stored, or its refusal recorded, and is the last one accepted.
        acknowledged: An order acknowledgment is due: its sender has not heard how far it is.
        turned_away: The sender is told why its messages are not accepted.
        clash: Operators and managers are told that two managers send as one.
    """

    accepted: bool = False
    acknowledged: bool = True
    turned_away: bool = False
    clash: bool = False


ANSWERS: Final[Mapping[Verdict, Answer]] = {
    Verdict.ACCEPT: Answer(accepted=True),
    Verdict.DUPLICATE: Answer(),
    Verdict.GAP: Answer(),
    Verdict.STALE_STREAM: Answer(turned_away=True),
    Verdict.CONFLICT: Answer(acknowledged=False, clash=True),
}
"""What a receiver does about each verdict. Acknowledged is what it has accepted, never more."""
