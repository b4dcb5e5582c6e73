"""The judge of ``make backup``: what may come in one direction, given what was committed and when
managers were put back.

Messages are numbered in *eras*; each restore of anybody begins another. Of the present era every
message comes, once and in order. Messages of earlier eras may have been undone, at any place; none
of them comes twice in the life that led to the receiver of today, and they come in order.
A sender that was put back knows nothing of its later eras: what waited in its backup may come
behind them, once for each time that it was put back. Knows nothing of daemons.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

Place = tuple[int, int]
"""Era and number of a message."""


@dataclass(frozen=True)
class Mark:
    """The messages that the receiver had at a moment: the first ``count`` of a life."""

    life: list[Place]
    count: int


class Passage:
    """One direction."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.era = 0
        self.committed = 0
        """Messages of the present era."""
        self.received = 0
        """Messages of any era."""
        self.undone = 0
        """Messages of earlier eras that were missing between others."""
        self.violations: list[str] = []
        self._due = 0
        self._last = (-1, -1)
        self._life: list[Place] = []
        self._had: set[Place] = set()
        self._turns = 0
        """How often messages of an earlier era may come behind those of a later one."""
        self._sizes: dict[int, int] = {}

    def body(self, number: int) -> bytes:
        """A message of the present era."""
        return b"%d %d %s" % (self.era, number, b"x" * (number % 200))

    def commit(self, count: int) -> None:
        """Count ``count`` more committed messages of the present era."""
        with self._lock:
            self.committed += count

    def mark(self) -> Mark:
        """What was received by now; a backup that is begun now has at least that."""
        with self._lock:
            return Mark(self._life, len(self._life))

    def begin(self, *, sender_put_back: bool = False, receiver: Mark | None = None) -> None:
        """Somebody was put back: another era begins.

        Args:
            receiver: What the receiver had received when the backup was begun that it was put back
                to; None if it was not put back.
        """
        with self._lock:
            self._sizes[self.era] = self.committed
            self.era += 1
            self.committed = self._due = 0
            self._turns += sender_put_back
            if receiver is not None:
                self._last = (-1, -1)
                self._life = receiver.life[: receiver.count]
                self._had = set(self._life)

    def receive(self, bodies: list[bytes]) -> None:
        """These were received by a committed transaction."""
        with self._lock:
            for body in bodies:
                era, number = map(int, body.split(b" ", 2)[:2])
                self.received += 1
                if (era, number) in self._had or self._falls(era, number):
                    self.violations.append(
                        f"repeated or out of order: {number} of era {era} came after "
                        f"{self._last[1]} of era {self._last[0]}"
                    )
                elif era == self.era and number != self._due:
                    self.violations.append(
                        f"lost or out of order: {number} of era {era} came, {self._due} was due"
                    )
                elif self._last != (-1, -1) and self._last < (era, number):
                    self.undone += self._between(self._last, (era, number))
                self._last = (era, number)
                self._life.append(self._last)
                self._had.add(self._last)
                if era == self.era:
                    self._due = number + 1

    def _falls(self, era: int, number: int) -> bool:
        """Whether a message comes behind one that it should have come before."""
        if (era, number) > self._last:
            return False
        if era < min(self.era, self._last[0]) and self._turns:
            self._turns -= 1
            return False
        return True

    def _between(self, last: tuple[int, int], now: tuple[int, int]) -> int:
        if last[0] == now[0]:
            return now[1] - last[1] - 1
        whole = sum(self._sizes.get(era, 0) for era in range(last[0] + 1, now[0]))
        return self._sizes.get(last[0], 0) - last[1] - 1 + whole + now[1]

    def complete(self, wanted: int) -> bool:
        """Return whether ``wanted`` messages of this era are committed, and all have come."""
        with self._lock:
            return self.committed >= wanted and self._due >= self.committed

    def judge(self, wanted: int) -> list[str]:
        """What was violated; an era that was to be drained must have come whole."""
        with self._lock:
            found, self.violations = self.violations, []
            if self._due < wanted:
                found.append(f"lost: {wanted - self._due} messages of era {self.era}")
            if self._due > self.committed:
                found.append(f"phantom: {self._due - 1} was received, {self.committed} committed")
            return found
