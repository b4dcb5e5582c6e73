"""Working off a queue, message by message, without losing any: loops for threads and for tasks.

Each message is received in a transaction of its own. It is committed when the loop asks for the
next message, or the handler has returned, and before anything else is handed out; whatever ends
the loop before that (an exception, ``break``, the death of the process or of the queue manager)
puts the message back in its place, and nothing else is ever held. What is handed out again says so
by ``abort_count``.

Where the queue manager or a database is away, ``consume`` waits, says so in the log once, and goes
on when it is back. Loops decide with ``Course``. What they do with a queue manager is written once
for threads and tasks, as generators of calls (``partners/driving.py``).

Upholds: I4 (at most one committed receive), I17 (who is lost gives everything back).
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol

from onceq.client.again import (
    TRIES,
    Manager,
    Transaction,
    Tries,
    check_done,
    gone,
    inside,
    settle,
)
from onceq.client.enlisting import leave
from onceq.client.logs import log
from onceq.client.plans import queues
from onceq.client.plans.ahead import ahead
from onceq.client.plans.selection import wait_ms
from onceq.errors import (
    InDoubt,
    InvalidParameter,
    OnceqError,
    PartnerLost,
    ReceiveTimeout,
    Retryable,
    ServiceNotAvailable,
)
from onceq.model.run import LENGTH_TYPE, Run
from onceq.packet.batch import Batch
from onceq.partners.driving import Calls, call
from onceq.partners.last_agent import is_last_agent

Wait = Callable[[float], Awaitable[bool] | bool]
"""Waits so many seconds, or until the loop is to stop; whether it is."""

LOOK_S: Final = 0.5
"""Where a stop may come, a wait for a message is asked for in slices of so many seconds."""
AWAY_S: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Waits of ``consume`` while the queue manager or a database is away; the last one is repeated."""

NOTHING: Final = Batch(Run(b"", array(LENGTH_TYPE)), array("Q"), array("I"), array("I"))


class Absence:
    """What the log was told of a queue manager or database that is away, by all workers of a loop.

    Attributes:
        said: That it is away, and not yet that it is back.
    """

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self.said = False

    def away(self, text: str, *, at_hand: bool) -> None:
        """It did not answer. What was at hand then comes again, which is said each time."""
        if at_hand:
            log().warning("queue=%s: %s; what was at hand comes again", self._queue, text)
        elif not self.said:
            log().warning("queue=%s: %s; trying again until it is back", self._queue, text)
        self.said = True

    def back(self) -> None:
        """It answers."""
        if self.said:
            self.said = False
            log().warning("queue=%s: going on", self._queue)


class Database:
    """The database connection of one worker: opened when it is first needed, and after each failure
    anew, so that nothing of what has failed is on it.

    Attributes:
        connection: What the application's function has opened; None: nothing yet.
    """

    def __init__(self, connect: Callable[[], object] | None) -> None:
        self._connect = connect
        self._opened = False
        self.connection: Any = None

    def ready(self) -> Calls[None]:
        """Have a connection, where one is wanted.

        Raises:
            PartnerLost: The database cannot be reached any more. The first time its own error
                leaves as it is: the address may be wrong.
        """
        if self._connect is None or self.connection is not None:
            return
        try:
            self.connection = yield self._connect
        except Exception as error:
            if not self._opened:
                raise
            raise PartnerLost(f"the database cannot be reached: {error}") from error
        self._opened = True

    def arguments(self, tx: Transaction) -> Calls[tuple[object, ...]]:
        """What a handler gets besides the message: what is enlisted in its transaction."""
        if self.connection is None:
            return ()
        return ((yield partial(tx.enlist, self.connection)),)

    @property
    def broken(self) -> bool:
        """Whether the connection says that it is lost."""
        raw = self._raw()
        return bool(
            getattr(raw, "broken", False) is True
            or getattr(raw, "closed", False) not in (False, 0)
            or getattr(raw, "open", True) is False
        )

    def drop(self) -> Calls[None]:
        """Close it."""
        raw, self.connection = self._raw(), None
        close = getattr(raw, "close", None)
        if callable(close):
            with contextlib.suppress(Exception):
                yield close

    def _raw(self) -> object:
        made = self.connection
        return made.connection if made is not None and is_last_agent(made) else made


class Course:
    """How one loop, or one worker of it, goes on.

    Attributes:
        batch: Messages of one transaction, at most.
        handled: Messages that were handed on and committed.
        database: The database that takes part, if one does.
    """

    def __init__(
        self, queue: str, timeout: float | None, batch: int, *, stoppable: bool,
        connect: Callable[[], object] | None = None, absence: Absence | None = None,
    ) -> None:  # fmt: skip
        if batch < 1:
            raise InvalidParameter(f"a batch has at least one message, not {batch}")
        wait_ms(timeout)  # raises InvalidParameter
        self.queue = queue
        self.batch = batch
        self.handled = 0
        self.database = Database(connect)
        self._absence = absence if absence is not None else Absence(queue)
        self._timeout = self._left = timeout
        self._stoppable = stoppable
        self._failed = 0
        self._tries: dict[int, Tries] = {}

    def slice_s(self, *, anew: bool = False) -> float | None:
        """How long to wait for a message now; or, anew, once the one at hand is done."""
        left = self._timeout if anew else self._left
        if not self._stoppable:
            return left
        return LOOK_S if left is None else min(LOOK_S, left)

    def nothing_came(self) -> bool:
        """No message came in that time: whether all of the time is over."""
        self.answered()
        waited = self.slice_s()
        if self._left is None or waited is None:
            return False
        self._left -= waited
        return self._left <= 0

    def came(self) -> None:
        """A message came: the time begins anew."""
        self._left = self._timeout

    def argument(self, taken: Batch) -> Any:
        """What a handler is called with."""
        return taken if self.batch > 1 else taken[0]

    def answered(self) -> None:
        """The queue manager is there."""
        self._failed = 0
        self._absence.back()

    def done(self, taken: Batch) -> None:
        """Messages are committed."""
        self.handled += len(taken)
        self.came()
        self._tries.pop(taken.lookup_ids[0], None)
        self.answered()

    def away_s(self, error: OnceqError, *, at_hand: bool = False) -> float:
        """The queue manager or a database is away: how long to wait before it is asked again."""
        wait = AWAY_S[min(self._failed, len(AWAY_S) - 1)]
        self._failed += 1
        self._absence.away(error.text, at_hand=at_hand)
        return wait

    def failed_s(self, error: Exception, taken: Batch, policy: object) -> float:
        """A handler or its commit has failed: how long to wait before what it was given is taken
        again.

        Raises it again unless the queue says what then becomes of a message, or nothing has
        happened and it may work now: the same one would come for ever.
        """
        wait: float | None = 0.0
        if not policy:
            wait = None
            if isinstance(error, Retryable):
                wait = self._tries.setdefault(taken.lookup_ids[0], Tries(TRIES)).wait_s()
        if wait is None:
            raise error
        log().warning(
            "queue=%s: a handler failed, what it was given goes back: %s: %s", self.queue,
            type(error).__name__, error,
        )  # fmt: skip
        return wait


class Stop(Protocol):
    """An event, of threads or of tasks."""

    def is_set(self) -> bool: ...


def consume(
    qm: Manager, course: Course, handler: Callable[..., object], stop: Stop, wait: Wait
) -> Calls[int]:
    """Call a handler for each message, or for batches; see ``QueueManager.consume``."""
    tx = qm.transaction()
    try:
        while goes_on(tx, stop):
            now, tx = tx, qm.transaction()
            attempt = Attempt(qm, course, handler, wait)
            following = partial(_following, tx, stop)
            if (yield from attempt.carry_out(now, take(now, course), following)) is None:
                break
    except BaseException:
        yield from leave(tx)
        raise
    finally:
        yield from course.database.drop()
    return course.handled


def _following(tx: Transaction, stop: Stop) -> Transaction | None:
    return None if stopped(stop) else tx


class Attempt:
    """One call of a handler, in a transaction of its own, and what follows from how it ends."""

    def __init__(
        self, qm: Manager, course: Course, handler: Callable[..., object], wait: Wait
    ) -> None:
        self._qm = qm
        self._course = course
        self._handler = handler
        self._wait = wait

    def carry_out(
        self, tx: Transaction, taking: Calls[Batch | None],
        following: Callable[[], Transaction | None] = lambda: None,
    ) -> Calls[Batch | None]:  # fmt: skip
        """Take messages and let the handler have them.

        Args:
            following: The transaction that takes what comes next, if that is to be.

        Returns:
            What was taken and committed; none: nothing was, go on; None: the time is over.
        """
        course, taken = self._course, None
        try:
            yield from course.database.ready()
            taken = yield from taking
            if taken:
                course.answered()
                yield from self._handle(tx, course.argument(taken))
                yield from finish(self._qm, tx, course, following(), self._wait)
                course.done(taken)
                if tx.pending:
                    yield from course.database.drop()  # It was cut, or may be.
            return taken
        except (ServiceNotAvailable, PartnerLost) as error:
            if isinstance(error, ServiceNotAvailable) and gone(error):
                raise
            yield from self._away(tx, error, at_hand=bool(taken))
        except Exception as error:
            if not taken or (isinstance(error, InDoubt) and error.transaction in ("", tx.id)):
                raise
            yield from self._failed(tx, error, taken)
        finally:
            yield from leave(tx)
        return NOTHING

    def _handle(self, tx: Transaction, argument: Any) -> Calls[None]:
        given = yield from self._course.database.arguments(tx)
        check_done((yield from inside(self._qm, tx, self._handler, argument, *given)))

    def _away(self, tx: Transaction, error: OnceqError, *, at_hand: bool) -> Calls[None]:
        yield from leave(tx)
        yield from self._course.database.drop()
        yield partial(self._wait, self._course.away_s(error, at_hand=at_hand))

    def _failed(self, tx: Transaction, error: Exception, taken: Batch) -> Calls[None]:
        course = self._course
        if course.database.connection is not None and course.database.broken:
            lost = PartnerLost(f"the connection to the database broke: {error}")
            yield from self._away(tx, lost, at_hand=True)
            return
        yield from leave(tx)
        yield from course.database.drop()
        wait_s = course.failed_s(error, taken, (yield from _policy(self._qm, course.queue)))
        if wait_s:
            yield partial(self._wait, wait_s)


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
