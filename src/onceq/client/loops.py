"""Working off a queue, message by message, without losing any: loops for threads and for tasks.

Each message is received in a transaction of its own. It is committed when the loop asks for the
next message, or the handler has returned, and before anything else is handed out; whatever ends
the loop before that (an exception, ``break``, the death of the process or of the queue manager)
puts the message back in its place, and nothing else is ever held. What is handed out again says so
by ``abort_count``.

Loops decide with ``Course``. What they do with a queue manager is written once for threads and
tasks, as generators of calls (``partners/driving.py``).

Upholds: I4 (at most one committed receive), I17 (who is lost gives everything back).
"""

from __future__ import annotations

import contextlib
import logging
from array import array
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol

from onceq.client.again import Manager, Transaction, gone, inside, settle
from onceq.client.enlisting import leave
from onceq.client.plans import queues
from onceq.client.plans.ahead import ahead
from onceq.client.plans.selection import wait_ms
from onceq.errors import (
    InDoubt,
    InvalidParameter,
    OnceqError,
    ReceiveTimeout,
    ServiceNotAvailable,
)
from onceq.model.run import LENGTH_TYPE, Run
from onceq.packet.batch import Batch
from onceq.partners.driving import Calls, call

Wait = Callable[[float], Awaitable[bool] | bool]
"""Waits so many seconds, or until the loop is to stop; whether it is."""

LOOK_S: Final = 0.5
"""Where a stop may come, a wait for a message is asked for in slices of so many seconds."""
AWAY_S: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Waits of ``consume`` while the queue manager is away; the last one is repeated."""

NOTHING: Final = Batch(Run(b"", array(LENGTH_TYPE)), array("Q"), array("I"), array("I"))

log = logging.getLogger("onceq")


class Course:
    """How one loop goes on.

    Attributes:
        batch: Messages of one transaction, at most.
        handled: Messages that were handed on and committed.
    """

    def __init__(self, queue: str, timeout: float | None, batch: int, *, stoppable: bool) -> None:
        if batch < 1:
            raise InvalidParameter(f"a batch has at least one message, not {batch}")
        wait_ms(timeout)  # raises InvalidParameter
        self.queue = queue
        self.batch = batch
        self.handled = 0
        self._timeout = self._left = timeout
        self._stoppable = stoppable
        self._failed = 0

    def slice_s(self, *, anew: bool = False) -> float | None:
        """How long to wait for a message now; or, anew, once the one at hand is done."""
        left = self._timeout if anew else self._left
        if not self._stoppable:
            return left
        return LOOK_S if left is None else min(LOOK_S, left)

    def nothing_came(self) -> bool:
        """No message came in that time: whether all of the time is over."""
        waited = self.slice_s()
        if self._left is None or waited is None:
            return False
        self._left -= waited
        return self._left <= 0

    def argument(self, taken: Batch) -> Any:
        """What a handler is called with."""
        return taken if self.batch > 1 else taken[0]

    def done(self, count: int) -> None:
        """Messages are committed."""
        self.handled += count
        self._left = self._timeout
        self._failed = 0

    def away_s(self, error: OnceqError) -> float:
        """The queue manager is away: how long to wait before it is asked again."""
        wait = AWAY_S[min(self._failed, len(AWAY_S) - 1)]
        self._failed += 1
        log.warning("queue=%s: %s; trying again in %s s", self.queue, error.text, wait)
        return wait

    def failed(self, error: Exception, policy: object) -> None:
        """A handler has raised; raises it again unless the queue says what then becomes of a
        message: without that the same one would come for ever."""
        if not policy:
            raise error
        log.warning(
            "queue=%s: a handler failed, what it was given goes back: %s: %s", self.queue,
            type(error).__name__, error,
        )  # fmt: skip


class Stop(Protocol):
    """An event, of threads or of tasks."""

    def is_set(self) -> bool: ...


def consume(
    qm: Manager, course: Course, handler: Callable[..., object], stop: Stop, wait: Wait
) -> Calls[int]:
    """Call a handler for each message, or for batches; see ``QueueManager.consume``."""
    tx = qm.transaction()
    while goes_on(tx, stop):
        now, tx, taken = tx, qm.transaction(), None
        try:
            taken = yield from take(now, course)
            if taken is None:
                break
            if taken:
                yield from inside(qm, now, handler, course.argument(taken))
                yield from finish(qm, now, course, None if stopped(stop) else tx, wait)
                course.done(len(taken))
        except ServiceNotAvailable as error:
            if gone(error):
                raise
            yield partial(wait, course.away_s(error))
        except Exception as error:
            if not taken or (isinstance(error, InDoubt) and error.transaction == now.id):
                raise
            course.failed(error, (yield from _policy(qm, course.queue)))
        except BaseException:
            yield from leave(tx)
            raise
        finally:
            yield from leave(now)
    return course.handled


def goes_on(tx: Transaction, stop: Stop | None) -> bool:
    """Whether a loop takes what comes next: it has asked for it already, or is not to stop."""
    return tx._state.ahead is not None or not stopped(stop)


def stopped(stop: Stop | None) -> bool:
    """Whether a loop is to stop."""
    return stop is not None and stop.is_set()


def take(tx: Transaction, course: Course) -> Calls[Batch | None]:
    """Messages; none of them: look whether to stop; None: the time is over."""
    try:
        return (yield from call(tx._hold, course.queue, course.batch, timeout=course.slice_s()))
    except ReceiveTimeout:
        return None if course.nothing_came() else NOTHING


def finish(
    qm: Manager, tx: Transaction, course: Course, following: Transaction | None = None,
    wait: Wait | None = None,
) -> Calls[None]:  # fmt: skip
    """Commit, unless that is done; if the answer was lost, find out what became of it.

    Args:
        following: The transaction that takes what comes next: it is asked for in the same round
            trip, where that can be.
        wait: Ask until the manager is back, or the loop is to stop; None: ask once.
    """
    if tx._state.over:
        return
    try:
        if following is None or tx._partners:
            yield tx.commit
        else:
            following._on.link = tx._on.link
            wait_s = course.slice_s(anew=True)
            then = ahead(following._state, course.queue, count=course.batch, timeout=wait_s)
            yield partial(tx._run, tx._state.commit(ahead=then))
    except InDoubt as doubt:

        def ask_again(away: ServiceNotAvailable) -> Calls[bool]:
            return wait is not None and not (yield partial(wait, course.away_s(away)))

        yield from settle(qm, tx, doubt, ask_again)


def _policy(qm: Manager, queue: str) -> Calls[object]:
    with contextlib.suppress(OnceqError):
        return (yield from call(qm._run, queues.queue(qm._state, queue))).poison_attempts
    return False
