"""What a sender forgets and a receiver passes over, held against what went over the links.

Whenever a process ends, and at the end of a world, the tables of the manager are compared with the
packets that were seen to leave (``traffic.py``): a message that was transmitted, that nobody has
acknowledged and that no lifetime, purge or refusal has ended, must still wait at its sender (I10);
what a receiver has passed over was never accepted, and its sender had a reason (I6).

Watches: I6, I10.
"""

from __future__ import annotations

from onceq.core.manager import Manager
from onceq.core.state.peer_table import Progress
from onceq.core.state.position_block import REMOVED
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.judge.books import Books, Copy, Message, Place
from proof.sim.judge.copied_queues import CopiedQueues
from proof.sim.judge.reasons import Reasons
from proof.sim.judge.restores import Restores
from proof.sim.judge.traffic import Traffic


class Forgetting:
    """See the module."""

    def __init__(
        self, kernel: Kernel, nodes: list[Node], books: Books, queues: CopiedQueues,
        traffic: Traffic, reasons: Reasons, restores: Restores,
    ) -> None:  # fmt: skip
        self.kernel, self.nodes, self.books, self.queues = kernel, nodes, books, queues
        self.traffic, self.reasons, self.restores = traffic, reasons, restores

    def check(self, node: Node, manager: Manager) -> None:
        """Check a manager when its process ends, or the world."""
        state, traffic = manager.state, self.traffic
        for stream, number in traffic.unanswered(node.index):
            outgoing = state.streams.get(stream)
            if outgoing is not None:
                base = outgoing.base if outgoing.stream == stream else outgoing.old.get(stream)
                if base is not None and outgoing.ordered_lane.state(base + number) != REMOVED:
                    self.kernel.marks[marks.STILL_KEPT] += 1
                    continue
            message, place, _ = self._sent(node.index, stream, number)
            if not (
                self.reasons.may_have_ended(message, place) or self.restores.is_undone(message)
            ):
                self.kernel.wrong(
                    f"I10: {node.name} has forgotten message {message.uid} to {place}, which "
                    f"nobody has acknowledged: {stream:#x}.{number}"
                )
        for progress in state.progress.values():
            self._passed(node, progress)

    def _sent(self, sender: int, stream: int, number: int) -> tuple[Message, Place, Copy]:
        found = self.traffic.message_of(sender, stream, number)
        assert found is not None, "only what was seen is looked for"
        message = self.books.messages[found[0]]
        place = self.books.place_of(message, found[1])
        return message, place, message.copies[place.key]

    def _passed(self, node: Node, progress: Progress) -> None:
        traffic = self.traffic
        sender = next((n.index for n in self.nodes if n.guid == progress.source), None)
        passed = [n for first, last in progress.passed for n in range(first, last + 1)]
        for number in passed if sender is not None else ():
            assert sender is not None
            if traffic.message_of(sender, progress.stream, number) is None:
                continue
            message, place, _ = self._sent(sender, progress.stream, number)
            queues = self.queues
            copy = message.copies[queues.at(node.index, place).key]
            if self.restores.excused(message, place):
                continue
            if (copy.seen or copy.received) and not copy.worked:  # It may have come back.
                what = "and has accepted it"
            elif not (
                self.reasons.may_have_ended(message, place) or queues.went_by(node, message, place)
            ):
                what = "for no reason"
            else:
                self.kernel.marks[marks.PASSED] += 1
                continue
            self.kernel.wrong(
                f"I6: {node.name} has passed over message {message.uid} to {place}, "
                f"{progress.stream:#x}.{number}, {what}"
            )
