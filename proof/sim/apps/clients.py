"""Simulated applications that use several queue managers at once, and that may die at any step.

Like those of ``apps.py`` their programs are generators. What is different: there is a connection to
each manager, each may be lost by itself, and what was begun on one that is lost is over. When an
application dies, ``Died`` is raised where its program stands, and all connections are cut: some
managers hear of that late. After a while it is started again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from onceq.model.requests import Request
from proof.sim.apps.apps import Ask, Lost, Runner, Sleep
from proof.sim.base.node import Node
from proof.sim.base.options import HOUR, MINUTE, MS, SECOND


class Died(BaseException):
    """The application ends here and now; its program may look after the books, and no more."""


@dataclass(eq=False, slots=True)
class Link:
    """A connection to one manager.

    Attributes:
        on_lost: Called when it is lost, before anybody else does anything.
    """

    node: Node
    owner: int = 0
    alive: bool = True
    requests: int = 0
    on_lost: list[Callable[[], None]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Over:
    """Ask over this connection."""

    link: Link
    ask: Ask


Talk = Generator[Over | Sleep, Any, Any]
"""Part of a program."""


class Client(Runner):
    """One application.

    Attributes:
        pace_us: Mean time between two steps of its program.
    """

    def __init__(
        self, node: Node, nodes: list[Node], rng: Random, deaths: float,
        next_program: Callable[[Client], Talk | None],
    ) -> None:  # fmt: skip
        super().__init__(node)
        self.rng = rng
        self.deaths = deaths
        self.pace_us = SECOND
        self._next_program = next_program
        self._links: dict[int, Link] = {}
        self._ghosts: list[Link] = []
        """Connections of an earlier life, of whose end their managers have not heard."""
        self._program: Talk | None = None
        self._wanted: Over | None = None
        self._waiting: tuple[Link, int] | None = None
        for other in nodes:
            other.on_down.append(lambda other=other: self._down(other))  # type: ignore[misc]

    @property
    def idle(self) -> bool:
        """Whether no program runs, and every manager knows of its deaths."""
        return self._program is None and not self._ghosts

    def wake(self) -> None:
        """There may be something to do for it."""
        if self._program is None:
            self._later(0, self._begin)

    # ---- for its programs ---------------------------------------------------------------

    def link(self, node: Node) -> Link:
        """The connection to a manager, made if need be; raises Lost."""
        link = self._links.get(node.index)
        if link is not None and link.alive:
            return link
        engine = node.engine
        if engine is None or engine.stopped:
            raise Lost(asked=False)
        link = self._links[node.index] = Link(node)

        def answered(request: int, result: object) -> None:
            self._answered(link, request, result)

        link.owner = engine.owner(answered)
        return link

    def ask(
        self, link: Link, request: Request, asked: Callable[[], None] | None = None
    ) -> Generator[Over, Any, Any]:
        """Ask, and get the answer; raises Lost."""
        return (yield Over(link, Ask(request, asked)))

    def over(self, link: Link, talk: Generator[Ask | Sleep, Any, Any]) -> Talk:
        """Part of a program that knows of one connection only."""
        try:
            wanted = next(talk)
            while True:
                try:
                    answer = yield Over(link, wanted) if isinstance(wanted, Ask) else wanted
                except Lost as lost:
                    wanted = talk.throw(lost)
                except Died:
                    with suppress(Lost):
                        talk.throw(Lost(asked=True))
                    raise
                else:
                    wanted = talk.send(answer)
        except StopIteration as stop:
            return stop.value

    # ---- its program --------------------------------------------------------------------

    def _begin(self) -> None:
        self._program = self._next_program(self)
        if self._program is not None:
            self._advance(next)

    def _advance(self, step: Callable[[Talk], Over | Sleep]) -> None:
        assert self._program is not None
        self._wanted = None
        try:
            wanted = step(self._program)
        except (StopIteration, Lost):
            self._program = None
            self._later(MS, self._begin)
            return
        if isinstance(wanted, Sleep):
            self._later(wanted.us, self._slept)
        else:
            self._wanted = wanted
            self._later(int(self.rng.expovariate(1 / self.pace_us)) + MS, self._submit)

    def _slept(self) -> None:
        if self._dies():
            self._die()
        else:
            self._advance(next)

    def _submit(self) -> None:
        wanted = self._wanted
        assert wanted is not None
        link, node = wanted.link, wanted.link.node
        if self._dies():
            self._die()
            return
        if not link.alive:
            self._advance(lambda program: program.throw(Lost(asked=False)))
            return
        link.requests += 1
        self._wanted, self._waiting = None, (link, link.requests)
        item = wanted.ask.number(link.owner, link.requests)
        if wanted.ask.asked is not None:
            wanted.ask.asked()
        self.kernel.note(node.name, type(item).__name__, link.owner, link.requests)
        node.run(lambda engine: engine.submit(item))
        if self._dies():
            self._die()
        elif self.kernel.faulty and self.rng.random() < self.kernel.options.lost_owner / 4:
            self._cut(link)
            self._lose(link)

    def _answered(self, link: Link, request: int, result: object) -> None:
        link.node.step("answer")
        if self._waiting == (link, request):
            self._waiting = None
            self.kernel.note("answer", link.node.name, request, type(result).__name__)
            self._advance(lambda program: program.send(result))

    # ---- losses -------------------------------------------------------------------------

    def _dies(self) -> bool:
        return self.kernel.faulty and self.rng.random() < self.deaths

    def _die(self) -> None:
        """Its connections are cut, now or later, and its memory is gone."""
        self.kernel.note("application died", self.node.name)
        program, self._program = self._program, None
        self._wanted = self._waiting = None
        assert program is not None
        links, self._links = list(self._links.values()), {}
        for link in links:
            if link.alive and self.rng.random() < 0.3:
                self._ghosts.append(link)
                after_us = self.rng.choice([SECOND, MINUTE, 10 * MINUTE])
                self.kernel.at(self.kernel.now + after_us, self._noticed, link)
            elif link.alive:
                self._cut(link)
        try:
            program.throw(Died())
        except (Died, StopIteration):
            pass
        self._later(self.rng.choice([SECOND, MINUTE, HOUR]), self._begin)

    def _noticed(self, link: Link) -> None:
        if link.alive:
            self._ghosts.remove(link)
            self._cut(link)

    def _cut(self, link: Link) -> None:
        """A manager is left, or lost; it may carry out what was asked."""
        self.kernel.note("owner lost", link.node.name, link.owner)
        link.node.run(lambda engine: engine.owner_gone(link.owner))
        self._dead(link)

    def _dead(self, link: Link) -> None:
        link.alive = False
        for tell in link.on_lost:
            tell()
        link.on_lost.clear()

    def _lose(self, link: Link) -> None:
        if self._waiting is not None and self._waiting[0] is link:
            self._waiting = None
            self._advance(lambda program: program.throw(Lost(asked=True)))

    def _down(self, node: Node) -> None:
        for ghost in [ghost for ghost in self._ghosts if ghost.node is node]:
            self._ghosts.remove(ghost)
            self._dead(ghost)
        link = self._links.get(node.index)
        if link is not None and link.alive:
            self._dead(link)
            self._lose(link)
