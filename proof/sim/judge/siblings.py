"""What two copies that run side by side have of each other's (``faults/beside.py``).

Of what both have the books know which of the two has transmitted it and was told its end (from
``traffic.py``), and what each had as dead letters when it noticed that it is one of two. A manager
that has met both (``meetings.py``) must have noticed it. What the judge makes of it is in
``copied_senders.py`` and ``copied_receivers.py``.

Watches: I25 over copies.
"""

from __future__ import annotations

from collections.abc import Iterator

from onceq.core.manager import Manager
from onceq.core.state.queue_tables import DOUBTS_KEPT
from onceq.core.state.queues import AnyQueue
from onceq.model.resultcodes import MessageClass
from onceq.packet.decode import decode
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.packets import INTERNAL, UID_BYTES
from proof.sim.base.pair import Pair
from proof.sim.base.stored import joined, kept
from proof.sim.judge.books import OWN_DEAD, Books, Message, Place
from proof.sim.judge.copied_queues import CopiedQueues
from proof.sim.judge.meetings import Meetings
from proof.sim.judge.traffic import Traffic

IN_DOUBT = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
Key = tuple[int, tuple[int, str]]
"""A message, and one of its destinations."""


class Siblings:
    """See the module."""

    def __init__(
        self, kernel: Kernel, books: Books, pair: Pair, traffic: Traffic, queues: CopiedQueues,
        meetings: Meetings,
    ) -> None:  # fmt: skip
        self.kernel, self.books, self.pair = kernel, books, pair
        self.traffic, self.queues, self.meetings = traffic, queues, meetings
        self.opened, self.spoke = meetings.opened, meetings.spoke
        self.shared: set[Key] = set()
        """What waited, or waited for its end, in the copy when it started."""
        self.inherited: set[Key] = set()
        """Messages that stood in system queues of the copy when it started."""
        self.doubted: set[Key] = set()
        """Messages that the copy had in doubt when it started."""
        self.left: set[Key] = set()
        """What waits, or waits for its end, in the one that was ended."""
        self.claimed: dict[int, set[Key]] = {}
        """By computer, since it knows of the other: messages of which it had dead letters then."""

    # ---- when the copy starts ---------------------------------------------------------------

    def begin(self, twin: Node) -> None:
        """The copy has recovered, and has done nothing yet."""
        books, of = self.books, self.pair.of
        assert twin.engine is not None
        state = twin.engine.manager.state
        for outgoing in state.outgoing.values():
            self.shared.update(self._messages(twin, outgoing, ends=False))
        self.doubted.update(self._messages(twin, state.all_queues[DOUBTS_KEPT], ends=True))
        for queue in state.queues.values():
            if queue.system or queue.properties.name == OWN_DEAD.rpartition("\\")[2]:
                self.inherited.update(self._messages(twin, queue, ends=True))
                self.doubted.update(self._messages(twin, queue, ends=True, only=IN_DOUBT))
        if of in books.listening:  # else the original has not made that queue yet
            books.listening[twin.index] = books.listening[of]
        self.kernel.marks[marks.SHARED_WAITS] += bool(self.shared)

    def _messages(self, node: Node, queue: AnyQueue, *, ends: bool, only: int = 0) -> Iterator[Key]:
        """Messages of the books that a queue has; what says that one has ended only with
        ``ends``, and then, if ``only`` is one, of this class."""
        assert node.engine is not None
        store, messages = node.engine.store, self.books.messages
        for lane in queue.lanes.values():
            for pieces in kept(lane):
                packet = joined(store.read, pieces)
                if packet[2] & INTERNAL:
                    continue
                found = decode(packet)
                message = messages.get(int.from_bytes(found.body[:UID_BYTES], "little"))
                ours = message is not None and message.body == found.body
                meant = not only or found.message_class == only
                if message is not None and ours and meant and (ends or not found.message_class):
                    place = self.books.place_of(message, found.destination)
                    yield message.uid, place.key

    # ---- who knows of it -------------------------------------------------------------------

    def unheard(self, node: Node, packet: bytes) -> None:
        """A final acknowledgment was lost in the middle of a session."""
        self.traffic.unheard(node, packet)

    def aware(self, node: Node, manager: Manager) -> None:
        """One of the two may have noticed that it is one of two: what it claims from then on of
        messages that both had, it must know."""
        if node not in self.pair.both or node.index in self.claimed:
            return
        if node.guid in manager._step.sessions.watch.clashes:
            self.claimed[node.index] = {
                key
                for queue in manager.state.queues.values()
                if queue.system or queue.properties.name == OWN_DEAD.rpartition("\\")[2]
                for key in self._messages(node, queue, ends=True)
            }

    def knows(self, node: Node) -> bool:
        """Whether one of the two has noticed, since they are two, that it is one of them."""
        return node.index in self.claimed

    def noticed(self, node: Node, manager: Manager) -> None:
        """Check in the end that a manager that has met both has noticed it (I25)."""
        if node is self.pair.ended:
            for outgoing in manager.state.outgoing.values():
                self.left.update(self._messages(node, outgoing, ends=False))
        if self.pair.twin is None or node in self.pair.both:
            return
        known = self.pair.twin.guid in manager._step.sessions.watch.clashes
        if self.meetings.with_both(node):
            self.kernel.marks[marks.MET_BOTH] += 1
            if not known:
                self.kernel.wrong(f"I25: {node.name} has met two managers of one identity, and "
                                 "has not noticed it")  # fmt: skip

    # ---- what is demanded -------------------------------------------------------------------

    def is_shared(self, message: Message, place: Place) -> bool:
        """Whether both had it when the copy started."""
        return (message.uid, place.key) in self.shared

    def is_inherited(self, node: Node, message: Message, place: Place) -> bool:
        """Whether a message that the copy has in a system queue stood there before it was one."""
        return node is self.pair.twin and (message.uid, place.key) in self.inherited

    def apart(self, message: Message, place: Place) -> bool:
        """Whether it is judged here: both had it, or it waits in the one that was ended."""
        return self.is_shared(message, place) or (message.uid, place.key) in self.left

    def both_tell(self, message: Message, place: Place) -> bool:
        """Whether each of the two may tell how it ended: it waited, or each asks its receiver."""
        return self.apart(message, place) or (message.uid, place.key) in self.doubted

    def senders(self, message: Message, place: Place) -> tuple[int, ...]:
        """Who has sent it, or may have."""
        if self.is_shared(message, place):
            return tuple(node.index for node in self.pair.both)
        return (message.node,)

    def carrier(self, message: Message, place: Place) -> int | None:
        """Of whose messages it has its place in the order; None: of either's."""
        if not self.is_shared(message, place):
            return message.node
        carried = self.traffic.carried(self.pair.of)[message.uid, place.key]
        return next(iter(carried)) if len(carried) == 1 else None

    def misled(self, message: Message, place: Place) -> bool:
        """Whether its end was told to the other copy, or to nobody: its sender was ended; or one
        copy was asked of what the other one knows."""
        if self.queues.misled(message, place):
            return True
        if self.pair.identity(message.node) != self.pair.of or not self.pair.both:
            return False
        if self.pair.ended is not None and message.node == self.pair.ended.index:
            return True
        other = self.pair.other(message.node)
        return other in self.traffic.told_to(self.pair.of)[message.uid, place.key]
