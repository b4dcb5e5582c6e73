"""The daemon of ``make bench-pauses``: a queue manager that notes how long its loop stands still.

A *beat* is asked for every millisecond. One that comes late says how long the loop served nobody,
and what has run meanwhile says why. Of a pause is noted how long it lasted, how much of it the
thread of the loop has worked, how long it waited for a core or for the disk, and what for. When the
daemon ends in order, all this is written into the file that the first argument names.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from onceq.core import manager
from onceq.core.management import jobs
from onceq.core.manager import Manager
from onceq.core.step.step import Step
from onceq.model.requests import Look
from onceq.service import daemon
from onceq.service.committer import Committer
from onceq.service.engine import Engine
from onceq.service.main import main
from onceq.service.upkeep import GivingBack, Upkeep
from onceq.store.files import RealFiles
from onceq.store.log import LogStore

BEAT_S: Final = 0.001
NOTED_S: Final = 0.005
"""Shorter pauses are not worth a line."""
LOOK_S: Final = 0.05
"""How often it is looked what other machines on the same hardware take from this one."""
MACHINE: Final = Path("/proc/stat")
DISK: Final = "sync"
COLLECTION: Final = "search for garbage"


@dataclass
class Pause:
    """A time in which the loop served nobody. Milliseconds, but for ``at``.

    Attributes:
        at: When it was over, in seconds of the machine's monotonic clock.
        long: How long it lasted.
        worked: Processor time of the loop's thread.
        others: Processor time of the other threads of the daemon.
        core: How long the thread was ready to run and had no core.
        disk: How long it waited for the disk.
        stolen: How long the machine had no processor, because of others on the same hardware; with
            what came just before. Its clock is coarse.
        work: What has run, to how long it lasted and its thread worked, without what it called, and
            how often it ran.
    """

    at: float
    long: float
    worked: float
    others: float
    core: float
    disk: float
    stolen: float
    work: dict[str, tuple[float, float, int]] = field(default_factory=dict)


@dataclass(slots=True)
class Spent:
    """Seconds that have passed, and in which a thread has worked; over how many calls."""

    long: float = 0.0
    worked: float = 0.0
    calls: int = 0

    @classmethod
    def now(cls) -> Spent:
        """As the clocks show it."""
        return cls(time.monotonic(), time.thread_time())

    def since(self, began: Spent) -> Spent:
        """What lies between."""
        return Spent(self.long - began.long, self.worked - began.worked)

    def add(self, other: Spent) -> None:
        """Both together."""
        self.long += other.long
        self.worked += other.worked
        self.calls += 1


class Watch:
    """Looks at the loop from inside. All of it runs in the thread of the loop."""

    def __init__(self) -> None:
        self.pauses: list[Pause] = []
        self.pumps: list[tuple[float, float]] = []
        """When one of the longer ones was over, and its milliseconds."""
        self.counted: dict[str, list[tuple[float, float]]] = {}
        """What has happened, to when it began, and milliseconds of work, with all it called."""
        self._work: dict[str, Spent] = {}
        self._inner = Spent()
        """Time of what was called by that which runs now."""
        self._collecting = Spent()
        self._thread = 0
        self._schedule = -1
        self._last = (0.0, 0.0, 0.0, 0.0)
        self._disk = 0.0
        self._machine = -1
        self._stolen = (0.0, 0.0)
        """When it was looked what was stolen by then, and how much that was."""

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at this loop, from its first turn on."""
        loop.call_soon(self._first, loop)

    def _first(self, loop: asyncio.AbstractEventLoop) -> None:
        self._thread = threading.get_ident()
        own = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        if own.exists():
            self._schedule = os.open(own, os.O_RDONLY)
        if MACHINE.exists():
            self._machine = os.open(MACHINE, os.O_RDONLY)
        gc.callbacks.append(self._garbage)
        self._last = self._now()
        loop.call_later(BEAT_S, self._beat, loop)

    def _now(self) -> tuple[float, float, float, float]:
        waited = 0
        if self._schedule >= 0:
            waited = int(os.pread(self._schedule, 100, 0).split()[1])
        return time.monotonic(), time.thread_time(), time.process_time(), waited / 1e9

    def _theft(self) -> float:
        """Seconds in which one of the machine's cores had to wait for real ones, ever."""
        if self._machine < 0:
            return 0.0
        return int(os.pread(self._machine, 200, 0).split()[8]) / os.sysconf("SC_CLK_TCK")

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        found = self._now()
        at, worked, process, core = found
        long = at - self._last[0] - BEAT_S
        if long >= NOTED_S:
            worked, process, core = (a - b for a, b in zip(found[1:], self._last[1:], strict=True))
            stolen, before = self._theft(), self._stolen[1]
            self._stolen = (at, stolen)
            work = {
                what: (1e3 * spent.long, 1e3 * spent.worked, spent.calls)
                for what, spent in self._work.items()
                if spent.long >= NOTED_S / 10
            }
            self.pauses.append(
                Pause(at, 1e3 * long, 1e3 * worked, 1e3 * (process - worked), 1e3 * core,
                      1e3 * self._disk, 1e3 * (stolen - before), work)
            )  # fmt: skip
        elif at - self._stolen[0] > LOOK_S:
            self._stolen = (at, self._theft())
        self._last, self._disk = found, 0.0
        self._work.clear()
        loop.call_later(BEAT_S, self._beat, loop)

    def _garbage(self, phase: str, info: dict[str, int]) -> None:
        """It stops all threads, whichever it runs in."""
        if phase == "start":
            self._collecting = Spent.now()
        else:
            took = Spent.now().since(self._collecting)
            what = f"{COLLECTION}, generation {info['generation']}"
            self._over(what, took)
            self._inner.add(took)
            self.counted.setdefault(what, []).append((self._collecting.long, 1e3 * took.worked))

    def calls(self, of: Any, name: str, label: str | Callable[..., str], *, count: bool) -> None:
        """Look at each call of a function, under a label, or one that its arguments give."""
        before = getattr(of, name)

        @functools.wraps(before)
        def call(*args: Any, **named: Any) -> Any:
            if threading.get_ident() != self._thread:
                return before(*args, **named)
            outer, self._inner = self._inner, Spent()
            began = Spent.now()
            try:
                return before(*args, **named)
            finally:
                what = label if isinstance(label, str) else label(*args)
                took = Spent.now().since(began)
                self._over(what, took.since(self._inner))
                if what == DISK:
                    self._disk += took.long
                elif what == "pump" and took.long >= NOTED_S:
                    self.pumps.append((time.monotonic(), 1e3 * took.long))
                if count:
                    self.counted.setdefault(what, []).append((began.long, 1e3 * took.worked))
                self._inner = outer
                outer.add(took)

        setattr(of, name, call)

    def _over(self, what: str, took: Spent) -> None:
        self._work.setdefault(what, Spent()).add(took)

    def write(self, name: str) -> None:
        """Everything that was noted."""
        found = {
            "pauses": [asdict(pause) for pause in self.pauses], "pumps": self.pumps,
            "counted": self.counted,
        }  # fmt: skip
        Path(name).write_text(json.dumps(found))


def step_of(_: Manager, __: object, item: object) -> str:
    """How a step is called."""
    return f"Look {item.what}" if isinstance(item, Look) else type(item).__name__


def look_at(watch: Watch) -> None:
    """Put the watch before each function that may take long."""
    counted: list[tuple[Any, str, str | Callable[..., str]]] = [
        (Manager, "snapshot", "snapshot"),
        (Manager, "sparse", "search of a sparse segment"),
        (GivingBack, "some", "segments given back"),
        (Upkeep, "_covers", "checkpoint installed"),
        (jobs, "expire", "expiry"),
        (Step, "go_on", "portion of a long work"),
    ]
    for of, name, label in counted:
        watch.calls(of, name, label, count=True)
    plain: list[tuple[Any, str, str | Callable[..., str]]] = [
        (Engine, "pump", "pump"),
        (Committer, "settle", "actions"),
        (Upkeep, "work", "upkeep"),
        (LogStore, "append", "append"),
        (RealFiles, "sync", DISK),
        (RealFiles, "write", "write"),
        (RealFiles, "read", "read"),
        (RealFiles, "allocate", "allocation of a file"),
        (RealFiles, "unlink", "removal of a file"),
        (RealFiles, "rename", "renaming of a file"),
        (RealFiles, "sync_directory", DISK),
        (manager, "_tell_news", "handing out"),
    ]
    for of, name, label in plain:
        watch.calls(of, name, label, count=False)
    watch.calls(Manager, "step", step_of, count=True)
    for timer, rule in list(manager._TIMERS.items()):
        table = {timer.name: rule}
        rules = type("Rules", (), table)
        watch.calls(rules, timer.name, f"timer {timer.name}", count=False)
        manager._TIMERS[timer] = getattr(rules, timer.name)


def watched(result: str, arguments: list[str]) -> int:
    """Run the daemon, and write what was noted."""
    watch = Watch()
    look_at(watch)
    new_loop = daemon.new_loop

    def loop() -> asyncio.AbstractEventLoop:
        made = new_loop()
        watch.begin(made)
        return made

    daemon.new_loop = loop
    try:
        return main(arguments)
    finally:
        watch.write(result)


if __name__ == "__main__":
    sys.exit(watched(sys.argv[1], sys.argv[2:]))
