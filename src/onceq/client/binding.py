"""One operation, two methods: for threads and for tasks.

An operation (``client/plans``) is a generator about something: a session, a unit of work, an open
queue. The objects that applications hold, its faces, have that as ``_state``, and carry plans out
with ``run``. ``purge = threads(queues.purge)`` in a class for threads is a method with the
docstring, the parameters and the result of the operation; ``tasks(queues.purge)`` in a class for
tasks is the same, awaited.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from onceq.client.plans.plan import Plan

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
State = TypeVar("State", covariant=True)


class ThreadsFace(Protocol[State]):
    """An object for threads."""

    @property
    def _state(self) -> State:
        """What its operations are about."""

    def run(self, plan: Plan[T], /) -> T:
        """Carry a plan out."""


class TasksFace(Protocol[State]):
    """An object for tasks."""

    @property
    def _state(self) -> State:
        """What its operations are about."""

    async def run(self, plan: Plan[T], /) -> T:
        """Carry a plan out."""


def threads(
    operation: Callable[Concatenate[S, P], Plan[T]],
) -> Callable[Concatenate[ThreadsFace[S], P], T]:
    """An operation as a method of a class for threads."""

    def call(self: ThreadsFace[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(operation(self._state, *args, **kwargs))

    describe(call, operation)
    return call


def tasks(
    operation: Callable[Concatenate[S, P], Plan[T]],
) -> Callable[Concatenate[TasksFace[S], P], Coroutine[Any, Any, T]]:
    """An operation as a method of a class for tasks."""

    async def call(self: TasksFace[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run(operation(self._state, *args, **kwargs))

    describe(call, operation)
    return call


def describe(call: Callable[..., Any], operation: Callable[..., Any], result: str = "") -> None:
    """Let a method look like the operation that it carries out.

    Args:
        result: What it returns, if not what the plan does.
    """
    call.__name__ = call.__qualname__ = operation.__name__
    call.__module__ = operation.__module__
    call.__doc__ = operation.__doc__
    shown = inspect.signature(operation)
    result = result or str(shown.return_annotation).removeprefix("Plan[").removesuffix("]")
    notes = {name: note for name, note in operation.__annotations__.items() if name != "return"}
    call.__annotations__ = {**notes, "return": result}
    face = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    _, *others = shown.parameters.values()
    signature = shown.replace(parameters=[face, *others], return_annotation=result)
    call.__signature__ = signature  # type: ignore[attr-defined]
