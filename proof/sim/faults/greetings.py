"""What two copies of one manager say to others, and to each other, so that both are noticed.

What either of the two addresses to the other one by its address is a message to itself at somebody
else's: it meets its own identity, says so, and exchanges nothing. In the end, when all faults are
over and both are there, both speak to everybody once more: then everybody must have noticed it, and
both must have been told.

Watches: I25 over copies.
"""

from __future__ import annotations

from onceq.core.manager import Manager
from proof.sim.apps.apps import App, Lost, Program, once
from proof.sim.apps.work import Work
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.options import MINUTE, SECOND
from proof.sim.base.pair import Pair
from proof.sim.judge.books import Books, Place
from proof.sim.judge.copied_queues import CopiedQueues

GREETINGS = 3
"""So often each of the two speaks to everybody in the end."""
HAILS = 0.4
"""Of the worlds with copies: one of the two has a message for the other one's address."""


class Greetings:
    """See the module."""

    def __init__(
        self, kernel: Kernel, nodes: list[Node], books: Books, pair: Pair, queues: CopiedQueues,
        work: Work,
    ) -> None:  # fmt: skip
        self.kernel, self.nodes, self.books = kernel, nodes, books
        self.pair, self.queues, self.work = pair, queues, work
        self.ledger = work.ledger
        self._hailing: Node | None = None

    # ---- each other ---------------------------------------------------------------------

    def hail(self) -> list[App]:
        """Both are there: the original may have something for the copy's own address."""
        rng = self.kernel.stream("hails")
        if not self.queues.twins or rng.random() >= HAILS:
            return []
        node, other = self.pair.both
        name = "private$\\beside"
        place = Place(-1, name, [f"DIRECT=TCP:{other.ip}\\{name}"])
        self.queues.hails.append(place)
        self._hailing = node
        after_us = int(rng.uniform(0, 0.3) * self.kernel.options.safety_us)
        return [once(node, SECOND, self._hail, after_us)]

    def _hail(self, app: App) -> Program:
        unit = self.ledger.unit(app.node.index)
        try:
            yield from self.work.say(app, unit, self.queues.hails[0])
        except Lost:
            yield from self.work.lost(app, unit)

    def noticed(self, node: Node, manager: Manager) -> None:
        """In the end: who has something for its own identity elsewhere, has noticed it (I25)."""
        if node is not self._hailing or self.pair.ended is not None:
            return
        waits = any(
            self.queues.is_hail(str(outgoing.name)) and outgoing.unacknowledged
            for outgoing in manager.state.outgoing.values()
        )
        if waits and node.guid not in manager._step.sessions.watch.clashes:
            self.kernel.wrong(f"I25: {node.name} has met its own identity, and has not noticed it")
        self.kernel.marks[marks.OWN_IDENTITY] += waits

    # ---- all faults are over ------------------------------------------------------------

    def greet(self) -> bool:
        """Let both speak to everybody, in turn; whether there are both."""
        kernel, pair = self.kernel, self.pair.both
        if not pair or self.pair.ended is not None:
            return False
        todo = [node for _ in range(GREETINGS) for node in pair]
        for count, node in enumerate(todo):
            once(node, SECOND, self._greeting, count * 2 * MINUTE)
        kernel.run_until(kernel.now + 2 * MINUTE * (len(todo) + 1), lambda: False)
        return True

    def _greeting(self, app: App) -> Program:
        for place in self._reachable():
            yield from self.work.say(app, self.ledger.unit(app.node.index), place)

    def _reachable(self) -> list[Place]:
        """One queue of each other manager, if it has one that takes every message."""
        found: dict[int, Place] = {}
        for place in self.books.places.values():
            there = place.created_us >= 0 and place.deleted_us < 0 and place.transactional
            if there and self.pair.identity(place.node) != self.pair.of:
                found.setdefault(place.node, place)
        return list(found.values())

    def everybody_knows(self) -> None:
        """Everybody has heard both, and has told both (I25)."""
        pair = self.pair.both
        hearers = [self.nodes[place.node] for place in self._reachable()]
        for node in (*hearers, *(pair if hearers else ())):
            assert node.engine is not None
            if pair[0].guid not in node.engine.manager._step.sessions.watch.clashes:
                self.kernel.wrong(
                    f"I25: both copies have spoken to everybody, and {node.name} does not know"
                )
        self.kernel.marks[marks.TOLD_BOTH] += bool(hearers)
