"""Transactions that are done again, as whole ones, when that is safe.

Safe means that nothing of it has happened: what ended it says so (``Retryable``), or its work has
raised, so that it was aborted. Of a commit whose answer was lost nobody knows; the queue manager is
asked for its outcome first, and if it cannot tell, ``InDoubt`` is what the caller gets: such a
transaction is never done again.

Written once for threads and for tasks, as generators of calls (``partners/driving.py``).

Upholds: I3a (a commit in doubt is not repeated blindly), I4.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from onceq.client.binding import get_ambient, set_ambient
from onceq.client.enlisting import AnyTransaction, leave
from onceq.client.handlers import check_done
from onceq.client.plans.plan import Plan
from onceq.client.plans.unit_of_work import outcome
from onceq.client.session import Session
from onceq.client.stopping import log
from onceq.errors import (
    InDoubt,
    InvalidParameter,
    OnceqError,
    Retryable,
    ServiceNotAvailable,
    TransactionLost,
)
from onceq.packet.batch import Batch
from onceq.partners.driving import Calls, call

T = TypeVar("T")

TRIES: Final = 5
"""How often a transaction is done at most, the first time included. What ends it five times in
nearly four seconds has another reason than a conflict or a restart."""
AGAIN_S: Final = (0.05, 0.2, 0.5, 1.0, 2.0)
"""Waits before a transaction is done again; the last one is repeated."""


class Transaction(AnyTransaction, Protocol):
    """A transaction, of either face."""

    @property
    def id(self) -> str: ...

    def _hold(
        self, queue: str, max: int, /, *, timeout: float | None, lookup_id: int = 0
    ) -> Awaitable[Batch] | Batch: ...

    def enlist(self, connection: Any, /) -> object: ...

    def commit(self) -> object: ...


class Manager(Protocol):
    """A queue manager, of either face."""

    @property
    def _state(self) -> Session: ...

    def _run(self, plan: Plan[T], /) -> Awaitable[T] | T: ...

    def transaction(self) -> Transaction: ...


class Tries:
    """How often something is done again, and how long it waits before.

    Attributes:
        failed: How often it has failed.
    """

    def __init__(self, tries: int) -> None:
        if isinstance(tries, bool) or not isinstance(tries, int) or tries < 1:
            raise InvalidParameter(f"a transaction is tried at least once, not {tries!r} times")
        self._tries = tries
        self.failed = 0

    def wait_s(self) -> float | None:
        """It has failed: how long to wait before it is done again; None: not again."""
        self.failed += 1
        if self.failed >= self._tries:
            return None
        return AGAIN_S[min(self.failed - 1, len(AGAIN_S) - 1)]


def run(
    qm: Manager, work: Callable[[Any], object], *, tries: int,
    also: tuple[type[Exception], ...], wait: Callable[[float], object],
) -> Calls[Any]:  # fmt: skip
    """Do a whole transaction; see ``QueueManager.run``.

    Args:
        wait: Waits that number of seconds.
    """
    left = Tries(tries)
    failed: Exception | None
    while True:
        tx, failed = qm.transaction(), None
        try:
            return (yield from _once(qm, tx, work, wait))
        except Exception as error:
            failed = error
            pause_s = left.wait_s() if safe(tx, error, also) else None
            if pause_s is None:
                if left.failed > 1:
                    error.add_note(f"onceq has done this transaction {left.failed} times in vain")
                raise
            log().warning(
                "a transaction is done again in %s s (%s. time): %s: %s", pause_s,
                left.failed + 1, type(error).__name__, error,
            )  # fmt: skip
        finally:
            yield from leave(tx, failed)
        yield partial(wait, pause_s)


def safe(tx: Transaction, error: Exception, also: tuple[type[Exception], ...] = ()) -> bool:
    """Whether a transaction that ended with an error may be done again: nothing of it happened."""
    if tx._state.decided:
        return False
    # What has doomed it is the error of a send, which may have been raised unchanged.
    doomed = tx._state.doomed is not None and isinstance(error, OnceqError)
    return doomed or isinstance(error, (Retryable, *also))


def gone(error: ServiceNotAvailable) -> bool:
    """Whether the queue manager will not be back: it was closed, or is another one."""
    return type(error) is ServiceNotAvailable


def inside(qm: Manager, tx: Transaction, work: Callable[..., object], *given: object) -> Calls[Any]:
    """Call that with a transaction and more, while that is the current one."""
    around = get_ambient()
    set_ambient((tx, qm, tx._state, around))
    try:
        return (yield partial(work, tx, *given))
    finally:
        set_ambient(around)


def settle(
    qm: Manager, tx: Transaction, doubt: InDoubt, wait: Callable[[ServiceNotAvailable], Calls[bool]]
) -> Calls[None]:
    """The answer to a commit was lost: find out what became of it. Returns if it has happened.

    Args:
        wait: Waits after the queue manager did not answer; whether to ask again.

    Raises:
        TransactionLost: It has not happened, and cannot any more.
        InDoubt: Nobody can tell.
    """
    if not doubt.transaction or doubt.transaction != tx.id:
        raise doubt
    while True:
        try:
            became = yield from call(qm._run, outcome(qm._state, doubt.transaction))
        except ServiceNotAvailable as away:
            if gone(away) or not (yield from wait(away)):
                raise doubt from None
            continue
        if tx._partners:
            tx._manager.recover_soon()  # They are to hear of it, committed or not.
        if became == "aborted":
            tx._state.lost()
            raise TransactionLost(
                f"the commit did not happen ({doubt.text}); nothing of it can happen any more"
            ) from doubt
        if became != "committed":
            raise doubt
        tx._state.over = "committed"
        return


def _once(
    qm: Manager, tx: Transaction, work: Callable[[Any], object], wait: Callable[[float], object]
) -> Calls[Any]:
    result = yield from inside(qm, tx, work)
    check_done(result)
    if tx._state.over:
        return result  # Its work has committed or aborted it by itself.
    asks = Tries(TRIES)

    def ask_again(_: ServiceNotAvailable) -> Calls[bool]:
        pause_s = asks.wait_s()
        if pause_s is not None:
            yield partial(wait, pause_s)
        return pause_s is not None

    try:
        yield tx.commit
    except InDoubt as doubt:
        yield from settle(qm, tx, doubt, ask_again)
    return result
