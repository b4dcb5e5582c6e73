"""The functions that an application gives to be called: whether one has run, and what its failures
count.

A handler of the wrong face, or with the wrong parameters, is found before it is given a message. A
function that only makes something which is to be run (a coroutine, a generator, a future, another
function) has done none of its work: its transaction never commits.

A poison policy counts how often a message failed. Where every message fails, because a service is
away or a release is broken, that would move all of them aside. So after some different messages
have failed in a row, and none was handled in between, none of them counts any more: the workers of
a loop take one message at a time between them, with pauses that grow, and each time another one, so
that a message which always fails does not hide that others can be handled. One that is handled ends
it. The pauses of errors that the application has named begin with the first.

Upholds: what a handler has not done is not committed as if it had; I17 (a failure is counted only
where the message may be at fault).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from onceq.client.stopping import log
from onceq.errors import InvalidParameter, NotCarriedOut
from onceq.model.views.queues import EVERY_FAILS


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
    called = handler
    while isinstance(called, partial):
        called = called.func
    plain = inspect.isroutine(called) or inspect.isclass(called)
    body = called if plain else type(called).__call__
    if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise NotCarriedOut(f"{_name(handler)} is a generator: to call it runs nothing of it")
    if not tasks and inspect.iscoroutinefunction(body):
        raise NotCarriedOut(
            f"{_name(handler)} is an async function, and a queue manager for threads awaits "
            "nothing; take one of onceq.aio"
        )
    try:
        # The signature of the call, and not the one of a function that it wraps.
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


def _name(handler: Any) -> str:
    return str(getattr(handler, "__qualname__", None) or type(handler).__qualname__)


def _values(given: int) -> str:
    return ("a transaction", "a transaction and what it has received",
            "a transaction, what it has received and a database")[given - 1]  # fmt: skip


DIFFERENT: Final = 3
"""Messages that fail in a row, and none is handled in between: then it is not theirs."""
PAUSES_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Waits before the next message is tried; the last one is repeated."""
SHOWN_CHARS: Final = 80
"""Of an error, in what is said to operators."""

Pauses = Mapping[type[Exception], float]
"""By kind of error: how many seconds a loop waits after it; it counts against no message."""


class Breaker:
    """Of one loop, for all its workers.

    Attributes:
        says: What operators are told while everything fails; "": something can be handled.
        behind: The place of the message that failed last while everything does.
    """

    def __init__(self, queue: str, pauses: Pauses | None = None) -> None:
        self._queue = queue
        self._pauses = dict(pauses or {})
        for kind, pause_s in self._pauses.items():
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                raise InvalidParameter(f"pauses are by classes of exceptions, not by {kind!r}")
            if isinstance(pause_s, bool) or not isinstance(pause_s, (int, float)) or pause_s < 0:
                raise InvalidParameter(f"a pause is a number of seconds, not {pause_s!r}")
        self._failed: set[int] = set()
        self._times = 0
        self._at_work: object = None
        self.says = ""
        self.behind = 0

    def enter(self, worker: object) -> bool:
        """Whether a worker may take a message: one of them at a time while everything fails."""
        if self.says and self._at_work not in (None, worker):
            return False
        self._at_work = worker if self.says else None
        return True

    def leave(self, worker: object) -> None:
        """A worker is done with what it has taken, and with the pause after it."""
        if self._at_work is worker:
            self._at_work = None

    def names(self, error: Exception) -> bool:
        """Whether the application has named a pause for an error."""
        return any(isinstance(error, kind) for kind in self._pauses)

    def failed_s(self, place: int, error: Exception) -> float | None:
        """A message has failed: how long to wait now, and it counts against none; None: it may be
        the message's fault.

        Args:
            place: Its lookup identifier.
        """
        named = [s for kind, s in self._pauses.items() if isinstance(error, kind)]
        self._failed.add(place)
        if not named and not self.says and len(self._failed) < DIFFERENT:
            return None
        pause_s = named[0] if named else PAUSES_S[min(self._times, len(PAUSES_S) - 1)]
        self._times += 0 if named else 1
        self.behind = place
        what = f"{type(error).__name__}: {error}"[:SHOWN_CHARS]
        self.says = f"{EVERY_FAILS}, the next is tried in {pause_s:g} s: {what}"
        log().warning(
            "queue=%s: every message fails (%s different ones, none handled in between); none of "
            "them is counted, and one is tried in %s s: %s: %s", self._queue, len(self._failed),
            pause_s, type(error).__name__, error,
        )  # fmt: skip
        return pause_s

    def handled(self) -> None:
        """A message was handled: what fails now may be a message's fault."""
        self._failed.clear()
        self._times = self.behind = 0
        if self.says:
            self.says = ""
            log().warning("queue=%s: messages can be handled again; going on", self._queue)
