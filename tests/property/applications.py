"""The real client library over a simulated queue manager, that may die at any request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onceq.client.link import Greeting, LinkRequest
from onceq.client.threads.manager import QueueManager
from onceq.errors import LinkLost, ManagerAway, OnceqError
from onceq.service.api import admit
from tests.conformance.world import Node

Death = Callable[[Node], None]


def kill(node: Node) -> None:
    """SIGKILL: what was written is still there."""
    if not node.dead:
        node.kill()


def power_cut(node: Node) -> None:
    """Only what was synced is there."""
    if not node.dead:
        node.power_cut()


class NodeLink:
    """A link to a node of a simulated world (``onceq.client.link.Link``)."""

    def __init__(self, deaths: Deaths) -> None:
        self._deaths = deaths
        self._node = deaths.node
        self._life = deaths.node.life
        self._answers: dict[int, object] = {}
        assert self._node.engine is not None
        self._owner = self._node.engine.owner(self._answers.__setitem__)
        self._open = True
        identity = self._node.identity
        self.greeting = Greeting(identity.name, identity.guid, self._node.clock.read().wall_s)

    @property
    def alive(self) -> bool:
        """See Link."""
        return self._open and self._node.engine is not None and self._node.life == self._life

    def check_alive(self) -> bool:
        """See Link."""
        return self.alive

    def call(self, request: LinkRequest) -> object:
        """See Link. The manager may die before it hears of it, inside, or before it answers."""
        node = self._node
        before, after = self._deaths.next()
        if before is not None:
            before(node)
        if not self.alive:
            raise ManagerAway("it died before")
        number = request.ticket
        if number is None:
            number = self._submit(node, request)
            if request.behind is not None:
                request.behind.ticket = self._submit(node, request.behind)
        if request.lazy:
            return None
        node.pump()
        if after is not None:
            after(node)
        while number and number not in self._answers and self.alive and node.world.step():
            pass
        if not self.alive:
            raise LinkLost("it died meanwhile")
        result = self._answers.pop(number) if number else None
        if isinstance(result, OnceqError):
            raise result
        return result

    def _submit(self, node: Node, request: LinkRequest) -> int:
        number = next(node.numbers) if request.waits else 0
        assert node.engine is not None
        admit(request.asked, self._owner, number, clock=node.clock, random=bytes)
        node.engine.submit(request.asked)
        return number

    def close(self) -> None:
        """See Link. It is also what the manager sees when the application's process dies."""
        if self.alive:
            assert self._node.engine is not None
            self._node.engine.owner_gone(self._owner)
            self._node.pump()
        self._open = False


class Deaths:
    """When a manager dies: before or after requests, counted; and its next life."""

    def __init__(self, node: Node, plan: dict[int, tuple[Death | None, Death | None]]) -> None:
        self.node = node
        self._plan = plan
        self._calls = 0
        self.power_cuts = False
        """Whether the next life may know less than what was written."""

    def next(self) -> tuple[Death | None, Death | None]:
        """What happens before and after the next request."""
        self._calls += 1
        chosen = self._plan.get(self._calls, (None, None))
        self.power_cuts = self.power_cuts or power_cut in chosen
        return chosen

    def over(self) -> None:
        """Nobody dies any more."""
        self._plan = {}

    def connect(self) -> Any:
        """For ``QueueManager``: it is started again if it is dead."""
        if self.node.engine is None:
            self.node.start()
        return NodeLink(self)

    def client(self) -> QueueManager:
        """An application's process."""
        return QueueManager(self.connect, again=True)
