"""What simulated applications do: units of work over several queues, receives, peeks, plain sends.

Each program keeps the books (``ledger.py``) up to date at every step: before a message is sent,
when a commit goes into the inbox, when an answer comes, and when it never comes.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onceq.core.decision import Outcome
from onceq.core.inputs.inputs import Abort, AskOutcome, Begin, Commit, Receive, SendItem
from onceq.core.inputs.single_messages import MoveMessage, Reject
from onceq.errors import (
    InsufficientResources,
    NoDirectory,
    OnceqError,
    SendFailed,
    StorageReserve,
    TransactionOver,
)
from onceq.model.identity import TransactionId
from onceq.model.message import Acknowledge, Delivery, Journal, Properties
from onceq.model.run import Run
from onceq.model.time import NEVER_S
from onceq.packet.own import own_headers
from onceq.service.delivered import Delivered
from onceq.testing import forgetful, marks
from onceq.testing.apps import App, Ask, Lost, Program, Sleep
from onceq.testing.asking import peek, send
from onceq.testing.branches import Branching
from onceq.testing.grouping import Grouping
from onceq.testing.ledger import Ledger, Message, Place, Status, Unit
from onceq.testing.options import HOUR, MINUTE, SECOND
from onceq.testing.told import ADMIN
from onceq.testing.verdict import GRAVES

if TYPE_CHECKING:
    from onceq.testing.node import Node
    from onceq.testing.world import World

Talk = Generator[Ask | Sleep, Any, Any]
SESSION_US = 4 * HOUR


class Workload:
    """Chooses programs and makes what they send."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ledger: Ledger = world.ledger
        self.left = world.options.transactions
        self.rng, self.queues = world.stream("workload"), world.beside.queues
        self.branches = Branching(self)
        self.groups = Grouping(self)
        self.known: dict[int, list[tuple[int, Unit]]] = {}
        """By manager: units whose outcome is known, and since when."""
        self.newest: dict[bytes, int] = {}  # by session: commits that have had an identifier in it

    def next(self, app: App) -> Program | None:
        """The next program of an application; None: nothing more to do now."""
        if self.left <= 0 or not self.world.network.faulty:
            return None
        self.left -= 1
        draw = self.rng.random()
        plain = self.world.options.plain
        if draw < plain * 0.7:
            return self.plain_send(app)
        if draw < plain:
            return self.plain_receive(app)
        if draw < plain + 0.05:
            return self.late_commit(app)
        if draw < plain + 0.12:
            return self.ask_again(app)
        if draw < plain + 0.2:
            return self.peek(app)
        if self.branches.wanted():
            return self.branches.branch(app)
        if self.groups.wanted():
            return self.groups.group(app)
        if forgetful.wanted(self):
            return forgetful.forgetful(self, app)
        return self.transaction(app)

    # ---- what is sent -------------------------------------------------------------------

    def _places(self, *, plain: bool) -> tuple[Place, ...]:
        """One to five destinations, most of them right."""
        rng = self.rng
        places = self.queues.named()
        if rng.random() >= self.world.options.wrong:
            right = [p for p in places if p.created_us >= 0 and p.transactional is not plain]
            places = right or places
        count = min(rng.choice([1, 1, 1, 2, 3, 5]), len(places))
        return tuple(rng.sample(places, count))

    def _names(self, node: int, places: tuple[Place, ...]) -> list[tuple[Place, str]]:
        """A format name for each place."""
        rng, names = self.rng, []
        for place in places:
            name = place.spellings[0]
            if rng.random() < self.world.options.spellings:
                name = rng.choice(place.spellings)
            if place.node == self.world.beside.identity(node):
                name = f"DIRECT=OS:.\\{place.name}"
            names.append((place, name))
        return names

    def _properties(self, node: int, *, plain: bool) -> Properties:
        rng, options = self.rng, self.world.options
        reach = receive = NEVER_S
        if rng.random() < options.lifetimes:
            reach = rng.choice([0, 1, 5, 60, 600, 7_200])
        if rng.random() < options.lifetimes * 0.5:
            receive = rng.choice([1, 30, 600, 7_200, 86_400])
        level, admin = Acknowledge.NONE, ""
        if rng.random() < options.acknowledged:
            level = Acknowledge(rng.randrange(16))
            told = node if rng.random() < 0.8 else rng.randrange(options.managers)
            admin = f"DIRECT=OS:M{told}\\{ADMIN}" if told != node or rng.random() < 0.5 else ADMIN
        journal = Journal((self.world.stream("plain") if plain else rng).choice([0, 0, 1, 1, 2, 3]))
        more = self.world.stream("graves")
        own = journal & Journal.DEADLETTER and not plain and more.random() < options.own_graves
        return Properties(
            dead_letter_queue=GRAVES if own else "",
            acknowledge=level,
            admin_queue=admin,
            delivery=Delivery.EXPRESS if plain and rng.random() < 0.4 else Delivery.RECOVERABLE,
            priority=rng.randrange(8) if rng.random() < 0.3 else None,
            journal=journal,
            label=rng.choice(["", "", "label"]),
            time_to_reach_queue=reach,
            time_to_be_received=receive,
        )

    def item(
        self, node: int, unit: Unit | None, *, plain: bool = False
    ) -> tuple[SendItem, list[Message]]:
        """A batch to send, and what the books say of it."""
        rng, options = self.rng, self.world.options
        names = self._names(node, self.queues.more(node, self._places(plain=plain), plain=plain))
        text = ""
        lists = self.world.stream("listed")
        if self.world.lists and lists.random() < options.lists:
            text, names = self._listed(lists.choice(sorted(self.world.lists)), names)
        names = [(self.queues.at(node, place), name) for place, name in names]
        properties = self._properties(self.world.beside.identity(node), plain=plain)
        if unit is not None and unit.sends:
            first = unit.sends[0].properties
            effective = Properties(
                journal=properties.journal, acknowledge=properties.acknowledge,
                admin_queue=properties.admin_queue, time_to_reach_queue=first.time_to_reach_queue,
                time_to_be_received=first.time_to_be_received,
                dead_letter_queue=properties.dead_letter_queue,
            )  # fmt: skip
        else:
            effective = properties
        count = rng.choice([1, 1, 1, 2, 4])
        messages = [
            self.ledger.message(node, unit, names, effective, rng.randrange(options.body_bytes_max))
            for _ in range(count)
        ]
        bodies = Run.of([message.body for message in messages])
        destination = text or ",".join(name for _, name in names)
        if self.world.stream("own").random() >= options.own_headers:
            return SendItem(destination, properties, bodies), messages
        self.world.marks[marks.OWN_HEADERS] += 1
        for message in messages:
            message.label = f"message {message.uid}"
        own = own_headers(count, {"label": [message.label for message in messages]})
        return SendItem(destination, replace(properties, label=""), bodies, own=own), messages

    def _listed(
        self, name: str, more: list[tuple[Place, str]]
    ) -> tuple[str, list[tuple[Place, str]]]:
        """A list and other destinations: the name, and all that it stands for."""
        self.world.marks[marks.LISTED] += 1
        inside = {
            place.key: (place, next(s for s in place.spellings if "OS:" in s))
            for place in self.world.lists[name]
        }
        # Beside the list by the same name as in it: that two other names are of one queue is known
        # only to who has seen the other manager's entry in the directory.
        beside = [inside.get(place.key, (place, spelled)) for place, spelled in more]
        text = ",".join([name, *(spelled for _, spelled in beside)])
        return text, list((inside | {place.key: (place, s) for place, s in beside}).values())

    def refused(self, error: OnceqError, messages: list[Message]) -> None:
        """A send was refused."""
        if isinstance(error, StorageReserve):
            self.world.marks[marks.RESERVE] += 1
        elif isinstance(error, NoDirectory):
            self.world.marks[marks.OFFLINE] += 1
        elif isinstance(error, InsufficientResources):
            self.world.marks[marks.QUOTA] += 1
        self.ledger.refuse(error, messages)

    def _id(self, app: App) -> TransactionId:
        """An identifier for the next commit."""
        now = self.world.now
        if now - app.session_from_us > SESSION_US:
            app.session_from_us = now
            began = app.node.clock.wall_us() // SECOND
            app.session = began.to_bytes(4, "little") + self.rng.randbytes(12)
            app.commits = 0
        self.newest[app.session] = app.commits = app.commits + 1
        return TransactionId(app.session, app.commits)

    # ---- units of work ------------------------------------------------------------------

    def transaction(self, app: App) -> Program:
        """Receive something, or not; send something, or not; then commit or abort."""
        unit = self.ledger.unit(app.node.index)
        receives = self.rng.choice([0, 0, 0, 1, 1, 2])
        sends = self.rng.choice([1, 1, 2, 3, 5]) if self.rng.random() < 0.85 or not receives else 0
        app.transactions += 1
        number = app.transactions if receives or self.rng.random() < 0.5 else 0
        try:
            yield from self._work(app, unit, number, receives=receives, sends=sends)
        except Lost:
            if unit.status is Status.ASKED:
                self.ledger.doubt(unit)
                yield from self._find_out(app, unit)
            elif unit.status is Status.OPEN:
                self.ledger.aborted(unit)

    def _work(self, app: App, unit: Unit, number: int, *, receives: int, sends: int) -> Talk:
        rng, node = self.rng, app.node.index
        if number:
            yield Ask(lambda owner, request: Begin(owner, request, number))
            for _ in range(receives):
                yield from self.receive(app.node, unit, number)
            if unit.takes:
                yield from self._reject(unit, number)
                yield from self._move(unit, number)
            for _ in range(sends if rng.random() < 0.5 else 0):
                sends -= 1
                item, messages = self.item(node, unit)
                answer = yield Ask(send(number, (item,)))
                if isinstance(answer, OnceqError):
                    self.refused(answer, messages)
            if rng.random() < self.world.options.aborts:
                answer = yield Ask(lambda owner, request: Abort(owner, request, number))
                self.ledger.aborted(unit)
                return
        items = [self.item(node, unit) for _ in range(sends)]
        yield from self._commit(app, unit, number, items)

    def _reject(self, unit: Unit, number: int) -> Talk:
        """Refuse some of what was received; it counts with the commit (RCV-15)."""
        rng = self.world.stream("rejects")
        for place, lookup, _ in unit.takes:
            if not place.home.transactional or rng.random() >= self.world.options.rejects:
                continue
            name = place.name
            answer = yield Ask(
                lambda owner, request, n=name, at=lookup: Reject(  # type: ignore[misc]
                    owner, request, n, number, (at,), False
                )
            )
            if isinstance(answer, OnceqError):
                if place.home.deleted_us >= 0:
                    return  # with all that was held of it
                self.world.wrong(f"a message that was received cannot be rejected: {answer!r}")
            unit.rejects.add((place.key, lookup))

    def _move(self, unit: Unit, number: int) -> Talk:
        """Move some of what was received aside, or back; it counts with the commit (Q-34)."""
        rng = self.world.stream("moves")
        for place, lookup, uid in unit.takes:
            parts = [part for part in (place.home, *place.home.parts) if part is not place]
            kept = (place.key, lookup) not in unit.rejects and not place.home.poison
            if (
                not (kept and place.home.transactional)
                or not parts
                or rng.random() >= self.world.options.moves
            ):
                continue
            target = rng.choice(parts)
            copy = self.ledger.messages[uid].copies[place.home.key]
            copy.moved = True
            ask = (place.name, target.name, lookup, number)
            answer = yield Ask(lambda owner, request, a=ask: MoveMessage(owner, request, *a))  # type: ignore[misc]
            if isinstance(answer, OnceqError):
                if place.home.deleted_us >= 0:
                    return
                self.world.wrong(f"a message that was received cannot be moved: {answer!r}")
            unit.moves[place.key, lookup] = target

    def _commit(
        self, app: App, unit: Unit, number: int, items: list[tuple[SendItem, list[Message]]]
    ) -> Talk:
        unit.id = key = self._id(app)
        tail = tuple(item for item, _ in items)
        answer = yield Ask(
            lambda owner, request: Commit(owner, request, number, tail, key),
            asked=lambda: self.ledger.ask(unit),
        )
        if isinstance(answer, OnceqError):
            self.refused(answer, [message for _, messages in items for message in messages])
            unit.status = Status.OPEN
            self.world.marks[marks.DOOMED] += isinstance(answer, SendFailed)
            if number and not isinstance(answer, SendFailed):
                yield Ask(lambda owner, request: Abort(owner, request, number))
            self.ledger.aborted(unit)
        else:
            self.ledger.answered(unit)
            self._remember(app, unit)

    def _remember(self, app: App, unit: Unit) -> None:
        known = self.known.setdefault(app.node.index, [])
        known.append((self.world.now, unit))
        del known[:-20]

    def _find_out(self, app: App, unit: Unit) -> Talk:
        """The answer to a commit was lost: ask what became of it, until somebody knows."""
        key = unit.id
        assert key is not None
        while True:
            try:
                yield Sleep(self.rng.choice([SECOND, MINUTE, 10 * MINUTE]))
                answer = yield Ask(lambda owner, request: AskOutcome(owner, request, key))
            except Lost:
                continue
            break
        if not isinstance(answer, Outcome):
            self.world.wrong(f"I3a: asked for an outcome, got {answer!r}")
        self.ledger.resolved(unit, answer)
        self._remember(app, unit)

    def ask_again(self, app: App) -> Program:
        """What became of a commit does not change (I3a)."""
        known = self.known.get(app.node.index, [])
        fresh = [u for at, u in known if self.world.now - at < 20 * HOUR and not u.undone]
        if not fresh:
            return
        unit = self.rng.choice(fresh)
        key = unit.id
        assert key is not None
        try:
            answer = yield Ask(lambda owner, request: AskOutcome(owner, request, key))
        except Lost:
            return
        self.ledger.told_again(unit, answer, self.newest[key.session] - key.number)

    def late_commit(self, app: App) -> Program:
        """A commit that comes after its outcome was told must not happen any more."""
        unit = self.ledger.unit(app.node.index)
        unit.id = key = self._id(app)
        item, _ = self.item(app.node.index, unit)
        unit.status = Status.ABORTED
        try:
            answer = yield Ask(lambda o, r: AskOutcome(o, r, key), safe=True)
            if answer is not Outcome.ABORTED:
                self.world.wrong(f"I3a: a commit that never came is {answer!r}")
            answer = yield Ask(lambda o, r: Commit(o, r, 0, (item,), key), safe=True)
        except Lost:
            return
        if isinstance(answer, TransactionOver):
            self.world.marks[marks.FENCED] += 1
        elif not isinstance(answer, OnceqError):
            self.world.wrong("I3a: a commit happened after its outcome was told as aborted")

    # ---- receiving ----------------------------------------------------------------------

    def _here(self, node: int) -> Place | None:
        places = [p for p in self.ledger.places.values() if p.node == node and p.created_us >= 0]
        place = self.rng.choice(places) if places else None
        rng = self.world.stream("parts")
        if place is not None and place.parts and rng.random() < 0.25:
            return rng.choice(place.parts)
        return place

    def receive(self, node: Node, unit: Unit | None, number: int) -> Talk:
        """Receive from a queue of this manager, in a unit of work or for good."""
        place = self._here(node.index)
        if place is None:
            return
        rng = self.rng
        count = rng.choice([1, 1, 3, 10])
        wait_us = rng.choice([0, 0, SECOND, MINUTE])

        hold = bool(number) and self.world.stream("hold").random() < 0.5

        def make(owner: int, request: int) -> Receive:
            until = node.clock.mono_us() + wait_us if wait_us else 0
            return Receive(owner, request, place.name, number, count, 1 << 22, until, hold=hold)

        try:
            answer = yield Ask(make)
        except Lost as lost:
            if lost.asked and unit is not None:
                place.home.slack += 1
            elif lost.asked:
                place.home.leaks += count
            raise
        if self.take(place, answer, unit) and unit is not None and not place.home.transactional:
            self.world.marks[marks.HELD] += 1

    def take(self, place: Place, answer: object, unit: Unit | None, *, peek: bool = False) -> int:
        """Put what was handed out into the books; how many messages it was."""
        if not isinstance(answer, Delivered):
            return 0
        for packet, lookup, aborts, arrived in zip(
            answer.run, answer.lookups, answer.aborts, answer.arrived, strict=True
        ):
            self.ledger.handed(place, packet, lookup, aborts, unit=unit, peek=peek, arrived=arrived)
        return len(answer.run)

    def plain_receive(self, app: App) -> Program:
        """Receive outside of a transaction."""
        try:
            yield from self.receive(app.node, None, 0)
        except Lost:
            return

    def peek(self, app: App) -> Program:
        """Look at some messages with a cursor."""
        place = self._here(app.node.index)
        after = 0
        for _ in range(3 if place is not None else 0):
            assert place is not None
            try:
                answer = yield Ask(peek(place.name, after))
            except Lost:
                return
            if not self.take(place, answer, None, peek=True):
                return
            if min(answer.lookups) <= after:
                self.world.wrong(f"I18: a cursor in {place} went back to {min(answer.lookups)}")
            after = answer.lookups[-1]

    # ---- outside transactions -----------------------------------------------------------

    def plain_send(self, app: App) -> Program:
        """Send without a transaction."""
        item, messages = self.item(app.node.index, None, plain=True)
        try:
            answer = yield Ask(send(0, (item,)))
        except Lost as lost:
            if not lost.asked:
                self.ledger.refuse(OnceqError("it was lost before it was sent"), messages)
            return
        if isinstance(answer, OnceqError):
            self.refused(answer, messages)
            return
        for message in messages:
            message.done = True
