"""What the judge makes of messages that both of two copies had when the second one started.

What a copy has of its own, sent since it was started, is judged like anything in any other world,
for each of the two alone; so is what the original has sent since. Of what both have the books know:

* A message that waited in the copy when it started has one end over both: it arrives, at most once
  where its receiver can know, or one of the two has it as a dead letter. What either of them claims
  of it may be what it cannot know better: the other one has transmitted it. From the moment on at
  which it has noticed that it is one of two, it claims of nothing that was delivered that it was
  not.
* The end of a message that its receiver has accepted is told to the identity, so perhaps to the
  other copy; its sender then waits for it. That is excused only where such an answer was seen to
  leave for the other copy.
* What only the ended one has is what its disk has: it is looked at in the end, off the network.

Watches: I1, I4, I26 over copies.
"""

from __future__ import annotations

from onceq.model.message import Delivery, Journal
from onceq.model.resultcodes import MessageClass
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.judge.books import Books, Copy, Message, Place, Status
from proof.sim.judge.endings import IN_DOUBT, REMOVED_HERE
from proof.sim.judge.reasons import Reasons
from proof.sim.judge.siblings import Siblings

NEVER_CAME = (REMOVED_HERE, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
"""Classes by which a sender claims that a message was not delivered."""


class CopiedSenders:
    """See the module."""

    def __init__(self, kernel: Kernel, books: Books, siblings: Siblings, reasons: Reasons) -> None:
        self.kernel, self.books, self.siblings, self.reasons = kernel, books, siblings, reasons

    def judge(self, message: Message, place: Place, copy: Copy) -> str:
        """Both copies had it when the second one started."""
        reasons, unit = self.reasons, message.unit
        if unit is not None and copy.received > 1:
            reasons.wrong(message, place, copy, "I4, received twice")
        if unit is not None and unit.status is not Status.COMMITTED:
            reasons.wrong(message, place, copy, "I3, it waited, and is not committed")
        self._check_claims(message, place, copy)
        if copy.received or copy.letters or copy.rejected:
            return "of both: received" if copy.received else "of both: a dead letter"
        if not self.siblings.is_shared(message, place):
            return "waits in the copy that was ended"
        if copy.waiting and place.node >= 0 and unit is not None:
            reasons.wrong(message, place, copy, "I26, still waiting")
        if copy.waiting and place.node < 0:
            return "of both: waiting"
        why = reasons.excuse(message, place)
        sure = message.properties.delivery is Delivery.RECOVERABLE
        if unit is None and (place.transactional or copy.waiting or not sure):
            why = why or "another kind"
        if not why and not reasons.leak(place):
            reasons.wrong(message, place, copy, "I1, both copies had it, and it is lost")
        asked = unit is not None and bool(message.properties.journal & Journal.DEADLETTER)
        gone = self.books.letter_queues_gone.intersection(self.siblings.senders(message, place))
        with_its_letter_queue = message.properties.dead_letter_queue and gone
        if asked and not with_its_letter_queue and not reasons.leak(place):
            reasons.wrong(message, place, copy, f"I12, of both, without a dead letter ({why})")
        return "of both: gone"

    def _check_claims(self, message: Message, place: Place, copy: Copy) -> None:
        """Check that one that knows that it is one of two does not claim what only the other one
        can know: whether a message was delivered."""
        if not self.siblings.is_shared(message, place) or place.deleted_us >= 0:
            return
        for index, _, reason in copy.letters:
            claimed = self.siblings.claimed.get(index)
            if claimed is None or (message.uid, place.key) in claimed or not copy.seen:
                continue
            self.kernel.marks[marks.BOTH_IN_DOUBT] += reason == IN_DOUBT
            if reason in NEVER_CAME:
                self.reasons.wrong(
                    message, place, copy, "I11, claimed by one of two copies that knew of the "
                    "other, which has delivered it",
                )  # fmt: skip
