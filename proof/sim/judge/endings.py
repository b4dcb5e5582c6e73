"""How the copy of one message at one queue may have ended, if nobody was put back or copied.

There must be exactly one end that the books can explain, and every claim of a dead letter must be
true.

Watches: I1, I3, I11, I12, I13, I14, I15.
"""

from __future__ import annotations

from onceq.model.limits import DOUBTS_MAX
from onceq.model.marks import NEVER_S
from onceq.model.message import Delivery, Journal
from onceq.model.resultcodes import REFUSALS, MessageClass, class_name
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.judge.books import OWN, Books, Copy, Message, Place, Status
from proof.sim.judge.reasons import Reasons
from proof.sim.judge.siblings import Siblings
from proof.sim.judge.traffic import Traffic

ENDED_THERE = frozenset({0xC000, 0xC001, 0xC002, 0xC004})
"""It had arrived, and was not received."""
IN_DOUBT = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
REMOVED_HERE = MessageClass.NACK_DELETED
REJECTED = MessageClass.NACK_RECEIVE_REJECTED
STRANDED = frozenset(
    (MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
)
"""Classes of what waited in a stream that its receiver had left, until its end is told."""
MISFIT = MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE


class Endings:
    """See the module."""

    def __init__(
        self, kernel: Kernel, books: Books, traffic: Traffic, reasons: Reasons, siblings: Siblings,
    ) -> None:  # fmt: skip
        self.kernel, self.books, self.traffic = kernel, books, traffic
        self.reasons, self.siblings = reasons, siblings

    def ordered(self, message: Message, place: Place, copy: Copy) -> str:
        """In transactions: once, or for a reason."""
        unit = message.unit
        assert unit is not None

        def wrong(what: str) -> None:
            self.reasons.wrong(message, place, copy, what)

        if unit.status is not Status.COMMITTED:
            if unit.status is not Status.ABORTED:
                wrong(f"I3a, still {unit.status.value}")
            if copy.seen or copy.received or copy.letters or copy.waiting:
                wrong("I3, not committed")
            return "not committed"
        journal = message.properties.journal
        home = [(q, c) for n, q, c in copy.letters if n == message.node]
        dead = [c for q, c in home if q in ("DEADXACT", OWN)]
        there = [c for n, q, c in copy.letters if q == "DEADXACT" and n == place.node]
        kept = sum(q == "JOURNAL" for _, q, _ in copy.letters)
        if place.node == message.node:
            dead = [c for c in dead if c != MISFIT]
        else:
            there = [c for c in there if c == MISFIT]
        if max(len(dead), len(there), kept) > 1:
            wrong("I12, two copies in one system queue")
        if (
            dead
            and not journal & Journal.DEADLETTER
            and not REFUSALS.issuperset(dead)
            and not (self.reasons.stranded(message) and STRANDED.issuperset(dead))
            and not (self.reasons.stranded(message) and self.traffic.told_end(message.uid, place))
        ):
            wrong("I12, a dead letter that nobody asked for")
        self._own(message, place, copy, [q for q, c in home if c != MISFIT])
        self._journal(message, place, copy)
        if kept and not journal & Journal.JOURNAL:
            wrong("I14, a journal copy that nobody asked for")
        if kept and not copy.received:
            if not self.reasons.leak(place):
                wrong("I14, a journal copy of what nobody received")
            return "received: answer lost"
        reason = dead[0] if dead else 0
        if reason:
            self._check_claim(message, place, copy, reason)
        if copy.received:
            due = journal & Journal.JOURNAL and not kept and reason != IN_DOUBT
            if due and not self._unheard(message, place):
                wrong("I14, no journal copy of what was received")
            return "received"
        if copy.waiting:
            if place.node >= 0:
                wrong("I26, still waiting")
            return "waiting"
        if reason:
            return class_name(reason)
        if MISFIT in there:
            if place.transactional:
                wrong("I11, refused for its kind")
            if (
                journal & Journal.DEADLETTER
                and place.node != message.node
                and not self.reasons.with_its_letter_queue(message)
                and not (self.reasons.mortal(message) or self.reasons.purged_here(message, place))
            ):
                wrong("I12, no dead letter")
            return class_name(MISFIT)
        return self._vanished(message, place, copy)

    def _unheard(self, message: Message, place: Place) -> bool:
        """Whether what its receiver tells of a message's end may find nothing at its sender.

        A receive that commits after its queue was deleted means nothing (Q-43). What
        expired, or was purged here, is settled by its end, however late that comes. But a doubt
        that was one too many stays in doubt; and a dead letter in doubt that went with the
        queue where it stood is not there to be settled (decision 0014).
        """
        few = self.kernel.scale.DOUBTS_MAX < DOUBTS_MAX
        named = bool(message.properties.dead_letter_queue)
        gone = named and message.node in self.books.letter_queues_gone
        misled = place.deleted_us >= 0 or self.siblings.misled(message, place)
        return misled or ((few or gone) and self.reasons.may_have_ended(message, place))

    def _own(self, message: Message, place: Place, copy: Copy, found: list[str]) -> None:
        """A dead letter stands where its sender wanted it, if that can be."""
        own = bool(message.properties.dead_letter_queue)
        if OWN in found:
            self.kernel.marks[marks.OWN_LETTER] += 1
            if not own:
                self.reasons.wrong(
                    message, place, copy, "I12, in a dead-letter queue that it did not name"
                )
        elif own and "DEADXACT" in found:
            self.kernel.marks[marks.LETTER_QUEUE_GONE] += 1
            if message.node not in self.books.letter_queues_gone:
                self.reasons.wrong(
                    message, place, copy, "I12, not in the dead-letter queue that it named"
                )

    def _journal(self, message: Message, place: Place, copy: Copy) -> None:
        """The journal of a queue has what was received from it, and nothing else (I14)."""
        if copy.journaled:
            self.kernel.marks[marks.JOURNALED] += 1
        if copy.journaled > 1:
            self.reasons.wrong(message, place, copy, "I14, two copies in the journal of its queue")
        if copy.journaled and not copy.received and not place.leaks:
            self.reasons.wrong(
                message, place, copy, "I14, in the journal, and nobody has received it"
            )
        if copy.journaled and not (place.journal or copy.kept or place.leaks):
            self.reasons.wrong(
                message, place, copy, "I14, in the journal, and nobody wants it there"
            )
        due = place.journal or copy.kept
        if copy.received and due and not copy.journaled and place.deleted_us < 0:
            self.reasons.wrong(
                message, place, copy, "I14, received, and not in the journal of its queue"
            )

    def _check_claim(self, message: Message, place: Place, copy: Copy, reason: int) -> None:
        """A dead letter claims something; it must be true (I11)."""
        mortal = self.reasons.mortal(message) or self.reasons.stranded(message)
        if reason == IN_DOUBT:
            self.kernel.marks[marks.IN_DOUBT] += 1
            ended = mortal or self.reasons.purged_here(message, place) or place.deleted_us >= 0
            if not (ended or self.siblings.misled(message, place)):
                self.reasons.wrong(message, place, copy, "I11, in doubt, and nothing has ended it")
            return
        if reason == REMOVED_HERE:
            if not self.reasons.purged_here(message, place):
                self.reasons.wrong(message, place, copy, "I11, removed by nobody")
            elif copy.received or copy.seen:
                self.reasons.wrong(
                    message, place, copy, "I11, accepted, and said to be removed unsent"
                )
            return
        if reason == MessageClass.NACK_ACCESS_DENIED:
            self.kernel.marks[marks.ARRIVAL_DENIED] += 1
            if not self.reasons.without_right(message, place):
                self.reasons.wrong(message, place, copy, "I28, refused, and the right was there")
        gone_with_queue = reason == 0xC000 and place.deleted_us >= 0
        if copy.received and not gone_with_queue:
            self.reasons.wrong(message, place, copy, f"I11, received and {class_name(reason)}")
        if reason == REJECTED:
            self.kernel.marks[marks.REJECTED] += 1
            if not copy.rejected:
                self.reasons.wrong(message, place, copy, "I13, rejected by nobody")
        if reason in ENDED_THERE:
            if reason == 0xC002 and message.properties.time_to_be_received == NEVER_S:
                self.reasons.wrong(message, place, copy, "I15, expired without a lifetime")
            if reason in (0xC000, 0xC001) and place.purged_us < 0:
                self.reasons.wrong(message, place, copy, "I13, purged by nobody")
        elif copy.seen and place.deleted_us < 0:
            self.reasons.wrong(message, place, copy, f"I11, accepted and {class_name(reason)}")
        elif reason == MessageClass.NACK_REACH_QUEUE_TIMEOUT and not mortal:
            self.reasons.wrong(message, place, copy, "I15, expired without a lifetime")

    def _vanished(self, message: Message, place: Place, copy: Copy) -> str:
        """Nowhere: there must be a reason, and nobody may have asked to be told."""
        why = "rejected" if copy.rejected else self.reasons.excuse(message, place)
        why = why or ("answer lost" if self.reasons.leak(place) else "")
        if self.reasons.with_its_letter_queue(message):
            return f"with its dead-letter queue: {why}"
        asked = bool(message.properties.journal & Journal.DEADLETTER)
        if (
            not asked
            and not copy.rejected
            and self.traffic.refused(message.uid, place)
            and not self.reasons.may_have_ended(message, place)
            and not self.reasons.leak(place)
        ):
            # Finding U1: what its destination refuses is kept, though nobody has asked.
            self.reasons.wrong(message, place, copy, "I12, refused, and no dead letter says so")
        if asked and why != "answer lost":
            if not self.reasons.leak(place):
                self.reasons.wrong(message, place, copy, f"I12, gone without a dead letter ({why})")
            why = "answer lost"
        if not why:
            self.reasons.wrong(message, place, copy, "I1, lost")
        return f"silently: {why}"

    def plain(self, message: Message, place: Place, copy: Copy) -> str:
        """Outside transactions: recoverable messages arrive at least once, if they can."""
        journal = message.properties.journal
        kept = [q for n, q, _ in copy.letters if q == "JOURNAL" and n == message.node]
        dead = [c for _, q, c in copy.letters if q == "DEADLETTER"]
        if len(kept) + len(dead) != len(copy.letters):
            self.reasons.wrong(message, place, copy, "I12, in a system queue of another kind")
        if kept and not journal & Journal.JOURNAL:
            self.reasons.wrong(message, place, copy, "I14, a journal copy that nobody asked for")
        if dead and not journal & Journal.DEADLETTER:
            self.reasons.wrong(message, place, copy, "I12, a dead letter that nobody asked for")
        for reason in dead:
            self._check_plain_claim(message, place, copy, reason)
        if copy.received:
            return "plain: received"
        sure = message.done and message.properties.delivery is Delivery.RECOVERABLE
        if not sure or copy.waiting or dead:
            return "plain: not received"
        why = "another kind" if place.transactional else self.reasons.excuse(message, place)
        asked = bool(journal & Journal.DEADLETTER)
        if (asked or not why) and self.reasons.leak(place):
            return "plain: answer lost"
        if not why:
            self.reasons.wrong(message, place, copy, "I1, a recoverable message is lost")
        if asked:
            self.reasons.wrong(message, place, copy, f"I12, gone without a dead letter ({why})")
        return "plain: not received"

    def _check_plain_claim(self, message: Message, place: Place, copy: Copy, reason: int) -> None:
        """A dead letter of a message outside transactions claims something, too."""
        timers = (MessageClass.NACK_REACH_QUEUE_TIMEOUT, MessageClass.NACK_RECEIVE_TIMEOUT)
        if reason in timers and not self.reasons.mortal(message):
            self.reasons.wrong(message, place, copy, "I15, expired without a lifetime")
        if reason == MessageClass.NACK_QUEUE_PURGED and place.purged_us < 0:
            self.reasons.wrong(message, place, copy, "I13, purged by nobody")
        if reason == MessageClass.NACK_QUEUE_EXCEED_QUOTA and not place.quota_kb:
            self.reasons.wrong(message, place, copy, "I13, a quota that the queue does not have")
        self.kernel.marks[marks.PLAIN_LETTER] += 1
