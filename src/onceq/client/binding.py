"""One operation, two methods: for threads and for tasks.

An operation (``client/plans``) is a generator about something: a session, a unit of work, an open
queue. The objects that applications hold, its faces, have that as ``_state``, and carry plans out
with ``run``. ``purge = threads(queues.purge)`` in a class for threads is a method with the
docstring, the parameters and the result of the operation; ``tasks(queues.purge)`` in a class for
tasks is the same, awaited.

What is more than one plan, such as a commit with partners, is a generator of calls on a face
(``partners/driving.py``), and becomes a function or method by ``in_threads`` and ``in_tasks``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from onceq.client.plans.plan import Plan
from onceq.partners.driving import Calls, drive, drive_in_task

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
State = TypeVar("State", covariant=True)
_RESULT: Final = re.compile(r"^(?:Plan|Calls)\[(.*)\]$")
"""What an operation gives, in its annotation."""


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


def in_threads(work: Callable[P, Calls[T]]) -> Callable[P, T]:
    """Work on a face as a function, or a method, for threads."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return drive(work(*args, **kwargs))

    describe(call, work, face=None)
    return call


def in_tasks(work: Callable[P, Calls[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Work on a face as a function, or a method, for tasks."""

    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await drive_in_task(work(*args, **kwargs))

    describe(call, work, face=None)
    return call


def describe(
    call: Callable[..., Any], operation: Callable[..., Any], result: str = "",
    *, face: str | None = "self",
) -> None:  # fmt: skip
    """Let a method look like the operation that it carries out.

    Args:
        result: What it returns, if not what the plan does.
        face: Name of its first parameter; None: as in the operation.
    """
    call.__name__ = call.__qualname__ = operation.__name__
    call.__module__ = operation.__module__
    call.__doc__ = operation.__doc__
    shown = inspect.signature(operation)
    result = result or _RESULT.sub(r"\1", str(shown.return_annotation))
    notes = {name: note for name, note in operation.__annotations__.items() if name != "return"}
    call.__annotations__ = {**notes, "return": result}
    first, *others = shown.parameters.values()
    if face is not None:
        first = inspect.Parameter(face, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = shown.replace(parameters=[first, *others], return_annotation=result)
    call.__signature__ = signature  # type: ignore[attr-defined]
