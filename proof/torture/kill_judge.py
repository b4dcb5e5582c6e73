"""The judge of ``make kill``: a history that is synced, and what may be received given it.

Knows nothing of daemons; its own tests hand it losses, repetitions and phantoms. ``Streams`` judges
where messages come from several sources and arrive in several places.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path


class History:
    """What the driver knows for certain, in a file, synced before it goes on."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        self._lock = threading.Lock()

    def note(self, event: str, first: int, count: int, **more: str) -> None:
        """Write one line and sync it."""
        line = json.dumps({"event": event, "first": first, "count": count, **more}) + "\n"
        with self._lock:
            self._file.write(line.encode())
            os.fdatasync(self._file.fileno())

    def close(self) -> None:
        """Nothing more comes."""
        self._file.close()


COUNTED = (
    "transactions", "committed", "in_doubt", "in_doubt_committed", "aborted", "receives",
    "received", "receives_in_doubt", "given_back",
)  # fmt: skip


@dataclass
class Outcome:
    """What a run has seen; ``violations`` is empty if all is well."""

    seed: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    restart_s_median: float = 0.0
    transactions: int = 0
    committed: int = 0
    in_doubt: int = 0
    in_doubt_committed: int = 0
    aborted: int = 0
    receives: int = 0
    received: int = 0
    receives_in_doubt: int = 0
    given_back: int = 0
    violations: list[str] = field(default_factory=list)

    def add(self, part: Outcome) -> None:
        """What a part of the run has counted."""
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + getattr(part, name))


class Judge:
    """Compares what was received with what was committed: the same numbers, in order, once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.committed = 0
        self.received = 0
        self.violations: list[str] = []

    def commit(self, count: int) -> None:
        """Count more committed numbers."""
        with self._lock:
            self.committed += count

    def receive(self, numbers: list[int], *, unsure: int = 0) -> None:
        """These were received by a committed transaction.

        Args:
            unsure: Messages of the commit under way, which may count already.
        """
        with self._lock:
            for number in numbers:
                due = self.received
                if number < due:
                    self.violations.append(f"repeated: {number} came again where {due} was due")
                elif number > due:
                    self.violations.append(f"lost or out of order: {number} came, {due} was due")
                    self.received = number + 1
                else:
                    self.received += 1
            if self.received > self.committed + unsure:
                self.violations.append(
                    f"phantom: {self.received - 1} was received, {self.committed} were committed"
                )

    def end(self) -> None:
        """Nothing more will come."""
        if self.received < self.committed:
            self.violations.append(
                f"lost: {self.committed - self.received} messages from number {self.received} on"
            )

    @property
    def waiting(self) -> int:
        """Messages on their way."""
        return self.committed - self.received


class Source:
    """Messages of one source: how many were committed, and which of them came."""

    def __init__(self, judge: Streams) -> None:
        self._judge = judge
        self.violations = judge.violations
        self.committed = 0
        self.count = 0
        self.came = bytearray()
        """By number, whether it came."""

    @property
    def waiting(self) -> int:
        """Messages on their way."""
        return self.committed - self.count

    def commit(self, count: int) -> None:
        """Count more committed numbers."""
        with self._judge.lock:
            self.committed += count


class Streams:
    """Compares what was received in several places with what several sources have committed.

    A source numbers its messages; the remainder by the number of keys is the key of each, and those
    of one source and one key are a stream. Each message comes once, in any place; in each place a
    stream's numbers rise; and a stream that goes on in another place does not come back to the one
    before, unless its key is one that roams.
    """

    def __init__(self, names: Sequence[str], keys: int, roaming: Collection[int] = ()) -> None:
        self.lock = threading.Lock()
        self.violations: list[str] = []
        self._keys, self._roaming = keys, frozenset(roaming)
        self.sources = {name: Source(self) for name in names}
        self._spans: dict[tuple[str, int], dict[str, tuple[int, int]]] = {}
        """By stream, the first and the last of its numbers in each place."""

    def receive(
        self, place: str, messages: Sequence[tuple[str, int]], unsure: Mapping[str, int]
    ) -> None:
        """These were received in a place by a committed transaction.

        Args:
            messages: Source and number of each.
            unsure: By source, messages of the commit under way, which may count already.
        """
        with self.lock:
            for name, number in messages:
                self._receive(place, name, number, unsure.get(name, 0))

    def _receive(self, place: str, name: str, number: int, unsure: int) -> None:
        source = self.sources[name]
        if number >= source.committed + unsure:
            self.violations.append(
                f"phantom: {name} {number} was received, {source.committed} were committed"
            )
        if number >= len(source.came):
            source.came.extend(bytes(number + 1 - len(source.came)))
        if source.came[number]:
            self.violations.append(f"repeated: {name} {number} came again, in {place}")
            return
        source.came[number] = 1
        source.count += 1
        spans = self._spans.setdefault((name, number % self._keys), {})
        first, last = spans.get(place, (number, -1))
        if number < last:
            self.violations.append(
                f"out of order: {name} {number} came behind {last} of its stream in {place}"
            )
        spans[place] = min(first, number), max(last, number)

    def end(self) -> None:
        """Nothing more will come."""
        for name, source in self.sources.items():
            source.came.extend(bytes(max(source.committed - len(source.came), 0)))
            lost = source.came.count(0)
            if lost:
                first = source.came.index(0)
                self.violations.append(f"lost: {lost} messages of {name}, such as number {first}")
        for (name, key), spans in self._spans.items():
            if key in self._roaming:
                continue
            order = sorted((first, last, place) for place, (first, last) in spans.items())
            for (_, last, before), (first, _, after) in pairwise(order):
                if last > first:
                    self.violations.append(
                        f"out of order: stream {key} of {name} had come to {first} in {after}, and "
                        f"{last} came in {before}"
                    )

    @property
    def committed(self) -> int:
        """Of all sources."""
        return sum(source.committed for source in self.sources.values())

    @property
    def received(self) -> int:
        """Of all sources, each message once."""
        return sum(source.count for source in self.sources.values())

    @property
    def waiting(self) -> int:
        """Messages on their way."""
        return self.committed - self.received
