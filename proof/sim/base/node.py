"""One simulated queue manager: its disk outlives it, its process comes and goes.

The engine, core, session and store are the product's own; only clock, network and files are
simulated. A process ends by a kill (what it wrote is still there), by the power going (what was
not synced may be gone), or because the disk failed; at any call through any of the doors.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar

from onceq.core.manager import Manager
from onceq.directory import Directory
from onceq.errors import NoSpace, StorageFailure, SyncFailed
from onceq.model.identity import Identity
from onceq.model.settings import Settings
from onceq.service.committer import History
from onceq.service.engine import Engine
from onceq.store.log import LogStore
from onceq.testing.disk import SimFiles
from proof.sim.base import marks
from proof.sim.base.clock import EPOCH_US, SimClock
from proof.sim.base.kernel import Kernel
from proof.sim.base.options import HOUR, MS, SECOND
from proof.sim.base.proving import Certificate, Door
from proof.sim.base.recovery import ArchivedStore, Recovery
from proof.sim.base.trace import Violation
from proof.sim.base.turns import without_turn
from proof.sim.base.waiting import waits_in_vain

T = TypeVar("T")

TICK_US = HOUR
"""Timers are looked at again after so long, as the daemon does: a wall clock may have jumped."""


class Crash(BaseException):
    """The process ends here and now; nobody may catch it but the simulator."""


class Links(Protocol):
    """The network, as a computer sees it."""

    def connect(
        self, node: Node, outgoing: int, protocol: str, host: str, peer: bytes,
        homes: tuple[str, ...] | None,
    ) -> None:  # fmt: skip
        """A manager wants a connection."""

    def gone(self, node: Node) -> None:
        """The process of a computer is over: all its connections break."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a computer is given by its world.

    Attributes:
        engine: Makes the engine of a process, of the parts that every engine has.
        ends: Told of the manager whose process ends, before anything of it is gone.
        history: Makes what writes the history of a manager, if anything does.
    """

    network: Links
    engine: Callable[..., Engine]
    ends: Callable[[Node, Manager], None]
    directory: Directory | None
    history: Callable[[LogStore, SimFiles, Settings], History | None]


class Node:
    """One computer with one queue manager.

    Attributes:
        life: Number of the process; rises with every start.
        paused_us: The process stands still until then.
    """

    path = "/onceq"

    def __init__(self, kernel: Kernel, index: int, around: Surroundings) -> None:
        self.kernel = kernel
        self.around = around
        self.index = index
        self.name = f"M{index}"
        self.ip = f"10.0.0.{index + 1}"
        self.addresses = frozenset([self.ip])
        choices = kernel.stream("choices")
        self.guid = choices.randbytes(16)
        self.rng = kernel.stream(f"disk {index}")
        self.disk = SimFiles()
        self.disk.fail = self._disk
        self.sync_fails_in = 0
        """Syncs up to the one that fails, counted down; 0: none fails."""
        self.full_until_us = 0
        options, clocks = kernel.options, kernel.stream("clocks")
        offset, drift = options.clock_offset_us, options.drift_ppm
        self.clock = SimClock(
            kernel, clocks.randint(-offset, offset), clocks.randint(-drift, drift)
        )
        self.door: Door | None = None
        """How others come in; None: nothing is proven here."""
        self.certificate: Certificate | None = None
        self.settings = options.settings
        """As its file says."""
        self.life = 0
        self.paused_us = 0
        self.pauses = 0
        """How often it was made to stand still."""
        self._standing: list[Callable[[], None]] = []
        self.engine: Engine | None = None
        self.on_up: list[Callable[[], None]] = []
        self.on_down: list[Callable[[], None]] = []
        self.gone_wall_us = 0
        self.recovery = Recovery(kernel, self)
        self._fuse = 0
        self._fatal_call = ""
        self._pump_planned = False
        self.busy = 0
        """Works that another thread has under way."""
        self._timer_us = 0
        self._created = False

    @property
    def reachable(self) -> bool:
        """Whether its process runs."""
        return self.engine is not None and not self.engine.stopped

    # ---- doors --------------------------------------------------------------------------

    def step(self, what: str) -> None:
        """Something goes through a door; a planned crash may happen here."""
        if self._fuse or what == self._fatal_call:
            self._fuse = max(self._fuse - 1, 0)
            if not self._fuse or what == self._fatal_call:
                self._fatal_call = ""
                self.kernel.note("crash at", self.name, what)
                raise Crash(what)

    def _disk(self, kind: str, number: int) -> StorageFailure | None:
        """The disk is about to do something."""
        self.step(kind)
        if kind.startswith("sync") and self.sync_fails_in:
            self.sync_fails_in -= 1
            if not self.sync_fails_in:
                return SyncFailed("a planted failure")
        return None

    def fill_disk(self, free_bytes: int, until_us: int) -> None:
        """Somebody else takes the space on this disk for a while."""
        self.disk.capacity = self.disk.used + free_bytes
        self.full_until_us = until_us
        self.kernel.at(until_us, self._empty_disk)

    def _empty_disk(self) -> None:
        if self.full_until_us <= self.kernel.now:
            self.disk.capacity = 0

    def crash_within(self, steps: int) -> None:
        """Let the process end at one of the next calls through a door."""
        self._fuse = steps

    def crash_at(self, what: str) -> None:
        """Let the process end at its next call of that kind: rename, create, unlink, ..."""
        self._fatal_call = what

    def run(self, work: Callable[[Engine], object]) -> None:
        """Let the engine do something, if it runs; its process may end by it."""
        engine = self.engine
        if engine is None or engine.stopped:
            return
        try:
            work(engine)
        except Crash:
            self.down(power=self._power())
        except StorageFailure as error:
            self.disk_failed(error)
        except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError,
                AttributeError) as error:  # fmt: skip
            self.kernel.wrong(f"{self.name} raised {error!r}", traceback.format_exc())
        else:
            self._plan_timer()

    def later(self, after_us: int, work: Callable[..., None], *arguments: object) -> None:
        """Do something later, unless the process is over by then."""
        life = self.life

        def due() -> None:
            if self.life == life and self.engine is not None:
                if self.paused_us > self.kernel.now:
                    self._standing.append(due)
                else:
                    work(*arguments)

        self.kernel.at(self.kernel.now + after_us, due)

    def connect(
        self, outgoing: int, protocol: str, host: str, peer: bytes,
        homes: tuple[str, ...] | None = None,
    ) -> None:  # fmt: skip
        """See ``service.sessions.Network``."""
        self.step("connect")
        self.around.network.connect(self, outgoing, protocol, host, peer, homes)

    # ---- the process --------------------------------------------------------------------

    def up(self) -> None:
        """The process starts and recovers; a crash may happen meanwhile."""
        assert self.engine is None
        kernel = self.kernel
        self.life += 1
        self.clock.boot()
        if self.gone_wall_us > self.clock.wall_us():
            kernel.marks[marks.CLOCK_BACK] += 1
        if kernel.faulty and self.life > 1 and self.rng.random() < 0.15:
            self.crash_within(self.rng.randint(1, 12))
        try:
            engine = self._start()
        except Crash:
            kernel.marks[marks.RECOVERY_CUT] += 1
            self.down(power=self._power())
            return
        except (SyncFailed, NoSpace) as error:
            self.disk_failed(error)
            return
        except Violation:
            raise
        except Exception as error:  # noqa: BLE001 - recovery must raise nothing else
            kernel.wrong(f"{self.name} cannot start: {error!r}", traceback.format_exc())
        self._fuse = 0
        self.engine = engine
        kernel.note("up", self.name, self.life)
        for tell in self.on_up:
            tell()
        self._plan_pump()
        self._plan_timer()

    def _start(self) -> Engine:
        options = self.kernel.options
        if not self._created:
            identity = Identity(self.guid, self.name, EPOCH_US // SECOND)
            store = ArchivedStore.create(
                self.path, self.disk, store_id=self.guid, identity=identity.pack(),
                segment_bytes=options.segment_bytes,
            )  # fmt: skip
            self._created = True
        else:
            if not self.disk.pending and self.rng.random() <= 0.3:
                self.recovery.twice(self.disk.crash(Random(0)))
            store = ArchivedStore.open(self.path, self.disk, segment_bytes=options.segment_bytes)
        self.recovery.opened(store)
        if store.recovered.torn_bytes:
            self.kernel.marks[marks.TORN] += 1
        engine = self.around.engine(
            self,
            manager=Manager(
                Identity.unpack(store.identity), self.settings, addresses=self.addresses
            ),
            store=store,
            clock=self.clock,
            network=self,
            settings=self.settings,
            wake=self._plan_pump,
            fatal=self.disk_failed,
            background=self._background if options.background else None,
            directory=self.around.directory,
            history=self.around.history(store, self.disk, self.settings),
            entropy=self.kernel.stream("lives").randbytes,
        )
        engine.start()
        if self.door is not None:
            engine.submit(self.door.describe())
        return engine

    def _power(self) -> bool:
        return self.rng.random() < self.kernel.options.power

    def down(self, *, power: bool) -> None:
        """The process ends; it is started again after a while."""
        kernel = self.kernel
        self._fuse, self._fatal_call = 0, ""
        self.gone_wall_us = self.clock.wall_us()
        if any(name.endswith(".ckp.new") for name in self.disk.names(self.path)):
            kernel.marks[marks.CHECKPOINT_CUT] += 1
        if self.engine is not None:
            self.around.ends(self, self.engine.manager)
        before, capacity = set(self.disk.names(self.path)), self.disk.capacity
        if power:
            pending = self.disk.pending
            self.disk = self.disk.crash(self.rng)
            if before - set(self.disk.names(self.path)):
                kernel.marks[marks.FILE_MISSING] += 1
            kernel.note("power", self.name, pending)
        else:
            self.disk = self.disk.kill()
            kernel.note("kill", self.name)
        self.disk.fail, self.disk.capacity = self._disk, capacity
        self.engine = None
        self.life += 1
        self._pump_planned = False
        self._timer_us = self.busy = 0
        self.around.network.gone(self)
        for tell in self.on_down:
            tell()
        if kernel.faulty:
            after = self.rng.choice([10 * MS, SECOND, 60 * SECOND, self.rng.randrange(HOUR)])
        else:
            after = SECOND
        kernel.at(kernel.now + after, self._up_again)

    def _up_again(self) -> None:
        if self.engine is None:
            self.up()

    def disk_failed(self, error: BaseException) -> None:
        """The disk has failed: the process must end, and trusts nothing it had in memory."""
        if not isinstance(error, (SyncFailed, NoSpace)):
            self.kernel.wrong(f"{self.name}: {error!r}")
        self.kernel.marks[marks.SYNC_FAILED] += 1
        self.kernel.note("disk failed", self.name, type(error).__name__)
        self.sync_fails_in = 0
        self.down(power=True)

    def put_in(self, disk: SimFiles) -> None:
        """The process is over; it starts again from another disk."""
        assert self.engine is None
        disk.fail, disk.capacity = self._disk, 0
        self.disk = disk
        self.recovery.replaced = True

    def begin_with(self, disk: SimFiles) -> None:
        """Its first start is from the copy of another computer's disk."""
        self._created = True
        self.put_in(disk)

    def pause(self, us: int) -> None:
        """The process stands still."""
        self.pauses += 1
        self.paused_us = max(self.paused_us, self.kernel.now + us)
        self.kernel.at(self.paused_us, self._go_on)

    def _go_on(self) -> None:
        """What was due while the process stood still is done now."""
        if self.paused_us <= self.kernel.now:
            standing, self._standing = self._standing, []
            for due in standing:
                self.kernel.at(self.kernel.now, due)

    def calm(self) -> None:
        """No more faults are planned, and a process that stands still goes on."""
        self._fuse, self._fatal_call = 0, ""
        self.sync_fails_in = 0
        self.disk.capacity = 0
        self.paused_us = 0
        self._go_on()

    # ---- its loop -----------------------------------------------------------------------

    def _plan_pump(self) -> None:
        if self.engine is not None and not self._pump_planned:
            self._pump_planned = True
            after = self.rng.randrange(100, 2 * MS)
            if self.kernel.faulty and self.rng.random() < self.kernel.options.slow_sync:
                after = self.rng.randrange(5 * SECOND)
            self.later(after, self._pump)

    def _background(self, work: Callable[[], T]) -> Future[T]:
        """Another thread: what it does is done a while later, all at once."""
        future: Future[T] = Future()
        self.busy += 1

        def due() -> None:
            self.busy -= 1

            def finish(engine: Engine) -> None:
                try:
                    future.set_result(work())
                except StorageFailure as error:
                    future.set_exception(error)

            self.run(finish)
            self._plan_pump()

        self.later(self.rng.choice([MS, SECOND, 20 * SECOND]), due)
        return future

    def _pump(self) -> None:
        self._pump_planned = False
        more = False

        def pump(engine: Engine) -> None:
            nonlocal more
            more = engine.pump()
            # What takes several steps may give turns in a later one.
            later = more or engine.manager.at_work
            waits = "" if later else without_turn(engine.manager)
            assert not waits, f"{waits} may transmit, and has no turn (I26)"
            waits = "" if later else waits_in_vain(engine.manager)
            assert not waits, f"{waits} has messages, and receives wait for them (I26)"

        self.kernel.note("pump", self.name)
        self.run(pump)
        if more:
            self._plan_pump()

    def _plan_timer(self) -> None:
        engine = self.engine
        if engine is None or engine.stopped or self._pump_planned:
            return
        due = engine.next_timer()
        now = self.kernel.now
        at = now + TICK_US
        if due is not None:
            at = min(at, max(self.clock.true_us(due), now + MS))
        if not self._timer_us or at < self._timer_us:
            self._timer_us = at
            self.later(at - now, self._tick, at)

    def _tick(self, planned_us: int) -> None:
        if planned_us != self._timer_us:
            return
        self._timer_us = 0
        self.kernel.note("tick", self.name)
        self.run(lambda engine: engine.tick())
