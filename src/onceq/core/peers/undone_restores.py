"""Managers that know what a restore has undone here.

A restored manager does not know what it has forgotten. Others show it: an order acknowledgment for
more than was ever sent here, or for a stream of the life that is undone; a message whose
predecessors were acknowledged to its sender in that life. It is noted once for each of them and
kept, so that the operator sees which managers it concerns.

Upholds: I24 (a bounded table).
"""

from __future__ import annotations

from typing import Final

from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.peer_table import Progress
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queues import Queue
from onceq.core.state.setups import UndoneKnown
from onceq.core.step.step import Step
from onceq.model.identity import guid_text
from onceq.model.limits import UNDONE_MAX
from onceq.model.views.managers import UndoneView
from onceq.model.views.queues import PutBackView
from onceq.packet.arrived import ArrivedRun

SENT: Final = "it has messages that this manager sent after the backup and does not know any more"
CAME: Final = "it sent messages that arrived here after the backup and are gone"


def views(step: Step) -> tuple[UndoneView, ...]:
    """Return all managers that have shown it."""
    return tuple(
        UndoneView(guid_text(guid), step.name_of(guid), what, since)
        for (guid, what), since in step.state.undone.items()
    )


def of_outgoing(step: Step, outgoing: OutgoingQueue) -> PutBackView | None:
    """Return the view for an outgoing queue: None if no restore concerns what waits there or is in
    doubt, and its receiver has nothing that is unknown here."""
    restored = step.state.restored
    if restored is None:
        return None
    lane = outgoing.ordered_lane
    waiting = sum(
        count
        for s in outgoing.stretches()
        if s.stream and s.stream >> 32 <= restored.at_s
        for _, count in lane.ranges(AVAILABLE, s.base + 1, end=s.end + 1)
    )
    receivers = {guid for guid, theirs in step.names.by_guid.items() if outgoing in theirs}
    peer = step.sessions.peers.get(outgoing.session)
    if peer is not None:
        receivers.add(peer.peer)
    known = tuple(what for guid, what in step.state.undone if guid in receivers and what == SENT)
    if not (
        waiting or known or outgoing.stranded_s or step.state.doubts.unsettled(outgoing.number)
    ):
        return None
    return PutBackView(restored.at_s, restored.taken_s, waiting, known)


def of_queue(step: Step, queue: Queue) -> PutBackView | None:
    """Return the view for a queue: None if it holds nothing from the moment to which this manager
    was put back, and no manager is known to have sent what is gone."""
    restored = step.state.restored
    if restored is None:
        return None
    waiting = 0
    for lane in queue.lanes.values():
        for first, count in lane.ranges(AVAILABLE, lane.head):
            arrived = lane.arrived(first, count)
            waiting += sum(second <= restored.taken_s for second in arrived)
            if arrived[-1] > restored.taken_s:
                break  # those behind came even later
    known = tuple(dict.fromkeys(what for _, what in step.state.undone if what == CAME))
    if not waiting and not known:
        return None
    return PutBackView(restored.at_s, restored.taken_s, waiting, known)


def is_of(step: Step, stream: int) -> bool:
    """Return whether a stream that was not begun here may be of the life that the restore has
    undone: it began before the restore."""
    restored = step.state.restored
    return restored is not None and stream >> 32 <= restored.at_s


def note(step: Step, guid: bytes, what: str) -> None:
    """Record that a manager has shown that it knows more than this one."""
    undone = step.state.undone
    if step.state.restored is None or (guid, what) in undone or len(undone) >= UNDONE_MAX:
        return
    step.setup(UndoneKnown(manager=guid, knows=what, at_s=step.now.wall_s))
    step.notice("a manager knows of what a restore has undone", guid.hex() + what,
                manager=guid_text(guid), name=step.name_of(guid), knows=what)  # fmt: skip


def came(step: Step, run: ArrivedRun, progress: Progress | None, skip: int) -> None:
    """Check an accepted run: the first one of a stream since the restore shows what came before."""
    if progress is None or not progress.vague or step.state.restored is None:
        return
    number = run.first_number + skip
    same = run.stream == progress.stream
    if number > (progress.last if same else 0) + 1 and (same or is_of(step, run.stream)):
        note(step, run.source, CAME)
