"""Whether anything that may leave waits for nobody: looked at whenever an engine has come to rest.

Sessions look only into outgoing queues that have a turn (``core/state/peer_table.py``). A queue
without a turn, although something of it may leave, would wait for the next thing that happens to
it, or for the resend timer: late, and right in the end, so that no invariant about the outcome sees
it.

Upholds: I26 of the simulated managers.
"""

from __future__ import annotations

from onceq.core.manager import Manager
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.position_block import AVAILABLE
from onceq.core.state.queues import TRANSACTIONAL_LANE
from onceq.core.step.step import Step
from onceq.core.transfer.outgoing_queue import held, last_allowed


def without_turn(manager: Manager) -> str:
    """The name of an outgoing queue that may transmit on its session, and has no turn; "" if there
    is none."""
    step = manager._step
    if manager.owing:
        return ""  # It goes on in the next step.
    for outgoing in step.state.outgoing.values():
        peer = step.sessions.peers.get(outgoing.session)
        if peer is None or outgoing.number in peer.turns or held(step, outgoing):
            continue
        if any(_may_leave(step, outgoing, lane) for lane in outgoing.lanes):
            return str(outgoing.name)
    return ""


def _may_leave(step: Step, outgoing: OutgoingQueue, index: int) -> bool:
    lane = outgoing.lanes[index]
    sent, last = outgoing.plain_sent.get(index, 0), lane.next - 1
    if index == TRANSACTIONAL_LANE:
        sent, last = outgoing.sent, last_allowed(step, outgoing) if lane.available else 0
    return sent < last and lane.first(AVAILABLE, sent + 1, last + 1) <= last
