"""What copies add up to, in plain numbers: those of two parts of them together are ``+`` of both.

So one definition serves an audit in one process, one that goes on from a proof, and Spark's, whose
parts each give their sums. Nothing here depends on how the copies were cut into parts: latencies
are rounded one by one, and pieces of time are powers of two that begin at their multiples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from onceq.audit.arrays import Ints

DIGITS: Final = 3
"""Of a latency: a percentile is at most 0.5 % off. The longest is kept exactly."""
PIECES_MAX: Final = 128
"""Pieces of time in a picture of traffic, at most; there are more than half of them."""
_POWERS: Final = 10 ** np.arange(19, dtype=np.int64)

Way = tuple[str, str, str]
"""Route, and the begin and end of a part of the way."""
Counts = dict[str, int]


def rounded(values: Ints) -> Ints:
    """Each value to its first digits; one that is rounded already stays."""
    digits = np.searchsorted(_POWERS, np.abs(values), "right")
    step = _POWERS[np.maximum(digits - DIGITS, 0)]
    return np.asarray((values + step // 2) // step * step)


@dataclass(slots=True)
class Times:
    """How long something took.

    Attributes:
        counts: Microseconds, rounded, and how many messages took so long.
        most: Microseconds of the longest, exactly.
    """

    counts: dict[int, int]
    most: int

    @property
    def messages(self) -> int:
        """How many it was."""
        return sum(self.counts.values())

    def at(self, *percents: int) -> list[int]:
        """Microseconds that so many per cent of the messages took at most."""
        total, upto = self.messages, 0
        found: list[int] = []
        ranks = [-(-percent * total // 100) for percent in percents]  # rounded up, exactly
        for value, count in sorted(self.counts.items()):
            upto += count
            while len(found) < len(ranks) and upto >= ranks[len(found)]:
                found.append(min(value, self.most))
        return found

    def add(self, other: Times) -> None:
        """With those of another part."""
        for value, count in other.counts.items():
            self.counts[value] = self.counts.get(value, 0) + count
        self.most = max(self.most, other.most)


@dataclass(slots=True)
class Again:
    """Messages of a route that were transmitted more than once.

    Attributes:
        times: How often they were transmitted beyond the first time.
        came_again: How often one arrived again.
    """

    messages: int
    times: int
    came_again: int

    def add(self, other: Again) -> None:
        """With those of another part."""
        self.messages += other.messages
        self.times += other.times
        self.came_again += other.came_again


@dataclass(slots=True)
class Late:
    """Messages of a stream that wait too long.

    Attributes:
        since_us: When the one was committed that waits longest.
    """

    messages: int
    first_number: int
    since_us: int

    def add(self, other: Late) -> None:
        """With those of another part."""
        self.messages += other.messages
        self.first_number = min(self.first_number, other.first_number)
        self.since_us = min(self.since_us, other.since_us)


@dataclass(slots=True)
class Traffic:
    """Messages by time.

    Attributes:
        first, last: Seconds of the first and the last event; first is behind last if there are
            none.
        counts: By route, what happened, and the second in which a piece of time begins.
    """

    first: int = 0
    last: int = -1
    counts: dict[tuple[str, str, int], int] = field(default_factory=dict)

    @property
    def step(self) -> int:
        """Seconds of one piece of time."""
        return step_of(self.first, self.last)

    def add(self, other: Traffic) -> None:
        """With that of another part: its pieces are parts of those of both."""
        if other.last < other.first:
            return
        counts = [self.counts, other.counts]
        ends = [self, other] if self.last >= self.first else [other]
        self.first, self.last = min(one.first for one in ends), max(one.last for one in ends)
        step, self.counts = self.step, {}
        for (route, what, second), count in (item for one in counts for item in one.items()):
            key = (route, what, second // step * step)
            self.counts[key] = self.counts.get(key, 0) + count


def step_of(first: int, last: int) -> int:
    """Seconds of one piece of time between these seconds: never fewer than between any within."""
    step = 1
    while last // step - first // step >= PIECES_MAX:
        step *= 2
    return step


@dataclass(slots=True)
class Sums:
    """See the module.

    Attributes:
        states: Copies in each state, by its name for people.
        took: By route and part of the way.
        again: By route.
        late: By route and stream.
        untold: Parties that sent some, and have no history.
        blind: Queues whose receiver has no history, and that acknowledged messages went to.
    """

    states: Counts = field(default_factory=dict)
    took: dict[Way, Times] = field(default_factory=dict)
    again: dict[str, Again] = field(default_factory=dict)
    late: dict[tuple[str, int], Late] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    untold: set[str] = field(default_factory=set)
    blind: set[str] = field(default_factory=set)

    @property
    def messages(self) -> int:
        """How many copies there are."""
        return sum(self.states.values())

    def __add__(self, other: Sums) -> Sums:
        return merged((self, other))

    def add(self, other: Sums) -> None:
        """With those of another part, which stays as it is."""
        for state, count in other.states.items():
            self.states[state] = self.states.get(state, 0) + count
        for mine, others in ((self.took, other.took), (self.again, other.again),
                             (self.late, other.late)):  # fmt: skip
            _add(mine, others)
        self.traffic.add(other.traffic)
        self.untold |= other.untold
        self.blind |= other.blind

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "states": dict(self.states),
            "took": [[*way, list(times.counts), list(times.counts.values()), times.most]
                     for way, times in self.took.items()],
            "resends": [{"route": route, "messages": one.messages, "times": one.times,
                         "came_again": one.came_again} for route, one in self.again.items()],
            "late": [[*key, one.messages, one.first_number, one.since_us]
                     for key, one in self.late.items()],
            "traffic": points(self.traffic),
            "traffic_s": [self.traffic.first, self.traffic.last],
            "untold": sorted(self.untold),
            "blind": sorted(self.blind),
        }  # fmt: skip


def _add(mine: dict[Any, Any], others: Mapping[Any, Any]) -> None:
    for key, one in others.items():
        if key in mine:
            mine[key].add(one)
        else:
            mine[key] = deepcopy(one)


def merged(parts: Iterable[Sums]) -> Sums:
    """The sums of all parts."""
    whole = Sums()
    for part in parts:
        whole.add(part)
    return whole


def points(traffic: Traffic) -> list[dict[str, Any]]:
    """Traffic as rows: ``route``, ``event``, ``second`` (begin), ``messages``."""
    return [
        {"route": route, "event": what, "second": second, "messages": count}
        for (route, what, second), count in sorted(traffic.counts.items())
    ]


def sums_of(plain: Mapping[str, Any]) -> Sums:
    """Back from JSON, also of the first proofs, which have the longest times to three digits,
    traffic in steps of any size, and no parties without a history."""
    return Sums(
        states=dict(plain.get("states", {})),
        took={
            (route, begin, end): _times_of(values, counts, *most)
            for route, begin, end, values, counts, *most in plain.get("took", ())
        },
        again={
            row["route"]: Again(row["messages"], row["times"], row["came_again"])
            for row in plain.get("resends", ())
        },
        late={(route, stream): Late(*rest) for route, stream, *rest in plain.get("late", ())},
        traffic=_traffic_of(plain.get("traffic", ()), plain.get("traffic_s", ())),
        untold=set(plain.get("untold", ())),
        blind=set(plain.get("blind", ())),
    )


def _traffic_of(rows: Sequence[Mapping[str, Any]], ends: Sequence[int]) -> Traffic:
    seconds = [row["second"] for row in rows]
    first, last = ends or (min(seconds, default=0), max(seconds, default=-1))
    found, step = Traffic(first, last), step_of(first, last)
    for row in rows:
        key = (row["route"], row["event"], row["second"] // step * step)
        found.counts[key] = found.counts.get(key, 0) + row["messages"]
    return found


def _times_of(values: Sequence[int], counts: Sequence[int], most: int | None = None) -> Times:
    return Times(dict(zip(values, counts, strict=True)), max(values) if most is None else most)
