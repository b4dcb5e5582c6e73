"""Somebody of one kind who attacks, as ``make liar`` has them: a table of lies, told over and over.

Each kind is a module with a class that says its lies (``lies``). Each lie is tried for itself, and
says whether it was refused; one that was believed fails the run, and so does a kind of which
nothing was tried.
"""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from onceq.errors import OnceqError
from proof.torture.liar.honest import Honest

Lie = Callable[[], bool]
"""Tells one lie; returns whether it was refused (else it was allowed, as it may be), or raises
``Believed``."""


class Believed(Exception):
    """A queue manager has believed a lie, or has done what it must not."""


class NotHere(Exception):
    """Why a kind cannot be tried on this computer."""


@dataclass
class Tally:
    """What became of the lies of one kind.

    Attributes:
        kind: Who tells them.
        tried, refused: How often, by lie.
        absent: Why nothing can be tried here; "": it can.
        notes: What else there is to say of it.
    """

    kind: str
    tried: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    absent: str = ""
    notes: list[str] = field(default_factory=list)


class Rogue(threading.Thread, ABC):
    """Lies until it is told to end.

    Attributes:
        used: GUIDs under which it may be accused, as text.
    """

    kind: ClassVar[str]
    pause_s: ClassVar[float] = 0.05
    """Between two lies, so that the honest have time to work."""

    def __init__(self, honest: Honest, seed: int) -> None:
        super().__init__(daemon=True)
        self.honest = honest
        self.rng = random.Random(f"{self.kind} {seed}")
        self.over = threading.Event()
        self.failures: list[str] = []
        self.used: set[str] = set()
        self.tally = Tally(self.kind)
        self.all_told = False

    def prepare(self) -> None:
        """Get what the lies need, with what an administrator gives; raises NotHere."""

    @abstractmethod
    def lies(self) -> Mapping[str, Lie]:
        """The table."""

    def leave(self) -> None:
        """Close what is open."""

    def judge(self) -> None:
        """Look, when everything is over, whether something was believed; raises Believed."""

    def run(self) -> None:
        """See Thread."""
        try:
            self.prepare()
            table = self.lies()
            while not self.over.is_set():
                self._tell_all(table)
        except Believed as what:
            self.failures.append(f"{self.kind}: {what}")
            self.all_told = True
        except NotHere as why:
            self.tally.absent, self.all_told = str(why), True
        except Exception as error:  # noqa: BLE001 - the thread that joins it reports it
            self.failures.append(f"{self.kind} failed: {error!r}")
            self.all_told = True
        finally:
            self.leave()

    def judged(self) -> None:
        """Add what ``judge`` finds, and what was not tried, to the failures."""
        if not self.tally.absent:
            self.failures += [
                f"{self.kind}: nothing was tried of {name!r}"
                for name in self.lies()
                if not self.tally.tried[name]
            ]
        try:
            self.judge()
        except (Believed, OnceqError) as what:
            self.failures.append(f"{self.kind}: {what}")

    def _tell_all(self, table: Mapping[str, Lie]) -> None:
        for name in self.rng.sample(sorted(table), len(table)):
            if self.over.is_set():
                return
            self._tell(name, table[name])
            self.over.wait(self.pause_s)
        self.all_told = True

    def _tell(self, name: str, lie: Lie) -> None:
        refused = False
        try:
            refused = lie()
        except Believed as what:
            self.failures.append(f"{self.kind}, {name}: {what}")
        except ConnectionRefusedError as error:
            self.failures.append(f"{self.kind}, {name}: nobody listens: {error}")
        except OSError:
            refused = True  # it was cut off
        self.tally.tried[name] += 1
        self.tally.refused[name] += refused


def believed(wrong: object, what: str) -> None:
    """Raise Believed if something is so."""
    if wrong:
        raise Believed(what)
