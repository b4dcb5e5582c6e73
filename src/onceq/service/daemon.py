"""A queue manager as a process of its own, on one event loop.

Everything that arrives in one turn of the loop is pumped together and shares one sync. Signals
stop it in order; a failing disk stops it at once, with everything that was said still true.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable

from onceq.errors import StorageFailure
from onceq.service.clock import SystemClock
from onceq.service.config import PID_FILE, PORT_FILE, SOCKET, Configuration
from onceq.service.directory import manager_of
from onceq.service.engine import Engine
from onceq.service.network import AsyncNetwork
from onceq.store.log import LogStore

log = logging.getLogger("onceq")


class Daemon:
    """One queue manager on one loop."""

    def __init__(
        self,
        path: str,
        store: LogStore,
        configuration: Configuration,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.path = path
        self._loop = loop
        self._configuration = configuration
        self._clock = SystemClock()
        self._network = AsyncNetwork(loop, self, configuration.peers)
        self.engine = Engine(
            manager=manager_of(store, configuration),
            store=store,
            clock=self._clock,
            network=self._network,
            settings=configuration.settings,
            wake=self._wake,
            fatal=self._fatal,
        )
        self._network.engine = self.engine
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = 0
        self._over: asyncio.Future[BaseException | None] = loop.create_future()
        self.peers_at = ""
        self.clients_at = ""

    # ---- the gate and the pump ------------------------------------------------------------

    def run(self, work: Callable[[], None]) -> None:
        """See Gate: the loop is the only thread here."""
        work()

    def _wake(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._scheduled = False
        if self.engine.pump():
            self._wake()
        self._set_timer()

    def _set_timer(self) -> None:
        due = self.engine.next_timer()
        if due is None or self.engine.stopped:
            return
        if self._timer is not None:
            if self._timer_us <= due:
                return
            self._timer.cancel()
        self._timer_us = due
        wait = max(due - self._clock.read().mono_us, 0) / 1e6
        self._timer = self._loop.call_later(min(wait, 3600.0), self._ring)

    def _ring(self) -> None:
        self._timer = None
        if not self.engine.stopped:
            self.engine.tick()
            self._wake()

    def _fatal(self, error: BaseException) -> None:
        log.critical("stopping: %s", error)
        if not self._over.done():
            self._over.set_result(error)

    # ---- life -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover and listen; raises PortInUse, ConfigurationError, StorageFailure."""
        self.engine.start()
        configuration = self._configuration
        if configuration.listen:
            self.peers_at = await self._network.listen_peers(configuration.listen)
        if configuration.client_listen:
            self.clients_at = await self._network.listen_clients(configuration.client_listen)
        await self._network.listen_socket(os.path.join(self.path, SOCKET))
        self._note(PORT_FILE, f"{self.peers_at}\n{self.clients_at}\n")
        self._note(PID_FILE, f"{os.getpid()}\n")
        for name in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(name, self.stop)
        self._wake()

    def _note(self, name: str, text: str) -> None:
        with open(os.path.join(self.path, name), "w") as file:
            file.write(text)

    def stop(self) -> None:
        """Ask it to end in order."""
        if not self._over.done():
            self._over.set_result(None)

    async def serve(self) -> None:
        """Work until asked to stop; raises StorageFailure if the disk fails."""
        error = await self._over
        self._network.stop_listening()
        if error is None:
            self.engine.stop()
        for name in (SOCKET, PORT_FILE, PID_FILE):
            if os.path.exists(os.path.join(self.path, name)):
                os.unlink(os.path.join(self.path, name))
        if isinstance(error, StorageFailure):
            raise error


def new_loop() -> asyncio.AbstractEventLoop:
    """An event loop: uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def run(
    path: str,
    store: LogStore,
    configuration: Configuration,
    ready: Callable[[Daemon], None],
) -> None:
    """Run the queue manager of a directory until it is told to stop.

    Args:
        ready: Called once it listens.
    """
    loop = new_loop()
    asyncio.set_event_loop(loop)
    daemon = Daemon(path, store, configuration, loop)

    async def work() -> None:
        try:
            await daemon.start()
        except BaseException:
            store.close()
            raise
        ready(daemon)
        await daemon.serve()
        await asyncio.sleep(0)

    try:
        loop.run_until_complete(work())
    finally:
        loop.close()
