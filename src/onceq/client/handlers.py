"""What an application gives to be called, and whether it can have run.

A handler of the wrong face, or with the wrong parameters, is found before it is given a message. A
function that only makes something which is to be run (a coroutine, a generator, a future, another
function) has done none of its work: its transaction never commits.

Upholds: what a handler has not done is not committed as if it had.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from onceq.errors import InvalidParameter, NotCarriedOut


def check_handler(handler: Any, given: int, *, tasks: bool) -> None:
    """Refuse what cannot be called so, as far as that can be seen without calling it.

    Args:
        given: With how many values it is called.
        tasks: What it gives is awaited.

    Raises:
        InvalidParameter: It cannot be called, or not with this number of values.
        NotCarriedOut: To call it runs nothing of it.
    """
    if not callable(handler):
        raise InvalidParameter(f"a handler is a function, not {handler!r}")
    body = _body_of(handler)
    if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise NotCarriedOut(f"{_name(handler)} is a generator: to call it runs nothing of it")
    if not tasks and inspect.iscoroutinefunction(body):
        raise NotCarriedOut(
            f"{_name(handler)} is an async function, and a queue manager for threads awaits "
            "nothing; take one of onceq.aio"
        )
    try:
        # As it is called, and not as what it stands for was written.
        inspect.signature(handler, follow_wrapped=False).bind(*range(given))
    except ValueError:
        return  # It does not tell.
    except TypeError as error:
        raise InvalidParameter(
            f"{_name(handler)} is called with {_values(given)}, and does not take them: {error}"
        ) from None


def check_done(result: object) -> None:
    """Raises NotCarriedOut if what a handler gave back is still to be run."""
    if inspect.iscoroutine(result):
        result.close()
    if inspect.isawaitable(result):
        raise NotCarriedOut(
            "an async function was given to a queue manager for threads, which awaits nothing, or "
            "what it has returned was not awaited; take onceq.aio, and await"
        )
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise NotCarriedOut("a handler has returned a generator, of which nothing has run")
    # Who has returned one has loaded its module; a command need not, for it loads logging.
    futures = sys.modules.get("concurrent.futures")
    if futures is not None and isinstance(result, futures.Future):
        raise NotCarriedOut(
            "a handler has returned a future: its work may go on when the transaction is over; "
            "wait for its result"
        )
    if isinstance(result, partial) or inspect.isroutine(result):
        raise NotCarriedOut("a handler has returned a function, which nobody calls")


def awaiting(work: Callable[..., object]) -> Callable[..., Awaitable[object]]:
    """The same work, which is refused if what it gives cannot be awaited: the awaits in it would
    have been forgotten."""

    async def call(*given: Any) -> object:
        result = work(*given)
        if not inspect.isawaitable(result):
            check_done(result)
            raise NotCarriedOut(
                f"{_name(work)} is not an async function, and nothing that it calls is awaited; "
                "write async def, or take a queue manager for threads"
            )
        return await result

    return call


def _body_of(handler: Any) -> object:
    """The function that runs when it is called."""
    while isinstance(handler, partial):
        handler = handler.func
    if inspect.isroutine(handler) or inspect.isclass(handler):
        return handler
    return type(handler).__call__


def _name(handler: Any) -> str:
    return str(getattr(handler, "__qualname__", None) or type(handler).__qualname__)


def _values(given: int) -> str:
    return ("a transaction", "a transaction and what it has received",
            "a transaction, what it has received and a database")[given - 1]  # fmt: skip
