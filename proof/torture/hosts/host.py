"""The host of programs (``make hosts``): its daemons, what it does when a program asks for it,
and how it waits for the ends of programs and their children.

A daemon writes to a pipe that is full, and that nobody reads. What a program writes is read, but
for a while in which it is not.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from onceq.client.credentials import Tls
from onceq.embedded import trusting
from onceq.tls import folder as tls_folder
from proof.nodes import Node, free_port

HANGS_S = 30.0
"""A program that is not over then hangs: it waits for nothing longer than a few seconds."""
CHILD_S = 15.0
SAID_BYTES = 6000


class Daemon:
    """One that is started again whenever it was killed."""

    def __init__(self, folder: Path, name: str) -> None:
        self.node = Node(folder, name, free_port(), {}, clients=True, unread=True)
        configuration = self.node.path / "onceq.toml"
        configuration.write_text(f'log_level = "debug"\n{configuration.read_text()}')
        self.pid_file = folder / f"{name}.pid"

    def start(self) -> None:
        """Let programs find it."""
        self.node.start()
        self.pid_file.write_text(str(self.node.pid))

    def revive(self) -> None:
        """Start it again if it is over; it does not stand still any more."""
        if self.node.process is not None and self.node.process.poll() is not None:
            self.node.kill()
            self.start()
        else:
            os.kill(self.node.pid, signal.SIGCONT)


class Daemons:
    """One with an identity, whose connections over TCP are TLS, and one without."""

    def __init__(self, folder: Path) -> None:
        self._trusted, self._plain = Daemon(folder, "A"), Daemon(folder, "B")
        path = str(self._trusted.node.path)
        trusting.init(path, hosts=["127.0.0.1"])
        for daemon in (self._trusted, self._plain):
            daemon.start()
        self.tls = Tls(str(Path(path) / "tls" / tls_folder.AUTHORITIES))

    def of(self, place: str) -> Daemon | None:
        """The one of a place, or none."""
        if place == "embedded":
            return None
        return self._plain if place == "tcp" else self._trusted

    def where(self, place: str) -> str:
        """For ``connect``; "": nowhere."""
        return {
            "unix": str(self._trusted.node.path),
            "tls": f"tls://{self._trusted.node.clients_at}",
            "tcp": f"onceq://{self._plain.node.clients_at}",
        }.get(place, "")

    def token(self, place: str) -> str:
        """For ``connect``; "": the account says who it is."""
        daemon = self.of(place)
        return daemon.node.token if daemon is not None and place != "unix" else ""

    def close(self) -> None:
        """End both."""
        for daemon in (self._trusted, self._plain):
            daemon.revive()
            daemon.node.kill(signal.SIGTERM)


@dataclass
class Order:
    """What a program wants to be done at a time: to let another process go on, or to kill it."""

    whom: str
    what: str
    when: float


class Host:
    """Of one program: its streams, and what it is waited for with.

    Attributes:
        orders, hold: See ``Place``.
    """

    def __init__(self, folder: Path, daemon: Daemon | None) -> None:
        self._daemon = daemon
        self.told = folder / "told.txt"
        self.told.write_text("")
        self.pid_file = daemon.pid_file if daemon is not None else folder / "nobody"
        self._orders, self.orders = os.pipe()
        self.hold, self._held = os.pipe()
        self._reads, self._writes = os.pipe()
        self._said = b""
        self._due: list[Order] = []

    def __enter__(self) -> Host:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in (self._orders, self.hold, self._reads, self.orders, self._writes, self._held):
            if number >= 0:
                os.close(number)

    def become_program(self) -> None:
        """In the process that was forked for it: keep only the ends that are a program's."""
        os.dup2(self._writes, 1)
        os.dup2(self._writes, 2)
        for number in (self._orders, self._held, self._reads, self._writes):
            os.close(number)

    def attend(self, program: int) -> list[str]:
        """Do what a program wants, until it and those of its children are over that are to be over
        by themselves: what is wrong with that."""
        os.close(self._writes)
        self._writes = -1
        faults = self._end(program, program, HANGS_S, "the program")
        _, status = os.waitpid(program, 0)
        code = os.waitstatus_to_exitcode(status)
        if not faults and code and f"dies {-code}" not in self.told.read_text():
            faults.append(f"the program ended with {code}:\n{self._tail()}")
        return faults + self._children("child ", program)

    def release(self) -> list[str]:
        """Let the children go that were to linger until the judgement."""
        os.close(self._held)
        self._held = -1
        return self._children("lingers ", 0)

    def _children(self, word: str, program: int) -> list[str]:
        faults = []
        for line in self.told.read_text().splitlines():
            line = line.removeprefix("again ")
            if line.startswith(word):
                faults += self._end(int(line.removeprefix(word)), program, CHILD_S, "a child")
        return faults

    def _end(self, process: int, program: int, limit_s: float, who: str) -> list[str]:
        """Wait for the end of a process; one that hangs is ended, and says where."""
        try:
            file = os.pidfd_open(process)
        except ProcessLookupError:
            return []
        try:
            until, hangs = time.monotonic() + limit_s, False
            while not self._turn(file, program):
                if time.monotonic() > until:
                    signal.pidfd_send_signal(file, signal.SIGKILL if hangs else signal.SIGABRT)
                    until, hangs, self._due = time.monotonic() + 2, True, []
            while self._read():
                pass
        finally:
            os.close(file)
        return [f"{who} hangs:\n{self._tail()}"] if hangs else []

    def _turn(self, file: int, program: int) -> bool:
        """Wait a moment, and do what is to be done; whether the process is over."""
        unread = any(order.whom == "reader" for order in self._due)
        ends = [file, self._orders] + ([] if unread else [self._reads])
        ready = select.select(ends, [], [], 0.02)[0]
        if self._orders in ready:
            for line in os.read(self._orders, 4096).decode().splitlines():
                whom, what, pause_s = line.split()
                self._due.append(Order(whom, what, time.monotonic() + float(pause_s)))
        elif self._reads in ready and file not in ready:
            self._read()
        self._due = [order for order in self._due if not self._carry_out(order, program)]
        process = self._daemon.node.process if self._daemon is not None else None
        if self._daemon is not None and process is not None and process.poll() is not None:
            self._daemon.revive()
        return file in ready

    def _carry_out(self, order: Order, program: int) -> bool:
        """Carry an order out if its time has come; whether it is done."""
        if time.monotonic() < order.when:
            return False
        if order.whom == "reader":
            return True
        process = program if order.whom == "program" else self._daemon_pid()
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            if process and order.what == "kill":
                os.kill(process, signal.SIGKILL)
            elif process and _stands(process):
                os.kill(process, signal.SIGCONT)
            elif process:
                return False  # It is about to stand still.
        return True

    def _daemon_pid(self) -> int:
        process = self._daemon.node.process if self._daemon is not None else None
        return process.pid if process is not None and process.poll() is None else 0

    def _read(self) -> bool:
        """Read what was written; whether there was anything."""
        if not select.select([self._reads], [], [], 0)[0]:
            return False
        data = os.read(self._reads, 65536)
        self._said = (self._said + data)[-SAID_BYTES:]
        return bool(data)

    def _tail(self) -> str:
        return self._said.decode(errors="replace").strip("\n")


def _stands(process: int) -> bool:
    """Whether it was stopped by a signal."""
    with open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] in ("T", "t")
