"""What a bad network does to packets: lose, repeat, put out of order, hold up, cut off.

All choices come from one seeded generator for each direction of each proxy, so a seed repeats the
plan of faults; when they strike still depends on the machine.
"""

from __future__ import annotations

import random
from array import array
from collections import deque
from dataclasses import dataclass, fields
from typing import Literal

from onceq.model.run import LENGTH_TYPE, Run

Kind = Literal["drop", "repeat", "reorder", "ghost", "stall", "cut"]


@dataclass(frozen=True)
class Rates:
    """One fault of a kind in so many packets, on average; 0: never."""

    drop: int
    repeat: int
    reorder: int
    ghost: int
    stall: int
    cut: int

    @classmethod
    def for_messages(cls, count: int) -> Rates:
        """So that the way of so many messages is rough, however many they are."""
        unit = max(count // 16, 400)
        return cls(unit, unit, 2 * unit, 2 * unit, 3 * unit, 5 * unit)


@dataclass
class Tally:
    """What was done, in packets; cuts and stalls as they are."""

    dropped: int = 0
    repeated: int = 0
    reordered: int = 0
    stalls: int = 0
    cuts: int = 0

    def add(self, other: Tally) -> None:
        """Count together."""
        for item in fields(self):
            setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))


SLICE_MAX = 20
"""Most packets lost, repeated or held back at a time."""
STALL_S = (0.05, 0.3)
GHOSTS_MAX = 32


@dataclass(frozen=True)
class Stop:
    """Nothing more goes this way for a while; ``cut``: never again on this connection, after so
    many bytes of what comes next."""

    seconds: float = 0.0
    cut: bool = False
    share: float = 0.0


class Faults:
    """Passes packets of one direction on, or not.

    Attributes:
        lost: Which of the last run are lost: where they begin in it, and how many they are.
    """

    def __init__(
        self, seed: str, rates: Rates, tally: Tally, *, slice_max: int = SLICE_MAX
    ) -> None:  # fmt: skip
        self._slice_max = slice_max
        self._random = random.Random(seed)
        self._rates = {item.name: getattr(rates, item.name) for item in fields(rates)}
        self._tally = tally
        self._until = {name: self._draw(rate) for name, rate in self._rates.items()}
        self._ghosts: deque[Run] = deque(maxlen=GHOSTS_MAX)
        self._held: Run | None = None
        self.lost: list[tuple[int, int]] = []

    def _draw(self, rate: int) -> float:
        return self._random.expovariate(1 / rate) if rate else float("inf")

    def reconnected(self) -> None:
        """What was held back went down with its connection; ghosts outlive it."""
        self._held = None

    def pass_on(self, run: Run) -> list[Run | Stop]:
        """What comes out where a run went in."""
        out: list[Run | Stop] = []
        self.lost.clear()
        at, count = 0, len(run)
        while at < count:
            kind, step = min(self._until.items(), key=lambda item: item[1])
            take = int(min(step, count - at))
            if take:
                self._emit(run.part(at, take), out)
                at += take
                for name in self._until:
                    self._until[name] -= take
            if self._until[kind] < 1 and at < count:
                at += self._strike(kind, run, at, out)
                self._until[kind] = 1 + self._draw(self._rates[kind])
        return out

    def _emit(self, part: Run, out: list[Run | Stop]) -> None:
        out.append(part)
        if self._held is not None:
            out.append(self._held)
            self._held = None

    def _strike(self, kind: str, run: Run, at: int, out: list[Run | Stop]) -> int:
        """One fault; returns how many packets it used up."""
        size = min(self._random.randint(1, self._slice_max), len(run) - at)
        part = run.part(at, size)
        if kind == "drop":
            self._tally.dropped += size
            self.lost.append((at, size))
        elif kind == "repeat":
            self._tally.repeated += size
            self._emit(part, out)
            self._emit(part, out)
            self._ghosts.append(Run(bytes(part.data), array(LENGTH_TYPE, part.lengths)))
        elif kind == "reorder" and self._held is None:
            self._tally.reordered += size
            self._held = part
        elif kind == "ghost" and self._ghosts:
            ghost = self._random.choice(self._ghosts)
            self._tally.repeated += len(ghost)
            self._emit(ghost, out)
            return 0
        elif kind == "stall":
            self._tally.stalls += 1
            out.append(Stop(self._random.uniform(*STALL_S)))
            return 0
        elif kind == "cut":
            self._tally.cuts += 1
            out.append(Stop(cut=True, share=self._random.random()))
            return 0
        else:
            self._emit(part, out)
        return size
