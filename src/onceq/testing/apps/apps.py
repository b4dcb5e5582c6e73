"""Simulated applications: programs written as generators, which may lose their manager any time.

A program yields what it asks for and gets the answer; the books are brought up to date inside the
answer, and what it asks for next goes out some time later, so that the steps of many programs mix.
When its manager crashes, or its connection is lost, ``Lost`` is raised where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from onceq.core.inputs.inputs import Input
from onceq.model.fixed import fixed
from onceq.testing.sim.node import Node
from onceq.testing.sim.options import MS


@fixed
class Ask:
    """Ask the manager; gets the answer, an OnceqError included.

    Attributes:
        make: Makes the input of owner and request number.
        asked: Called when it goes into the inbox.
        safe: Never lose the connection over it on purpose.
    """

    make: Callable[[int, int], Input]
    asked: Callable[[], None] | None = None
    safe: bool = False


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


class App:
    """One application: runs one program after another."""

    def __init__(self, node: Node, think_us: int, next_program: Callable[[App], Program | None]):
        self.node = node
        self.kernel = node.kernel
        self.rng = node.kernel.stream(f"application {node.index} {len(node.on_up)}")
        self.think_us = think_us
        self.session_from_us = -(1 << 62)
        self.session = b""
        self.commits = 0
        self.transactions = 0
        self._next_program = next_program
        self._program: Program | None = None
        self._wanted: Ask | None = None
        self._owner = 0
        self._request = 0
        self._waiting = 0
        self._turn = 0
        self.begun = False
        """Whether it has had its first chance of a program."""
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

    def _later(self, after_us: int, work: Callable[[], None]) -> None:
        self._turn += 1
        turn = self._turn

        def due() -> None:
            if self._turn == turn:
                work()

        self.kernel.at(self.kernel.now + after_us, due)

    def _think(self) -> int:
        return int(self.rng.expovariate(1 / self.think_us)) + MS

    def _begin(self) -> None:
        self.begun = True
        self._program = self._next_program(self)
        if self._program is not None:
            self._advance(lambda program: next(program))

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
            self._owner = engine.owner(self._answered)
        self._request += 1
        self._waiting = self._request
        self._wanted = None
        item = wanted.make(self._owner, self._request)
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
        self.session_from_us = -(1 << 62)
        self._lose()

    def _up(self) -> None:
        if self._wanted is not None:
            self._later(self._think() // 8, self._submit)
