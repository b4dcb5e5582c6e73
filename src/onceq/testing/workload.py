"""What simulated applications do: units of work over several queues, receives, peeks, plain sends.

Each program keeps the books (``ledger.py``) up to date at every step: before a message is sent,
when a commit goes into the inbox, when an answer comes, and when it never comes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from onceq.core.decision import Outcome
from onceq.core.inputs import Abort, AskOutcome, Begin, Commit, Receive, Send, SendItem
from onceq.errors import InsufficientResources, OnceqError, StorageReserve, TransactionOver
from onceq.model.identity import TransactionId
from onceq.model.message import Delivery, Journal, Properties
from onceq.model.run import Run
from onceq.model.time import NEVER_S
from onceq.service.engine import Delivered
from onceq.testing import marks
from onceq.testing.apps import App, Ask, Lost, Program, Sleep
from onceq.testing.ledger import Ledger, Message, Place, Status, Unit
from onceq.testing.options import HOUR, MINUTE, SECOND

if TYPE_CHECKING:
    from onceq.testing.world import World

Talk = Generator[Ask | Sleep, Any, Any]
SESSION_US = 4 * HOUR


class Workload:
    """Chooses programs and makes what they send."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ledger: Ledger = world.ledger
        self.left = world.options.transactions
        self.rng = world.stream("workload")
        self.resolved: dict[int, list[tuple[int, TransactionId, Unit]]] = {}

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
        return self.transaction(app)

    # ---- what is sent -------------------------------------------------------------------

    def _places(self, *, plain: bool) -> tuple[Place, ...]:
        """One to five destinations, most of them right."""
        rng = self.rng
        places = list(self.ledger.places.values())
        if rng.random() >= self.world.options.wrong:
            places = [
                p for p in places if p.created_us >= 0 and p.transactional is not plain
            ] or places  # fmt: skip
        count = min(rng.choice([1, 1, 1, 2, 3, 5]), len(places))
        return tuple(rng.sample(places, count))

    def _name(self, node: int, places: tuple[Place, ...]) -> str:
        """A format name with an element for each place."""
        if len(places) == 1 and places[0].node == node and self.rng.random() < 0.5:
            return places[0].name
        return ",".join(place.spelling for place in places)

    def _properties(self, *, plain: bool) -> Properties:
        rng, options = self.rng, self.world.options
        reach = receive = NEVER_S
        if rng.random() < options.lifetimes:
            reach = rng.choice([0, 1, 5, 60, 600, 7_200])
        if rng.random() < options.lifetimes * 0.5:
            receive = rng.choice([1, 30, 600, 7_200, 86_400])
        return Properties(
            delivery=Delivery.EXPRESS if plain and rng.random() < 0.4 else Delivery.RECOVERABLE,
            priority=rng.randrange(8) if rng.random() < 0.3 else None,
            journal=Journal(rng.choice([0, 0, 1, 1, 2, 3])) if not plain else Journal.NONE,
            label=rng.choice(["", "", "label"]),
            time_to_reach_queue=reach,
            time_to_be_received=receive,
        )

    def _item(
        self, node: int, unit: Unit | None, *, plain: bool = False
    ) -> tuple[SendItem, list[Message]]:
        rng, options = self.rng, self.world.options
        places = self._places(plain=plain)
        properties = self._properties(plain=plain)
        if unit is not None and unit.sends:
            first = unit.sends[0].properties
            effective = Properties(
                journal=properties.journal, time_to_reach_queue=first.time_to_reach_queue,
                time_to_be_received=first.time_to_be_received,
            )  # fmt: skip
        else:
            effective = properties
        count = rng.choice([1, 1, 1, 2, 4])
        messages = [
            self.ledger.message(
                node, unit, places, effective, rng.randrange(options.body_bytes_max)
            )
            for _ in range(count)
        ]
        bodies = Run.of([message.body for message in messages])
        return SendItem(self._name(node, places), properties, bodies), messages

    def refused(self, error: OnceqError, messages: list[Message]) -> None:
        """A send was refused."""
        if isinstance(error, StorageReserve):
            self.world.marks[marks.RESERVE] += 1
        elif isinstance(error, InsufficientResources):
            self.world.marks[marks.QUOTA] += 1
        self.ledger.refuse(messages)

    def _id(self, app: App) -> TransactionId:
        """An identifier for the next commit."""
        now = self.world.now
        if now - app.session_from_us > SESSION_US:
            app.session_from_us = now
            began = app.node.clock.wall_us() // SECOND
            app.session = began.to_bytes(4, "little") + self.rng.randbytes(12)
            app.commits = 0
        app.commits += 1
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

    def _work(
        self, app: App, unit: Unit, number: int, *, receives: int, sends: int
    ) -> Talk:
        rng, node = self.rng, app.node.index
        if number:
            yield Ask(lambda owner, request: Begin(owner, request, number))
            for _ in range(receives):
                yield from self.receive(app, unit, number)
            for _ in range(sends if rng.random() < 0.5 else 0):
                sends -= 1
                item, messages = self._item(node, unit)
                answer = yield Ask(_send(number, (item,)))
                if isinstance(answer, OnceqError):
                    self.refused(answer, messages)
            if rng.random() < self.world.options.aborts:
                answer = yield Ask(lambda owner, request: Abort(owner, request, number))
                self.ledger.aborted(unit)
                return
        items = [self._item(node, unit) for _ in range(sends)]
        yield from self._commit(app, unit, number, items)

    def _commit(
        self, app: App, unit: Unit, number: int, items: list[tuple[SendItem, list[Message]]]
    ) -> Talk:
        id = self._id(app)
        self.resolved.setdefault(app.node.index, [])
        tail = tuple(item for item, _ in items)
        sent = [message for _, messages in items for message in messages]
        unit_id = (self.world.now, id, unit)
        self._ids[id(unit)] = unit_id  # type: ignore[operator]
        answer = yield Ask(
            lambda owner, request: Commit(owner, request, number, tail, id),
            asked=lambda: self.ledger.ask(unit),
        )
        if isinstance(answer, OnceqError):
            self.refused(answer, sent)
            unit.status = Status.OPEN
            if number:
                yield Ask(lambda owner, request: Abort(owner, request, number))
            self.ledger.aborted(unit)
        else:
            self.ledger.committed(unit)
