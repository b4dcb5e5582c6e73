"""The judge's books: what was asked, what was answered, and what came out of queues.

Fed by the workload only; it shares no code with the core. Every body carries an identifier of its
own, so each copy of each message can be followed. What contradicts the books while a world runs
is reported at once; what must have become of everything in the end is in ``verdict.py``.

Watches: I3, I3a, I4, I5, I16, I17, I18.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from onceq.errors import OnceqError
from onceq.model.message import Properties
from onceq.model.results import Outcome, dooms
from onceq.packet.decode import decode
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.packets import body_of
from proof.sim.judge.arrivals import Arrivals
from proof.sim.judge.books import Books, Copy, Message, Place, Status, Unit
from proof.sim.judge.copied_queues import CopiedQueues

_UID = struct.Struct("<Q")


class Ledger:
    """See the module."""

    def __init__(
        self, kernel: Kernel, nodes: list[Node], books: Books, queues: CopiedQueues,
        arrivals: Arrivals, known: Callable[[memoryview, int], None],
    ) -> None:  # fmt: skip
        """Begin with empty books.

        Args:
            known: Told which message of the books a packet is that came out of a queue.
        """
        self.kernel, self.nodes, self.books = kernel, nodes, books
        self.queues, self.arrivals, self.heard = queues, arrivals, known
        self.repeats = 0
        """Repetitions of messages that nobody promised to deliver only once."""
        self._lazy: dict[int, list[tuple[Place, int]]] = {}
        """By manager: queue and lookup identifier of aborts that a crash may lose."""
        self._orders: dict[int, int] = {}
        self._next = 1

    # ---- sending ------------------------------------------------------------------------

    def message(
        self, node: int, unit: Unit | None, names: list[tuple[Place, str]],
        properties: Properties, size: int,
    ) -> Message:  # fmt: skip
        """A message is about to be sent; its body is made here."""
        uid = self._next
        self._next += 1
        body = _UID.pack(uid) + bytes((uid & 0xFF,)) * size
        message = Message(
            uid, node, unit, len(unit.sends) if unit else 0, properties, body, self.kernel.now,
            {place.key: Copy() for place, _ in names},
            {place.key: name.casefold() for place, name in names},
            tuple(place for place, _ in names),
        )  # fmt: skip
        if unit is not None:
            unit.sends.append(message)
        self.books.messages[uid] = message
        self.queues.sent(message)
        return message

    def refuse(self, error: OnceqError, messages: list[Message]) -> None:
        """A send was refused: nothing of it may ever be seen, nor (S0) of its unit of work."""
        for message in messages:
            message.refused = True
            if message.unit is not None:
                message.unit.sends.remove(message)
                message.unit.doomed = message.unit.doomed or dooms(error)

    def unit(self, node: int) -> Unit:
        """A unit of work begins."""
        unit = Unit(node, self.kernel.now)
        self.books.units.append(unit)
        return unit

    def copied(self, node: int, twin: int) -> None:
        """Another manager goes on where one was copied."""
        self._orders[twin] = self._orders.get(node, 0)
        if node in self.books.letter_queues_gone:
            self.books.letter_queues_gone.add(twin)

    def ask(self, unit: Unit) -> None:
        """Its commit goes into the manager's inbox now."""
        self._orders[unit.node] = unit.order = self._orders.get(unit.node, 0) + 1
        unit.status = Status.ASKED

    # ---- how units end ------------------------------------------------------------------

    def answered(self, unit: Unit) -> None:
        """Its commit was answered: it is done, and what was written before is durable with it."""
        for place, lookup in self._lazy.pop(unit.node, ()):
            place.sure[lookup] = place.sure.get(lookup, 0) + 1
        self.committed(unit)

    def committed(self, unit: Unit) -> None:
        """It is done, now or some time ago."""
        unit.status = Status.COMMITTED
        if unit.undone:
            return
        if unit.doomed:
            self.kernel.wrong("S0: a unit of work is committed although a send in it was refused")
        if unit.returned:
            self.kernel.wrong("I3a: a commit is done, though what it took was seen again")
        for place, lookup, uid in unit.takes:
            self._settled(place, lookup, unit)
            self._release(place, lookup, unit)
            if (place.key, lookup) in unit.rejects:
                place.gone.add(lookup)
                self.books.messages[uid].copies[place.home.key].rejected += 1
            elif (place.key, lookup) in unit.moves:
                place.gone.add(lookup)
                self.kernel.marks[marks.MOVED] += 1
            else:
                self.taken(place, lookup, uid)

    def aborted(self, unit: Unit) -> None:
        """It is undone: what it took goes back to its place."""
        if unit.undone:
            unit.status = Status.ABORTED
            return
        life = self.nodes[unit.node].life if unit.told is None else -1
        self._check_unseen(unit)
        unit.status = Status.ABORTED
        for place, lookup, _ in unit.takes:
            self._settled(place, lookup, unit)
            self._release(place, lookup, unit)
            count, first = place.aborts.get(lookup, (0, life))
            place.aborts[lookup] = (count + 1, min(first, life))
            if life > 0 and self.nodes[unit.node].reachable and not place.slack:
                self._lazy.setdefault(unit.node, []).append((place, lookup))

    def _settled(self, place: Place, lookup: int, unit: Unit) -> None:
        units = place.doubtful.get(lookup, [])
        if unit in units:
            units.remove(unit)

    def _check_unseen(self, unit: Unit) -> None:
        if unit.seen:
            self.kernel.wrong("I3: a message of a transaction that did not commit was seen")

    def _release(self, place: Place, lookup: int, unit: Unit) -> None:
        if place.held.get(lookup) is unit:
            del place.held[lookup]

    def doubt(self, unit: Unit) -> None:
        """The answer to its commit was lost."""
        unit.status = Status.DOUBT
        if unit.undone:
            return
        for place, lookup, _ in unit.takes:
            self._release(place, lookup, unit)
            place.doubtful.setdefault(lookup, []).append(unit)

    def resolved(self, unit: Unit, outcome: Outcome) -> None:
        """The manager was asked what became of it."""
        if unit.undone:
            unit.status = Status.ABORTED
            return
        if unit.told is not None and unit.told is not outcome:
            self.kernel.wrong(f"I3a: a commit was {unit.told.value}, and now is {outcome.value}")
        first, unit.told = unit.told is None, outcome
        if not first:
            return
        if outcome is Outcome.COMMITTED:
            self.kernel.marks[marks.FOUND_DONE] += 1
            self.committed(unit)
        elif outcome is Outcome.ABORTED:
            self.kernel.marks[marks.FOUND_NOT_DONE] += 1
            self.aborted(unit)
        else:
            self.kernel.wrong("I3a: the outcome of a commit of less than a day ago is unknown")

    def told_again(self, unit: Unit, outcome: Outcome, behind: int) -> None:
        """The outcome of a unit that is known was asked for (again).

        Args:
            behind: Commits of its session that came later, at most; a number of them is remembered.
        """
        if outcome is Outcome.UNKNOWN and behind >= self.kernel.scale.OUTCOME_WINDOW:
            return
        if unit.undone:
            return
        known = {Status.COMMITTED: Outcome.COMMITTED, Status.ABORTED: Outcome.ABORTED}[unit.status]
        if outcome is not known:
            self.kernel.wrong(f"I3a: a commit was {known.value}, and now is {outcome.value}")

    # ---- what comes out -----------------------------------------------------------------

    def handed(
        self, place: Place, packet: memoryview, lookup: int, aborts: int, *,
        unit: Unit | None, peek: bool, arrived: int = 0, claimed_s: int = 0,
    ) -> None:  # fmt: skip
        """A message was handed out: to a unit of work, for good, or to be looked at."""
        message = self._known(place, packet)
        self.arrivals.handed(place, packet, lookup, arrived, message, claimed_s)
        copy = message.copies[place.home.key]
        if place.parent is not None and not copy.moved and not place.home.poison:
            self.kernel.wrong(f"I17: {place} holds message {message.uid}, which nobody moved there")
        if place.home.poison and place.parent is not None:
            self.kernel.marks[marks.POISONED] += 1
        self.heard(packet, message.uid)
        self._check_place(place, message, copy, lookup)
        holder = place.held.get(lookup)
        if holder is not None:
            self.kernel.wrong(f"I16: {place} hands out {lookup}, which another transaction holds")
        if lookup in place.gone and place.parent is None:
            self.kernel.wrong(f"I17: {place} hands out {lookup}, which was received")
        if place.parent is None:  # a subqueue gives its identifiers again when it is created again
            for doubtful in place.doubtful.get(lookup, ()):
                doubtful.returned = True
        self._check_aborts(place, lookup, aborts)
        copy.seen = True
        if peek:
            return
        if unit is None:
            self.taken(place, lookup, message.uid)
        else:
            place.held[lookup] = unit
            unit.takes.append((place, lookup, message.uid))

    def _known(self, place: Place, packet: memoryview) -> Message:
        message_class, body = body_of(packet)
        message = self.books.messages.get(_UID.unpack_from(body)[0]) if len(body) >= 8 else None
        if message is None or message.body != body or message_class:
            self.kernel.wrong(f"I3: {place} holds a message that nobody sent")
        assert message is not None
        if message.label and decode(packet).label != message.label:
            self.kernel.wrong(f"{place} holds message {message.uid} with another one's label")
        if place.home.key not in message.copies or message.refused:
            self.kernel.wrong(f"I3: {place} holds message {message.uid}, which was not sent there")
        unit = message.unit
        other = unit is None and message.copies[place.home.key].worked
        if (unit is not None) != place.transactional and not other:
            self.kernel.wrong(f"Q-4: {place} holds message {message.uid} of the other kind")
        if unit is not None:
            if unit.status in (Status.OPEN, Status.ABORTED) and not unit.undone:
                self.kernel.wrong(
                    f"I3: {place} shows message {message.uid} of a transaction that is "
                    f"{unit.status.value}"
                )
            unit.seen = True
        return message

    def _check_place(self, place: Place, message: Message, copy: Copy, lookup: int) -> None:
        uid = message.uid
        moves = copy.moved or place.home.poison
        if place.parent is not None:
            return  # a subqueue that was empty starts again
        place.lookups.setdefault(lookup, uid)
        # Over restores as well: a reader's checkpoint may be of a life that is undone.
        if place.ever.setdefault(lookup, uid) != uid:
            self.kernel.wrong(
                f"I18: {place} gave lookup identifier {lookup} to two messages, "
                f"{place.ever[lookup]} and {uid}"
            )
        if not copy.lookup:
            copy.lookup = lookup
        elif copy.lookup != lookup and message.unit is not None and not (moves or copy.worked):
            self.kernel.wrong(
                f"I4: message {uid} was accepted twice in {place}, as {copy.lookup} and {lookup}"
            )

    def _check_aborts(self, place: Place, lookup: int, aborts: int) -> None:
        if place.parent is not None or place.poison:
            return  # a move lets the count begin again
        count, life = place.aborts.get(lookup, (0, 0))
        if aborts:
            self.kernel.marks[marks.GIVEN_BACK] += 1
        slack = place.slack + len(place.doubtful.get(lookup, ()))
        exact = not slack and (not count or life == self.nodes[place.node].life)
        if (
            aborts < place.sure.get(lookup, 0)
            or aborts > count + slack
            or (exact and aborts != count)
        ):
            self.kernel.wrong(
                f"I17: {place} says that {lookup} was given back {aborts} times, it was {count}"
            )

    def taken(self, place: Place, lookup: int, uid: int) -> None:
        """A message was received for good."""
        place.gone.add(lookup)
        message = self.books.messages[uid]
        copy = message.copies[place.home.key]
        copy.received += 1
        if copy.received > 1:
            # A letter that a job has returned was a life of its own.
            if message.unit is not None and copy.received > copy.lives:
                self.kernel.wrong(f"I4: message {uid} was received twice from {place}")
            self.repeats += 1

    # ---- crashes ------------------------------------------------------------------------

    def crashed(self, node: Node) -> None:
        """A process is over: nobody holds anything there any more."""
        for place in self.books.everywhere():
            if place.node == node.index:
                place.held.clear()
        self._lazy.pop(node.index, None)

    # ---- order --------------------------------------------------------------------------

    def check_order(self, carrier: Callable[[Message, Place], int | None], *, turns: bool) -> None:
        """Every queue holds what a sender sent by one name in the order of its commits (I5).

        Args:
            carrier: Of whose messages one has its place in the order; None: of nobody's.
            turns: Whether copies of a manager took turns: its commits may be undone.
        """
        for place in self.books.places.values():
            if not place.transactional:
                continue
            last: dict[tuple[int, str], tuple[int, int, int]] = {}
            for lookup in sorted(place.lookups):
                message = self.books.messages[place.lookups[lookup]]
                unit = message.unit
                if unit is None or unit.vague:
                    continue
                # What an outgoing queue was purged of is back after a restore, and comes behind
                # what was sent after the purge and is undone.
                purged = (message.node, place.key) in self.books.purged
                if (turns and unit.was_undone) or (unit.undone and purged):
                    continue
                copy = message.copies[place.key]
                if copy.moved or copy.worked or place.poison or message.properties.delay:
                    continue
                here = (unit.order, message.index, message.uid)
                sender = carrier(message, place)
                if sender is None:
                    continue
                stream = (sender, message.names[place.key])
                before = last.get(stream)
                if before is not None and before >= here:
                    self.kernel.wrong(
                        f"I5: in {place} message {here[2]} stands behind message {before[2]}, "
                        f"which M{message.node} committed later"
                    )
                last[stream] = here
