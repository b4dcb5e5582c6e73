"""The judge of ``make kill``: a history that is synced, and what may be received given it.

Knows nothing of daemons; its own tests hand it losses, repetitions and phantoms.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, field
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


class Judge:
    """Compares what was received with what was committed: the same numbers, in order, once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.committed = 0
        self.received = 0
        self.violations: list[str] = []

    def commit(self, count: int) -> None:
        """So many more numbers were committed."""
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
