"""How a message may have ended that a job has sent again, moved here, or removed as a letter.

Each time that a job sends it is one end more to come, and each letter that it takes away is one
less. A message that comes back asks for a dead letter, also if the sender did not: so it can vanish
no more. Acknowledgment messages, its journals and its place in the order are not judged.

Watches: I1, I3, I4, I11, I12 for messages that jobs were about.
"""

from __future__ import annotations

from onceq.model.message import Delivery
from proof.sim.base import marks
from proof.sim.judge.books import OWN, Copy, Message, Place, Status
from proof.sim.judge.endings import IN_DOUBT, MISFIT
from proof.sim.judge.reasons import Reasons

DEAD = ("DEADXACT", "DEADLETTER", OWN)
WITH_ITS_QUEUE = 0xC000


class Worked:
    """See the module."""

    def __init__(self, reasons: Reasons) -> None:
        self.reasons = reasons

    def judge(self, message: Message, place: Place, copy: Copy) -> str:
        """The name of its end."""
        unit = message.unit
        letters = [(n, c) for n, q, c in copy.letters if q in DEAD]
        if unit is not None and unit.status is not Status.COMMITTED:
            if copy.received or copy.waiting or letters or copy.more:
                self.reasons.wrong(message, place, copy, "I3, not committed")
            return "not committed"
        if unit is not None:
            self._at_most(message, place, copy, letters)
        self._at_least(message, place, copy, len(letters))
        if copy.received and copy.fewer and copy.more:
            self.reasons.kernel.marks[marks.JOB_RETURNED] += 1
        return "by a job: received" if copy.received else "by a job: not received"

    def _at_most(
        self, message: Message, place: Place, copy: Copy, letters: list[tuple[int, int]]
    ) -> None:
        """Not more ends than it has lives; what is in doubt is no end, and one that was refused for
        its kind has two letters."""
        ends = [
            reason for _, reason in letters
            if reason not in (IN_DOUBT, MISFIT)
            and not (reason == WITH_ITS_QUEUE and copy.received)
        ]  # fmt: skip
        if copy.received + len(ends) + copy.waiting > copy.lives:
            self.reasons.wrong(message, place, copy, f"I4, more ends than {copy.lives}")

    def _at_least(self, message: Message, place: Place, copy: Copy, letters: int) -> None:
        """As many ends as it certainly has lives."""
        sure = message.unit is not None or (
            message.done and message.properties.delivery is Delivery.RECOVERABLE
        )
        if not sure:
            return
        found = copy.received + letters + copy.waiting
        missing = copy.own + copy.more - copy.fewer - copy.perhaps_fewer - found
        # If more were moved here than letters were taken away, a letter may have been of one of
        # those, and the first one may have ended in silence.
        if missing > 0 and copy.own and (not copy.fewer or copy.fewer < copy.more):
            why = copy.rejected or self.reasons.excuse(message, place)
            missing -= bool(why or (message.unit is None and place.transactional))
        if self.reasons.with_its_letter_queue(message):
            return
        while missing > 0 and self.reasons.leak(place):
            missing -= 1
        if missing > 0:
            self.reasons.wrong(message, place, copy, f"I1, {missing} of {copy.lives} lost by jobs")
