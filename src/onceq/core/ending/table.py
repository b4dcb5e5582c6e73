"""How messages end, as a table: what is kept of each, and which reports are made.

A sender may ask to keep an undeliverable message, to keep a copy of a delivered one, and to get
reports of its arrival and of its end. A message ends in some twenty ways, at its source, on the way
or at its target; and the same request means another thing at each of them. Two managers see one
end, and each must carry out its own share of it and nothing else: else the sender has two dead
letters, or none (I12), or gets two contradictory reports (I13). Four principles make the table:

* *Its source keeps what was sent in a transaction.* So a target only reports how it ended, in a
  final acknowledgment, and the source keeps the dead letter or the journal copy (EOD-39, X-1).
  Other messages have left their source, so the manager that has them at their end keeps them
  (Q-16).
* *The manager that knows an end reports it.* Acknowledgment messages are made where the end happens
  (ACK-17). The source adds nothing to the target's report.
* *What a destination refuses is kept.* Its sender may have asked for nothing, and the loss would
  stay unnoticed. So the setting ``xact_dead_letter`` keeps refusals of transactional messages
  unless it is ``asked``, as MSMQ has it. A refusal is what the destination always reports: the
  message cannot enter its queue (``REFUSALS`` in ``model/resultcodes.py``). What ends in the queue
  (purged, deleted with it, rejected, not received in time) was delivered, and a sender that wants a
  report of it asks.
* *Nothing unknown is reported.* A message that may have been transmitted when the wait for it ends
  is in doubt (CNF-12). Its sender gets a report of its true end when the doubt is settled, or a
  report of the doubt when nothing more can be expected.

``FATES`` is all of it. Everything that ends a message names an ``Ending`` and calls
``core/ending/ending.py``, which looks here what is due. ``docs/reference/endings.md`` shows the
table. What an operator does with damaged messages is not in it (``core/management/damage.py``):
their bytes are gone, so nothing can be kept of them, and no acknowledgment be made.

Upholds: I11, I12, I13, I14.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

from onceq.model.record import Record


class Side(Enum):
    """Where a message is when it ends, seen from the manager that ends it."""

    __hash__ = object.__hash__  # Enum's own is a call of Python, for each range that ends

    SOURCE = "source"
    """It was sent here, or passes through, and waits in an outgoing queue."""
    ROUTER = "router"
    """It has come here on its way to another manager."""
    TARGET = "target"
    """It is in its queue here, or comes for it; it was sent elsewhere."""
    BOTH = "source and target"
    """It was sent here, to a queue here."""


class Ending(Enum):
    """What happens to a message."""

    __hash__ = object.__hash__

    ARRIVED = "it comes into its queue"
    """Not an end yet, but who asked for it is told."""
    RECEIVED = "it is received"
    NOT_RECEIVED = "purged, deleted with its queue, rejected, not received in time"
    REJECTED_AND_KEPT = "rejected, and its queue keeps what is rejected"
    """By ``tx.reject(keep=True)``, or as poison."""
    REFUSED = "it cannot enter its queue, or go on"
    REFUSED_BY_KIND = "transactional, and its queue is not"
    HANDED_OVER = "the next manager has it"
    NOT_DELIVERED = "removed, too late or without a queue, and never transmitted"
    IN_DOUBT = "removed, too late or without a queue, and it may have been transmitted"
    REFUSED_THERE = "its target, or the next manager, refuses it"
    RECEIVED_THERE = "its target tells that it was received"
    NOT_RECEIVED_THERE = "its target tells that it ended otherwise"
    END_UNKNOWN = "delivered, but its target cannot report the outcome"
    LEFT_BEHIND = "its stream was abandoned, and it was not accepted"
    LEFT_IN_DOUBT = "its stream was abandoned, and nobody knows whether it was accepted"
    SET_ASIDE = "it waits in a backup that is put back as another manager"
    SETTLED_RECEIVED = "in doubt, then known: received"
    SETTLED_REFUSED = "in doubt, then known: its target refused it"
    SETTLED_NOT_RECEIVED = "in doubt, then known: it ended otherwise"
    SETTLED_NOT_DELIVERED = "in doubt, then known: it never arrived"
    NEVER_SETTLED = "in doubt, and nobody can be asked, or four days are over"


class When(Enum):
    """Whether something is done."""

    NEVER = "no"
    ASKED = "if asked"
    SETTING = "if asked, or as xact_dead_letter says"
    """Of refusals: the setting ``xact_dead_letter`` keeps them although nobody has asked."""
    ALWAYS = "always"


class Fate(Record, frozen=True):
    """What is kept of a message that ends, and who is told.

    Attributes:
        dead_letter: A dead letter for its sender: in the dead-letter queue that it names, or in the
            system's. A dead letter that is there already stays.
        kept: Another dead letter, of the manager where it died.
        journal: A copy in the journal of this computer, if its sender asked for one.
        queue_journal: A copy in the journal of its queue, if that has one.
        hidden: If its sender asked for no dead letter, but for anything else, it is kept out of
            sight until its doubt is settled.
        awaits: If its sender wants to know how it ends, it stays until that is told; the rest of
            the row is for those that do not.
        final: A final acknowledgment to the manager that sent it.
        told: An acknowledgment message to its administration queues; ``ALWAYS`` hands it to those
            that are owed, and its packet says whether anybody asked.
    """

    dead_letter: When = When.NEVER
    kept: bool = False
    journal: bool = False
    queue_journal: bool = False
    hidden: bool = False
    awaits: bool = False
    final: When = When.NEVER
    told: When = When.NEVER


_ASKED: Final = When.ASKED
_LETTER: Final = Fate(dead_letter=_ASKED, told=_ASKED)
_TELLS: Final = Fate(final=_ASKED, told=_ASKED)
_REFUSES: Final = Fate(final=When.ALWAYS, told=_ASKED)

_TRANSACTIONAL: Final[Mapping[tuple[Side, Ending], Fate]] = {
    (Side.BOTH, Ending.ARRIVED): Fate(told=_ASKED),
    (Side.BOTH, Ending.RECEIVED): Fate(journal=True, queue_journal=True, told=_ASKED),
    (Side.BOTH, Ending.NOT_RECEIVED): _LETTER,
    (Side.BOTH, Ending.REJECTED_AND_KEPT): Fate(dead_letter=_ASKED, kept=True, told=_ASKED),
    (Side.BOTH, Ending.REFUSED): Fate(dead_letter=When.SETTING, told=_ASKED),
    (Side.BOTH, Ending.REFUSED_BY_KIND): Fate(dead_letter=_ASKED, kept=True, told=_ASKED),
    (Side.TARGET, Ending.ARRIVED): Fate(told=_ASKED),
    (Side.TARGET, Ending.RECEIVED): Fate(queue_journal=True, final=_ASKED, told=_ASKED),
    (Side.TARGET, Ending.NOT_RECEIVED): _TELLS,
    (Side.TARGET, Ending.REJECTED_AND_KEPT): Fate(kept=True, final=_ASKED, told=_ASKED),
    (Side.TARGET, Ending.REFUSED): _REFUSES,
    (Side.TARGET, Ending.REFUSED_BY_KIND): Fate(kept=True, final=When.ALWAYS, told=_ASKED),
    (Side.ROUTER, Ending.REFUSED): _REFUSES,
    (Side.SOURCE, Ending.HANDED_OVER): Fate(journal=True, awaits=True),
    (Side.SOURCE, Ending.NOT_DELIVERED): Fate(dead_letter=When.SETTING, told=_ASKED),
    (Side.SOURCE, Ending.IN_DOUBT): Fate(dead_letter=_ASKED, hidden=True),
    (Side.SOURCE, Ending.REFUSED_THERE): Fate(dead_letter=When.SETTING),
    (Side.SOURCE, Ending.RECEIVED_THERE): Fate(journal=True),
    (Side.SOURCE, Ending.NOT_RECEIVED_THERE): Fate(dead_letter=_ASKED),
    (Side.SOURCE, Ending.END_UNKNOWN): Fate(dead_letter=_ASKED, hidden=True, told=When.ALWAYS),
    (Side.SOURCE, Ending.LEFT_BEHIND): Fate(dead_letter=When.ALWAYS, told=_ASKED),
    (Side.SOURCE, Ending.LEFT_IN_DOUBT): Fate(dead_letter=When.ALWAYS),
    (Side.SOURCE, Ending.SET_ASIDE): Fate(dead_letter=When.ALWAYS),
    (Side.SOURCE, Ending.SETTLED_RECEIVED): Fate(journal=True),
    (Side.SOURCE, Ending.SETTLED_REFUSED): Fate(dead_letter=When.SETTING),
    (Side.SOURCE, Ending.SETTLED_NOT_RECEIVED): Fate(dead_letter=_ASKED),
    (Side.SOURCE, Ending.SETTLED_NOT_DELIVERED): Fate(dead_letter=When.SETTING, told=When.ALWAYS),
    (Side.SOURCE, Ending.NEVER_SETTLED): Fate(dead_letter=_ASKED, told=_ASKED),
}

_PLAIN: Final[Mapping[tuple[Side, Ending], Fate]] = {
    (Side.BOTH, Ending.ARRIVED): Fate(journal=True, told=_ASKED),
    (Side.TARGET, Ending.ARRIVED): Fate(told=_ASKED),
    **{
        (side, ending): fate
        for side in (Side.BOTH, Side.TARGET)
        for ending, fate in {
            Ending.RECEIVED: Fate(queue_journal=True, told=_ASKED),
            Ending.NOT_RECEIVED: _LETTER,
            Ending.REJECTED_AND_KEPT: Fate(kept=True, told=_ASKED),
            Ending.REFUSED: _LETTER,
        }.items()
    },
    (Side.ROUTER, Ending.REFUSED): _LETTER,
    (Side.SOURCE, Ending.HANDED_OVER): Fate(journal=True),
    (Side.SOURCE, Ending.NOT_DELIVERED): _LETTER,
    (Side.SOURCE, Ending.IN_DOUBT): _LETTER,
    (Side.SOURCE, Ending.REFUSED_THERE): Fate(dead_letter=_ASKED),
    (Side.SOURCE, Ending.SET_ASIDE): Fate(dead_letter=When.ALWAYS),
}

FATES: Final[dict[tuple[Side, bool, Ending], Fate]] = {
    **{(side, True, ending): fate for (side, ending), fate in _TRANSACTIONAL.items()},
    **{(side, False, ending): fate for (side, ending), fate in _PLAIN.items()},
}
"""By side, whether the message was sent in a transaction, and what happens to it. What is not in it
cannot happen."""


def rows() -> Iterator[tuple[Ending, bool, tuple[Side, ...], Fate]]:
    """The table in the order of ``Ending``, with the sides together that do the same."""
    for ending in Ending:
        for transactional in (True, False):
            sides: dict[Fate, list[Side]] = {}
            for side in Side:
                fate = FATES.get((side, transactional, ending))
                if fate is not None:
                    sides.setdefault(fate, []).append(side)
            for fate, found in sides.items():
                yield ending, transactional, tuple(found), fate
