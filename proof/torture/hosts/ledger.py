"""What is drawn of a program that a host does something to, and what the program is told
(``make hosts``).

All of it is drawn from one seed: the face (threads, tasks), where its queue manager is, the calls,
what comes in each of them, and at which line.
"""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import dataclass

from onceq.client.credentials import Tls
from onceq.errors import InDoubt, LinkLost, OnceqError
from proof.torture.hosts.deeds import Broken

FACES = ("threads", "tasks")
PLACES = ("unix", "tcp", "tls", "embedded")
DEEDS = (
    "close", "raise", "exit", "interrupt", "terminate", "collect", "fork", "fork and work",
    "fork and linger", "spawn", "stop the program", "fill the pipe", "stop the manager",
    "stop and kill the manager", "kill the manager",
)  # fmt: skip
"""Of both faces."""
OF_FACE = {
    "threads": ("send", "send in the transaction", "receive", "stop", "thread"),
    "tasks": ("cancel", "cancel", "stop", "second loop"),
}
RARE = (
    "exit", "interrupt", "spawn", "kill the manager", "stop and kill the manager",
    "stop the program", "stop the manager", "fill the pipe",
)  # fmt: skip
"""They take a while: more than half of them are something else instead."""
ENDS = ("exit", "interrupt", "terminate", "kill the manager", "stop and kill the manager")
EARLY = 6
"""Until that step so are most of those that may end the program."""
LOOPS = ("consume", "work")
CALLS = ("send", "commit", "move", "take", "consume", "work", "run", "look")
CALLS_OF = {"terminate": LOOPS, "send in the transaction": ("commit",)}
"""Elsewhere they would do nothing, or end the program as an exit does."""
LINES_MAX = 420
STEPS = 10
FILLED = 12


@dataclass(frozen=True)
class Step:
    """A call of a program, and what is done to it at the n-th line of the call.

    Attributes:
        pause_s: How long a stopped process stands still.
    """

    call: str
    deed: str
    line: int
    pause_s: float


@dataclass(frozen=True)
class Drawn:
    """One program.

    Attributes:
        seed: Of all that is drawn.
        impatient: Whether it gives up a silent queue manager soon.
    """

    seed: str
    face: str
    place: str
    impatient: bool
    steps: tuple[Step, ...]


def draw(seed: str) -> Drawn:
    """A program of that seed."""
    rng = random.Random(seed)
    face = rng.choice(FACES)
    steps = []
    for number in range(STEPS):
        line = int(LINES_MAX ** rng.random()) if rng.random() < 0.3 else rng.randint(1, LINES_MAX)
        deeds = DEEDS + OF_FACE[face]
        deed = rng.choice(deeds)
        if rng.random() < (0.7 if deed in ENDS and number < EARLY else 0.6 * (deed in RARE)):
            deed = rng.choice(deeds)
        call = rng.choice(CALLS_OF.get(deed, CALLS))
        steps.append(Step(call, deed, line, rng.choice((0.05, 0.2, 0.8))))
    return Drawn(seed, face, rng.choice(PLACES), rng.random() < 0.5, tuple(steps))


@dataclass(frozen=True)
class Place:
    """Where a program finds its queue manager, its queues and its host; it can be pickled.

    Attributes:
        kind: One of PLACES.
        where: For ``onceq.connect``, or the data directory of an embedded one.
        token: That says who it is, over TCP.
        told: File that it writes down in what it is told.
        pid: File with the number of the daemon's process.
        orders: Descriptor of a pipe to the host.
        hold: One that ends when the program is judged.
    """

    kind: str
    where: str
    tls: Tls | None
    token: str
    queues: tuple[str, str, str]
    told: str
    pid: str
    orders: int
    hold: int


class Ledger:
    """What a program is told, written down at once."""

    def __init__(self, file: str) -> None:
        self._file = os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC)
        self._process = self._began = os.getpid()
        self._count = 0

    @property
    def in_child(self) -> bool:
        """Whether this is a child of the program."""
        return os.getpid() != self._process

    def begin(self) -> None:
        """A call begins."""
        self._began = os.getpid()

    def name(self) -> str:
        """For a new message, which is about to be sent."""
        self._count += 1
        name = f"{'c' if self.in_child else 'p'}{os.getpid()}-{self._count}"
        self.say("tries", name)
        return name

    def say(self, fate: str, what: str) -> None:
        """Write a line."""
        again = "" if self._began == os.getpid() else "again "
        os.write(self._file, f"{again}{fate} {what}\n".encode())

    def note(self, names: list[str], error: BaseException | None) -> None:
        """Write down what became of these messages. An error that is neither ours nor the deed's
        stands beside nothing."""
        fate = fate_of(error) if error is not None else "sent"
        ours = (OnceqError, Broken, SystemExit, KeyboardInterrupt, asyncio.CancelledError,
                GeneratorExit)  # fmt: skip
        if error is not None and not isinstance(error, ours):
            self.say("fault", f"an error that is none of ours: {error!r}")
        for name in names:
            self.say(fate, name)


def fate_of(error: BaseException) -> str:
    """What an error says of the call that it ended."""
    if isinstance(error, (LinkLost, InDoubt)) or not isinstance(error, OnceqError):
        return "doubt"
    return "refused"
