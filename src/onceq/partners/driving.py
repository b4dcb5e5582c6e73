"""Work that is written as a generator of calls, carried out from a thread or from a task.

The work yields a call that is to be made, and is sent its result, or gets thrown in what was
raised. So it is written once for both: what a call returns is the result in a thread, and in a task
it may be something to await.

``enlist = in_threads(enlisting.enlist)`` in a class for threads is a method with the docstring, the
parameters and the result of that work; ``in_tasks(enlisting.enlist)`` in one for tasks is the same,
awaited.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Step = TypeVar("Step")
Form = TypeVar("Form")

Call: TypeAlias = Callable[[], Any]
Calls: TypeAlias = Generator[Call, Any, T]
_RESULT: Final = re.compile(r"^(?:Plan|Calls)\[(.*)\]$")
"""What work gives, in its annotation."""


def call(do: Callable[P, Awaitable[T] | T], /, *args: P.args, **kwargs: P.kwargs) -> Calls[T]:
    """One call, as work that returns its result."""
    result: T = yield partial(do, *args, **kwargs)
    return result


def translated(
    steps: Generator[Step, Any, T], form: Callable[[Step], Form]
) -> Generator[Form, Any, T]:
    """The same work with each step in another form."""
    try:
        step = next(steps)
        while True:
            try:
                result = yield form(step)
            except BaseException as error:  # noqa: BLE001 - the steps see every error
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


def drive(calls: Calls[T]) -> T:
    """Make each call from a thread; returns what the generator returns."""
    try:
        do = next(calls)
        while True:
            try:
                result = do()
            except BaseException as error:  # noqa: BLE001 - the work sees every error
                do = calls.throw(error)
            else:
                do = calls.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


async def drive_in_task(calls: Calls[T]) -> T:
    """Make each call from a task, and await what is to be awaited; returns the same."""
    try:
        do = next(calls)
        while True:
            try:
                result = do()
                if inspect.isawaitable(result):
                    result = await result
            except BaseException as error:  # noqa: BLE001 - the work sees every error
                do = calls.throw(error)
            else:
                do = calls.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


def in_threads(work: Callable[P, Calls[T]]) -> Callable[P, T]:
    """Work as a function, or a method, for threads."""

    def made(*args: P.args, **kwargs: P.kwargs) -> T:
        return drive(work(*args, **kwargs))

    describe(made, work, face=None)
    return made


def in_tasks(work: Callable[P, Calls[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Work as a function, or a method, for tasks."""

    async def made(*args: P.args, **kwargs: P.kwargs) -> T:
        return await drive_in_task(work(*args, **kwargs))

    describe(made, work, face=None)
    return made


def describe(
    made: Callable[..., Any], operation: Callable[..., Any], result: str = "",
    *, face: str | None = "self",
) -> None:  # fmt: skip
    """Let a method look like the operation (or the work) that it carries out.

    Args:
        result: What it returns, if not what the plan does.
        face: Name of its first parameter; None: as in the operation.
    """
    made.__name__ = made.__qualname__ = operation.__name__.removeprefix("_")
    made.__module__ = operation.__module__
    made.__doc__ = operation.__doc__
    notes = dict(operation.__annotations__)
    result = result or _RESULT.sub(r"\1", str(notes["return"]))
    made.__annotations__ = {**notes, "return": result}
    made.__wrapped__ = _Shown(operation, result, face)  # type: ignore[attr-defined]


class _Shown:
    """What ``inspect.signature`` finds on its way from a method to its operation.

    It is made when somebody looks: it takes 50 us, and the faces have a hundred methods and more.
    """

    def __init__(self, operation: Callable[..., Any], result: str, face: str | None) -> None:
        self.__wrapped__ = operation
        self._result = result
        self._face = face

    @property
    def __signature__(self) -> inspect.Signature:
        shown = inspect.signature(self.__wrapped__)
        first, *others = shown.parameters.values()
        if self._face is not None:
            first = inspect.Parameter(self._face, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return shown.replace(parameters=[first, *others], return_annotation=self._result)
