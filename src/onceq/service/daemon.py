"""A queue manager as a process of its own, on one event loop.

It reports to the service manager of the system, and tunes the memory of its process.

Everything that arrives in one turn of the loop is pumped together and shares one sync. Signals stop
it in order. A failing disk stops it at once; everything that was answered stays true.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import itertools
import logging
import os
import platform
import signal
import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from onceq.errors import OnceqError, StorageFailure
from onceq.file_access import SOCKET_FILE
from onceq.model.identity import read_number
from onceq.model.requests import Request
from onceq.service import admission, config
from onceq.service.api import Inner, complete, kept_entropy
from onceq.service.clock import Clock, SystemClock
from onceq.service.committer import history_of
from onceq.service.config import PID_FILE, PORT_FILE, Configuration, folder_of
from onceq.service.data_directory import directory_of, manager_of
from onceq.service.engine import Engine
from onceq.service.jobs import JobThread
from onceq.service.listening import opened
from onceq.service.logs import event
from onceq.service.network import AsyncNetwork
from onceq.service.peer_transports import Entrance, doors_of
from onceq.service.recovering import RecoveryWorker
from onceq.service.reloading import reloading
from onceq.service.trail_files import TrailExport
from onceq.store.files import RealFiles
from onceq.store.log import LogStore

# ---- supervisor ----------------------------------------------------------------------------------
#
# Report to the service manager of the system (systemd): ready, alive, stopping.


READY: Final = "READY=1"
ALIVE: Final = "WATCHDOG=1"
STOPPING: Final = "STOPPING=1"
TURNS_A_WAIT: Final = 2
"""Number of reports within the time that the supervisor waits."""


def notify(state: str) -> None:
    """Send a state to the supervisor, if there is one that wants it."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        name = "\0" + address[1:] if address.startswith("@") else address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            # A supervisor that hangs must not stop the loop: a report that it does not take is
            # dropped.
            to.setblocking(False)
            to.sendto(state.encode(), name)


def watchdog_s() -> float:
    """Return the interval (seconds) in which this process must report; 0 if no one waits for
    that."""
    wait = os.environ.get("WATCHDOG_USEC", "")
    # It may be meant for the process that has started this one.
    meant = os.environ.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
    return (read_number(wait) or 0) / 1e6 / TURNS_A_WAIT if meant else 0.0


class Watchdog:
    """Reports that a loop is alive while it turns."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, turns: Callable[[], int], idle: Callable[[], bool]
    ) -> None:
        """Watch nothing yet.

        Args:
            turns: Counts how often the loop has processed its work.
            idle: Whether there is no work now.
        """
        self._loop = loop
        self._turns = turns
        self._idle = idle
        self._seen = -1
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to report, if a supervisor waits for it."""
        self._every_s = watchdog_s()
        if self._every_s:
            self._check_turns()

    def stop(self) -> None:
        """Stop reporting."""
        if self._timer is not None:
            self._timer.cancel()

    def _check_turns(self) -> None:
        turns = self._turns()
        if turns != self._seen or self._idle():
            self._seen = turns
            notify(ALIVE)
        self._timer = self._loop.call_later(self._every_s, self._check_turns)


# ---- daemon --------------------------------------------------------------------------------------


log = logging.getLogger("onceq")

T = TypeVar("T")
TICK_S_MAX = 3600.0
"""Seconds after which timers are checked again: a wall clock may have been set."""


class ManagerDaemon:
    """One queue manager on one loop."""

    def __init__(
        self,
        path: str,
        store: LogStore,
        configuration: Configuration,
        loop: asyncio.AbstractEventLoop,
        clock: Clock | None = None,
        read: Callable[[], Configuration] | None = None,
    ) -> None:
        self.path = path
        self._loop = loop
        self._configuration = configuration
        self._clock = clock or SystemClock()
        self._recovering = RecoveryWorker(self._clock, self._ask, configuration.databases)
        self._jobs = JobThread(self._ask)
        self._network = AsyncNetwork(
            loop, self, configuration.peers, budget=admission.own_process(),
            doors=doors_of(path, store, configuration),
        )  # fmt: skip
        self._upkeep = ThreadPoolExecutor(1, "onceq-upkeep")
        self.engine = Engine(
            manager=manager_of(store, configuration),
            store=store,
            clock=self._clock,
            network=self._network,
            settings=configuration.settings,
            wake=self._wake,
            fatal=self.failed,
            background=self._background,
            said=self._network.say,
            directory=directory_of(path, configuration),
            mappings=folder_of(path, configuration),
            learned=self._network.learn,
            history=history_of(store, RealFiles(), configuration.settings),
            trail_export=TrailExport(RealFiles(), path, configuration.settings),
            entropy=kept_entropy(path),
        )
        self.engine.run_jobs = self._jobs.soon
        self._network.attach(self.engine)
        self._reloading = reloading(self.engine, self._network, configuration, read)
        self._scheduled = False
        self._turns = 0
        self._watchdog = Watchdog(loop, lambda: self._turns, lambda: not self.engine.has_work)
        self._orderly = True
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = 0
        self._asked: dict[int, Future[object]] = {}
        self._numbers = itertools.count(1)
        self._owner = self.engine.owner(self._answered)
        self._over: asyncio.Future[BaseException | None] = loop.create_future()
        self.peers_at = ""
        self.http_at = ""
        self.clients_at = ""
        self.metrics_at = ""

    # ---- the gate and the pump ------------------------------------------------------------

    def run(self, work: Callable[[], None]) -> None:
        """Use the engine, then pump it: the loop is the only thread here."""
        work()
        if self.engine.unsaid:
            self._network.say()
        if not self._scheduled:
            self._set_timer()

    def failed(self, error: BaseException) -> None:
        """Stop because the engine failed: only the disk can be trusted now."""
        log.critical("stopping at once: %s", error)
        self._orderly = False
        if not self._over.done():
            self._over.set_result(error)

    def _wake(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._scheduled = False
        self._turns += 1
        try:
            more = self.engine.pump()
        except Exception as error:
            log.exception("a mistake of ours: the state in memory cannot be trusted any more")
            self.failed(error)
            return
        if more:
            self._wake()
        self._set_timer()

    def _set_timer(self) -> None:
        due = self.engine.next_timer()
        if due is None or self.engine.stopped:
            return
        if self._timer is not None:
            # An earlier timer is set: it will ring, find nothing due, and set the next one.
            if self._timer_us <= due:
                return
            self._timer.cancel()
        self._timer_us = due
        wait = max(due - self._clock.read().mono_us, 0) / 1e6
        self._timer = self._loop.call_later(min(wait, TICK_S_MAX), self._ring)

    def _ring(self) -> None:
        self._timer = None
        if not self.engine.stopped:
            self._network.use(None, self.engine.tick)
            self._wake()

    def _background(self, work: Callable[[], T]) -> Future[T]:
        """Run ``work`` in the background thread; the engine is pumped once it is done."""
        future = self._upkeep.submit(work)

        def done(_: Future[T]) -> None:
            # The loop may be over by then: the code that stops it waits for the future itself.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake)

        future.add_done_callback(done)
        return future

    def _ask(self, asked: Request | Inner) -> object:
        """Ask the manager from another thread, and wait for its answer; raises an OnceqError."""
        future: Future[object] = Future()

        def submit() -> None:
            request = next(self._numbers)
            self._asked[request] = future
            try:
                item = complete(asked, self._owner, request, clock=self._clock, random=os.urandom)
            except OnceqError as error:
                self._answered(request, error)
            else:
                self.engine.submit(item)

        self._loop.call_soon_threadsafe(submit)
        result = future.result()
        if isinstance(result, OnceqError):
            raise result
        return result

    def _answered(self, request: int, result: object) -> None:
        self._asked.pop(request).set_result(result)

    # ---- life -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover and listen; raises PortInUse, ConfigurationError, StorageFailure."""
        configuration = self._configuration
        name = self.engine.manager.identity.name
        # Before recovery: what follows from it may connect over HTTP. Once more below, when the
        # real port is known.
        self.engine.http = config.names_of(configuration, name, configuration.http_listen)
        self.engine.start()
        if configuration.listen:
            self.peers_at = await self._network.listen(Entrance.PEERS, configuration.listen)
            self.engine.naming.listening(self.peers_at)
        if configuration.http_listen:
            where = configuration.http_listen
            self.http_at = await self._network.listen(Entrance.POSTS, where)
            self.engine.http = config.names_of(configuration, name, self.http_at)
            self._reloading.http_at = self.http_at
        if configuration.client_listen:
            where = configuration.client_listen
            self.clients_at = await self._network.listen(Entrance.APPLICATIONS, where)
        if configuration.metrics_listen:
            where = configuration.metrics_listen
            self.metrics_at = await self._network.listen(Entrance.WATCHERS, where)
        group = opened(self.path, configuration.socket_group)
        await self._network.listen_socket(os.path.join(self.path, SOCKET_FILE), group)
        # Before its process id is known: a signal then would end it with its default action.
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.stop)
        self._loop.add_signal_handler(signal.SIGHUP, self._hung_up)
        # After listening: a client that finds these files can connect.
        self._note(PORT_FILE, self._addresses())
        self._note(PID_FILE, f"{os.getpid()}\n")
        self._network.watch_doors()
        self._network.membership.refresh()
        self._watchdog.start()
        self._wake()
        self._recovering.start(self.engine.manager.identity.guid)
        running = bool(self.engine.manager.state.jobs.running())
        self._jobs.start(self.engine.manager.identity.guid, running=running)
        event(
            "started", name=self.engine.manager.identity.name, pid=os.getpid(),
            peers=self.peers_at, http=self.http_at, applications=self.clients_at or SOCKET_FILE,
            metrics=self.metrics_at,
        )  # fmt: skip

    def _addresses(self) -> str:
        """Return where it listens, a line each: for peers, applications, HTTP and monitoring."""
        found = [self.peers_at, self.clients_at, self.http_at]
        found += [self.metrics_at] if self.metrics_at else []
        return "".join(f"{one}\n" for one in found)

    def _note(self, name: str, text: str) -> None:
        """Write a file that helps others find this process; it also runs without it."""
        path, flags = os.path.join(self.path, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            with open(os.open(path, flags | os.O_CLOEXEC, 0o600), "w") as file:
                file.write(text)
        except OSError as error:  # A full disk: just then people must be able to remove messages.
            with contextlib.suppress(OSError):
                os.unlink(path)  # Half of it would mislead.
            event("a file cannot be written", level=logging.WARNING, file=path, reason=str(error))

    def stop(self) -> None:
        """Ask it to end in order."""
        if not self._over.done():
            event("stopping", reason="asked to")
            self._over.set_result(None)

    def _hung_up(self) -> None:
        """Read the configuration again on SIGHUP, by custom."""
        if not (self.engine.stopped or self._over.done()):
            self._network.use(None, self._reloading.signalled)
            self._wake()

    async def serve(self) -> None:
        """Work until asked to stop; raise the error that made it stop otherwise.

        Raises:
            StorageFailure: The disk failed.
        """
        error = await self._over
        notify(STOPPING)
        self._watchdog.stop()
        self._recovering.stop()
        self._jobs.stop()
        self._network.stop_listening()
        if error is None:
            error = await self._end()
        for name in (SOCKET_FILE, PORT_FILE, PID_FILE):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.path, name))
        if error is not None:
            raise error
        event("stopped")

    async def _end(self) -> BaseException | None:
        """Answer the requests, make the last checkpoint, and inform the clients."""
        try:
            while self.engine.pump():
                pass
            if not self.engine.stopped:
                # After the pump: what can still be answered is; only receives that really wait are
                # ended.
                self._network.cancel_waiting()
            self._network.say()
            self.engine.stop()
        except StorageFailure as failure:
            return failure
        # After the store is closed: a farewell says that nothing else has happened, or ever will.
        await self._network.shut(farewell=self._orderly)
        return self._over.result()

    def close(self) -> None:
        """Release what a daemon holds before ``serve``, or after it."""
        self._network.stop_listening()
        self._upkeep.shutdown()


def new_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop: uvloop where it is installed."""
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
    ready: Callable[[ManagerDaemon], None],
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    clock: Clock | None = None,
    read: Callable[[], Configuration] | None = None,
) -> None:
    """Run the queue manager of a directory until it is asked to stop.

    Args:
        store: Its open store; closed when this returns or raises.
        ready: Called once it listens.
        loop, clock: In place of those of the machine; both must show the same time.
        read: Reads the configuration later, for a reload; None: it never changes.

    Raises:
        PortInUse, ConfigurationError, StorageFailure: It cannot start, or had to stop.
    """
    loop = loop or new_loop()
    asyncio.set_event_loop(loop)

    async def work() -> None:
        daemon = ManagerDaemon(path, store, configuration, loop, clock, read)
        try:
            await daemon.start()
            notify(READY)
            ready(daemon)
            await daemon.serve()
        finally:
            daemon.close()

    try:
        loop.run_until_complete(work())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        store.close()


# ---- memory --------------------------------------------------------------------------------------
#
# Tune the memory of a daemon's process: large blocks, and the garbage collector.


_TRIM_THRESHOLD: Final = -1
_TOP_PAD: Final = -2
_MMAP_THRESHOLD: Final = -3
"""Parameters of mallopt(3)."""
OWN_BYTES: Final = 32 << 20
"""Blocks up to this size come from the process's own heap: the most that glibc takes for this."""
KEPT_BYTES: Final = 128 << 20
"""Free memory at the end of the heap that is not given back."""
GROWTH_BYTES: Final = 16 << 20
"""Additional bytes by which the heap grows at a time; pages that are not used take nothing."""
YOUNG_OBJECTS: Final = 20_000
"""New objects after which the collector looks for cycles; Python's own number is 700."""


def collect_seldom() -> None:
    """Exclude the existing objects from collection. To be called when all modules are loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


def keep_large_blocks() -> bool:
    """Keep large blocks in this process; return False where the C library is another one."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    wanted = (
        (_MMAP_THRESHOLD, OWN_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES), (_TOP_PAD, GROWTH_BYTES),
    )  # fmt: skip
    taken = [mallopt(name, value) for name, value in wanted]
    return taken == [1] * len(wanted)
