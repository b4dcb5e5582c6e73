"""Work that is written as a generator of calls, carried out from a thread or from a task.

The work yields a call that is to be made, and is sent its result, or gets thrown in what was
raised. So it is written once for both: what a call returns is the result in a thread, and in a task
it may be something to await.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Step = TypeVar("Step")
Form = TypeVar("Form")

Call: TypeAlias = Callable[[], Any]
Calls: TypeAlias = Generator[Call, Any, T]


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
