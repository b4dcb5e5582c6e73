"""Several workers on one queue: without an order, or keeping the order of messages with one key.

Without an order each worker is a loop of its own. With one they share a ``KeyOrder``: a worker asks
for its turn, and is given a place, or is to look at the queue, or waits until one of the others has
finished. How a worker waits is of threads or of tasks; what it does is written once.

Messages are looked at without being taken, and remembered by their places. The next one to be taken
is the first whose key no worker has at hand, so that two messages of a key are never at work at
once, and the later one not before the earlier one is gone from its place. So nothing is held but
what is being handled: the end of the workers counts against no other message.

Upholds: I4, I5 (order of a key), I24 (bounded memory).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Final, Literal, Protocol, TypedDict

from onceq import errors
from onceq.client.handlers import Breaker, Pauses
from onceq.client.loops import ConsumerLoop, HandlerCall, OutageLog, Stop, Wait
from onceq.client.plans.selection import some
from onceq.client.retry import CallingManager, EitherTransaction, gone
from onceq.client.stopping import log
from onceq.model.message import Message
from onceq.model.record import Record
from onceq.packet.arrived import Batch
from onceq.partners.procedures import Calls, call

AHEAD: Final = 256
"""Messages that are looked at ahead: where one key has them all, one worker is busy."""

Key = Callable[[Message], Hashable]
"""What messages have in common that are to stay in their order."""


def of_stream(message: Message) -> Hashable:
    """Messages from one queue manager come in one stream (SND-11)."""
    return message.id.source


class KeyOrder:
    """The messages of a queue that were looked at, and those that are at work.

    Attributes:
        after: The place behind which nothing was looked at yet.
    """

    def __init__(self, key: Key) -> None:
        self._key = key
        self._keys: dict[int, Hashable] = {}
        self._busy: dict[int, Hashable] = {}
        self.after = 0

    @property
    def empty(self) -> bool:
        """Whether nothing is known that is still to be done."""
        return not self._keys

    @property
    def full(self) -> bool:
        """Whether there is no room to look at more."""
        return len(self._keys) >= AHEAD

    @property
    def at_work(self) -> int:
        """How many are at work."""
        return len(self._busy)

    def add(self, messages: Iterable[Message]) -> None:
        """Add messages of the queue, from ``after`` on."""
        earlier = False
        for message in messages:
            place = message.lookup_id
            if place not in self._keys:
                earlier = earlier or any(place < known for known in self._last())
                self._keys[place] = self._key(message)
            self.after = max(self.after, place)
        if earlier:  # It came back, or has a higher priority.
            self._keys = dict(sorted(self._keys.items()))

    def _last(self) -> list[int]:
        return [next(reversed(self._keys))] if self._keys else []

    def from_the_front(self) -> None:
        """Look at all of the queue again: something may have come back to its place."""
        self.after = 0

    def next(self) -> int | None:
        """The place of the message that can be worked on now; from here on it is at work."""
        taken = set(self._busy.values())
        for place, key in self._keys.items():
            if place in self._busy:
                continue
            if key not in taken:
                self._busy[place] = key
                return place
            # What stands behind it with the same key waits, too.
        return None

    def done(self, place: int, *, gone: bool) -> None:
        """It is not at work any more.

        Args:
            gone: It is not in its place any more; else it is the next of its key once more.
        """
        del self._busy[place]
        if gone:
            del self._keys[place]


Order = Literal["stream"] | Callable[[Message], Hashable] | None
"""By what several workers keep an order: by the stream of a message, by a key, or by nothing."""
WORKERS_MAX: Final = 1_000
"""Workers of one loop. Each has a transaction open; a queue manager has room for some thousands."""
LOOK: Final = -1
"""In place of a place: look at the queue."""
OVER: Final = -2
"""Nothing more is to be done."""
WAIT: Final = -3
"""One of the others has to finish first."""
LOOK_AGAIN_S: Final = 5.0
"""After how many seconds a queue is looked at from its front again: what somebody else had taken
may be back, and what has a higher priority stands before."""
LOCKED_S: Final = 0.25
"""Pause before a message is tried again that is locked in its place."""


class ConsumerOptions(Record, frozen=True):
    """What was asked of ``consume``; raises InvalidParameter where it makes no sense."""

    queue: str
    timeout: float | None = None
    concurrency: int = 1
    batch: int = 1
    order: Order = None
    database: Callable[[], object] | None = None
    limit: float | None = None
    pauses: Pauses | None = None

    def __post_init__(self) -> None:
        for name in ("concurrency", "batch"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise errors.InvalidParameter(f"{name} is a number from 1 on, not {value!r}")
        if self.concurrency > WORKERS_MAX:
            raise errors.InvalidParameter(f"concurrency is at most {WORKERS_MAX}")
        if self.order is not None and self.order != "stream" and not callable(self.order):
            raise errors.InvalidParameter(
                'order is "stream", or a function that gives the key of a message, or None'
            )
        if self.key is not None and self.batch > 1:
            raise errors.InvalidParameter(
                "several workers that keep an order take one message each: leave batch out, or "
                "take one worker, which keeps the order of the whole queue"
            )
        made = self.database
        if made is not None and (not callable(made) or hasattr(made, "execute")):
            raise errors.InvalidParameter(
                "database is a function that opens a connection for each worker, such as "
                'lambda: psycopg.connect("dbname=shop")'
            )
        self.course(OutageLog(self.queue), self.timeout)  # raises InvalidParameter

    @property
    def given(self) -> int:
        """With how many values its handler is called."""
        return 3 if self.database is not None else 2

    @property
    def key(self) -> Key | None:
        """What several workers keep the order by; None: they need not, or it is one worker."""
        if self.concurrency == 1 or self.order is None:
            return None
        return self.order if callable(self.order) else of_stream

    def course(
        self, absence: OutageLog, timeout: float | None, breaker: Breaker | None = None
    ) -> ConsumerLoop:  # fmt: skip
        """For a worker."""
        if breaker is None:
            breaker = Breaker(self.queue, self.pauses)
        return ConsumerLoop(
            self.queue, timeout, self.batch, stoppable=True, connect=self.database,
            absence=absence, breaker=breaker, limit=self.limit,
        )  # fmt: skip


class Shared(TypedDict, total=False):
    """What every consumer may ask for, with any kind of handler; see ``QueueManager.consume``."""

    concurrency: int
    order: Order
    limit: float | None
    pauses: Pauses | None


class Options(Shared, total=False):
    """What a decorated consumer may ask for; see ``QueueManager.consume``."""

    batch: int
    database: Callable[[], object] | None


class Turns:
    """Who does what, as a decision alone; the faces put a lock or a loop around it."""

    def __init__(self, wish: ConsumerOptions, stop: Stop, clock: Callable[[], float]) -> None:
        assert wish.key is not None, "there is an order to keep"
        self._known = KeyOrder(wish.key)
        self._course = wish.course(OutageLog(wish.queue), wish.timeout)
        self._limit = wish.concurrency
        self._stop = stop
        self._clock = clock
        self._looking = False
        self._resting = False
        self._front_at = clock() + LOOK_AGAIN_S

    @property
    def after(self) -> int:
        """The place behind which to look."""
        return self._known.after

    @property
    def slice_s(self) -> float | None:
        """How long to wait there for a message."""
        return self._course.slice_s()

    def now(self) -> int:
        """What a worker does: a place, LOOK, OVER or WAIT."""
        if self._stop.is_set():
            return OVER
        place = self._known.next() if self._known.at_work < self._limit else None
        if place is not None:
            return place
        if self._resting and self._known.empty:
            return OVER
        if self._looking or self._resting or self._known.full:
            return WAIT
        self._looking = True
        if self._clock() >= self._front_at:
            self._front_at = self._clock() + LOOK_AGAIN_S
            self._known.from_the_front()
        return LOOK

    def looked(self, found: Batch | None) -> None:
        """Somebody has looked; None: there was nothing new, or no answer."""
        self._looking = False
        if found is not None:
            self._course.restart()
            self._known.add(found)

    def nothing_came(self) -> None:
        """Nothing came while somebody looked. When all of the time is over, what is at work is
        finished, and then the queue is looked at once more."""
        self._looking = False
        if self._known.empty:
            self._known.from_the_front()
        self._resting = self._course.nothing_came()

    def done(self, place: int, *, gone: bool) -> None:
        """A worker has finished; see ``KeyOrder.done``."""
        self._known.done(place, gone=gone)
        self._resting = False


class Failing:
    """Workers of which one has failed are to end, as if the application had said so.

    Attributes:
        failure: What one of them has raised, the first one.
    """

    def __init__(self, stop: Stop) -> None:
        self._told = stop
        self.failure: BaseException | None = None

    def is_set(self) -> bool:
        """Whether they end."""
        return self.failure is not None or self._told.is_set()

    def fail(self, error: BaseException) -> None:
        """One has failed: the others finish what they have at hand."""
        if self.failure is None:
            self.failure = error
        else:
            log().error("another worker failed, too: %s: %s", type(error).__name__, error)


class Workers(Protocol):
    """Workers of either face."""

    def turn(self) -> object:
        """What to do, as ``Turns.now``, but never WAIT: it waits."""

    def tell(self, what: Callable[[], None]) -> None:
        """Change the turns, and let the others know."""


def in_order(
    qm: CallingManager, course: ConsumerLoop, handler: Callable[..., object], turns: Turns,
    workers: Workers, wait: Wait,
) -> Calls[int]:  # fmt: skip
    """One of several workers; returns how many messages it has handled."""
    attempt = HandlerCall(qm, course, handler, wait)
    try:
        while True:
            turn = yield workers.turn
            if turn == OVER:
                return course.handled
            if turn == LOOK:
                yield from _read_on(qm, course, turns, workers, wait)
                continue
            left = False
            try:
                left = yield from _work(qm, course, attempt, turn, wait)
            finally:
                workers.tell(partial(turns.done, turn, gone=left))
    finally:
        yield from attempt.finish()


def _read_on(
    qm: CallingManager, course: ConsumerLoop, turns: Turns, workers: Workers, wait: Wait
) -> Calls[None]:
    """Look at the messages behind those that were looked at before."""
    found = None
    asked = some(
        qm._state, course.queue, count=AHEAD, timeout=turns.slice_s, peek=True,
        after=turns.after,
    )  # fmt: skip
    try:
        found = yield from call(qm._run, asked)
        course.answered()
    except errors.ReceiveTimeout:
        workers.tell(turns.nothing_came)
        return
    except errors.ServiceNotAvailable as error:
        if gone(error):
            raise
        yield partial(wait, course.away_s(error))
    workers.tell(partial(turns.looked, found))


def _work(
    qm: CallingManager, course: ConsumerLoop, attempt: HandlerCall, place: int, wait: Wait
) -> Calls[bool]:
    """Let the handler have the message at a place; whether it is gone from there."""
    tx = course.limited(qm.transaction())
    try:
        taken = yield from attempt.carry_out(tx, _take(tx, course, place))
    except (errors.MessageNotFound, errors.MessageAlreadyReceived, errors.MessageLocked):
        # It may be in its place all the same: somebody holds it, or a connection of this
        # application that was lost does for a moment.
        asked = some(qm._state, course.queue, count=1, timeout=0.0, peek=True, lookup=place)
        try:
            yield from call(qm._run, asked)
        except errors.TransactionUsage:
            pass
        except errors.ServiceNotAvailable as error:
            if gone(error):
                raise
        except errors.OnceqError:
            return True
        yield partial(wait, LOCKED_S)
        return False
    return bool(taken)


def _take(tx: EitherTransaction, course: ConsumerLoop, place: int) -> Calls[Batch | None]:
    return (yield from call(tx._hold, course.queue, 1, timeout=0.0, lookup_id=place))
