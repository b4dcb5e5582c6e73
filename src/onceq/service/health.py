"""The health of a queue manager, as a load balancer, a supervisor or a person asks for it.

A manager is *live* if its loop turns: any answer proves that. It is *ready* if it takes work; if
not, each reason is given. A condition that needs a person, and stops no work, is a note.
"""

from __future__ import annotations

from dataclasses import dataclass

from onceq.model.wording import plural
from onceq.service.engine import Engine
from onceq.service.peer_transports import Doors

STOPPING = "stopping: nothing new is taken"
FULL = "the reserve of the disk is reached: sends are refused until there is room"


@dataclass(frozen=True, slots=True)
class Health:
    """The health of one queue manager.

    Attributes:
        reasons: Why it is not ready; none: it is.
        notes: What a person should look at.
    """

    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Return True if it takes work."""
        return not self.reasons


def health_of(engine: Engine, doors: Doors) -> Health:
    """Return the health of a recovered queue manager. Runs in the thread of its engine."""
    reasons, notes = [], []
    if engine.stopped:
        reasons.append(STOPPING)
    if engine.low:
        reasons.append(FULL)
    state = engine.manager.state
    damaged = sum(entry.count for entry in state.damages)
    if damaged:
        notes.append(
            f"{plural(damaged, 'message')} set aside because stored bytes are damaged: "
            "onceq damage list"
        )
    if state.offline_s:
        notes.append("disconnected by an operator: 'onceq qm connect' brings it back")
    export = engine.trail_export
    if export is not None and export.trouble:
        notes.append(f"acts of administration cannot be told outside: {export.trouble}")
    if export is not None and export.lost:
        lost = plural(export.lost, "act")
        notes.append(f"{lost} of administration went before they were told outside")
    own, now_s = doors.own, engine.clock.read().wall_s
    if own is not None and (own.problem or own.ends_s <= now_s):
        reason = own.problem or "it has expired"
        notes.append(f"no other queue manager believes its certificate: {reason}: onceq tls renew")
    return Health(tuple(reasons), tuple(notes))
