# Made from client/tasks/tracked.py by tools/faces.py: edit that, and run `make format`.
"""Messages that are followed to their ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from onceq.client.binding import ThreadsFace, threads
from onceq.client.plans import tracking
from onceq.client.plans.plan import Plan
from onceq.client.plans.tracking import Trail
from onceq.client.threads.running import Runner
from onceq.model.identity import MessageId
from onceq.partners.driving import describe

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
State = TypeVar("State", covariant=True)


class Tracked:
    """A message that is followed to its ends. Made by ``send_tracked`` and
    ``QueueManager.track``; costs nothing when it is forgotten."""

    def __init__(self, runner: Runner, trail: Trail) -> None:
        self._runner = runner
        self._state = trail

    def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out (for the classes of this package)."""
        return self._runner._run(plan)

    @property
    def id(self) -> MessageId:
        """Of the message; raises TransactionOver before its commit, and after an abort."""
        return self._state.id

    @property
    def destinations(self) -> tuple[str, ...]:
        """Where its copies go; () if that was not known when this was made."""
        return self._state.destinations

    outcomes = threads(tracking.outcomes)
    wait = threads(tracking.wait)


class Following(ThreadsFace[State], Protocol[State]):
    """What can send tracked messages."""

    @property
    def _manager(self) -> Runner:
        """Asks for their ends, also when this is over."""


def following(
    operation: Callable[Concatenate[S, P], Plan[Trail]],
) -> Callable[Concatenate[Following[S], P], Tracked]:
    """A send that returns a ``Tracked``."""

    def call(self: Following[S], /, *args: P.args, **kwargs: P.kwargs) -> Tracked:
        return Tracked(self._manager, self._run(operation(self._state, *args, **kwargs)))

    describe(call, operation, Tracked.__name__)
    return call
