"""Messages that are followed to their ends."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from onceq.client.binding import TasksFace, tasks
from onceq.client.plans import tracking
from onceq.client.plans.plan import Plan
from onceq.client.plans.tracking import Trail
from onceq.client.tasks.running import Runner
from onceq.model.identity import MessageId
from onceq.partners.driving import describe

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
State = TypeVar("State", covariant=True)


class AsyncTracked:
    """A message that is followed to its ends. Made by ``send_tracked`` and
    ``AsyncQueueManager.track``; costs nothing when it is forgotten."""

    def __init__(self, runner: Runner, trail: Trail) -> None:
        self._runner = runner
        self._state = trail

    async def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out (for the classes of this package)."""
        return await self._runner._run(plan)

    @property
    def id(self) -> MessageId:
        """Of the message; raises TransactionOver before its commit, and after an abort."""
        return self._state.id

    @property
    def destinations(self) -> tuple[str, ...]:
        """Where its copies go; () if that was not known when this was made."""
        return self._state.destinations

    outcomes = tasks(tracking.outcomes)
    wait = tasks(tracking.wait)


class Following(TasksFace[State], Protocol[State]):
    """What can send tracked messages."""

    @property
    def _manager(self) -> Runner:
        """Asks for their ends, also when this is over."""


def following(
    operation: Callable[Concatenate[S, P], Plan[Trail]],
) -> Callable[Concatenate[Following[S], P], Coroutine[Any, Any, AsyncTracked]]:
    """A send that returns an ``AsyncTracked``."""

    async def call(self: Following[S], /, *args: P.args, **kwargs: P.kwargs) -> AsyncTracked:
        return AsyncTracked(self._manager, await self._run(operation(self._state, *args, **kwargs)))

    describe(call, operation, AsyncTracked.__name__)
    return call
