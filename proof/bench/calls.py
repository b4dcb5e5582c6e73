"""Counts the calls of Python functions that a message costs: a figure without noise.

A commit of one message in a manager inside the process, and one message to another manager: at its
sender (commit and transmission) and at its receiver (arrival, acknowledgment, and the receive of an
application). Threads of the managers are counted too. Calls into C are not.

    python -m proof calls                 # this tree
    PYTHONPATH=OTHER/src python -m proof calls --json
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

import onceq

MESSAGES = 300
WARM_UP = 50
SETTLE_S = 1.5
"""Longer than order and final acknowledgments are put off."""


class Calls:
    """Counts calls of Python functions, by function, in every thread that starts after it."""

    def __init__(self) -> None:
        self.found: Counter[CodeType] = Counter()
        self.counting = False

    def install(self) -> None:
        """Begin to listen; nothing is counted yet."""
        threading.setprofile(self._count_call)
        sys.setprofile(self._count_call)

    def _count_call(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and self.counting:
            self.found[frame.f_code] += 1

    def per(self, count: int) -> float:
        """Return the calls inside onceq for each of ``count`` messages."""
        return sum(n for code, n in self.found.items() if "/onceq/" in code.co_filename) / count

    def most(self, count: int, lines: int) -> list[str]:
        """The functions that are called most."""
        return [
            f"{n / count:8.2f}  {code.co_filename.rpartition('/onceq/')[2]}:{code.co_name}"
            for code, n in self.found.most_common(lines)
        ]


def commit(folder: Path, show: int) -> float:
    """Calls of one commit of one message, inside the process."""
    calls = Calls()
    calls.install()
    qm = onceq.open(str(folder / "one"), name="ONE", create=True)
    qm.create_queue(r"private$\q", transactional=True)

    def one() -> None:
        with qm.transaction() as tx:
            tx.send(r"private$\q", b"x")

    for _ in range(WARM_UP):
        one()
    calls.counting = True
    for _ in range(MESSAGES):
        one()
    calls.counting = False
    sys.setprofile(None)
    qm.close()
    _show(calls, show, "commit")
    return calls.per(MESSAGES)


def _show(calls: Calls, lines: int, what: str) -> None:
    if lines:
        print(f"{what}:", *calls.most(MESSAGES, lines), sep="\n", file=sys.stderr)


def part(folder: Path, name: str, ports: dict[str, int], show: int) -> None:
    """One of the two managers, driven through standard input: a line for each message."""
    calls = Calls()
    calls.install()
    other = "TWO" if name == "ONE" else "ONE"
    qm = onceq.open(
        str(folder / f"pair-{name}"), name=name, create=True, listen=f"127.0.0.1:{ports[name]}",
        peers={other: f"127.0.0.1:{ports[other]}"},
    )  # fmt: skip
    if name == "TWO":
        qm.create_queue(r"private$\q", transactional=True)
    print("ready", flush=True)
    for line in sys.stdin:
        word = line.strip()
        if word == "count":
            calls.counting = True
        elif word == "stop":
            time.sleep(SETTLE_S)
            calls.counting = False
        elif name == "ONE":
            with qm.transaction() as tx:
                tx.send(r"DIRECT=OS:TWO\private$\q", b"x")
        else:
            qm.receive(r"private$\q", timeout=30)
        print("done", flush=True)
    sys.setprofile(None)
    print(calls.per(MESSAGES), flush=True)
    _show(calls, show, name)
    qm.close()


def forwarded(folder: Path, show: int) -> tuple[float, float]:
    """Calls at the sender and at the receiver of one message."""
    ports = {name: _free_port() for name in ("ONE", "TWO")}
    parts = {
        name: subprocess.Popen(
            [
                sys.executable, "-m", "proof", "calls", "--part", name, "--folder", str(folder),
                "--show", str(show), "--ports", json.dumps(ports),
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name in ports
    }  # fmt: skip

    def tell(name: str, word: str) -> None:
        to, back = parts[name].stdin, parts[name].stdout
        assert to is not None
        assert back is not None
        to.write(word + "\n")
        to.flush()
        assert back.readline().strip() == "done", f"{name} has ended"

    try:
        for process in parts.values():
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "ready"
        for at in range(WARM_UP + MESSAGES):
            if at == WARM_UP:
                for name in parts:
                    tell(name, "count")
            for name in ("ONE", "TWO"):
                tell(name, "message")
        for name in parts:
            tell(name, "stop")
        found = []
        for process in parts.values():
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            found.append(float(process.stdout.readline()))
        return found[0], found[1]
    finally:
        for process in parts.values():
            process.terminate()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--show", type=int, default=0, help="how many of the functions called most")
    parser.add_argument("--part", choices=("ONE", "TWO"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ports", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.part:
        part(given.folder, given.part, given.ports, given.show)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        one = commit(Path(folder), given.show)
        sender, receiver = forwarded(Path(folder), given.show)
    found = {"commit": one, "sender": sender, "receiver": receiver}
    if given.json:
        print(json.dumps(found))
    else:
        for name, calls in found.items():
            print(f"{name:10} {calls:8.1f} calls of Python functions a message")
    return 0
