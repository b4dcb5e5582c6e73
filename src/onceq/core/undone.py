"""Who knows of what a restore has undone here.

A manager that was put back does not know what it has forgotten. Others show it: an order
acknowledgment for more than was ever sent here, or for a stream of the life that is undone; a
message whose predecessors were acknowledged to its sender in that life. It is noted once for each
of them and kept, so that the operator sees whom it concerns.

Upholds: I24 (a bounded table).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onceq.core.desk import Desk
from onceq.core.holders import Progress
from onceq.model.identity import guid_text
from onceq.model.limits import UNDONE_MAX
from onceq.packet.arrived import ArrivedRun

SENT: Final = "it has messages that this manager sent after the backup and does not know any more"
CAME: Final = "it sent messages that arrived here after the backup and are gone"


@dataclass(frozen=True, slots=True)
class UndoneView:
    """A manager that knows of more: who, what, and since when that is known."""

    id: str
    name: str
    what: str
    since: int


def views(desk: Desk) -> tuple[UndoneView, ...]:
    """All that were met."""
    return tuple(
        UndoneView(guid_text(guid), desk.name_of(guid), what, since)
        for (guid, what), since in desk.state.undone.items()
    )


def is_of(desk: Desk, stream: int) -> bool:
    """Whether a stream that nobody here has begun may be of the life that the restore has undone:
    it began before the restore."""
    restored = desk.state.restored
    return restored is not None and stream >> 32 <= restored.at_s


def note(desk: Desk, guid: bytes, what: str) -> None:
    """A manager has shown that it knows of more than this one."""
    undone = desk.state.undone
    if desk.state.restored is None or (guid, what) in undone or len(undone) >= UNDONE_MAX:
        return
    desk.setup("undone", manager=guid.hex(), knows=what, at_s=desk.now.wall_s)
    desk.notice("a manager knows of what a restore has undone", guid.hex() + what,
                manager=guid_text(guid), name=desk.name_of(guid), knows=what)  # fmt: skip


def came(desk: Desk, run: ArrivedRun, progress: Progress | None, skip: int) -> None:
    """A run is accepted; the first one of a stream since the restore tells what came before."""
    if progress is None or not progress.vague or desk.state.restored is None:
        return
    number = run.first_number + skip
    same = run.stream == progress.stream
    if number > (progress.last if same else 0) + 1 and (same or is_of(desk, run.stream)):
        note(desk, run.source, CAME)
