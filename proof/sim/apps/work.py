"""The parts that programs of simulated applications are made of: receive, commit, find out.

Each keeps the books (``judge/ledger.py``) up to date at every step: before a message is sent, when
a commit goes into the inbox, when an answer comes, and when it never comes.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from onceq.errors import OnceqError, RolledBack, SendFailed
from onceq.model.branches import Vote
from onceq.model.identity import TransactionId
from onceq.model.message import Properties
from onceq.model.requests import Abort, AskOutcome, Commit, Receive, Send, SendItem
from onceq.model.results import Outcome
from onceq.model.run import Run
from onceq.packet.arrived import Batch
from proof.sim.apps.apps import App, Ask, Lost, Sleep
from proof.sim.apps.sends import Sends
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.options import HOUR, MINUTE, SECOND
from proof.sim.judge.books import Books, Message, Place, Status, Unit
from proof.sim.judge.holds import Holds, Moment
from proof.sim.judge.ledger import Ledger
from proof.sim.judge.pauses import Pauses

Talk = Generator[Ask | Sleep, Any, Any]
SESSION_US = 4 * HOUR


class Work:
    """See the module."""

    def __init__(self, kernel: Kernel, books: Books, ledger: Ledger, sends: Sends) -> None:
        self.kernel, self.books, self.ledger, self.sends = kernel, books, ledger, sends
        self.holds = Holds(kernel)
        self.pauses = Pauses(kernel, books)
        self.rng = kernel.stream("workload")
        self.known: dict[int, list[tuple[int, Unit]]] = {}
        """By manager: units whose outcome is known, and since when."""
        self.newest: dict[bytes, int] = {}
        """By session: commits that have had an identifier in it."""

    # ---- units of work ------------------------------------------------------------------

    def identifier(self, app: App) -> TransactionId:
        """An identifier for the next commit."""
        now = self.kernel.now
        if now - app.session_from_us > SESSION_US:
            app.session_from_us = now
            began = app.node.clock.wall_us() // SECOND
            app.session = began.to_bytes(4, "little") + self.rng.randbytes(12)
            app.commits = 0
        self.newest[app.session] = app.commits = app.commits + 1
        return TransactionId(app.session, app.commits)

    def commit(
        self, app: App, unit: Unit, number: int, items: list[tuple[SendItem, list[Message]]]
    ) -> Talk:
        """Commit, with what is sent last; what is refused is aborted."""
        unit.id = key = self.identifier(app)
        tail = tuple(item for item, _ in items)
        answer = yield Ask(
            Commit(number, tail, key),
            asked=lambda: self.ledger.ask(unit),
        )
        if isinstance(answer, OnceqError):
            self.sends.refused(answer, [message for _, messages in items for message in messages])
            unit.status = Status.OPEN
            self.kernel.marks[marks.DOOMED] += isinstance(answer, SendFailed)
            if number and not isinstance(answer, SendFailed):
                yield Ask(Abort(number))
            self.ledger.aborted(unit)
        else:
            self.ledger.answered(unit)
            self._remember(app, unit)

    def _remember(self, app: App, unit: Unit) -> None:
        known = self.known.setdefault(app.node.index, [])
        known.append((self.kernel.now, unit))
        del known[:-20]

    def find_out(self, app: App, unit: Unit) -> Talk:
        """The answer to a commit was lost: ask what became of it, until somebody knows."""
        key = unit.id
        assert key is not None
        while True:
            try:
                yield Sleep(self.rng.choice([SECOND, MINUTE, 10 * MINUTE]))
                answer = yield Ask(AskOutcome(key))
            except Lost:
                continue
            break
        if not isinstance(answer, Outcome):
            self.kernel.wrong(f"I3a: asked for an outcome, got {answer!r}")
        self.ledger.resolved(unit, answer)
        self._remember(app, unit)

    def lost(self, app: App, unit: Unit) -> Talk:
        """The manager was lost: a commit that it was asked for may have happened."""
        if unit.status is Status.ASKED:
            self.ledger.doubt(unit)
            yield from self.find_out(app, unit)
        elif unit.status is Status.OPEN:
            self.ledger.aborted(unit)

    def promised(self, unit: Unit, answer: object) -> bool:
        """A branch has answered to prepare; whether anything of it is to be decided."""
        if answer is Vote.PREPARED and not unit.doomed:
            return True
        if unit.doomed and isinstance(answer, RolledBack):
            self.kernel.marks[marks.DOOMED] += 1
            self.ledger.aborted(unit)
            return False
        if answer is not Vote.READ_ONLY or unit.sends or unit.takes or unit.doomed:
            self.kernel.wrong(f"I20: a branch with work was not prepared: {answer!r}")
        unit.status = Status.ABORTED
        return False

    def pass_time(self, us: int) -> Talk:
        """Do nothing for a while; the manager may come and go."""
        until = self.kernel.now + us
        while self.kernel.now < until:
            try:
                yield Sleep(until - self.kernel.now)
            except Lost:
                continue

    # ---- sending and receiving ----------------------------------------------------------

    def send(self, node: Node, unit: Unit, number: int) -> Talk:
        """Send something in a transaction."""
        item, messages = self.sends.item(node.index, unit)
        answer = yield Ask(Send(number, (item,)))
        if isinstance(answer, OnceqError):
            self.sends.refused(answer, messages)

    def say(self, app: App, unit: Unit, place: Place, name: str = "") -> Talk:
        """Send one message, and commit it."""
        name = name or place.spellings[0]
        message = self.ledger.message(app.node.index, unit, [(place, name)], Properties(), 4)
        item = SendItem(name, Properties(), Run.of([message.body]))
        yield from self.commit(app, unit, 0, [(item, [message])])

    def _here(self, node: int) -> Place | None:
        places = [p for p in self.books.places.values() if p.node == node and p.created_us >= 0]
        place = self.rng.choice(places) if places else None
        rng = self.kernel.stream("parts")
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

        hold = bool(number) and self.kernel.stream("hold").random() < 0.5
        asked: list[Moment] = []

        def request() -> Receive:
            asked.append(self.holds.moment(node))
            until = node.clock.mono_us() + wait_us if wait_us else 0
            return Receive(place.name, number, count, 1 << 22, wait_until_us=until, hold=hold)

        try:
            answer = yield Ask(request)
        except Lost as lost:
            if lost.asked and unit is not None:
                place.home.slack += 1
            elif lost.asked:
                place.home.leaks += count
            raise
        self.pauses.received(place, node, asked[-1].world_us, answer)
        if not self.take(place, answer, unit):
            return
        self.holds.received(place, node, asked[-1])
        if unit is not None and not place.home.transactional:
            self.kernel.marks[marks.HELD] += 1

    def take(self, place: Place, answer: object, unit: Unit | None, *, peek: bool = False) -> int:
        """Put what was handed out into the books; how many messages it was."""
        if not isinstance(answer, Batch):
            return 0
        for packet, lookup, aborts, arrived in zip(
            answer.run, answer.lookup_ids, answer.abort_counts, answer.arrived_times, strict=True
        ):
            self.ledger.handed(place, packet, lookup, aborts, unit=unit, peek=peek, arrived=arrived)
        return len(answer.run)
