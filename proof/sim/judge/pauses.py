"""The judge's books of paused queues: which one is paused for sure, and which one for sure is not.

An operator who was told that a queue is paused, or resumed, knows it: through crashes, power cuts
and restarts, until somebody asks for the other. Between a request and its answer, and without end
where the answer was lost, a queue may be either.

Watches: I16 for queues that are paused (nobody receives the next message, and who gets none is told
why), I22 (a pause is durable), I26 (what was resumed goes on).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onceq.errors import ReceiveTimeout
from onceq.model.views.queues import QueueView
from onceq.packet.arrived import Batch
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.packets import UID_BYTES, body_of
from proof.sim.judge.books import Books, Key, Place

NEVER: Final = 1 << 62
SAYS: Final = "an operator has paused"
"""In the error of a receive that gets nothing because its queue is paused."""


@dataclass(slots=True)
class Pause:
    """One queue; times are those of the world.

    Attributes:
        paused_us: Since when it is paused for sure; NEVER: it may be open.
        open_us: Since when it is open for sure; NEVER: it may be paused.
        life: Number of the manager's process when it was paused.
        last: The pause before, which is over: since when it was sure, and when its end was asked.
    """

    paused_us: int = NEVER
    open_us: int = -1
    life: int = 0
    last: tuple[int, int] = (NEVER, -1)


class Pauses:
    """See the module."""

    def __init__(self, kernel: Kernel, books: Books) -> None:
        self.kernel, self.books = kernel, books
        self._of: dict[Key, Pause] = {}

    def of(self, place: Place) -> Pause:
        """What is known of a queue."""
        return self._of.setdefault(place.key, Pause())

    # ---- what operators do ------------------------------------------------------------------

    def asking(self, place: Place, *, pause: bool) -> None:
        """A request goes into the inbox: it may count already."""
        known = self.of(place)
        if pause:
            known.open_us = NEVER
        elif known.paused_us < NEVER:
            known.last = known.paused_us, self.kernel.now
            known.paused_us = NEVER

    def answered(self, place: Place, node: Node, *, pause: bool) -> None:
        """It counts."""
        known = self.of(place)
        if not pause:
            known.open_us = self.kernel.now
        elif known.paused_us == NEVER:
            known.paused_us, known.life = self.kernel.now, node.life

    def check(self, place: Place, node: Node, view: QueueView, asked_us: int) -> None:
        """Check a view of the queue."""
        known = self.of(place)
        if known.paused_us <= asked_us:
            if not view.paused_since:
                self.kernel.wrong(f"I22: {place} is paused, and its view says that it is not")
            self.kernel.marks[marks.PAUSE_KEPT] += known.life != node.life
        elif known.open_us <= asked_us:
            if view.paused_since:
                self.kernel.wrong(f"I26: {place} was resumed, and its view says that it is paused")
        elif view.paused_since:
            self.kernel.marks[marks.PAUSE_FOUND] += 1

    # ---- what receives get ------------------------------------------------------------------

    def received(self, place: Place, node: Node, asked_us: int, answer: object) -> None:
        """A receive of the next message was answered."""
        if place.parent is not None:
            return  # Subqueues are open.
        known = self.of(place)
        if isinstance(answer, Batch):
            self._got(place, known, asked_us, answer)
        elif isinstance(answer, ReceiveTimeout):
            says = SAYS in answer.text
            if says and known.open_us <= asked_us:
                self.kernel.wrong(f"I26: {place} was resumed, and a receive hears: {answer.text}")
            if not says and known.paused_us <= asked_us:
                self.kernel.wrong(f"I16: {place} is paused, and a receive hears: {answer.text}")
            self.kernel.marks[marks.PAUSE_TOLD] += says
            self.kernel.marks[marks.PAUSE_KEPT] += says and known.life not in (0, node.life)

    def _got(self, place: Place, known: Pause, asked_us: int, answer: Batch) -> None:
        if known.paused_us <= asked_us:
            self.kernel.wrong(f"I16: {place} is paused, and hands out the next message")
        since, until = known.last
        self.kernel.marks[marks.PAUSE_WAITED] += since <= asked_us <= until
        for packet in answer.run:
            _, body = body_of(packet)
            message = self.books.messages.get(int.from_bytes(body[:UID_BYTES], "little"))
            if message is None:
                continue
            # Whenever the receive began: what came later than the pause came to a paused queue.
            if message.sent_us >= known.paused_us:
                self.kernel.wrong(
                    f"I16: {place} is paused, and hands out message {message.uid}, sent since"
                )
            self.kernel.marks[marks.PAUSE_GATHERED] += since <= message.sent_us <= until

    def named(self, place: Place, answer: object) -> None:
        """A message was asked for by its place: that is not held up."""
        if isinstance(answer, ReceiveTimeout):
            self.kernel.wrong(f"I16: who names a message of {place} hears: {answer.text}")
        if isinstance(answer, Batch):
            self.kernel.marks[marks.PAUSE_NAMED] += self.of(place).paused_us < NEVER
