"""What the judge makes of two copies that run side by side (``beside.py``).

What a copy has of its own, sent since it was started, is judged like anything in any other world,
for each of the two alone; so is what the original has sent since. Of what both have the books know:

* A message that waited in the copy when it started has one end over both: it arrives, at most once
  where its receiver can know, or one of the two has it as a dead letter. What either of them claims
  of it may be what it cannot know better: the other one has transmitted it. From the moment on at
  which it has noticed that it is one of two, it claims of nothing that was delivered that it was
  not.
* The end of a message that its receiver has accepted is told to the identity, so perhaps to the
  other copy; its sender then waits for it. That is excused only where such an answer was seen to
  leave for the other copy.
* What only the ended one has is what its disk has: it is looked at in the end, off the network.

Whoever has met both, one after the other and again, must have noticed it. In the end, when all
faults are over and both are there, both speak to everybody once more: then everybody must have
noticed it, and both must have been told.

Watches: I1, I4, I25, I26 over copies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from onceq.core.inputs.inputs import SendItem, SessionOpened
from onceq.core.manager import Manager
from onceq.core.state.position_block import REMOVED
from onceq.core.state.queues import AnyQueue
from onceq.model.classes import MessageClass
from onceq.model.message import Delivery, Journal, Properties
from onceq.model.run import Run
from onceq.packet.decode import decode
from onceq.testing import marks
from onceq.testing.apps import App, Program
from onceq.testing.ledger import Copy, Message, Place, Status
from onceq.testing.options import MINUTE
from onceq.testing.tap import INTERNAL
from onceq.testing.verdict import GRAVES, IN_DOUBT, REMOVED_HERE

if TYPE_CHECKING:
    from onceq.testing.beside import Beside
    from onceq.testing.node import Node

Key = tuple[int, tuple[int, str]]
"""A message, and one of its destinations."""
UID_BYTES = 8
NEVER_CAME = (REMOVED_HERE, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
"""Classes by which a sender claims that a message was not delivered."""
GREETINGS = 3
"""So often each of the two speaks to everybody in the end."""


class Siblings:
    """See the module."""

    def __init__(self, beside: Beside) -> None:
        self.beside = beside
        self.world = beside.world
        self.shared: set[Key] = set()
        """What waited, or waited for its end, in the copy when it started."""
        self.inherited: set[Key] = set()
        """Messages that stood in system queues of the copy when it started."""
        self.left: set[Key] = set()
        """What waits, or waits for its end, in the one that was ended."""
        self._claimed: dict[int, set[Key]] = {}
        """By computer, since it knows of the other: messages of which it had dead letters then."""
        self._opened: dict[tuple[int, int], list[tuple[int, bytes]]] = defaultdict(list)
        """By computer and process: sessions with the two, and the life that each was with."""
        self._spoke: set[tuple[int, int, int]] = set()
        """Computer, process, session: something came on it."""

    # ---- when the copy starts ---------------------------------------------------------------

    def begin(self, twin: Node) -> None:
        """The copy has recovered, and has done nothing yet."""
        world, of = self.world, self.beside.of
        assert twin.engine is not None
        state = twin.engine.manager.state
        for outgoing in state.outgoing.values():
            self.shared.update(self._messages(twin, outgoing, ends=False))
        for queue in state.queues.values():
            if queue.system or queue.properties.name == GRAVES.rpartition("\\")[2]:
                self.inherited.update(self._messages(twin, queue, ends=True))
        world.told.listening[twin.index] = world.told.listening[of]
        world.ledger.copied(of, twin.index)
        world.marks[marks.SHARED_WAITS] += bool(self.shared)

    def _messages(self, node: Node, holder: AnyQueue, *, ends: bool) -> Iterator[Key]:
        """Messages of the books that a queue has; what says that one has ended only with
        ``ends``."""
        assert node.engine is not None
        store, messages = node.engine.store, self.world.ledger.messages
        for lane in holder.lanes.values():
            for chunk in lane.blocks():
                for address, length, state in zip(
                    chunk.addresses, chunk.lengths, chunk.states, strict=True
                ):
                    if state == REMOVED or not length:
                        continue
                    packet = store.read(address, length)
                    if packet[2] & INTERNAL:
                        continue
                    found = decode(packet)
                    message = messages.get(int.from_bytes(found.body[:UID_BYTES], "little"))
                    ours = message is not None and message.body == found.body
                    if message is not None and ours and (ends or not found.message_class):
                        place = self.world.verdict.place_of(message, found.destination)
                        yield message.uid, place.key

    # ---- who has met whom -------------------------------------------------------------------

    def opened(self, node: Node, item: SessionOpened) -> None:
        """A session is open."""
        if self.beside.twin is not None and item.peer == self.beside.twin.guid and item.life:
            self._opened[node.index, node.life].append((item.session, item.life))

    def spoke(self, node: Node, session: int) -> None:
        """Something has come on a session."""
        if self.beside.twin is not None:
            self._spoke.add((node.index, node.life, session))

    def aware(self, node: Node, manager: Manager) -> None:
        """One of the two may have noticed that it is one of two: what it claims from then on of
        messages that both had, it must know."""
        if node not in self.beside.pair or node.index in self._claimed:
            return
        if node.guid in manager._step.sessions.watch.clashes:
            self._claimed[node.index] = {
                key
                for queue in manager.state.queues.values()
                if queue.system or queue.properties.name == GRAVES.rpartition("\\")[2]
                for key in self._messages(node, queue, ends=True)
            }

    def knows(self, node: Node) -> bool:
        """Whether one of the two has noticed, since they are two, that it is one of them."""
        return node.index in self._claimed

    def has_met_both(self, node: Node) -> bool:
        """Whether the running process of a manager has met one life, another one, and the first
        one again: nobody can take that for one manager that was started anew."""
        who = node.index, node.life
        lives = [life for session, life in self._opened[who] if (*who, session) in self._spoke]
        return any(
            lives[at] in lives[:first] for first in range(len(lives))
            for at in range(first + 1, len(lives)) if lives[first] != lives[at]
        )  # fmt: skip

    def noticed(self, node: Node, manager: Manager) -> None:
        """In the end: whoever has met both, has noticed it (I25)."""
        if node is self.beside.ended:
            for outgoing in manager.state.outgoing.values():
                self.left.update(self._messages(node, outgoing, ends=False))
        if self.beside.twin is None or node in self.beside.pair:
            return
        known = self.beside.twin.guid in manager._step.sessions.watch.clashes
        if self.has_met_both(node):
            self.world.marks[marks.MET_BOTH] += 1
            if not known:
                self.world.wrong(f"I25: {node.name} has met two managers of one identity, and "
                                 "has not noticed it")  # fmt: skip

    # ---- all faults are over ----------------------------------------------------------------

    def greet(self) -> bool:
        """Let both speak to everybody, in turn; whether there are both."""
        world, pair = self.world, self.beside.pair
        if not pair or self.beside.ended is not None:
            return False
        todo = [node for _ in range(GREETINGS) for node in pair]
        for count, node in enumerate(todo):
            once = [self._greeting]
            app = App(node, MINUTE // 60, lambda app, todo=once: todo.pop()(app) if todo else None)  # type: ignore[misc]
            app.start(count * 2 * MINUTE)
        world._run_until(world.now + 2 * MINUTE * (len(todo) + 1), lambda: False)
        return True

    def _greeting(self, app: App) -> Program:
        workload, node = self.world.workload, app.node
        for place in self._reachable():
            unit = self.world.ledger.unit(node.index)
            names = [(place, place.spellings[0])]
            message = self.world.ledger.message(node.index, unit, names, Properties(), 4)
            item = SendItem(names[0][1], Properties(), Run.of([message.body]))
            yield from workload._commit(app, unit, 0, [(item, [message])])

    def _reachable(self) -> list[Place]:
        """One queue of each other manager, if it has one that takes whatever comes."""
        found: dict[int, Place] = {}
        for place in self.world.ledger.places.values():
            there = place.created_us >= 0 and place.deleted_us < 0 and place.transactional
            if there and self.beside.identity(place.node) != self.beside.of:
                found.setdefault(place.node, place)
        return list(found.values())

    def everybody_knows(self) -> None:
        """Everybody has heard both, and has told both (I25)."""
        pair = self.beside.pair
        hearers = [self.world.nodes[place.node] for place in self._reachable()]
        for node in (*hearers, *(pair if hearers else ())):
            assert node.engine is not None
            if pair[0].guid not in node.engine.manager._step.sessions.watch.clashes:
                self.world.wrong(
                    f"I25: both copies have spoken to everybody, and {node.name} does not know"
                )
        self.world.marks[marks.TOLD_BOTH] += bool(hearers)

    # ---- what is demanded -------------------------------------------------------------------

    def is_shared(self, message: Message, place: Place) -> bool:
        """Whether both had it when the copy started."""
        return (message.uid, place.key) in self.shared

    def is_inherited(self, node: Node, message: Message, place: Place) -> bool:
        """Whether a message that the copy has in a system queue stood there before it was one."""
        return node is self.beside.twin and (message.uid, place.key) in self.inherited

    def apart(self, message: Message, place: Place) -> bool:
        """Whether it is judged here: both had it, or it waits in the one that was ended."""
        return self.is_shared(message, place) or (message.uid, place.key) in self.left

    def senders(self, message: Message, place: Place) -> tuple[int, ...]:
        """Who has sent it, or may have."""
        if self.is_shared(message, place):
            return tuple(node.index for node in self.beside.pair)
        return (message.node,)

    def carrier(self, message: Message, place: Place) -> int | None:
        """Of whose messages it has its place in the order; None: of either's."""
        if not self.is_shared(message, place):
            return message.node
        carried = self.world.tap.carried(self.beside.of)[message.uid, place.key]
        return next(iter(carried)) if len(carried) == 1 else None

    def misled(self, message: Message, place: Place) -> bool:
        """Whether its end was told to the other copy, or to nobody: its sender was ended; or one
        copy was asked of what the other one knows."""
        if self.beside.receivers.misled(message, place):
            return True
        if self.beside.identity(message.node) != self.beside.of or not self.beside.pair:
            return False
        if self.beside.ended is not None and message.node == self.beside.ended.index:
            return True
        other = self.beside.other(message.node)
        return other in self.world.tap.told_to(self.beside.of)[message.uid, place.key]

    def judge(self, message: Message, place: Place, copy: Copy) -> str:
        """Both copies had it when the second one started."""
        verdict, unit = self.world.verdict, message.unit
        if unit is not None and copy.received > 1:
            verdict._wrong(message, place, copy, "I4, received twice")
        if unit is not None and unit.status is not Status.COMMITTED:
            verdict._wrong(message, place, copy, "I3, it waited, and is not committed")
        self._check_claims(message, place, copy)
        if copy.received or copy.graves or copy.rejected:
            return "of both: received" if copy.received else "of both: a dead letter"
        if not self.is_shared(message, place):
            return "waits in the copy that was ended"
        if copy.waiting and place.node >= 0 and unit is not None:
            verdict._wrong(message, place, copy, "I26, still waiting")
        if copy.waiting and place.node < 0:
            return "of both: waiting"
        why = verdict._excuse(message, place)
        sure = message.properties.delivery is Delivery.RECOVERABLE
        if unit is None and (place.transactional or copy.waiting or not sure):
            why = why or "another kind"
        if not why and not verdict._leak(place):
            verdict._wrong(message, place, copy, "I1, both copies had it, and it is lost")
        asked = unit is not None and bool(message.properties.journal & Journal.DEADLETTER)
        gone = self.world.ledger.graves_gone.intersection(self.senders(message, place))
        with_its_grave = message.properties.dead_letter_queue and gone
        if asked and not with_its_grave and not verdict._leak(place):
            verdict._wrong(message, place, copy, f"I12, of both, without a dead letter ({why})")
        return "of both: gone"

    def _check_claims(self, message: Message, place: Place, copy: Copy) -> None:
        """Whoever knows that he is one of two claims nothing of what only the other one can know:
        whether it was delivered."""
        if not self.is_shared(message, place) or place.deleted_us >= 0:
            return
        for index, _, reason in copy.graves:
            claimed = self._claimed.get(index)
            if claimed is None or (message.uid, place.key) in claimed or not copy.seen:
                continue
            self.world.marks[marks.BOTH_IN_DOUBT] += reason == IN_DOUBT
            if reason in NEVER_CAME:
                self.world.verdict._wrong(
                    message, place, copy, "I11, claimed by one of two copies that knew of the "
                    "other, which has delivered it",
                )  # fmt: skip
