"""Simulated applications: programs written as generators, which may lose their manager any time.

A program yields what it asks for and gets the answer; the books are brought up to date inside the
answer, and what it asks for next goes out some time later, so that the steps of many programs mix.
When its manager crashes, or its connection is lost, ``Lost`` is raised where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

from onceq.errors import OnceqError
from onceq.model.record import Record
from onceq.model.requests import Look, Request
from onceq.model.rights import Actor
from onceq.model.views.view import Page
from onceq.service.api import Inner
from proof.sim.base.node import Node
from proof.sim.base.options import MS


class Ask(Record, frozen=True):
    """Ask the manager; gets the answer, an OnceqError included.

    Attributes:
        request: What to ask; called when it goes into the inbox, if it follows from the time then.
        asked: Called when it goes into the inbox.
        safe: Never lose the connection over it on purpose.
    """

    request: Request | Inner | Callable[[], Request]
    asked: Callable[[], None] | None = None
    safe: bool = False

    def number(self, owner: int, number: int) -> Request | Inner:
        """Return the request of an owner, with its number. A copy: it may be asked again while the
        first is still in an inbox."""
        request = self.request() if callable(self.request) else self.request
        return replace(request, owner=owner, request=number)


@dataclass(frozen=True, slots=True)
class Sleep:
    """Do nothing for a while."""

    us: int


class Lost(Exception):
    """The manager is gone, or the connection to it. ``asked``: something was under way."""

    def __init__(self, *, asked: bool) -> None:
        super().__init__(asked)
        self.asked = asked


Program = Generator[Ask | Sleep, Any, None]


def look_at_all(what: str, name: str = "", *, safe: bool = False) -> Generator[Ask, Any, Any]:
    """All pages of a list; or the error that says why there is none."""
    found: list[Any] = []
    after = ""
    while True:
        page = yield Ask(Look(what, name, after), safe=safe)
        if isinstance(page, OnceqError):
            return page
        assert isinstance(page, Page)
        found += page.views
        after = page.next
        if not after:
            return found


class Runner:
    """Runs one program after another, each a step at a time."""

    def __init__(self, node: Node) -> None:
        """Nothing runs yet."""
        self.node = node
        self.kernel = node.kernel
        self._transactions = 0
        self._turn = 0

    def number(self) -> int:
        """A number for the next transaction."""
        self._transactions += 1
        return self._transactions

    def _later(self, after_us: int, work: Callable[[], None]) -> None:
        """Do that next; what was planned before is off."""
        self._turn += 1
        turn = self._turn

        def due() -> None:
            if self._turn == turn:
                work()

        self.kernel.at(self.kernel.now + after_us, due)


class App(Runner):
    """One application of one manager."""

    def __init__(self, node: Node, think_us: int, next_program: Callable[[App], Program | None]):
        super().__init__(node)
        self.rng = node.kernel.stream(f"application {node.index} {len(node.on_up)}")
        self.think_us = think_us
        self.session_from_us = -(1 << 62)
        self.session = b""
        self.commits = 0
        self._next_program = next_program
        self._program: Program | None = None
        self._wanted: Ask | None = None
        self._owner = 0
        self.actor: Actor | None = None
        """Who it is; None: the account of its manager."""
        self._request = 0
        self._waiting = 0
        self.begun = False
        """Whether it has had its first chance of a program."""
        self.ends: list[Callable[[], None]] = []
        """Called when its connection is lost: what is over with it."""
        node.on_up.append(self._up)
        node.on_down.append(self._down)

    @property
    def idle(self) -> bool:
        """Whether no program runs."""
        return self._program is None

    def start(self, after_us: int) -> None:
        """Begin with the first program."""
        self._later(after_us, self._begin)

    # ---- the program --------------------------------------------------------------------

    def _think(self) -> int:
        return int(self.rng.expovariate(1 / self.think_us)) + MS

    def _begin(self) -> None:
        self.begun = True
        self._program = self._next_program(self)
        if self._program is not None:
            self._advance(next)

    def _advance(self, step: Callable[[Program], Ask | Sleep]) -> None:
        """Let the program go on until it wants something."""
        assert self._program is not None
        self._wanted = None
        try:
            wanted = step(self._program)
        except (StopIteration, Lost):
            self._program = None
            self._later(self._think(), self._begin)
            return
        if isinstance(wanted, Sleep):
            self._later(wanted.us, lambda: self._advance(next))
        else:
            self._wanted = wanted
            self._later(self._think() // 8, self._submit)

    # ---- its manager --------------------------------------------------------------------

    def _submit(self) -> None:
        wanted, engine = self._wanted, self.node.engine
        if wanted is None or engine is None or engine.stopped:
            return
        if not self._owner:
            self._owner = engine.owner(self._answered, actor=self.actor)
        self._request += 1
        self._waiting = self._request
        self._wanted = None
        item = wanted.number(self._owner, self._request)
        if wanted.asked is not None:
            wanted.asked()
        self.kernel.note(self.node.name, type(item).__name__, self._owner, self._request)
        self.node.run(lambda e: e.submit(item))
        lost_owner = self.kernel.options.lost_owner if self.kernel.faulty else 0
        if self._waiting and not wanted.safe and self.rng.random() < lost_owner:
            self.cut()

    def cut(self) -> None:
        """The connection to the manager is lost; it may carry out what was asked."""
        owner, self._owner = self._owner, 0
        self.kernel.note("owner lost", self.node.name, owner)
        self.node.run(lambda engine: engine.owner_gone(owner))
        self._over()
        self._lose()

    def _answered(self, request: int, result: object) -> None:
        self.node.step("answer")
        if request == self._waiting and self._program is not None:
            self._waiting = 0
            self.kernel.note("answer", self.node.name, request, type(result).__name__)
            self._advance(lambda program: program.send(result))

    def _lose(self) -> None:
        asked, self._waiting = bool(self._waiting), 0
        if self._program is not None:
            self._advance(lambda program: program.throw(Lost(asked=asked)))

    def _down(self) -> None:
        self._owner = 0
        self._over()
        self.session_from_us = -(1 << 62)
        self._lose()

    def _over(self) -> None:
        ends, self.ends = self.ends, []
        for end in ends:
            end()

    def _up(self) -> None:
        if self._wanted is not None:
            self._later(self._think() // 8, self._submit)


def once(node: Node, think_us: int, program: Callable[[App], Program], after_us: int = 0) -> App:
    """An application that runs one program and no other."""
    todo = [program]
    app = App(node, think_us, lambda app: todo.pop()(app) if todo else None)
    app.start(after_us)
    return app
