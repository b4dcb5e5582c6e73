"""What the engine tells the core of damaged bytes, and of its search for them."""

from __future__ import annotations

from dataclasses import dataclass

from onceq.errors import DamagedPiece
from onceq.model.views.managers import ScrubView


@dataclass(frozen=True, slots=True)
class Spoiled:
    """Stored bytes turned out not to be what was written (``core/management/damage.py``).

    Attributes:
        reader: The application that was about to get messages that lie there; 0: nobody was.
        unsent: (outgoing queue, lane, counter) of what was about to be transmitted: what lies
            behind that counter never left.
        gone: Messages among them that were received outside a transaction by the same step, and
            are in no queue any more: (queue, lookup identifier, bytes, address) of each.
        untold: The reader's transaction that has taken messages of which he was told nothing; 0:
            none has.
    """

    pieces: tuple[DamagedPiece, ...]
    reader: int = 0
    unsent: tuple[tuple[int, int, int], ...] = ()
    gone: tuple[tuple[int, int, int, int], ...] = ()
    untold: int = 0


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """How far a scrub has come (``service/scrub.py``); what it found came as ``Spoiled``."""

    view: ScrubView
