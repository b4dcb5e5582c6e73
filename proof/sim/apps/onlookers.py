"""Operators of simulated managers that ask who works on a queue.

Some worlds have them, one at each manager; they change nothing. Left out are worlds whose managers
are put back or copied, and those in which somebody has to have rights: there the manager itself
ends connections, when nobody outside can say.

``judge/consumers.py`` says what is demanded of the answers.
"""

from __future__ import annotations

import os
from typing import Final

from onceq.errors import OnceqError
from onceq.model.requests import Look
from onceq.model.views import looks as looks
from proof.sim.apps.apps import App, Ask, Lost, Program
from proof.sim.apps.work import Work
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.packet_faults import PacketFaultEngine
from proof.sim.judge.books import Place
from proof.sim.judge.consumers import Consumers, Sight

EVERYWHERE: Final = "ONCEQ_SIM_CONSUMERS"
"""Environment variable, for the processes of a batch: every world has such operators."""
SHARE = 1.0 if os.environ.get(EVERYWHERE) else 0.115
"""Of all worlds; 1 with ``make sim ARGS=--consumers``."""
FROM: Final = 0.915
"""Where the draw of these worlds begins, between 0 and 1: so that no seed that was kept before
there were any (``tests/simulation/seeds.txt``) is among them, and all of those keep their stories.
"""
LOOKS_MIN: Final = 80
"""Of each such operator, or four times as many as the world has transactions: until it ends."""
OFTEN: Final = 2
"""Times as often as applications ask: they hold messages for moments."""
BUSY: Final = 0.7
"""Of looks: at a queue at which somebody certainly works, if there is one."""


def everywhere() -> None:
    """Let every world of this process, and of those that it starts, have such operators."""
    global SHARE
    SHARE = 1.0
    os.environ[EVERYWHERE] = "1"


class Onlookers:
    """Programs of such operators."""

    def __init__(self, kernel: Kernel, work: Work, *, fit: bool) -> None:
        """Draw whether a world has them.

        Args:
            fit: Whether it may: no manager is put back or copied, and nobody needs a right.
        """
        self.kernel, self.work = kernel, work
        self.books = Consumers(kernel)
        self.active = fit and (kernel.fresh("who works on queues").random() - FROM) % 1 < SHARE
        self.rng = kernel.fresh("looking on")
        self.think_us = max(kernel.options.think_us // OFTEN, 1)
        self.left = max(kernel.options.transactions * 4, LOOKS_MIN) * kernel.options.managers

    def attach(self, node: Node, engine: PacketFaultEngine) -> None:
        """A process of a manager begins."""
        if self.active:
            self.books.begins(node)
            engine.witness = self.books

    def next(self, app: App) -> Program | None:
        """The next look; None: nothing more to do now."""
        if self.left <= 0 or not self.kernel.faulty:
            return None
        places = [
            p for p in self.work.books.places.values()
            if p.node == app.node.index and p.created_us >= 0 > p.deleted_us and p.number
        ]  # fmt: skip
        if not places:
            return None
        self.left -= 1
        busy = [p for p in places if self.books.looking(app.node, p).busy]
        if busy and self.rng.random() < BUSY:
            places = busy
        return self.ask(app, self.rng.choice(places))

    def ask(self, app: App, place: Place) -> Program:
        """Ask who works on a queue."""
        asked: list[Sight] = []

        def going() -> None:
            asked.append(self.books.looking(app.node, place))

        try:
            views = yield Ask(Look(looks.CONSUMERS.what, place.name), going)
        except Lost:
            return
        if not isinstance(views, OnceqError):
            self.books.check(app.node, place, asked[-1], views)
        elif place.deleted_us < 0:
            self.kernel.wrong(f"I26: who works on {place} is not told: {views!r}")
