"""What is left in a world in which everything must drain.

Watches: I26, and I1 and I12 where something is gone.
"""

from __future__ import annotations

from onceq.core.state.queues import Queue
from proof.sim.base.network import SimNetwork
from proof.sim.base.node import Node
from proof.sim.base.options import HOUR, SECOND
from proof.sim.base.pair import Pair
from proof.sim.judge.books import ADMIN, NOWHERE, OWN_DEAD
from proof.sim.judge.copied_queues import CopiedQueues


class Draining:
    """See the module."""

    def __init__(
        self, nodes: list[Node], network: SimNetwork, pair: Pair, queues: CopiedQueues
    ) -> None:
        self.nodes, self.network, self.pair, self.queues = nodes, network, pair, queues
        self.unread: frozenset[bytes] = frozenset()
        """GUIDs of liars, who take no answers."""

    def undrained(self, left: str) -> str:
        """Why it has not drained: something is stuck, or something is gone."""
        states = [node.engine.manager.state for node in self.nodes if node.engine is not None]
        stuck = any(
            o.unacknowledged
            for s in states
            for o in s.outgoing.values()
            if NOWHERE not in str(o.name).casefold()
        ) or any(len(queue) for s in states for queue in s.queues.values() if _is_drained(queue))
        awaiting = sum(o.ordered_lane.awaiting for s in states for o in s.outgoing.values())
        what = "I26: not drained after two days: "
        if awaiting and not stuck:
            what = f"I1 or I12: {awaiting} acknowledged, in no queue, and their end never told: "
        return what + left

    def left(self) -> str:
        """What has not drained; "": everything has."""
        left = []
        for node in self.nodes:
            if node.engine is None:
                left.append(f"{node.name} is down")
                continue
            state, soon_s = node.engine.manager.state, (node.clock.wall_us() + HOUR) // SECOND
            left += [f"{node.name}: job {job.number} runs" for job in state.jobs.running()]
            for outgoing in state.outgoing.values() if node is not self.pair.ended else ():
                if outgoing.name.guid in self.unread:
                    continue
                name, ours = str(outgoing.name), self.network.is_home(outgoing)
                ours = ours and NOWHERE not in name.casefold() and not self.queues.is_hail(name)
                if len(outgoing) and ours:
                    left.append(
                        f"{node.name} -> {outgoing.name}: {len(outgoing)} messages, "
                        f"{outgoing.unacknowledged} unacknowledged, session {outgoing.session}"
                    )
                elif any(lane.next_expiry <= soon_s for lane in outgoing.lanes.values()):
                    # It would end while the letters are read, and be found nowhere.
                    left.append(f"{node.name} -> {outgoing.name}: a message that expires soon")
            left += [
                f"{node.name}\\{queue.properties.name}: {len(queue)} messages"
                for queue in state.queues.values()
                if len(queue) and _is_drained(queue)
            ]
            left += [
                f"{node.name}\\{part.title}: {len(part)} messages"
                for queue in state.queues.values()
                for part in queue.subs.values()
                if len(part)
            ]
        return "; ".join(left)


def _is_drained(queue: Queue) -> bool:
    """Whether its messages are received before the end; what was told stays until then."""
    kept = {name.rpartition("\\")[2] for name in (ADMIN, OWN_DEAD)}
    return not queue.system and queue.properties.name not in kept
