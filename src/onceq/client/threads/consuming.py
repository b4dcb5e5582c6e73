"""Working off a queue, message by message, from threads; how the loops go on is in ``loops``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from onceq.client import again
from onceq.client.loops import Course, consume, finish, goes_on, stopped, take
from onceq.client.pause import pause
from onceq.client.threads.recovering import Recovering
from onceq.client.threads.transaction import Transaction
from onceq.model.message import Message
from onceq.partners.driving import drive

T = TypeVar("T")


class Consuming(Recovering):
    """Of ``QueueManager``."""

    def transaction(self) -> Transaction:
        """A unit of work: ``with qm.transaction() as tx``. Commits at the end, aborts on an
        exception."""
        return Transaction(self)

    def run(
        self,
        work: Callable[[Transaction], T],
        *,
        tries: int = again.TRIES,
        also: tuple[type[Exception], ...] = (),
    ) -> T:
        """Do a whole transaction, and do it again as long as that is safe and may help.

        ``work(tx)`` is called with a new transaction, which is current meanwhile (``send_current``)
        and is committed when it returns. After an error of which it is certain that nothing of the
        transaction happened (``errors.Retryable``), all of it is done again, after a pause that
        grows from 0.05 to 2 seconds, and the log says so. Every other exception aborts it and
        leaves here. So what ``work`` does beside the transaction may be done several times.

        Where the answer to the commit is lost, its outcome is asked for: it is done again only if
        it has certainly not happened.

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
        found: T = drive(again.run(self, work, tries=tries, also=also, wait=pause))
        return found

    def messages(self, queue: str, *, timeout: float | None = 0.0) -> Iterator[Message]:
        """Receive one message after another, until none comes for ``timeout`` seconds.

        A message is received for good when the loop asks for the next one: that is handed out only
        after the removal is durable. If the loop ends before (an exception, ``break``, the death
        of this process), the message at hand goes back to its place, with its ``abort_count``
        raised; all others are in the queue anyway. This holds for every queue of this manager,
        transactional or not.

        For many at once: ``receive_many``, at once and for good; the one of ``transaction()``; or
        ``consume`` with ``batch``.

        Raises:
            ServiceNotAvailable: The manager was lost; the message at hand goes back.
            InDoubt: It is lost, and nobody can tell whether the message at hand is removed.
        """
        for _, message in self.work(queue, timeout=timeout):
            yield message

    def work(
        self, queue: str, *, timeout: float | None = None, stop: threading.Event | None = None
    ) -> Iterator[tuple[Transaction, Message]]:
        """Hand out each message together with the transaction that holds it.

        What the body of the loop sends with ``tx`` is committed with the removal of the message
        when the body has ended, all or nothing. If it raises, or leaves the loop, the transaction
        is aborted; a poison policy of the queue counts that. The body may commit or abort itself.

        Args:
            timeout: Seconds to wait for a message before the loop ends; None: for ever.
            stop: Ends the loop before the next message once it is set (``onceq.stopping``).

        Raises:
            ServiceNotAvailable, InDoubt: As in ``messages``.
            SendFailed: A send of the body was refused; the transaction was undone.
        """
        course = Course(queue, timeout, 1, stoppable=stop is not None)
        tx = self.transaction()
        while goes_on(tx, stop):
            now, tx = tx, self.transaction()
            try:
                taken = drive(take(now, course))
                if taken is None:
                    return
                if taken:
                    yield now, taken[0]
                    drive(finish(self, now, course, None if stopped(stop) else tx))
                    course.done(1)
            except BaseException:
                tx._leave()
                raise
            finally:
                now._leave()

    def consume(
        self,
        queue: str,
        handler: Callable[[Transaction, Any], object],
        *,
        batch: int = 1,
        timeout: float | None = None,
        stop: threading.Event | None = None,
    ) -> int:
        """Call ``handler(tx, message)`` for each message, or ``handler(tx, messages)`` for batches.

        Each call has a transaction of its own, which is current while it runs (``send_current``),
        is committed when it returns and aborted when it raises. If it raises and the queue has a
        poison policy, that decides what becomes of the message, and the loop goes on; without one
        the exception leaves here. While the queue manager is away this waits, and says so in the
        log; a call whose commit did not happen is then repeated.

        Args:
            batch: More than 1: so many at most in one call and one transaction (a ``Batch``).
            timeout, stop: As in ``work``. A call that runs is never cut short.

        Returns:
            How many messages were handled when ``stop`` was set or the time was over.
        """
        course = Course(queue, timeout, batch, stoppable=stop is not None)
        waiting = stop if stop is not None else threading.Event()
        return drive(consume(self, course, handler, waiting, waiting.wait))
