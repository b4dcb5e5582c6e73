"""Working off a queue, message by message, without losing any: loops for threads and for tasks.

It also keeps the database connection of each worker.

Each message is received in a transaction of its own. It is committed when the loop asks for the
next message, or the handler has returned, and before anything else is handed out; all that ends
the loop before that (an exception, ``break``, the death of the process or of the queue manager)
puts the message back in its place, and nothing else is ever held. What is handed out again says so
by ``abort_count``.

Where the queue manager or a database is away, ``consume`` waits, says so in the log once, and goes
on when it is back. Loops decide with ``ConsumerLoop``. What they do with a queue manager is written
once for threads and tasks, as generators of calls (``partners/procedures.py``).

Upholds: I4 (at most one committed receive), I17 (who is lost gives everything back).
"""

from __future__ import annotations

import contextlib
import math
from array import array
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from onceq import errors
from onceq.client.enlisting import AnyTransaction, leave
from onceq.client.handlers import Breaker, check_done
from onceq.client.plans import handles, queues
from onceq.client.plans.selection import some, wait_ms
from onceq.client.plans.sending_unit import ahead
from onceq.client.retry import TRIES, CallingManager, EitherTransaction, Tries, gone, inside, settle
from onceq.client.stopping import log
from onceq.model.requests.transactions import IDLE_S_MAX
from onceq.model.run import LENGTH_TYPE, Run
from onceq.packet.arrived import Batch
from onceq.partners.contract import is_last_agent
from onceq.partners.procedures import Calls, call

# ---- loop database -------------------------------------------------------------------------------
#
# The database connection of one worker of a loop.


AWAY_KINDS: Final = frozenset(("OperationalError", "InterfaceError"))
"""Errors of databases (PEP 249) that say nothing of what was asked: it cannot be asked now."""


def is_away(error: BaseException) -> bool:
    """Whether an error of a database, or what was made of it, says no more than that it cannot be
    asked now."""
    of = error.__cause__ if isinstance(error, errors.PartnerRefused) and error.__cause__ else error
    return bool(AWAY_KINDS & {kind.__name__ for kind in type(of).__mro__})


class Unworkable(Exception):
    """No message can be handled; its cause says why, and ends the loop."""


class WorkerDatabase:
    """The database connection of one worker: opened when it is first needed, and opened again after
    each failure, so that it carries no leftovers of the failed work.

    Attributes:
        connection: What the application's function has opened; None: nothing yet.
    """

    def __init__(self, connect: Callable[[], object] | None) -> None:
        self._connect = connect
        self._opened = False
        self.connection: Any = None

    def ready(self, tx: EitherTransaction) -> Calls[None]:
        """Have a connection, where one is wanted, that can take part.

        Raises:
            EnlistRefused: It cannot.
            PartnerLost: The database cannot be reached any more. The first connection raises the
                error of the driver itself: the address may be wrong.
        """
        if self._connect is None or self.connection is not None:
            return
        try:
            self.connection = yield self._connect
            # What can never work is found before a message is taken.
            yield tx._manager._partner_for(self.connection).check
        except Exception as error:
            if not self._opened or isinstance(error, errors.EnlistRefused):
                raise
            raise errors.PartnerLost(f"the database cannot be reached: {error}") from error
        self._opened = True

    def arguments(self, tx: EitherTransaction) -> Calls[tuple[object, ...]]:
        """Enlist the connection, and return what a handler gets besides the message.

        Raises:
            PartnerLost: The database is away.
            Unworkable: The database cannot take part, with any message.
        """
        if self.connection is None:
            return ()
        try:
            return ((yield partial(tx.enlist, self.connection)),)
        except (errors.ServiceNotAvailable, errors.PartnerLost, errors.RolledBackByTime):
            raise
        except Exception as error:
            if self.broken or is_away(error):
                raise errors.PartnerLost(f"the database cannot take part now: {error}") from error
            raise Unworkable from error

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


# ---- loops ---------------------------------------------------------------------------------------


TransactionT = TypeVar("TransactionT", bound=AnyTransaction)
Wait = Callable[[float], Awaitable[bool] | bool]
"""Waits that number of seconds, or until the loop is to stop; whether it is."""

LOOK_S: Final = 0.5
"""Where a stop may come, a wait for a message is asked for in slices of this number of seconds."""
AWAY_S: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Waits of ``consume`` while the queue manager or a database is away; the last one is repeated."""
TIMED_OUT_S: Final = 1.0
"""Wait after a transaction that was rolled back by time."""

NOTHING: Final = Batch(Run(b"", array(LENGTH_TYPE)), array("Q"), array("I"), array("I"))


class OutageLog:
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


class ConsumerLoop:
    """How one loop, or one worker of it, goes on.

    Attributes:
        batch: Messages of one transaction, at most.
        handled: Messages that were handed on and committed.
        database: The database that takes part, if one does.
        breaker: What all workers of the loop know of failures.
        idle_s: How long a handler may take; 0: as long as it needs.
    """

    def __init__(
        self, queue: str, timeout: float | None, batch: int, *, stoppable: bool,
        connect: Callable[[], object] | None = None, absence: OutageLog | None = None,
        breaker: Breaker | None = None, limit: float | None = None,
    ) -> None:  # fmt: skip
        if batch < 1:
            raise errors.InvalidParameter(f"a batch has at least one message, not {batch}")
        wait_ms(timeout)  # raises InvalidParameter
        self.queue = queue
        self.batch = batch
        self.breaker = breaker if breaker is not None else Breaker(queue)
        self.idle_s = limit_s(limit)
        self.handled = 0
        self.database = WorkerDatabase(connect)
        self._absence = absence if absence is not None else OutageLog(queue)
        self._timeout = self._left = timeout
        self._stoppable = stoppable
        self._failed = 0
        self._tries: dict[int, Tries] = {}

    def limited(self, tx: TransactionT) -> TransactionT:
        """A transaction that is not forgotten while it is worked in."""
        tx._state.idle_s = self.idle_s
        return tx

    def slice_s(self, *, fresh: bool = False) -> float | None:
        """How long to wait for a message now; or, fresh, once the one at hand is done."""
        left = self._timeout if fresh else self._left
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

    def restart(self) -> None:
        """Start the time again, because a message arrived."""
        self._left = self._timeout

    def given_back(self, taken: Batch) -> None:
        """A handler has aborted its transaction by itself: it has not handled what it was given."""
        self.restart()
        self.answered()

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
        self.breaker.handled()
        self.restart()
        self._tries.pop(taken.lookup_ids[0], None)
        self.answered()

    def away_s(self, error: errors.OnceqError, *, at_hand: bool = False) -> float:
        """The queue manager or a database is away: how long to wait before it is asked again."""
        wait = AWAY_S[min(self._failed, len(AWAY_S) - 1)]
        self._failed += 1
        self._absence.away(error.text, at_hand=at_hand)
        return wait

    def failed_s(self, error: Exception, taken: Batch, policy: int) -> float:
        """Return how long to wait before messages are taken again whose handler or commit failed.

        Args:
            policy: After how many attempts the queue moves a message; 0: it has no poison policy.

        Raises:
            Exception: That error, if nothing ends the attempts: the same message would come again
                and again.
        """
        attempt, most, wait = taken.abort_counts[0] + 1, policy, 0.0
        if not policy:
            tries = self._tries.setdefault(taken.lookup_ids[0], Tries(TRIES))
            pause_s = tries.wait_s() if isinstance(error, errors.Retryable) else None
            if pause_s is None:
                raise error
            attempt, most, wait = tries.failed, TRIES, pause_s
        what = "message" if len(taken) == 1 else f"{len(taken)} messages"
        ends = "returned to the queue" if attempt < most else "left to its poison policy"
        log().warning(
            "queue=%s: handler failed; %s %s (attempt %d of %d): %s: %s", self.queue, what, ends,
            attempt, most, type(error).__name__, error, exc_info=error,
        )  # fmt: skip
        return wait


class Stop(Protocol):
    """An event, of threads or of tasks."""

    def is_set(self) -> bool: ...


def consume(
    qm: CallingManager, course: ConsumerLoop, handler: Callable[..., object], stop: Stop, wait: Wait
) -> Calls[int]:
    """Call a handler for each message, or for batches; see ``QueueManager.consume``."""
    attempt, tx = HandlerCall(qm, course, handler, wait), course.limited(qm.transaction())
    try:
        while goes_on(tx, stop):
            now, tx = tx, course.limited(qm.transaction())
            following = partial(_following, tx, stop)
            taking = take_another(qm, now, course) if course.breaker.says else take(now, course)
            if (yield from attempt.carry_out(now, taking, following)) is None:
                break
    except BaseException:
        yield from leave(tx)
        raise
    finally:
        yield from attempt.finish()
    return course.handled


def _following(tx: EitherTransaction, stop: Stop) -> EitherTransaction | None:
    return None if stopped(stop) else tx


class HandlerCall:
    """One call of a handler, in a transaction of its own, and what follows from how it ends."""

    def __init__(
        self, qm: CallingManager, course: ConsumerLoop, handler: Callable[..., object], wait: Wait
    ) -> None:
        self._qm = qm
        self._course = course
        self._handler = handler
        self._wait = wait
        self._said = ("", 0)
        self._shown: handles.Handle | None = None

    def carry_out(
        self, tx: EitherTransaction, taking: Calls[Batch | None],
        following: Callable[[], EitherTransaction | None] = lambda: None,
    ) -> Calls[Batch | None]:  # fmt: skip
        """Take messages and let the handler have them.

        Args:
            following: The transaction that takes what comes next, if that is to be.

        Returns:
            What was taken and committed; none: nothing was, go on; None: the time is over.
        """
        course, taken = self._course, None
        if not course.breaker.enter(self):
            taking.close()
            yield partial(self._wait, LOOK_S)
            return NOTHING
        try:
            yield from course.database.ready(tx)
            taken = yield from taking
            if taken:
                course.answered()
                yield from self._handle(tx, course.argument(taken))
                yield from finish(self._qm, tx, course, following(), self._wait)
                (course.done if tx._state.decided else course.given_back)(taken)
                yield from self._say(course.breaker.says)
                if tx.pending:
                    yield from course.database.drop()  # It was cut, or may be.
            return taken
        except (errors.ServiceNotAvailable, errors.PartnerLost) as error:
            if isinstance(error, errors.ServiceNotAvailable) and gone(error):
                raise
            yield from self._away(tx, error, at_hand=bool(taken))
        except (errors.NotCarriedOut, Unworkable, errors.WrongProcess) as error:
            tx._state.blameless = True
            if isinstance(error, Unworkable) and error.__cause__ is not None:
                raise error.__cause__ from None
            raise
        except Exception as error:
            if not taken or (
                isinstance(error, errors.InDoubt) and error.transaction in ("", tx.id)
            ):
                raise
            yield from self._failed(tx, error, taken)
        finally:
            yield from leave(tx)
            course.breaker.leave(self)
        return NOTHING

    def _handle(self, tx: EitherTransaction, argument: Any) -> Calls[None]:
        given = yield from self._course.database.arguments(tx)
        check_done((yield from inside(self._qm, tx, self._handler, argument, *given)))

    def _away(
        self, tx: EitherTransaction, error: errors.OnceqError, *, at_hand: bool
    ) -> Calls[None]:
        tx._state.blameless = True
        yield from leave(tx)
        yield from self._course.database.drop()
        yield partial(self._wait, self._course.away_s(error, at_hand=at_hand))

    def _failed(self, tx: EitherTransaction, error: Exception, taken: Batch) -> Calls[None]:
        course = self._course
        if course.database.connection is not None and course.database.broken:
            lost = errors.PartnerLost(f"the connection to the database broke: {error}")
            yield from self._away(tx, lost, at_hand=True)
            return
        policy = yield from _policy(self._qm, course.queue)
        wait_s: float | None = None
        if isinstance(error, errors.RolledBackByTime):
            wait_s = TIMED_OUT_S  # That is no failure of the message.
            log().warning("queue=%s: a handler took too long: %s", course.queue, error)
        elif policy or course.breaker.names(error):
            wait_s = course.breaker.failed_s(taken.lookup_ids[0], error)
        tx._state.blameless = wait_s is not None
        yield from leave(tx, error)
        yield from course.database.drop()
        yield from self._say(course.breaker.says)
        if wait_s is None:
            wait_s = course.failed_s(error, taken, policy)
        if wait_s:
            yield partial(self._wait, wait_s)

    def finish(self) -> Calls[None]:
        """The loop is over: nothing is said of it any more."""
        yield from self._say("")
        yield from self._course.database.drop()

    def _say(self, says: str) -> Calls[None]:
        """Let operators see, beside who works on the queue, that everything fails; or not any
        more."""
        qm, shown, before = self._qm, self._shown, self._said
        on = qm._state.connections  # With a connection what was shown on it is gone.
        if before == (says, on) or not (says or before[0]):
            return
        self._said, self._shown = (says, on), None
        with contextlib.suppress(errors.OnceqError):
            if shown is not None and before[1] == on:
                yield from call(qm._run, handles.close(shown))
            if says:
                opening = handles.open_queue(qm._state, self._course.queue, note=says)
                self._shown = yield from call(qm._run, opening)


def goes_on(tx: EitherTransaction, stop: Stop | None) -> bool:
    """Whether a loop takes what comes next: it has asked for it already, or is not to stop."""
    return tx._state.ahead is not None or not stopped(stop)


def stopped(stop: Stop | None) -> bool:
    """Whether a loop is to stop."""
    return stop is not None and stop.is_set()


def take(tx: EitherTransaction, course: ConsumerLoop) -> Calls[Batch | None]:
    """Messages; none of them: look whether to stop; None: the time is over."""
    try:
        return (yield from call(tx._hold, course.queue, course.batch, timeout=course.slice_s()))
    except errors.ReceiveTimeout:
        return None if course.nothing_came() else NOTHING


def take_another(
    qm: CallingManager, tx: EitherTransaction, course: ConsumerLoop
) -> Calls[Batch | None]:
    """One message behind the one that failed last, while everything fails; where there is none, or
    nobody may look, the first one."""
    behind = course.breaker.behind
    asked = some(qm._state, course.queue, count=1, timeout=0.0, peek=True, after=behind)
    try:
        found = yield from call(qm._run, asked)
        place = found.lookup_ids[0]
        return (yield from call(tx._hold, course.queue, 1, timeout=0.0, lookup_id=place))
    except errors.ServiceNotAvailable:
        raise
    except (
        errors.ReceiveTimeout,
        errors.AccessDenied,
        errors.MessageNotFound,
        errors.MessageAlreadyReceived,
        errors.MessageLocked,
    ):
        course.breaker.behind = 0
    try:
        return (yield from call(tx._hold, course.queue, 1, timeout=course.slice_s()))
    except errors.ReceiveTimeout:
        return None if course.nothing_came() else NOTHING


def limit_s(limit: float | None) -> int:
    """How long a transaction of a loop may be left alone, in whole seconds; 0: without end.

    Raises:
        InvalidParameter: It is no number of seconds.
    """
    if limit is None:
        return 0
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0 < limit < IDLE_S_MAX:
        raise errors.InvalidParameter(
            f"limit is how many seconds a handler may take, or None, not {limit!r}"
        )
    return math.ceil(limit)


def finish(
    qm: CallingManager, tx: EitherTransaction, course: ConsumerLoop,
    following: EitherTransaction | None = None, wait: Wait | None = None,
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
            wait_s = course.slice_s(fresh=True)
            then = ahead(following._state, course.queue, count=course.batch, timeout=wait_s)
            yield partial(tx._run, tx._state.commit(ahead=then))
    except errors.InDoubt as doubt:

        def ask_again(away: errors.ServiceNotAvailable) -> Calls[bool]:
            return wait is not None and not (yield partial(wait, course.away_s(away)))

        yield from settle(qm, tx, doubt, ask_again)


def _policy(qm: CallingManager, queue: str) -> Calls[int]:
    with contextlib.suppress(errors.OnceqError):
        return (yield from call(qm._run, queues.queue(qm._state, queue))).poison_attempts
    return 0
