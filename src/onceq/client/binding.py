"""One operation, two methods: for threads and for tasks.

An operation (``client/plans``) is a generator about something: a session, a unit of work, an open
queue. The objects that applications hold, its faces, have that as ``_state``, and carry plans out
with ``_run``. ``purge = threads(queues.purge)`` in a class for threads is a method with the
docstring, the parameters and the result of the operation; ``tasks(queues.purge)`` in a class for
tasks is the same, awaited.

What is more than one plan, such as a commit with partners, is a generator of calls on a face, and
becomes a function or method by ``in_threads`` and ``in_tasks`` of ``partners/driving.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from onceq.client.plans.plan import Plan
from onceq.partners.driving import describe

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
State = TypeVar("State", covariant=True)


class ThreadsFace(Protocol[State]):
    """An object for threads."""

    @property
    def _state(self) -> State:
        """What its operations are about."""

    def _run(self, plan: Plan[T], /) -> T:
        """Carry a plan out."""


class TasksFace(Protocol[State]):
    """An object for tasks."""

    @property
    def _state(self) -> State:
        """What its operations are about."""

    async def _run(self, plan: Plan[T], /) -> T:
        """Carry a plan out."""


def threads(
    operation: Callable[Concatenate[S, P], Plan[T]],
) -> Callable[Concatenate[ThreadsFace[S], P], T]:
    """An operation as a method of a class for threads."""

    def call(self: ThreadsFace[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(operation(self._state, *args, **kwargs))

    describe(call, operation)
    return call


def tasks(
    operation: Callable[Concatenate[S, P], Plan[T]],
) -> Callable[Concatenate[TasksFace[S], P], Coroutine[Any, Any, T]]:
    """An operation as a method of a class for tasks."""

    async def call(self: TasksFace[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(operation(self._state, *args, **kwargs))

    describe(call, operation)
    return call
