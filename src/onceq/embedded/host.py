"""A queue manager inside an application's process, used by many threads at once.

It also starts it, from its data directory and by its configuration, and is the link to it.

No thread of its own is between a caller and the disk. A caller puts its request into the inbox. A
caller that finds no pump running pumps for all (sync included, during which others add to the
inbox); the others wait for their answers. So one thread pays for its own sync only, and sixteen
threads share one. Connections and timers live on a background loop that takes the same lock, and
goes before the callers: a busy application must not starve its network. A caller that has pumped
for others a few times hands that on to the loop, and returns with its own answer.

If an exception is thrown into a pump from outside (Ctrl-C in just that moment), the manager stops
as it would by a crash: the disk is correct, and it can be opened again.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import logging
import math
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from onceq.client.async_link import Handover, in_thread
from onceq.client.link import Greeting, LinkRequest, drop_descriptor, own
from onceq.directory.contract import Directory
from onceq.directory.file import FileDirectory
from onceq.errors import NotAStore, OnceqError, ServiceNotAvailable, StorageFailure, WrongProcess
from onceq.file_access import CONFIGURATION_FILE, STORE_FILE, there
from onceq.model import requests
from onceq.model.requests import CancelReceive, Receive
from onceq.model.settings import Settings
from onceq.service import admission, config
from onceq.service.api import Inner, admit, kept_entropy
from onceq.service.clock import Clock, SystemClock
from onceq.service.committer import history_of
from onceq.service.config import Configuration, folder_of
from onceq.service.data_directory import directory_of, init, manager_of, open_store
from onceq.service.engine import Engine
from onceq.service.jobs import JobThread
from onceq.service.network import AsyncNetwork
from onceq.service.peer_transports import Entrance, doors_of
from onceq.service.recovering import RecoveryWorker
from onceq.service.reloading import reloading
from onceq.service.trail_files import TrailExport
from onceq.store.files import RealFiles
from onceq.store.log import LOCK_FILE, LogStore
from onceq.store.promises import PROMISED_FILE

# ---- host ----------------------------------------------------------------------------------------


log = logging.getLogger("onceq")

T = TypeVar("T")
Callback = Callable[[object], None]

ROUNDS = 2
"""Pumps that a caller makes one after another before the background loop takes over."""
TOLD_S = 0.1
"""Seconds after which the background loop processes requests without an answer that no call has
pumped."""
LOCK_SLICE_S = 1.0
"""Interval at which a waiting caller checks for a signal."""
NEVER_US = 1 << 62
TICK_S_MAX = 3600.0
"""Seconds after which timers are checked again: a wall clock may have been set."""


class EmbeddedHost:
    """Runs one queue manager. Every method may be called from any thread."""

    clock_of: Callable[[], Clock] = SystemClock

    def __init__(
        self,
        path: str,
        store: LogStore,
        configuration: Configuration,
        directory: Directory | None = None,
        read: Callable[[], Configuration] | None = None,
    ) -> None:
        """Start the manager in a store.

        Args:
            store: Open; belongs to the host if this returns, to the caller if it raises.
            directory: Of public queues and lists; None: the one of the configuration.
            read: Reads the configuration later, for a reload.

        Raises:
            PortInUse, ConfigurationError, StorageFailure: It cannot start.
        """
        self.path = path
        self._clock = self.clock_of()
        self._recovering = RecoveryWorker(self._clock, self.call, configuration.databases)
        self._loop = asyncio.new_event_loop()
        self._network = AsyncNetwork(
            self._loop, self, configuration.peers, budget=admission.shared_process(),
            doors=doors_of(path, store, configuration),
        )  # fmt: skip
        self._upkeep = ThreadPoolExecutor(1, "onceq-upkeep")
        self._store = store
        self._pumping = threading.Lock()
        self._visitor = self._in_loop = self._told = self._closed = False
        self._failure: OnceqError | None = None
        self.engine = Engine(
            manager=manager_of(store, configuration),
            store=store,
            clock=self._clock,
            network=self._network,
            settings=configuration.settings,
            wake=None,
            fatal=self.failed,
            background=self._background,
            said=self._network.say,
            directory=directory or directory_of(path, configuration),
            mappings=folder_of(path, configuration),
            learned=self._network.learn,
            history=history_of(store, RealFiles(), configuration.settings),
            trail_export=TrailExport(RealFiles(), path, configuration.settings),
            entropy=kept_entropy(path),
        )
        self._network.attach(self.engine)
        self._reloading = reloading(self.engine, self._network, configuration, read)
        self._answers: dict[int, Callback] = {}
        self._numbers = iter(range(1, 1 << 62))
        self._owner = self.engine.owner(self._answer)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = NEVER_US
        self.peers_at = self.http_at = self.clients_at = ""
        name = self.engine.manager.identity.name
        self._thread = threading.Thread(target=self._run_loop, name=f"onceq-{name}", daemon=True)
        self._thread.start()
        try:
            self.engine.http = config.names_of(configuration, name, configuration.http_listen)
            self.engine.start()
            self._listen(configuration)
        except BaseException:
            self.engine.stopped = True
            self._end_threads()
            raise
        own(self)
        self._network.in_loop(self._look_after)
        self._begin_works()

    def _begin_works(self) -> None:
        """Start the background work."""
        self._recovering.start(self.id)
        self._jobs = JobThread(self.call)
        self.engine.run_jobs = self._jobs.soon
        self._jobs.start(self.id, running=bool(self.engine.manager.state.jobs.running()))

    def _listen(self, configuration: Configuration) -> None:
        self._network.in_loop(self._network.watch_doors)
        self._network.in_loop(self._network.membership.refresh)
        if configuration.listen:
            where = self._network.listen(Entrance.PEERS, configuration.listen)
            self.peers_at = self._await(where)
            self.engine.naming.listening(self.peers_at)
        if configuration.http_listen:
            where = self._network.listen(Entrance.POSTS, configuration.http_listen)
            self.http_at = self._await(where)
            self._reloading.http_at = self.http_at
            self.engine.http = config.names_of(configuration, self.name, self.http_at)
        if configuration.client_listen:
            where = self._network.listen(Entrance.APPLICATIONS, configuration.client_listen)
            self.clients_at = self._await(where)

    @property
    def name(self) -> str:
        """Return the manager's name."""
        return self.engine.manager.identity.name

    @property
    def id(self) -> bytes:
        """Return the manager's GUID."""
        return self.engine.manager.identity.guid

    def now_s(self) -> int:
        """Return the seconds since 1970 by the manager's clock."""
        return self._clock.read().wall_s

    # ---- requests -------------------------------------------------------------------------

    def submit(self, asked: requests.Request | Inner, answer: Callback) -> int:
        """Submit a request; ``answer`` is called with the result in the thread that pumps.

        Returns:
            The number of the request. The caller must ensure a pump with ``pump``.

        Raises:
            OnceqError: The request is wrong, or the manager has stopped before (then it is the
                StorageFailure that made it stop, or ServiceNotAvailable).
        """
        if self._failure is not None:
            raise self._failure
        request = next(self._numbers)
        if isinstance(asked, requests.Request):
            admit(asked, self._owner, request, clock=self._clock, random=os.urandom)
        else:
            asked = replace(asked, owner=self._owner, request=request)
        self._answers[request] = answer
        self.engine.submit(asked)
        if self._failure is not None:
            # It stopped meanwhile: the stop may not have seen this request any more.
            self._fail_all()
        return request

    def tell(self, asked: requests.Request) -> None:
        """Submit a request without an answer, under the conditions of ``submit``.

        It is processed with the next request. If there is none, the background loop processes it.
        """
        if self._failure is not None:
            raise self._failure
        admit(asked, self._owner, 0, clock=self._clock, random=os.urandom)
        self.engine.submit(asked)
        if not self._told:
            self._told = True
            self._network.in_loop(self._await_others)

    def call(self, asked: requests.Request | Inner) -> object:
        """Submit a request and wait for the answer; an OnceqError result is raised."""
        slot = Slot()
        request = self.submit(asked, slot.put)
        try:
            self.pump()
            result = slot.take()
        except BaseException:
            self._answers.pop(request, None)
            if isinstance(asked, Receive) and self._failure is None:
                # Interrupted while it waited: nobody would look at what came.
                self.submit(CancelReceive(request), nothing)
                self.pump()
            raise
        if isinstance(result, OnceqError):
            raise result
        return result

    def cancel_waiting(self) -> None:
        """End this application's waits, in the middle of a call of this thread."""
        with contextlib.suppress(OnceqError):  # It has stopped: nobody waits any more.
            for request in list(self._answers):
                self.submit(CancelReceive(request), nothing)
            self.pump()

    def _answer(self, request: int, result: object) -> None:
        answer = self._answers.get(request)
        if answer is not None:
            try:
                answer(result)
            except RuntimeError:
                log.exception("an answer could not be handed over; its asker may be gone")
                with contextlib.suppress(RuntimeError):  # or a signal handler came in between
                    answer(result)
            # Last: if another error ends the pump, its asker hears why the manager stops.
            self._answers.pop(request, None)

    # ---- pumping ----------------------------------------------------------------------------

    def pump(self) -> None:
        """Ensure that the caller's requests in the inbox are processed.

        Either by this thread, or by another that pumps now and will see what was added.
        """
        inbox, more = self.engine.inbox, False
        for _ in range(ROUNDS):
            if self._visitor or not (inbox or more):
                return
            pumping = self._pumping
            if not pumping.acquire(blocking=False):
                return  # the thread that pumps checks again after giving back the lock
            try:
                more = self._pump_locked()
            finally:
                pumping.release()
        if inbox or more:
            self._network.in_loop(self._go_on)

    def _pump_locked(self) -> bool:
        """Pump; return whether there was more to do by the end of it."""
        engine = self.engine
        try:
            more = engine.pump()
        except BaseException as error:
            self.failed(error)
            raise
        due = engine.next_timer()
        if due is not None and due < self._timer_us:
            self._timer_us = due
            self._network.in_loop(self._set_timer)
        return more

    def run(self, work: Callable[[], None]) -> None:
        """Run ``work`` with the engine, for the background loop. Callers who pump let it go
        before them."""
        if self._in_loop:
            # Called by the engine in the middle of a pump of this thread: it has the lock.
            self._loop.call_soon(self._network.use, None, work)
            return
        self._visitor, more = True, False
        try:
            with self._pumping:
                self._visitor, self._in_loop = False, True
                try:
                    work()
                finally:
                    if self.engine.unsaid:
                        self._network.say()
                    more = self._pump_locked()
                    if more:
                        # Callers who came meanwhile rely on the thread that pumps: they need not
                        # wait for another turn of the loop.
                        more = self._pump_locked()
        finally:
            self._in_loop = False
            if self.engine.inbox or more:
                self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Pump, in the loop, for the callers that wait."""
        if self.engine.has_work:
            self._network.use(None, _nothing_to_do)

    def _await_others(self) -> None:
        """Wait for a while, in the loop: unanswered requests may be pumped with others."""
        self._loop.call_later(TOLD_S, self._work_off)

    def _work_off(self) -> None:
        """Pump, in the loop, after that wait. (The mark goes first: requests from now on
        schedule it again.)"""
        self._told = False
        self._go_on()

    def _background(self, work: Callable[[], T]) -> Future[T]:
        """Run ``work`` in the upkeep thread; a pump follows."""
        future = self._upkeep.submit(work)

        def done(_: Future[T]) -> None:
            # Later in any case: if the work is done already this is called at once, and the thread
            # that it is called in, maybe the loop's, holds the lock.
            with contextlib.suppress(RuntimeError):  # the loop is over; its closer has waited
                self._loop.call_soon_threadsafe(self._look_after)

        future.add_done_callback(done)
        return future

    def _look_after(self) -> None:
        """Pump, in the loop, because something in the background is done."""
        if not self.engine.stopped:
            self._network.use(None, _nothing_to_do)

    # ---- the background loop --------------------------------------------------------------

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _await(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.engine.stopped:
            return
        wait = max(self._timer_us - self._clock.read().mono_us, 0) / 1e6
        self._timer = self._loop.call_later(min(wait, TICK_S_MAX), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_us = NEVER_US
        if not self.engine.stopped:
            self._network.use(None, self.engine.tick)

    # ---- the end --------------------------------------------------------------------------

    def failed(self, error: BaseException) -> None:
        """Stop because the engine failed: only the disk can be trusted now."""
        if self._failure is None:
            if isinstance(error, StorageFailure):
                self._failure = error
            else:
                self._failure = StorageFailure(
                    "this queue manager was stopped in the middle of its work and trusts only "
                    f"what is on its disk: open it again ({type(error).__name__}: {error})"
                )
            log.critical("stopping at once: %s", self._failure.text)
        self._fail_all()

    def _fail_all(self) -> None:
        while self._answers:
            with contextlib.suppress(RuntimeError):  # another thread has put one in
                request = next(iter(self._answers), None)
                if request is not None:  # another one may have answered the last
                    self._answer(request, self._failure)

    def close(self) -> None:
        """Stop in order: requests are answered, then a checkpoint is made.

        Raises:
            StorageFailure: The disk failed now; everything said before is still true.
        """
        if isinstance(self._failure, WrongProcess):
            return
        failure: StorageFailure | None = None
        orderly = False
        self._recovering.stop()
        self._jobs.stop()
        with self._pumping:
            if self._closed:
                return
            self._closed = True
            if self.engine.stopped:
                # By a failure. What may still be done is to release the lock of the store.
                with contextlib.suppress(StorageFailure):
                    self.engine.store.close()
            else:
                try:
                    self._network.cancel_waiting()
                    self.engine.stop()
                    orderly = self._failure is None
                except StorageFailure as error:
                    failure = error
            over = ServiceNotAvailable("this queue manager was closed before this could happen")
            self._failure = failure or over
        self._fail_all()
        self._failure = failure or ServiceNotAvailable("this queue manager was closed")
        self._end_threads(orderly=orderly)
        if failure is not None:
            raise failure

    def _end_threads(self, *, orderly: bool = False) -> None:
        self._await(self._network.shut(farewell=orderly))
        self._network.in_loop(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._upkeep.shutdown()

    def forked(self) -> None:
        """Release the manager after a fork: it is the parent's. Nothing is written, and its
        store and its connections are released, so that they are free when the parent ends."""
        self.engine.stopped = self._closed = True
        self._pumping = threading.Lock()
        self._failure = WrongProcess(
            "this queue manager was opened before the process forked, and belongs to the parent; "
            "open it after the fork, or connect to a daemon"
        )
        # If the fork came in the middle of a call of this thread, its further writes go nowhere.
        for number in self._store.descriptors() + self._network.descriptors():
            drop_descriptor(number)
        self._fail_all()


def nothing(result: object) -> None:
    """Ignore an answer."""


def _nothing_to_do() -> None:
    """Do nothing: only the pump that follows matters."""


class Slot:
    """A place for one answer."""

    __slots__ = ("_lock", "_result")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._result: object = None

    def put(self, result: object) -> None:
        """Set the answer; the first one counts."""
        if self._lock.locked():
            self._result = result
            self._lock.release()

    def take(self, seconds: float = math.inf) -> object:
        """Wait for the answer; return None if it does not come in time."""
        # In slices: the main thread hears of a signal that came just before it began to wait.
        while not self._lock.acquire(timeout=LOCK_SLICE_S):
            seconds -= LOCK_SLICE_S
            if seconds <= 0:
                break
        return self._result


# ---- start ---------------------------------------------------------------------------------------
#
# Starting a queue manager inside this process: its data directory, its configuration, its host.


_ALLOWED = frozenset(
    (
        CONFIGURATION_FILE, config.FOLDER, LOCK_FILE, STORE_FILE + ".new", PROMISED_FILE,
        PROMISED_FILE + ".new",
    )
)  # fmt: skip
"""Files that the directory of a new queue manager may contain: prepared ones, and what a crash
has left of another attempt."""


def start(
    path: str,
    *,
    name: str | None,
    create: bool,
    listen: str | None,
    peers: Mapping[str, str] | None,
    settings: Settings | None,
    directory: str | Directory | None = None,
) -> EmbeddedHost:
    """Open (or make) the data directory and start its manager, with the arguments of
    ``onceq.open``."""
    path = os.path.abspath(path)
    config.check_peers(peers or {})

    def read() -> Configuration:
        """Return the configuration of the file, with the arguments that override it."""
        configured = os.path.exists(os.path.join(path, CONFIGURATION_FILE))
        said = config.load(path)
        if listen is not None or not configured:
            said = replace(said, listen=listen or "")
        if settings is not None:
            said = replace(said, settings=settings)
        return replace(said, peers={**said.peers, **(peers or {})})

    configuration = read()
    if there(os.path.join(path, STORE_FILE)):
        store = open_store(path, configuration.settings)
    else:
        _check_absent(path, create=create)
        store = init(path, name=name or configuration.name, settings=configuration.settings)
    try:
        where = FileDirectory(directory) if isinstance(directory, str) else directory
        return EmbeddedHost(path, store, configuration, where, read)
    except BaseException:
        store.close()
        raise


def _check_absent(path: str, *, create: bool) -> None:
    """Raise NotAStore, which says what to do, unless a queue manager may be made in a directory."""
    there = os.listdir(path) if os.path.isdir(path) else None
    if there is not None and not _ALLOWED.issuperset(there):
        raise NotAStore(
            f"{path} holds other files and is not the directory of a queue manager; name the one "
            "that is meant, or a new or empty directory and create=True"
        )
    if not create:
        missing = "there is no directory" if there is None else "there is no queue manager in"
        raise NotAStore(
            f"{missing} {path}{_near(path)}; onceq.open(..., create=True) or 'onceq qm init' "
            "makes one"
        )


def _near(path: str) -> str:
    """Return a question about the neighbouring queue manager with the most similar name."""
    parent, name = os.path.split(path)
    beside = os.listdir(parent) if os.path.isdir(parent) else []
    managers = [one for one in beside if os.path.exists(os.path.join(parent, one, STORE_FILE))]
    near = difflib.get_close_matches(name, managers, 1)
    return f" (did you mean {os.path.join(parent, near[0])}?)" if near else ""


# ---- link ----------------------------------------------------------------------------------------
#
# The way to a queue manager in the same process: no bytes, no sockets, the same requests.


CANCEL_S_MAX = 5.0
"""Seconds; a wait that was cancelled is answered long before."""


class _Shared:
    """The common part of both kinds."""

    def __init__(self, host: EmbeddedHost) -> None:
        self._host = host
        self.greeting = Greeting(
            host.name,
            host.id,
            host.now_s(),
            outcome_age_s=host.engine.settings.outcome_age_s,
        )
        self.alive = True

    def _stopped(self, error: StorageFailure) -> ServiceNotAvailable:
        """Return the error of a manager that had stopped before: a request has not reached it."""
        self.alive = False
        return ServiceNotAvailable(error.text)

    def _tell(self, request: LinkRequest) -> bool:
        """Submit a request without an answer; return whether it is to be processed now."""
        try:
            self._host.tell(request.asked)
        except StorageFailure as error:
            raise self._stopped(error) from error
        if request.lazy:
            return False
        return not request.unhurried or (request.shows and self._awaited)

    @property
    def _awaited(self) -> bool:
        """Return True if a receive waits for a message. (A receive submitted now is behind the
        unanswered requests, or the thread that processes it checks again.)"""
        return bool(self._host.engine.manager.waiting)

    def _cancel(self, number: int) -> None:
        with contextlib.suppress(OnceqError):
            self._host.submit(requests.CancelReceive(number), nothing)

    def close(self) -> None:
        """Stop the manager in order."""
        self.alive = False
        self._host.close()


class EmbeddedLink(_Shared):
    """The link for threads."""

    def check_alive(self) -> bool:
        """Return whether the manager still runs."""
        return self.alive

    def interrupt(self) -> None:
        """End the waits of this application."""
        self.alive = False
        self._host.cancel_waiting()

    def call(self, request: LinkRequest) -> object:
        """Submit a request, and wait for its answer."""
        if not request.waits:
            if self._tell(request):
                self._host.pump()
            return None
        sent = request.ticket is not None
        if not sent:
            self._submit(request)
            if request.behind is not None:
                self._submit(request.behind)
        slot: Slot = request.ticket[1]
        try:
            if not sent:
                self._host.pump()
            result = slot.take()
        except Exception:
            raise
        except BaseException:
            if (given_up := request.to_give_up) is not None:
                # Interrupted while it waited: end the wait, and keep what came all the same.
                number, slot = given_up.ticket
                self._cancel(number)
                self._host.pump()
                given_up.missed(slot.take(CANCEL_S_MAX))
            raise
        finally:
            request.ticket = None  # Asked again, it is sent again.
        if isinstance(result, OnceqError):
            raise result
        return result

    def _submit(self, request: LinkRequest) -> None:
        slot = Slot()
        try:
            request.ticket = self._host.submit(request.asked, slot.put), slot
        except StorageFailure as error:
            raise self._stopped(error) from error


class AsyncEmbeddedLink(_Shared):
    """The link for tasks: the loop waits, and a worker thread pumps."""

    def check_loop(self, *, leaving: bool = False) -> None:
        """Accept any loop: each call waits in the loop that runs."""

    async def check_alive(self) -> bool:
        """Return whether the manager still runs."""
        return self.alive

    async def call(self, request: LinkRequest) -> object:
        """Submit a request, and wait for its answer."""
        if not request.waits:
            if self._tell(request):
                await in_thread(self._host.pump)
            return None
        try:
            if request.ticket is None:
                self._submit(request)
                if request.behind is not None:
                    self._submit(request.behind)
                # Not awaited: if it fails, each request is answered with the reason.
                self._pump()
            place: Handover = request.ticket[1]
            result = await place.take()
        except GeneratorExit:
            raise  # The loop is over.
        except BaseException:
            given_up = request.to_give_up
            if given_up is not None and given_up.ticket is not None:
                await self._give_up(given_up)
            raise
        finally:
            request.ticket = None  # Asked again, it is sent again.
        if isinstance(result, OnceqError):
            raise result
        return result

    def _submit(self, request: LinkRequest) -> None:
        place = Handover(request.missed)
        try:
            request.ticket = self._host.submit(request.asked, place.put), place
        except StorageFailure as error:
            raise self._stopped(error) from error

    def _pump(self) -> None:
        asyncio.get_running_loop().run_in_executor(None, self._host.pump)

    async def _give_up(self, request: LinkRequest) -> None:
        """End the wait of a cancelled call; messages that it has taken are kept before the
        cancelling is over."""
        number, place = request.ticket

        def cancel() -> None:
            self._cancel(number)
            self._pump()

        await place.give_up(cancel, CANCEL_S_MAX)
