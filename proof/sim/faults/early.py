"""Operators who come just when a manager keeps something that has come too early.

What is kept behind a hole stays for milliseconds, so hardly any queue is deleted, and hardly any
stream ends, while it does. Here somebody deletes the queue that it is for, or purges the outgoing
queue that it comes from and sends something else there, which begins another stream. What the
sender says of the messages that are gone is lost: it comes before the other stream does, and what
is kept would be judged by it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from proof.sim.apps.apps import App, Lost, Program, once
from proof.sim.apps.operators import Operators
from proof.sim.apps.work import Work
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.packet_faults import PacketFaultEngine
from proof.sim.judge.books import Books, Place

SHARE = 0.5
"""Of the streams of which something is kept."""
PURGED = 0.6
"""Of these: the others delete the queue."""
THINK_US = 80


class EarlyHands:
    """See the module."""

    def __init__(
        self, kernel: Kernel, nodes: list[Node], books: Books, operators: Operators, work: Work
    ) -> None:
        self.kernel, self.nodes, self.books = kernel, nodes, books
        self.operators, self.work = operators, work
        self.rng = kernel.stream("early")
        self._seen: set[int] = set()
        self.apps: list[App] = []
        """All who came: a world waits for those that have to ask for an outcome."""

    def watch(self, node: Node, engine: PacketFaultEngine) -> None:
        """A manager has worked: does it keep anything that it did not keep before?"""
        kept = engine.manager._step.sessions.early.streams
        if not kept or not self.kernel.faulty:
            return
        stream = next(iter(kept.values()))
        if stream.stream in self._seen:
            return
        self._seen.add(stream.stream)
        if self.rng.random() >= SHARE:
            return
        if self.rng.random() < PURGED:
            self._purge(engine, stream.stream)
        else:
            self._delete(node, stream.queue)

    def _purge(self, engine: PacketFaultEngine, stream: int) -> None:
        for node in self.nodes:
            manager = node.engine.manager if node.engine is not None else None
            outgoing = manager.state.streams.get(stream) if manager is not None else None
            if outgoing is None:
                continue
            name = str(outgoing.name)
            place = self.operators.place_of(name)
            if place is not None:
                engine.unasked.add(node.guid)
                self._now(node, partial(self._begin_anew, name=name, place=place))
                return

    def _begin_anew(self, app: App, name: str, place: Place) -> Program:
        """Nothing is left of the stream at its sender; what is sent now begins another one."""
        yield from self.operators.purge_outgoing(app, name, place)
        unit = self.work.ledger.unit(app.node.index)
        try:
            yield from self.work.say(app, unit, place, name)
        except Lost:
            yield from self.work.lost(app, unit)

    def _delete(self, node: Node, number: int) -> None:
        for place in self.books.places.values():
            if place.node == node.index and place.number == number and place.deleted_us < 0:
                self._now(node, partial(self.operators.delete, place=place))
                return

    def _now(self, node: Node, program: Callable[[App], Program]) -> None:
        self.kernel.note("while it is kept", node.name)
        self.apps.append(once(node, THINK_US, program))
