"""Acts of administration become audit entries: records of what was done, by whom and from where.

Upholds: I28 (every act is attributed).
"""

from __future__ import annotations

from typing import Final

from onceq.core.decision import TellAct
from onceq.core.state.setups import ActRepeated, Noted
from onceq.core.step.step import Step
from onceq.model.audit_trail import BEGIN
from onceq.model.limits import TRAIL_CHARS_MAX
from onceq.model.record import Record


class AuditEntry(Record, frozen=True):
    """What was done.

    Attributes:
        what: The act in a few words, such as ``purge``.
        about: Of what: a queue, a name, what was granted.
    """

    what: str
    about: str = ""


WHOLE: Final = "(queue manager)"
"""What acts are about that concern nothing smaller."""
NO_ENTRY: Final = AuditEntry("")
"""Nothing that is noted."""


def note_act(
    step: Step, owner: int, deed: AuditEntry, result: str = "", *, idle: bool = False
) -> None:
    """An owner that is somebody did this, or was refused it; see ``record_act``."""
    actor = step.actors.get(owner)
    if actor is not None:
        record_act(step, str(actor), step.places.get(owner, ""), deed, result, idle=idle)


def record_act(
    step: Step, who: str, where: str, deed: AuditEntry, result: str = "", *, idle: bool = False
) -> None:
    """Put an act on record, behind the records of this decision that it has made.

    Args:
        result: "" for done or begun; else the code of the error.
        idle: Whether it has changed nothing: if it was done a short time ago, it is counted there,
            and gets no number.
    """
    trail, now_s, about = step.state.trail, step.now.wall_s, deed.about[:TRAIL_CHARS_MAX]
    again = trail.find_recent(who, where, deed.what, about, result, now_s) if idle else 0
    if again:
        step.setup(ActRepeated(again, now_s), forced=False)
        return
    records = step.decision.records
    since = records[0].position if records else step.position
    step.act(TellAct(trail.next))
    step.setup(
        Noted(
            trail.next, now_s, who, where, deed.what, about, result, since, trail.head or BEGIN
        )
    )  # fmt: skip
