"""Workers in threads, on one queue or on several; what each does: see ``loops`` and ``ordered``."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from onceq.client.handlers import Breaker, check_handler
from onceq.client.loops import LOOK_S, OutageLog, consume
from onceq.client.ordered import WAIT, ConsumerOptions, Failing, Turns, in_order
from onceq.client.retry import CallingManager
from onceq.partners.procedures import drive

JOIN_S = 0.5
"""A thread that waits for workers hears a signal after this time."""


class Stop(Protocol):
    """An event, or the end of workers around these."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float, /) -> bool: ...


class Ending(Failing):
    """When workers end: when the application says so, or one of them has failed."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop)
        self._stop = stop

    def wait(self, timeout: float, /) -> bool:
        """Wait so long, or until the application says so; whether they end."""
        self._stop.wait(timeout)
        return self.is_set()


class Workers:
    """Gives workers their turns; see ``ordered.Workers``."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._changed = threading.Condition()

    def turn(self) -> int:
        """Return what to do, as ``Turns.now``, but never WAIT: it waits."""
        with self._changed:
            while (now := self._turns.now()) == WAIT:
                self._changed.wait(LOOK_S)
            return now

    def tell(self, what: Callable[[], None]) -> None:
        """Change the turns, and let the others know."""
        with self._changed:
            try:
                what()
            finally:
                self._changed.notify_all()


def work_off(
    qm: CallingManager, wish: ConsumerOptions, handler: Callable[..., object], stop: Stop
) -> int:
    """Let workers handle a queue until they are to stop; how many messages they have handled."""
    check_handler(handler, wish.given, tasks=False)
    absence, breaker = OutageLog(wish.queue), Breaker(wish.queue, wish.pauses)
    if wish.concurrency == 1:
        course = wish.course(absence, wish.timeout, breaker)
        return drive(consume(qm, course, handler, stop, stop.wait))
    ending = Ending(stop)
    if wish.key is None:

        def loop() -> int:
            course = wish.course(absence, wish.timeout, breaker)
            return drive(consume(qm, course, handler, ending, ending.wait))

        return side_by_side([loop] * wish.concurrency, ending)
    turns = Turns(wish, ending, qm._state.clock)
    workers = Workers(turns)

    def worker() -> int:
        course = wish.course(absence, None, breaker)
        return drive(in_order(qm, course, handler, turns, workers, ending.wait))

    # One more: while one looks at the queue, all others may be at work.
    return side_by_side([worker] * (wish.concurrency + 1), ending)


def side_by_side(works: Sequence[Callable[[], int]], ending: Ending) -> int:
    """Do all of these, each in a thread; the sum of what they return.

    The first exception of one lets the others finish what they have at hand, and is raised then.
    """
    done: list[int] = []

    def carry_out(work: Callable[[], int]) -> None:
        try:
            done.append(work())
        except BaseException as error:  # noqa: BLE001 - raised by the one that waits
            ending.fail(error)

    threads = [
        threading.Thread(
            target=contextvars.copy_context().run, args=(carry_out, work), name="onceq worker",
            daemon=True,
        )
        for work in works
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        try:
            for thread in threads:
                thread.join(JOIN_S)
        except BaseException as error:
            if isinstance(ending.failure, KeyboardInterrupt):
                raise  # A second one: nothing that is at hand is waited for.
            ending.fail(error)
    if ending.failure is not None:
        raise ending.failure
    return sum(done)
