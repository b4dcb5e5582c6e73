"""A queue manager inside an application's process, used by many threads at once.

No thread of its own stands between a caller and the disk. A caller puts its request into the
inbox; whoever finds nobody pumping pumps for all (sync included, during which others add to the
inbox), the others wait for their answers. So one thread pays for its own sync only, and sixteen
threads share one. Connections and timers live on a background loop that goes through the same
lock.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from onceq.errors import OnceqError, OperationCancelled, StorageFailure
from onceq.model.run import Run
from onceq.service.api import to_input
from onceq.service.clock import SystemClock
from onceq.service.config import Configuration
from onceq.service.directory import manager_of
from onceq.service.engine import Engine
from onceq.service.network import AsyncNetwork
from onceq.store.log import LogStore

Callback = Callable[[object], None]


class EmbeddedHost:
    """See the module. Every method may be called from any thread."""

    def __init__(self, path: str, store: LogStore, configuration: Configuration) -> None:
        self.path = path
        self._clock = SystemClock()
        self._loop = asyncio.new_event_loop()
        self._network = AsyncNetwork(self._loop, self, configuration.peers)
        self._pumping = threading.Lock()
        self._failure: BaseException | None = None
        self.engine = Engine(
            manager=manager_of(store, configuration),
            store=store,
            clock=self._clock,
            network=self._network,
            settings=configuration.settings,
            wake=lambda: None,
            fatal=self._fatal,
        )
        self._network.engine = self.engine
        self._answers: dict[int, Callback] = {}
        self._numbers = iter(range(1, 1 << 62))
        self._owner = self.engine.owner(self._answer)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = 1 << 62
        self.engine.start()
        self._thread = threading.Thread(
            target=self._run_loop, name=f"onceq-{self.engine.manager.identity.name}", daemon=True
        )
        self._thread.start()
        self.peers_at = ""
        try:
            if configuration.listen:
                self.peers_at = self._await(self._network.listen_peers(configuration.listen))
            if configuration.client_listen:
                self._await(self._network.listen_clients(configuration.client_listen))
        except BaseException:
            self.close()
            raise
        self.run(lambda: None)

    @property
    def name(self) -> str:
        """The manager's name."""
        return self.engine.manager.identity.name

    @property
    def id(self) -> bytes:
        """The manager's GUID."""
        return self.engine.manager.identity.guid

    def now_s(self) -> int:
        """Seconds since 1970 by the manager's clock."""
        return self._clock.read().wall_s

    # ---- requests -------------------------------------------------------------------------

    def submit(self, code: int, head: Any, runs: Sequence[Run], answer: Callback) -> int:
        """Ask for something; ``answer`` is called with the result in whichever thread pumps.

        Returns:
            The number of the request. The caller must see to pumping with ``pump``.
        """
        if self._failure is not None:
            raise StorageFailure(f"this queue manager has stopped: {self._failure}")
        request = next(self._numbers)
        item = to_input(
            self._owner, request, code, head, runs, now_us=self._clock.read().mono_us,
            random=os.urandom,
        )  # fmt: skip
        self._answers[request] = answer
        self.engine.submit(item)
        return request

    def call(self, code: int, head: Any, runs: Sequence[Run] = ()) -> object:
        """Ask and wait for the answer; an OnceqError result is raised."""
        slot = _Slot()
        self.submit(code, head, runs, slot.put)
        self.pump()
        result = slot.take()
        if isinstance(result, OnceqError):
            raise result
        return result

    def _answer(self, request: int, result: object) -> None:
        answer = self._answers.pop(request, None)
        if answer is not None:
            answer(result)

    def pump(self) -> None:
        """Work off the inbox, unless another thread is at it and will see what we added."""
        engine = self.engine
        while engine.has_input:
            if not self._pumping.acquire(blocking=False):
                return
            try:
                while engine.pump():
                    pass
                due = engine.next_timer()
            finally:
                self._pumping.release()
            if due is not None and due < self._timer_us:
                self._timer_us = due
                self._network.in_loop(self._set_timer)

    def run(self, work: Callable[[], None]) -> None:
        """See Gate: let the background loop use the engine."""
        with self._pumping:
            work()
        self.pump()

    # ---- the background loop --------------------------------------------------------------

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _await(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._pumping:
            due = self.engine.next_timer()
        if due is None or self.engine.stopped:
            self._timer_us = 1 << 62
            return
        self._timer_us = due
        wait = max(due - self._clock.read().mono_us, 0) / 1e6
        self._timer = self._loop.call_later(min(wait, 3600.0), self._ring)

    def _ring(self) -> None:
        self._timer = None
        if not self.engine.stopped:
            self.run(self.engine.tick)
            self._set_timer()

    # ---- the end --------------------------------------------------------------------------

    def _fatal(self, error: BaseException) -> None:
        self._failure = error
        self._fail_all(error)

    def _fail_all(self, error: BaseException) -> None:
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            answer(error)

    def close(self) -> None:
        """Stop in order: what was asked is answered, then a checkpoint."""
        with self._pumping:
            if not self.engine.stopped:
                self.engine.stop()
            self._failure = self._failure or OperationCancelled("it was closed")
        self._fail_all(OperationCancelled("the queue manager was closed"))
        if self._thread.is_alive():
            self._network.in_loop(self._end_loop)
            if threading.current_thread() is not self._thread:
                self._thread.join(10)

    def _end_loop(self) -> None:
        self._network.stop_listening()
        self._loop.call_soon(self._loop.stop)


class _Slot:
    """A place for one answer."""

    __slots__ = ("_lock", "_result")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._result: object = None

    def put(self, result: object) -> None:
        self._result = result
        self._lock.release()

    def take(self) -> object:
        self._lock.acquire()
        return self._result
