"""Time, chance, events and the trace of one simulated world; what everything in it stands on.

Time is a whole number of microseconds; a heap holds the events, and those of one moment happen in
the order in which they were planned. All randomness comes from one seed, split into named streams,
so that a new draw in one does not shift the others (I27). Nothing here knows of queue managers.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Final, NoReturn

from proof.sim.base import scale
from proof.sim.base.marks import Marks
from proof.sim.base.options import Options
from proof.sim.base.trace import Trace, Violation

EVENTS_MAX: Final = 400_000
"""A world with more events than that goes round in circles."""


class Kernel:
    """See the module.

    Attributes:
        now: Microseconds since the world began.
        faulty: Whether faults happen now.
        options: What the world is like; settled before anything happens in it.
        marks: How often each hard case was reached.
    """

    def __init__(self, seed: int, options: Options, *, whole_story: bool = False) -> None:
        """Begin at time 0, without faults."""
        self.seed = seed
        self.options = options
        self.scale = scale.draw(self.fresh("scale"))
        self.now = 0
        self.faulty = False
        self.trace = Trace(whole=whole_story)
        self.marks: Marks = Marks()
        self._heap: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._sequence = 0
        self._streams: dict[str, Random] = {}

    # ---- chance -------------------------------------------------------------------------

    def stream(self, name: str) -> Random:
        """The stream of random numbers of that name: the same one at each call."""
        if name not in self._streams:
            self._streams[name] = self.fresh(name)
        return self._streams[name]

    def fresh(self, name: str) -> Random:
        """The stream of that name from its beginning, for one user alone."""
        return Random(f"{self.seed}/{name}")

    # ---- time ---------------------------------------------------------------------------

    def at(self, when_us: int, work: Callable[..., None], *arguments: object) -> None:
        """Something happens then."""
        self._sequence += 1
        heappush(self._heap, (max(when_us, self.now), self._sequence, work, arguments))

    def at_times(self, rng: Random, every_us: int, what: Callable[[], None]) -> None:
        """Something happens again and again, as long as there are faults: so often on average."""

        def due() -> None:
            if self.faulty:
                what()
                self.at_times(rng, every_us, what)

        self.at(self.now + int(rng.expovariate(1 / every_us)) + 1, due)

    def run_until(self, end_us: int, done: Callable[[], bool]) -> bool:
        """Let things happen; whether ``done`` held before the time was over."""
        while self._heap and self._heap[0][0] <= end_us:
            when, _, work, arguments = heappop(self._heap)
            self.now = when
            work(*arguments)
            if self.trace.events > EVENTS_MAX:
                self.wrong(f"I26: more than {EVENTS_MAX} events: something goes round in circles")
            if done():
                return True
        self.now = end_us
        return done()

    # ---- what is said of it -------------------------------------------------------------

    def note(self, *what: object) -> None:
        """Put something into the trace."""
        self.trace.note(self.now, *what)

    def wrong(self, what: str, detail: str = "") -> NoReturn:
        """An invariant does not hold."""
        raise Violation(what + (f"\n{detail}" if detail else ""))
