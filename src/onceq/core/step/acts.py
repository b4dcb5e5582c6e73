"""Acts of administration are put on record, each with what it did.

Upholds: I28 (who did something is known).
"""

from __future__ import annotations

from typing import Final

from onceq.core.state.setups import Noted
from onceq.core.step.step import Step
from onceq.model.limits import TRAIL_CHARS_MAX
from onceq.model.record import Record


class Deed(Record, frozen=True):
    """What was done.

    Attributes:
        what: The act in a few words, such as ``purge``.
        about: Of what: a queue, a name, what was granted.
    """

    what: str
    about: str = ""


WHOLE: Final = "(queue manager)"
"""What acts are about that concern nothing smaller."""
NOTHING: Final = Deed("")
"""Nothing that is noted."""


def noted(step: Step, owner: int, deed: Deed, result: str = "") -> None:
    """An owner that is somebody did this, or was refused it.

    Args:
        result: "" for done or begun; else the code of the error.
    """
    actor = step.actors.get(owner)
    if actor is not None:
        put(step, str(actor), step.places.get(owner, ""), deed, result)


def put(step: Step, who: str, where: str, deed: Deed, result: str = "") -> None:
    """Put an act on record, behind the records of this decision that it has made.

    What was refused has changed nothing, and is not worth a sync of its own.
    """
    records = step.decision.records
    since = records[0].position if records else step.position
    step.setup(
        Noted(
            step.state.trail.next, step.now.wall_s, who, where, deed.what,
            deed.about[:TRAIL_CHARS_MAX], result, since,
        ),
        forced=not result,
    )  # fmt: skip
