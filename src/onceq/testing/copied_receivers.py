"""What the judge makes of messages to a manager that was copied, and runs twice (``beside.py``).

What others send to the name of the two goes to the one that the name leads to; the books know from
the packets which of the two it was transmitted to (``copied_queues.py``).

* What stood in a queue when it was copied stands in both, and is received from each, once, or ends
  in each for a reason.
* What was transmitted to one of the two only is judged as in a world without copies, as a message
  to that one; at the other it may not be.
* What was transmitted to both, because the first one's acknowledgment did not come in time, has one
  end at least: it is received from either, from each at most once, or its sender has the reason.
* Nobody says that it was not delivered if either of the two has accepted it, unless the other one
  has refused it; nobody says that it was received where neither has handed it out.
* A sender that has talked to both may have it in doubt: it has asked the other one.

What either of the two addresses to the other one by its address is a message to itself at somebody
else's: it meets its own identity, says so, and exchanges nothing (I25).

Watches: I1, I3, I4, I11, I12, I13, I25 over copies that receive.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from onceq.core.inputs.inputs import SendItem
from onceq.core.manager import Manager
from onceq.model.classes import MessageClass
from onceq.model.message import Delivery, Journal, Properties
from onceq.model.run import Run
from onceq.testing import marks
from onceq.testing.apps import App, Lost, Program
from onceq.testing.ledger import Copy, Message, Place, Status
from onceq.testing.options import MINUTE

if TYPE_CHECKING:
    from onceq.testing.beside import Beside
    from onceq.testing.node import Node

NOT_DELIVERED = MessageClass.NACK_REACH_QUEUE_TIMEOUT
IN_DOUBT = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
HAILS = 0.4
"""Of these worlds: one of the two has a message for the other one's address."""


class CopiedReceivers:
    """See the module."""

    def __init__(self, beside: Beside) -> None:
        self.beside = beside
        self.world = beside.world
        self.queues = beside.queues
        self.hails: list[Place] = []
        """Queues by the address of the other copy."""
        self._hailing: Node | None = None
        self._took: dict[tuple[int, str], set[int]] = defaultdict(set)
        """By sender and name of a queue: which of the two have messages that only they have."""

    # ---- each other ---------------------------------------------------------------------

    def begin(self) -> None:
        """Both are there: the original may have something for the copy's own address."""
        rng = self.world.stream("hails")
        if not self.queues.twins or rng.random() >= HAILS:
            return
        node, other = self.beside.pair
        name = "private$\\beside"
        place = Place(-1, name, [f"DIRECT=TCP:{other.ip}\\{name}"])
        self.hails.append(place)
        self._hailing = node
        once = [self._hail]
        app = App(node, MINUTE // 60, lambda app: once.pop()(app) if once else None)
        app.start(int(rng.uniform(0, 0.3) * self.world.options.safety_us))
        self.beside.apps.append(app)

    def _hail(self, app: App) -> Program:
        place, unit = self.hails[0], self.world.ledger.unit(app.node.index)
        names = [(place, place.spellings[0])]
        message = self.world.ledger.message(app.node.index, unit, names, Properties(), 4)
        item = SendItem(names[0][1], Properties(), Run.of([message.body]))
        workload = self.world.workload
        try:
            yield from workload._commit(app, unit, 0, [(item, [message])])
        except Lost:
            if unit.status is Status.ASKED:
                self.world.ledger.doubt(unit)
                yield from workload._find_out(app, unit)
            elif unit.status is Status.OPEN:
                self.world.ledger.aborted(unit)

    def is_hail(self, name: str) -> bool:
        """Whether an outgoing queue leads to the other copy."""
        return any(name.casefold() == place.spellings[0].casefold() for place in self.hails)

    def noticed(self, node: Node, manager: Manager) -> None:
        """In the end: who has something for its own identity elsewhere, has noticed it (I25)."""
        if node is not self._hailing or self.beside.ended is not None:
            return
        waits = any(
            self.is_hail(str(outgoing.name)) and outgoing.unacknowledged
            for outgoing in manager.state.outgoing.values()
        )
        if waits and node.guid not in manager._step.sessions.watch.clashes:
            self.world.wrong(f"I25: {node.name} has met its own identity, and has not noticed it")
        self.world.marks[marks.OWN_IDENTITY] += waits

    # ---- what is judged here ------------------------------------------------------------

    def judges(self, message: Message, place: Place) -> bool:
        """Whether both of the two may have it."""
        twin = self.queues.twins.get(place.key)
        return twin is not None and twin.key in message.copies

    def _stood(self, message: Message, place: Place) -> bool:
        books = self.queues.books
        return books is not None and (message.uid, place.key) in books.standing

    def _came(self, message: Message, place: Place) -> set[int]:
        return self.queues.reached.get((message.uid, place.key), set())

    def doubtful(self, message: Message, place: Place) -> bool:
        """Whether both may tell how it ended."""
        return self.judges(message, place) and (
            self._stood(message, place)
            or (message.uid, place.key) in self.queues.ended
            or len(self._came(message, place)) > 1
        )

    def silent(self, message: Message, place: Place) -> bool:
        """Whether the one that would tell of it is off the network."""
        there, _ = self.of(message, place)
        return self.beside.ended is not None and self.beside.ended.index in (
            there.node, message.node,
        )  # fmt: skip

    def of(self, message: Message, place: Place) -> tuple[Place, Copy]:
        """The queue that a message went to, and what is known of it there."""
        copy = message.copies[place.key]
        twin = self.queues.twins.get(place.key)
        if twin is None or twin.key not in message.copies:
            return place, copy
        if self._came(message, place) == {twin.node}:
            there = message.copies[twin.key]
            return twin, replace(there, graves=copy.graves, waiting=copy.waiting)
        return place, copy

    def misled(self, message: Message, place: Place) -> bool:
        """Whether its sender may have asked one of the two of what only the other one knows."""
        place = self.queues.original(place)
        return self.judges(message, place) and len(self.queues.linked[message.node]) > 1

    # ---- judging ------------------------------------------------------------------------

    def judge(self, message: Message, place: Place) -> str:
        """It went to the name of the two."""
        verdict, here = self.world.verdict, message.copies[place.key]
        twin = self.queues.twins[place.key]
        there = message.copies[twin.key]
        key = message.uid, place.key
        came = self._came(message, place)
        self._claims(message, place, here, there)
        if self._stood(message, place):
            return self._of_each(message, ((place, here), (twin, there)))
        if key in self.queues.ended:
            return self._alone(message, place, here)
        for one, copy in ((place, here), (twin, there)):
            if one.node not in came and (copy.seen or copy.received):
                verdict._wrong(message, one, copy, "I4, in a copy that it was never sent to")
        self._note(message, place, here, there)
        if len(came) > 1:
            return self._of_either(message, ((place, here), (twin, there)))
        end = self._alone(message, *self.of(message, place))
        return f"to one copy: {end}" if came else end

    def _alone(self, message: Message, place: Place, copy: Copy) -> str:
        """One queue may have it, as in any world."""
        verdict = self.world.verdict
        judge = verdict._plain if message.unit is None else verdict._ordered
        return judge(message, place, copy)

    def _note(self, message: Message, place: Place, here: Copy, there: Copy) -> None:
        if there.received and not here.seen:
            self.world.marks[marks.FROM_COPY] += 1
        if here.received and there.received:
            self.world.marks[marks.TOOK_BOTH] += 1
        elif message.unit is not None and (here.received or there.received):
            twin = self.queues.twins[place.key]
            took = self._took[message.node, message.names[place.key]]
            took.add(place.node if here.received else twin.node)
        if any(reason == IN_DOUBT for _, _, reason in here.graves) and (here.seen or there.seen):
            self.world.marks[marks.DOUBT_BETWEEN] += 1

    def judged(self) -> None:
        """Every message was judged."""
        self.world.marks[marks.TOOK_EACH] += sum(len(took) > 1 for took in self._took.values())

    def _claims(self, message: Message, place: Place, here: Copy, there: Copy) -> None:
        """Nobody says that it never came, if it did."""
        sure = [
            reason for node, _, reason in here.graves
            if node == message.node and reason == NOT_DELIVERED
        ]  # fmt: skip
        if sure and message.unit is not None and (here.seen or there.seen):
            self.world.verdict._wrong(message, place, here if here.seen else there,
                                      "I11, accepted by a copy, and not delivered")  # fmt: skip

    def _of_each(self, message: Message, each: tuple[tuple[Place, Copy], ...]) -> str:
        """It stood in both: each of the two hands it out, or has a reason."""
        verdict = self.world.verdict
        for place, copy in each:
            graves = [n for n, _, _ in each[0][1].graves]
            told = bool(graves) if message.node not in self._pair else place.node in graves
            ended = copy.received or copy.rejected or told or verdict._excuse(message, place)
            if not ended and not verdict._leak(place):
                verdict._wrong(message, place, copy, "I1, it stood in both, and is gone from one")
        if all(copy.received for _, copy in each):
            self.world.marks[marks.STOOD_BOTH] += 1
        return "stood in both copies"

    @property
    def _pair(self) -> tuple[int, ...]:
        return tuple(node.index for node in self.beside.pair)

    def _of_either(self, message: Message, each: tuple[tuple[Place, Copy], ...]) -> str:
        """It was transmitted to both, and each may have accepted it."""
        verdict, unit = self.world.verdict, message.unit
        place, copy = each[0]
        if unit is not None and unit.status is not Status.COMMITTED:
            verdict._wrong(message, place, copy, "I3, not committed")
        if any(one.received or one.rejected for _, one in each):
            return "to both copies: received"
        if copy.graves:
            return "to both copies: a dead letter"
        if copy.waiting:
            if unit is not None:
                verdict._wrong(message, place, copy, "I26, still waiting")
            return "to both copies: waiting"
        recoverable = message.properties.delivery is Delivery.RECOVERABLE
        sure = unit is not None or (message.done and recoverable and not place.transactional)
        why = "" if sure else "another kind"
        for one, _ in each:
            why = why or verdict._excuse(message, one)
            why = why or ("answer lost" if verdict._leak(one) else "")
        if not why:
            verdict._wrong(message, place, copy, "I1, sent to both copies, and lost")
        asked = unit is not None and bool(message.properties.journal & Journal.DEADLETTER)
        if asked and why != "answer lost" and not verdict._with_its_grave(message):
            verdict._wrong(message, place, copy, f"I12, of both copies, no dead letter ({why})")
        return f"to both copies: {why}"

    def told(self, message: Message, place: Place, value: int) -> None:
        """An acknowledgment message about what both may tell of: what it says has happened at one
        of the two."""
        twin = self.queues.twins[place.key]
        copies = message.copies[place.key], message.copies[twin.key]
        leaks = place.leaks + twin.leaks
        wrong = ""
        if value == MessageClass.ACK_RECEIVE and not any(c.received for c in copies) and not leaks:
            wrong = "received, and neither copy has handed it out"
        if value == MessageClass.NACK_RECEIVE_REJECTED and not any(c.rejected for c in copies):
            wrong = "rejected, and it is so at neither copy"
        if value == NOT_DELIVERED and message.unit is not None and any(c.seen for c in copies):
            wrong = "not delivered, and a copy has accepted it"
        if wrong:
            self.world.wrong(f"I13: message {message.uid} to {place} is said to be {wrong}")
