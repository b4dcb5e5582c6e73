"""Operators who come just when a manager keeps something that has come too early.

What is kept behind a hole stays for milliseconds, so hardly any queue is deleted, and hardly any
stream ends, while it does. Here somebody deletes the queue that it is for, or purges the outgoing
queue that it comes from, so that the next message begins another stream.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from onceq.service.engine import Engine
from onceq.testing.apps.apps import App, Program, once
from onceq.testing.apps.operators import Operators
from onceq.testing.judge.books import Books
from onceq.testing.sim.kernel import Kernel
from onceq.testing.sim.node import Node

SHARE = 0.3
"""Of the times at which something is seen to be kept."""
PURGED = 0.7
"""Of these: the others delete the queue."""
THINK_US = 80


class EarlyHands:
    """See the module."""

    def __init__(
        self, kernel: Kernel, nodes: list[Node], books: Books, operators: Operators
    ) -> None:  # fmt: skip
        self.kernel, self.nodes, self.books, self.operators = kernel, nodes, books, operators
        self.rng = kernel.stream("early")

    def look(self, node: Node, engine: Engine) -> None:
        """Something has come to a manager: is anything kept there?"""
        kept = engine.manager._step.sessions.early.streams
        if not kept or not self.kernel.faulty or self.rng.random() >= SHARE:
            return
        stream = next(iter(kept.values()))
        if self.rng.random() < PURGED:
            self._purge(stream.stream)
        else:
            self._delete(node, stream.queue)

    def _purge(self, stream: int) -> None:
        for node in self.nodes:
            manager = node.engine.manager if node.engine is not None else None
            outgoing = manager.state.streams.get(stream) if manager is not None else None
            if outgoing is None:
                continue
            name = str(outgoing.name)
            place = self.operators.place_of(name)
            if place is not None:
                self._now(node, partial(self.operators.purge_outgoing, name=name, place=place))
                return

    def _delete(self, node: Node, number: int) -> None:
        for place in self.books.places.values():
            if place.node == node.index and place.number == number and place.deleted_us < 0:
                self._now(node, partial(self.operators.delete, place=place))
                return

    def _now(self, node: Node, program: Callable[[App], Program]) -> None:
        self.kernel.note("while it is kept", node.name)
        once(node, THINK_US, program)
