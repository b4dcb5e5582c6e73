"""The same worlds made of processes: real daemons, real sockets and disks, killed by SIGKILL.

Each queue manager is a process that runs the daemon's code (``proof.sim.process``); between
each two of them stands a relay in this process, to which both are connected over TCP. Time goes on
only when every process has said that it has nothing left to do, and when all that was written on
any connection has been read. So every wait is for something that comes, and a run is the same
each time, however slow the machine is.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from onceq.client.opening import connect
from onceq.client.threads.manager import QueueManager
from onceq.directory import Directory, FileDirectory, create
from onceq.errors import OnceqError
from onceq.file_access import CONFIGURATION_FILE, SOCKET_FILE
from onceq.model.identity import Identity, guid_text
from onceq.model.requests import Request
from onceq.model.settings import Settings
from onceq.store.files import RealFiles
from onceq.store.log import LogStore
from onceq.wire.app import frames
from onceq.wire.app.frames import decode
from proof.sim.process.process import SEGMENT_BYTES
from tests import nursery
from tests.conformance.applications import AnswerLost, Applications
from tests.conformance.clocks import START_S, HostClock
from tests.conformance.connections import CHUNK_BYTES, WAIT_S, Door, End, SocketWire
from tests.conformance.requests import hello, request_frame
from tests.conformance.strangers import ProcessStranger
from tests.conformance.world import FAST, World

ROUNDS_MAX = 10_000
"""Looks at processes that find no rest at one moment of the clock."""
ANSWER_S_MAX = 10 * 86_400


class ProcessNode(Applications):
    """One queue manager: a directory, and a process while it lives."""

    def __init__(self, world: ProcessWorld, name: str, index: int) -> None:
        super().__init__()
        self.world: ProcessWorld = world
        self.identity = Identity(name.encode().ljust(16, b"\1"), name, START_S - 1000)
        self.address = f"127.77.0.{index}"
        self.path = world.path / name
        self.settings = world.settings
        """For its next start."""
        self.clock = HostClock(world)
        self.routes: dict[bytes, str] = {}
        self.answers: dict[int, object] = {}
        self._kinds: dict[int, object] = {}
        """Of what is asked: the type of its answer."""
        self.ends: dict[tuple[int, int], End] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self.peers_at = ""
        self.restless = True
        """Whether it may have something to do."""
        self._asks = self._heard = 0
        LogStore.create(
            str(self.path), RealFiles(), store_id=b"S" * 16, identity=self.identity.pack(),
            segment_bytes=SEGMENT_BYTES,
        ).close()  # fmt: skip

    # ---- life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Let it live (again)."""
        assert self.process is None
        world = self.world
        self._configure()
        self.clock.boot()
        now = self.clock.read()
        command = [sys.executable, "-m", "proof.sim.process.process"]
        command += ["--data", str(self.path), "--control", world.control_at]
        command += ["--wall-us", str(now.wall_us), "--mono-us", str(now.mono_us)]
        with open(f"{self.path}.log", "ab") as log:
            self.process = nursery.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._control, _ = world.control.accept()
        self._control.settimeout(WAIT_S)
        self._lines = b""
        ready = self._line()
        assert ready, self.said
        self.peers_at = ready["ready"]
        self._now = now
        """What its clocks show, as far as it was told."""
        self._now_us = world.now_us
        self.due_us: int | None = None
        self.restless = True
        self._greet()
        world.see_to_doors()

    def _configure(self) -> None:
        world = self.world
        lines = [f'name = "{self.identity.name}"', f'listen = "{self.address}:0"']
        if isinstance(world.directory, FileDirectory):
            lines.append(f'directory = "{world.directory.path}"')
            lines.append(f'addresses = ["{self.address}"]')
        lines.append("[peers]")
        for name, door in world.doors_from(self.identity.name):
            other = world[name]
            for known in (name, other.address, guid_text(other.identity.guid)):
                lines.append(f'"{known}" = "{door.host}:{door.port}"')
        lines.append("[routes]")
        lines += [f'"{guid_text(guid)}" = "{via}"' for guid, via in self.routes.items()]
        lines.append("[settings]")
        for field in fields(Settings):
            value = getattr(self.settings, field.name)
            if value != field.default:
                lines.append(f"{field.name} = {json.dumps(value)}")
        (self.path / CONFIGURATION_FILE).write_text("\n".join(lines) + "\n")

    def _greet(self) -> None:
        self._parser = frames.Parser()
        self.application = socket.socket(socket.AF_UNIX)
        self.application.settimeout(WAIT_S)
        self.application.connect(str(self.path / SOCKET_FILE))
        self.application.sendall(hello())
        while not self._parser.feed(self.application.recv(CHUNK_BYTES)):
            pass
        self.world.watch(self.application, self._answered)

    @property
    def said(self) -> str:
        """What stands in its log, all lives together."""
        log = Path(f"{self.path}.log")
        return log.read_text() if log.exists() else ""

    @property
    def dead(self) -> bool:
        """Whether it came to its end."""
        return self.process is None

    def kill(self) -> None:
        """SIGKILL: what was written is still there."""
        if self.process is not None:
            self.process.kill()
            self._buried()

    def see_its_end(self) -> None:
        """Wait until it has died by itself."""
        while self.process is not None and self._line():
            pass
        if self.process is not None:
            self._buried()

    crash = kill
    """The worst end that a process can come to; power cuts are for simulated disks."""

    def _buried(self) -> None:
        """It is dead: everybody hears of it."""
        assert self.process is not None
        self.exit_code = self.process.wait()
        self.process = None
        self._control.close()
        self.world.unwatch(self.application)
        self.application.close()
        for wire in list(self.world.wires):
            if self.identity.name in wire.names:
                wire.break_("the computer is gone")
        self.world.see_to_doors()

    def die_at(self, point: str, count: int = 1) -> None:
        """SIGKILL at that point (``onceq.testing.disk``)."""
        self._order(die=point, count=count)
        self.tell()

    def fail_disk(self) -> None:
        """The next sync fails."""
        self._order(fail="sync")
        self.tell()

    def forget_streams(self) -> None:
        """It loses its table of streams (never allowed; the one hole of EOD-25)."""
        self._order(forget="streams")
        self.tell()

    # ---- its clock -------------------------------------------------------------------------

    def _order(self, **order: Any) -> None:
        self._control.sendall(json.dumps(order).encode() + b"\n")

    def _line(self) -> dict[str, Any]:
        """The next line that it says; {} when it has died."""
        while b"\n" not in self._lines:
            try:
                data = self._control.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                return {}
            self._lines += data
        line, self._lines = self._lines.split(b"\n", 1)
        found: dict[str, Any] = json.loads(line)
        return found

    def wants(self, now_us: int) -> bool:
        """Whether it has something to do by that time."""
        due = self.due_us is not None and self.due_us <= now_us > self._now_us
        return self.process is not None and (self.restless or due)

    def ask_rest(self) -> None:
        """Tell it the time, and to say when nothing is left to do."""
        now = self._now = self.clock.read()
        self._asks += 1
        with contextlib.suppress(ConnectionError):
            self._order(wall=now.wall_us, mono=now.mono_us, ask=self._asks)

    def hear_rest(self) -> None:
        """Wait until it has nothing left to do; or until it is dead."""
        if self.process is None or self._heard == self._asks:
            return
        found = self._line()
        while found and found["idle"] != self._asks:
            found = self._line()
        if not found:
            self._buried()
            return
        self._heard = self._asks
        due = found["due"]
        self.due_us = None if due is None else self.clock.true_us(due)
        self._now_us = self.world.now_us
        counts = {(own, other): (read, written) for own, other, read, written in found["wires"]}
        ours = {ports: (end.written, end.read) for ports, end in self.ends.items()}
        self.restless = counts != ours

    @property
    def answering(self) -> bool:
        """Whether a part of an answer has come."""
        return self.process is not None and not self._parser.idle

    def tell(self) -> None:
        """Let it rest at the time it is now."""
        self.ask_rest()
        self.hear_rest()
        self.restless = True

    def told(self) -> bool:
        """See to it that it knows the time; False if it is dead."""
        if self.process is not None and self._now != self.clock.read():
            self.tell()
        return self.process is not None

    # ---- applications ------------------------------------------------------------------------

    def ask(self, request: Request) -> Any:
        """See Applications."""
        assert self.process is not None, f"{self.identity.name} is dead"
        process, world = self.process, self.world
        number = next(self.numbers)
        frame, self._kinds[number] = request_frame(number, request, world.now_us)
        if not self.told():
            raise AnswerLost(f"{self.identity.name} died")
        self.restless = True
        self.application.sendall(frame)
        world.settle()
        until = world.now_us + ANSWER_S_MAX * 1_000_000
        while number not in self.answers and self.process is process:
            assert world.now_us < until, "no answer comes"
            assert world.step(), "no answer comes, and nothing is left that could happen"
        if number not in self.answers:
            raise AnswerLost(f"{self.identity.name} died")
        found = self.answers.pop(number)
        if isinstance(found, OnceqError):
            raise found
        return found

    def stranger(self) -> ProcessStranger:
        """Another application of this queue manager."""
        return ProcessStranger(self)

    @contextlib.contextmanager
    def client(self) -> Iterator[QueueManager]:
        """The client library, connected. Time stands still for it, unless the world runs."""
        self.told()
        with connect(str(self.path), timeout=WAIT_S) as manager:
            yield manager
        self.restless = True

    def _answered(self) -> None:
        try:
            data = self.application.recv(CHUNK_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            self.world.unwatch(self.application)
        for number, code, head, rest in self._parser.feed(data):
            self.answers[number] = decode(self._kinds.pop(number, object), code, head, rest)


class ProcessWorld(World):
    """Several processes; one time, and a clock for each of them."""

    processes = True

    def __init__(self, *names: str, settings: Settings = FAST, directory: bool = False) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="onceq-"))
        self.control_at = str(self.path / "control")
        self.control = socket.socket(socket.AF_UNIX)
        self.control.settimeout(WAIT_S)
        self.control.bind(self.control_at)
        self.control.listen()
        self._selector = selectors.DefaultSelector()
        self._watched: dict[Any, int] = {}
        """Sockets, and their places in the order of making."""
        self._order = 0
        self._doors: dict[tuple[str, str], Door] = {}
        super().__init__(*names, settings=settings, directory=directory)

    def make_directory(self) -> Directory:
        create(str(self.path / "directory.json"))
        return FileDirectory(str(self.path / "directory.json"))

    def directory_online(self, reachable: bool) -> None:
        there, away = self.path / "directory.json", self.path / "elsewhere.json"
        if reachable:
            away.rename(there)
        else:
            there.rename(away)
        self.run(2)

    def populate(self, names: tuple[str, ...]) -> None:
        for index, name in enumerate(names, 1):
            self.nodes[name] = ProcessNode(self, name, index)  # type: ignore[assignment]
        self._doors = {(a, b): Door(self[b].address) for a in names for b in names if a != b}
        for name in names:
            self[name].start()

    def __getitem__(self, name: str) -> Any:
        return self.nodes[name]

    def close(self) -> None:
        """Kill everybody, and leave nothing behind."""
        for node in self._everybody():
            node.kill()
        for door in self._doors.values():
            door.close()
        self.control.close()
        self._selector.close()
        shutil.rmtree(self.path)

    def _everybody(self) -> list[ProcessNode]:
        return list(self.nodes.values())  # type: ignore[arg-type]

    # ---- connections -------------------------------------------------------------------------

    def doors_from(self, name: str) -> list[tuple[str, Door]]:
        """Where that manager finds each other one."""
        return [(b, door) for (a, b), door in self._doors.items() if a == name]

    def see_to_doors(self) -> None:
        """Whoever is alive and can be reached takes connections; nobody else does."""
        for (a, b), door in self._doors.items():
            b = self.leads.get(b, b)
            wanted = a != b and self.link(a, b).up and not self[b].dead
            if wanted and door.listener is None:
                self.watch(door.open(), self._acceptor(a, b, door))
            elif not wanted and door.listener is not None:
                self.unwatch(door.listener)
                door.shut()

    def _acceptor(self, a: str, b: str, door: Door) -> Callable[[], None]:
        def accept() -> None:
            assert door.listener is not None
            made, _ = door.listener.accept()
            self.wires.append(SocketWire(self, (self[a], self[b]), self.link(a, b), made))

        return accept

    def lead(self, name: str, to: str) -> None:
        super().lead(name, to)
        for (_, b), door in self._doors.items():
            if b == name and door.listener is not None:
                self.unwatch(door.listener)
                door.shut()
        self.see_to_doors()

    def cut(self, one: str, other: str) -> None:
        super().cut(one, other)
        self.see_to_doors()

    def mend(self, one: str, other: str) -> None:
        super().mend(one, other)
        self.see_to_doors()

    def watch(self, what: socket.socket, work: Callable[[], None]) -> None:
        """Call ``work`` when there is something to read."""
        self._order += 1
        self._watched[what] = self._order
        self._selector.register(what, selectors.EVENT_READ, work)

    def unwatch(self, what: socket.socket) -> None:
        """No longer."""
        if self._watched.pop(what, None) is not None:
            self._selector.unregister(what)

    def _read(self, wait_s: float) -> bool:
        """Take what has come, from the oldest connection on; whether there was anything."""
        ready = [(self._watched[key.fileobj], key) for key, _ in self._selector.select(wait_s)]
        for order, key in sorted(ready, key=lambda pair: pair[0]):
            if self._watched.get(key.fileobj) == order:
                key.data()
        return bool(ready)

    # ---- time --------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everything happen that can happen before time goes on."""
        for _ in range(ROUNDS_MAX):
            wanting = [node for node in self._everybody() if node.wants(self.now_us)]
            for node in wanting:
                node.ask_rest()
            for node in wanting:
                node.hear_rest()
            late = any(node.restless and not node.dead for node in wanting)
            # A large answer is written as it is read: it is not there yet, and time stands still.
            late = late or any(node.answering for node in self._everybody())
            if not self._read(0.001 if late else 0) and not late and not wanting:
                return
        raise AssertionError(f"no rest at {self.now_us}: {[n.said for n in self._everybody()]}")

    def _next(self) -> int | None:
        times = [self.events[0][0]] if self.events else []
        for node in self._everybody():
            if not node.dead and node.due_us is not None:
                times.append(max(node.due_us, self.now_us + 1))
        return min(times, default=None)

    def step(self) -> bool:
        when = self._next()
        if when is None:
            return False
        self.now_us = max(self.now_us, when)
        while self.events and self.events[0][0] <= self.now_us:
            super().step()
        self.settle()
        return True

    def run(self, seconds: float) -> None:
        end = self.now_us + int(seconds * 1e6)
        self.settle()
        while (when := self._next()) is not None and when <= end:
            self.step()
        self.now_us = end


KINDS: dict[str, type[World]] = {"inside": World, "processes": ProcessWorld}
