"""One program of both faces of the client: its calls are written once, as coroutines
(``make hosts``).

Those of threads never wait in an event loop: what a call gives is there, and the coroutine is
carried out in one go.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any


async def now(made: Any) -> Any:
    """What a call gives, of either face."""
    return await made if inspect.isawaitable(made) else made


def carry_out(work: Coroutine[Any, Any, Any]) -> Any:
    """Carry out a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the face of threads has waited in a loop")


def handler(tasks: bool, body: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    """For ``consume`` and ``run``."""
    return body if tasks else lambda *given: carry_out(body(*given))


class Block:
    """``with`` or ``async with``."""

    def __init__(self, made: Any) -> None:
        self._made = made

    async def __aenter__(self) -> Any:
        made = self._made
        return await now(made.__aenter__() if hasattr(made, "__aenter__") else made.__enter__())

    async def __aexit__(self, *error: object) -> Any:
        made = self._made
        leave = made.__aexit__ if hasattr(made, "__aexit__") else made.__exit__
        return await now(leave(*error))


class Each:
    """``for`` or ``async for``."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def __aiter__(self) -> Each:
        return self

    async def __anext__(self) -> Any:
        if hasattr(self._made, "__anext__"):
            return await self._made.__anext__()
        try:
            return next(self._made)
        except StopIteration:
            raise StopAsyncIteration from None
