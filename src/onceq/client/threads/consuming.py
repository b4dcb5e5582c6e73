# Made from client/tasks/consuming.py by tools/faces.py: edit that, and run `make format`.
"""Working off a queue, message by message; how the loops go on is in ``loops``."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from onceq.client import retry
from onceq.client.handlers import Pauses, check_handler
from onceq.client.loops import ConsumerLoop, finish, goes_on, stopped, take
from onceq.client.ordered import ConsumerOptions, Options, Order, Shared
from onceq.client.stopping import asked_to_stop, pause
from onceq.client.threads.recovering import Recovering
from onceq.client.threads.transaction import Transaction
from onceq.client.threads.workers import Ending, side_by_side, work_off
from onceq.errors import InvalidParameter
from onceq.model.message import Message
from onceq.packet.arrived import Batch
from onceq.partners.procedures import drive

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

Handler = Callable[[Transaction, Message], None]
BatchHandler = Callable[[Transaction, Batch], None]
DatabaseHandler = Callable[[Transaction, Message, Any], None]
DatabaseBatchHandler = Callable[[Transaction, Batch, Any], None]
H = TypeVar("H", bound=Handler)
B = TypeVar("B", bound=BatchHandler)
D = TypeVar("D", bound=DatabaseHandler)
DB = TypeVar("DB", bound=DatabaseBatchHandler)


class LoopOptions(Shared, total=False):
    """What every ``consume`` may ask for; see there."""

    timeout: float | None
    stop: threading.Event | None


class Consuming(Recovering):
    """Of ``QueueManager``."""

    _consumers: tuple[tuple[ConsumerOptions, Callable[..., object]], ...] = ()

    def transaction(self) -> Transaction:
        """A unit of work: ``with qm.transaction() as tx``. Commits at the end, aborts on an
        exception."""
        return Transaction(self)

    def run(
        self,
        work: Callable[[Transaction], T],
        *,
        tries: int = retry.TRIES,
        also: tuple[type[Exception], ...] = (),
    ) -> T:
        """Do a whole transaction, and do it again as long as that is safe and may help.

        ``work(tx)`` is called with a new transaction, which is current meanwhile (``send_current``)
        and is committed when it returns. After an error of which it is certain that nothing of the
        transaction happened (``errors.Retryable``), all of it is done again, after a pause that
        grows from 0.05 to 2 seconds, and the log says so. Every other exception aborts it and
        leaves here. So what ``work`` does beside the transaction may be done several times.

        Where the answer to the commit is lost, its outcome is asked for: it is done again only if
        it has certainly not happened. In ``onceq.aio`` ``work(tx)`` is awaited; cancelling undoes
        the transaction.

        Args:
            work: Gets the transaction; it may also end it by itself.
            tries: How often it is done at most.
            also: Further exceptions of ``work`` after which it is done again, such as a database's
                ``SerializationFailure``.

        Returns:
            What ``work`` has returned.

        Raises:
            InDoubt: Nobody can tell whether the commit has happened. Ask again with ``outcome``.
            Retryable: The last try failed, too.
        """
        check_handler(work, 1, tasks=False)
        doing = retry.run(self, work, tries=tries, also=also, wait=pause)
        found: T = drive(doing)
        return found

    def messages(self, queue: str, *, timeout: float | None = 0.0) -> Iterator[Message]:
        """Receive one message after another, until none comes for ``timeout`` seconds.

        A message is received for good when the loop asks for the next one: that is handed out only
        after the removal is durable. If the loop ends before (an exception, ``break``, the death
        of this process), the message at hand goes back to its place, with its ``abort_count``
        raised; all others are in the queue anyway. This holds for every queue of this manager,
        transactional or not. In ``onceq.aio`` a loop that is left early gives the message back when
        the event loop comes to it; ``contextlib.aclosing`` does so at once.

        For many at once: ``receive_many``, at once and for good; the one of ``transaction()``; or
        ``consume`` with ``batch``.

        Raises:
            ServiceNotAvailable: The manager was lost; the message at hand goes back.
            InDoubt: It is lost, and nobody can tell whether the message at hand is removed.
        """
        with contextlib.closing(self.work(queue, timeout=timeout)) as work:
            for _, message in work:
                yield message

    def work(
        self,
        queue: str,
        *,
        timeout: float | None = None,
        limit: float | None = None,
        stop: threading.Event | None = None,
    ) -> Generator[tuple[Transaction, Message], None]:
        """Hand out each message together with the transaction that holds it.

        What the body of the loop sends with ``tx`` is committed with the removal of the message
        when the body has ended, all or nothing. If it raises, or leaves the loop, the transaction
        is aborted; a poison policy of the queue counts that. The body may commit or abort itself.

        Args:
            timeout: Seconds to wait for a message before the loop ends; None: without end.
            limit: Seconds that a body may take, as in ``consume``; None: as long as it needs.
            stop: Ends the loop before the next message once it is set (``onceq.stopping``).

        Raises:
            ServiceNotAvailable, InDoubt: As in ``messages``.
            SendFailed: A send of the body was refused; the transaction was undone.
        """
        course = ConsumerLoop(queue, timeout, 1, stoppable=stop is not None, limit=limit)
        tx = course.limited(self.transaction())
        while goes_on(tx, stop):
            now, tx = tx, course.limited(self.transaction())
            try:
                taken = drive(take(now, course))
                if taken is None:
                    return
                if taken:
                    yield now, taken[0]
                    drive(finish(self, now, course, None if stopped(stop) else tx))
                    course.done(taken)
            except BaseException:
                tx._leave()
                raise
            finally:
                now._leave()

    @overload
    def consume(
        self, queue: str, handler: Handler, **options: Unpack[LoopOptions]
    ) -> int: ...  # fmt: skip

    @overload
    def consume(
        self, queue: str, handler: BatchHandler, *, batch: int, **options: Unpack[LoopOptions]
    ) -> int: ...  # fmt: skip

    @overload
    def consume(
        self, queue: str, handler: DatabaseHandler, *, database: Callable[[], object],
        **options: Unpack[LoopOptions],
    ) -> int: ...  # fmt: skip

    @overload
    def consume(
        self, queue: str, handler: DatabaseBatchHandler, *, batch: int,
        database: Callable[[], object], **options: Unpack[LoopOptions],
    ) -> int: ...  # fmt: skip

    def consume(
        self,
        queue: str,
        handler: Callable[..., Any],
        *,
        concurrency: int = 1,
        batch: int = 1,
        order: Order = None,
        database: Callable[[], object] | None = None,
        limit: float | None = None,
        pauses: Pauses | None = None,
        timeout: float | None = None,
        stop: threading.Event | None = None,
    ) -> int:
        """Call ``handler(tx, message)`` for each message, or ``handler(tx, messages)`` for batches.

        Each call has a transaction of its own, which is current while it runs (``send_current``),
        is committed when it returns and aborted when it raises. If it raises and the queue has a
        poison policy, that decides what becomes of the message, and the loop goes on. Without one a
        ``Retryable`` error is tried five times at most, and every other exception leaves here.
        While the queue manager is away this waits, and says so in the log, once; a call whose
        commit did not happen is then repeated. In ``onceq.aio`` handlers are awaited, ``database``
        may be, and workers are tasks; cancelling undoes the calls that run.

        Args:
            concurrency: How many calls run at once; if more than 1, each in its own thread (in
                ``onceq.aio``: task).
            batch: More than 1: the most messages of one call and transaction (a ``Batch``).
            order: What several workers keep the order by: "stream" (messages from one queue
                manager), or a function that gives the key of a message. Messages with one key are
                handled one after another, in the order of the queue; needs the right ``peek``.
                None: several workers keep no order. One worker always keeps all of it.
            database: Opens a connection, once for each worker and again after each failure; it is
                enlisted in the transaction of each call, and is the handler's third argument. What
                it raises counts against no message: this ends at once if it cannot take part, and
                waits while it is away.
            limit: Seconds that a call may take, if it asks nothing in its transaction meanwhile;
                then that is rolled back, somebody else gets the message, and it does not count
                against it. None: as long as it needs.
            pauses: By class of exception: seconds to wait after a handler has raised one. It does
                not count against the message. After any other three different messages that fail
                in a row count; then none does until one is handled: one message at a time is
                tried, with pauses that grow to a minute, and the log and ``consumers`` say so.
            timeout: Seconds to wait for a message before the loop ends; None: without end.
            stop: Ends the loop before the next message once it is set; a call that runs is never
                cut short. None: SIGTERM and Ctrl-C do that, if this is the main thread and the
                application does not handle them by itself.

        Returns:
            How many messages were handled when ``stop`` was set or the time was over.
        """
        wish = ConsumerOptions(queue, timeout, concurrency, batch, order, database, limit, pauses)
        around = contextlib.nullcontext(stop) if stop is not None else asked_to_stop()
        with around as event:
            return work_off(self, wish, handler, event)

    @overload
    def consumer(self, queue: str, **options: Unpack[Shared]) -> Callable[[H], H]: ...

    @overload
    def consumer(
        self, queue: str, *, batch: int, **options: Unpack[Shared]
    ) -> Callable[[B], B]: ...  # fmt: skip

    @overload
    def consumer(
        self, queue: str, *, database: Callable[[], object], **options: Unpack[Shared]
    ) -> Callable[[D], D]: ...  # fmt: skip

    @overload
    def consumer(
        self, queue: str, *, batch: int, database: Callable[[], object],
        **options: Unpack[Shared],
    ) -> Callable[[DB], DB]: ...  # fmt: skip

    def consumer(self, queue: str, **options: Unpack[Options]) -> Callable[[F], F]:
        """Let ``serve`` call the decorated function for the messages of a queue.

        Args:
            queue, options: As in ``consume``: concurrency, batch, order and database.

        Returns:
            A decorator, which returns the function unchanged.
        """
        wish = ConsumerOptions(queue, **options)

        def decorate(handler: F) -> F:
            check_handler(handler, wish.given, tasks=False)
            self._consumers += ((wish, handler),)
            return handler

        return decorate

    def serve(self, *, timeout: float | None = None, stop: threading.Event | None = None) -> int:
        """Run all decorated consumers, each as ``consume`` does, side by side until they stop.

        If one fails, the others finish what they have at hand, and its exception leaves here.

        Args:
            timeout, stop: As in ``consume``, for each.

        Returns:
            How many messages were handled.

        Raises:
            InvalidParameter: There is no consumer.
        """
        works = [
            partial(work_off, self, replace(wish, timeout=timeout), handler)
            for wish, handler in self._consumers
        ]
        if not works:
            raise InvalidParameter("there is nothing to serve; decorate functions with `consumer`")
        around = contextlib.nullcontext(stop) if stop is not None else asked_to_stop()
        with around as event:
            if len(works) == 1:
                return works[0](event)
            ending = Ending(event)
            return side_by_side([partial(work, ending) for work in works], ending)
