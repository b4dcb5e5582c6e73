"""A queue manager for tests of applications: in memory, with a clock and a death in the test's
hands.

It is the product itself, run as ``onceq.open`` runs it. What differs is what it stands on: a disk
in memory that knows what was synced, so that a crash loses what a power cut would, and clocks that
go as those of the machine do and can be put forward.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike, fspath
from types import TracebackType
from typing import Any, Final, Self, cast

from onceq.client.tasks.manager import AsyncQueueManager
from onceq.client.threads.manager import QueueManager
from onceq.embedded.host import AsyncEmbeddedLink, EmbeddedHost, EmbeddedLink
from onceq.errors import ServiceNotAvailable, StorageFailure
from onceq.model.identity import Identity
from onceq.model.limits import LOG_SEGMENT_BYTES_MIN
from onceq.model.marks import Now
from onceq.model.settings import Settings
from onceq.service.clock import SystemClock
from onceq.service.config import Configuration
from onceq.store.files import Files
from onceq.store.log import LogStore
from onceq.testing.disk import CHECKPOINT_POINTS, STORE_POINTS, PointedStore, Points, SimFiles

POINTS: Final = STORE_POINTS + CHECKPOINT_POINTS
"""Where ``Manager.die_at`` can let it die."""
ID_BYTES: Final = 16
QUICK: Final = Settings(
    log_segment_bytes=LOG_SEGMENT_BYTES_MIN,
    connect_retry_s=0.05,
    resend_first_s=0.2, resend_second_s=0.5, resend_third_s=1.0, resend_last_s=2.0,
    order_ack_delay_s=0.02, order_ack_delay_s_max=0.1,
)  # fmt: skip
"""Settings of managers for tests: a small log, and no long pauses when something was lost."""


class MovableClock:
    """The clocks of the machine, and what they were put forward."""

    def __init__(self) -> None:
        self._inner = SystemClock()
        self._ahead_us = 0

    def read(self) -> Now:
        """Return wall and monotonic time."""
        now = self._inner.read()
        return Now(now.wall_us + self._ahead_us, now.mono_us + self._ahead_us)

    def put_forward(self, seconds: float) -> None:
        """Both clocks; they never go back."""
        if seconds < 0:
            raise ValueError(f"clocks are put forward, not back: {seconds}")
        self._ahead_us += int(seconds * 1e6)


class _Locked:
    """A simulated disk that threads may use at once, one operation after another."""

    def __init__(self, inner: SimFiles) -> None:
        self.inner = inner
        self._lock = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.inner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                return operation(*args, **kwargs)

        setattr(self, name, call)
        return call


class _Host(EmbeddedHost):
    """The embedded manager with other clocks, and a death."""

    def __init__(
        self, path: str, store: LogStore, said: Configuration, clock: MovableClock
    ) -> None:
        self.clock_of = lambda: clock
        super().__init__(path, store, said)

    def put_forward(self) -> None:
        """The clocks were put forward: what is due by then is done when this returns."""

        async def ring() -> None:
            self._ring()

        self._await(ring())

    def abandon(self, error: StorageFailure) -> None:
        """Stop as a crash does: nothing more is decided, said or written in order."""
        with self._pumping:
            self.engine.stopped = True
        self.failed(error)
        self.close()
        self._failure = error


class _Link(EmbeddedLink):
    """An application that leaves does not stop the manager: the test does."""

    def close(self) -> None:
        self.alive = False


class _AsyncLink(AsyncEmbeddedLink):
    """The same for tasks."""

    def close(self) -> None:
        self.alive = False


class Manager:
    """A queue manager of a test. Use ``qm``; it finds its way back after a crash.

    Attributes:
        qm: The ``onceq.QueueManager`` of an application with it.
        crashes: How often it has died so far.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        name: str = "ALPHA",
        *,
        settings: Settings = QUICK,
        listen: str = "",
        peers: Mapping[str, str] | None = None,
    ) -> None:
        """Make one and start it.

        Args:
            folder: A directory for what is not in its store (tokens, an identity): it may be empty.
            settings: ``QUICK`` changed with ``dataclasses.replace``, or any ``onceq.Settings``.
            listen, peers: As in ``onceq.open``.
        """
        self._path = fspath(folder)
        os.makedirs(self._path, exist_ok=True)
        self._clock = MovableClock()
        self._configuration = replace(
            Configuration(), listen=listen, peers=dict(peers or {}), settings=settings
        )
        self._points = Points(self._die)
        self._seed = 0
        self._image: SimFiles | None = None
        self.crashes = 0
        self._files = _Locked(SimFiles())
        identity = Identity(random.randbytes(ID_BYTES), name, self._clock.read().wall_s)
        store = PointedStore.create(
            self._path, self._disk, store_id=random.randbytes(ID_BYTES), identity=identity.pack(),
            created_s=identity.installed_s, segment_bytes=settings.log_segment_bytes,
        )  # fmt: skip
        self._start(store)
        self.qm = QueueManager(self._connect, again=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Manager {self._host.name}>"

    @property
    def _disk(self) -> Files:
        return cast(Files, self._files)

    @property
    def id(self) -> bytes:
        """Its GUID; the same after every crash."""
        return self._host.id

    @property
    def address(self) -> str:
        """Where other queue managers connect: "host:port"; "" if nowhere."""
        return self._host.peers_at

    @property
    def running(self) -> bool:
        """Whether it has not died, or was started again."""
        return self._host.engine.stopped is False

    def _start(self, store: LogStore) -> None:
        assert isinstance(store, PointedStore)
        store.points = self._points
        self._links: list[_Link | _AsyncLink] = []
        self._host = _Host(self._path, store, self._configuration, self._clock)

    def _connect(self) -> _Link:
        self._check_running()
        link = _Link(self._host)
        self._links.append(link)
        return link

    async def connect(self) -> AsyncQueueManager:
        """An application with it for tasks; it finds its way back after a crash, too."""

        async def link() -> _AsyncLink:
            self._check_running()
            made = _AsyncLink(self._host)
            self._links.append(made)
            return made

        return AsyncQueueManager(await link(), link)

    def _check_running(self) -> None:
        if not self.running:
            raise ServiceNotAvailable("this queue manager has died, and was not started again")

    # ---- time -----------------------------------------------------------------------------

    def put_forward(self, seconds: float) -> None:
        """Let so much time pass for this manager, at once: what is due by then has happened when
        this returns (messages expire, waits end, resends go out). Otherwise its time is the
        machine's."""
        self._clock.put_forward(seconds)
        if self.running:
            self._host.put_forward()

    # ---- its death ------------------------------------------------------------------------

    def crash(self, *, seed: int = 0) -> None:
        """Let it die now, as in a power cut.

        What was synced is there again after ``start``. Of what was written and not synced some may
        be and some not: ``seed`` chooses. Applications see ``ServiceNotAvailable``.
        """
        if self.running:
            with contextlib.suppress(StorageFailure):
                self._seed = seed
                self._die()
        self._abandon()

    def die_at(self, point: str, *, count: int = 1, seed: int = 0) -> None:
        """Let it die as in ``crash`` when it comes to a point in its work.

        Args:
            point: One of ``POINTS``. "before-sync": a commit is written, and a power cut may take
                it; its caller hears ``InDoubt``. "after-sync": the commit is durable, and its
                caller hears ``InDoubt``.
            count: At the so-many-th time from now.

        Raises:
            ValueError: There is no such point.
        """
        if point not in POINTS:
            raise ValueError(f"{point!r} is not one of {', '.join(POINTS)}")
        self._seed = seed
        self._points.arm(point, count)

    def _die(self) -> None:
        with self._files._lock:
            self._image = self._files.inner.crash(random.Random(self._seed))
        raise StorageFailure("the test has let this queue manager die here")

    def _abandon(self) -> None:
        for link in self._links:
            link.alive = False
        self._host.abandon(StorageFailure("the test has let this queue manager die"))

    def start(self) -> None:
        """Start it again, from what its disk has."""
        if self.running:
            raise RuntimeError(f"{self!r} runs: let it crash, or stop it, first")
        self._abandon()
        self.crashes += 1
        assert self._image is not None
        self._files = _Locked(self._image)
        self._image = None
        segment_bytes = self._configuration.settings.log_segment_bytes
        self._start(PointedStore.open(self._path, self._disk, segment_bytes=segment_bytes))

    def close(self) -> None:
        """Stop it; nothing of it is kept."""
        self.qm.close()
        with contextlib.suppress(StorageFailure):
            self._host.close()
