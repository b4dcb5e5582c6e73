"""How messages to a manager are judged that was copied and runs twice (``faults/beside.py``).

What others send to the name of the two goes to the one that the name leads to; the books know from
the packets which of the two it was transmitted to (``copied_queues.py``).

* A message of a queue that was copied is in both, and is received from each, once, or ends in each
  for a reason.
* What was transmitted to one of the two only is judged as in a world without copies, as a message
  to that one; at the other it may not be.
* What was transmitted to both, because the first one's acknowledgment did not come in time, has one
  end at least: it is received from either, from each at most once, or its sender has the reason. So
  has what was transmitted to one, and denied by the other before its sender could know of the two.
* Nobody says that it was not delivered if either of the two has accepted it, unless the other one
  has refused it, or has denied it before its sender could know that there are two; nobody says
  that it was received where neither has handed it out.
* A sender that has talked to both may have it in doubt: it has asked the other one.

Watches: I1, I3, I4, I11, I12, I13 over copies that receive.
"""

from __future__ import annotations

from collections import defaultdict

from onceq.model.message import Delivery, Journal
from onceq.model.resultcodes import MessageClass
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.pair import Pair
from proof.sim.judge.books import Books, Copy, Message, Place, Status
from proof.sim.judge.copied_queues import CopiedQueues
from proof.sim.judge.endings import Endings
from proof.sim.judge.reasons import Reasons

NOT_DELIVERED = MessageClass.NACK_REACH_QUEUE_TIMEOUT
IN_DOUBT = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER


class CopiedReceivers:
    """See the module."""

    def __init__(
        self, kernel: Kernel, books: Books, pair: Pair, queues: CopiedQueues, reasons: Reasons,
        endings: Endings,
    ) -> None:  # fmt: skip
        self.kernel, self.books, self.pair = kernel, books, pair
        self.queues, self.reasons, self.endings = queues, reasons, endings
        self._took: dict[tuple[int, str], set[int]] = defaultdict(set)
        """By sender and name of a queue: which of the two have messages that only they have."""

    # ---- judging ------------------------------------------------------------------------

    def judge(self, message: Message, place: Place) -> str:
        """It went to the name of the two."""
        here = message.copies[place.key]
        twin = self.queues.twins[place.key]
        there = message.copies[twin.key]
        key = message.uid, place.key
        came = self.queues.reached_by(message, place)
        self._claims(message, place, here, there)
        if self.queues.stood(message, place):
            return self._of_each(message, ((place, here), (twin, there)))
        if key in self.queues.ended:
            return self._alone(message, place, here)
        for one, copy in ((place, here), (twin, there)):
            if one.node not in came and (copy.seen or copy.received):
                self.reasons.wrong(message, one, copy, "I4, in a copy that it was never sent to")
        self._note(message, place, here, there)
        if came and len(came | self.queues.denied.get(key, set())) > 1:
            return self._of_either(message, ((place, here), (twin, there)))
        end = self._alone(message, *self.queues.of(message, place))
        return f"to one copy: {end}" if came else end

    def _alone(self, message: Message, place: Place, copy: Copy) -> str:
        """One queue may have it, as in any world."""
        judge = self.endings.plain if message.unit is None else self.endings.ordered
        return judge(message, place, copy)

    def _note(self, message: Message, place: Place, here: Copy, there: Copy) -> None:
        if there.received and not here.seen:
            self.kernel.marks[marks.FROM_COPY] += 1
        if here.received and there.received:
            self.kernel.marks[marks.TOOK_BOTH] += 1
        elif message.unit is not None and (here.received or there.received):
            twin = self.queues.twins[place.key]
            took = self._took[message.node, message.names[place.key]]
            took.add(place.node if here.received else twin.node)
        if any(reason == IN_DOUBT for _, _, reason in here.letters) and (here.seen or there.seen):
            self.kernel.marks[marks.DOUBT_BETWEEN] += 1

    def judged(self) -> None:
        """Every message was judged."""
        self.kernel.marks[marks.TOOK_EACH] += sum(len(took) > 1 for took in self._took.values())

    def _claims(self, message: Message, place: Place, here: Copy, there: Copy) -> None:
        """Nobody says that it never came, if it did."""
        sure = [
            reason for node, _, reason in here.letters
            if node == message.node and reason == NOT_DELIVERED
        ]  # fmt: skip
        if sure and self._only_accepted(message, place):
            self.reasons.wrong(message, place, here if here.seen else there,
                                      "I11, accepted by a copy, and not delivered")  # fmt: skip

    def _only_accepted(self, message: Message, place: Place) -> bool:
        """Whether one of the two has accepted a message, and the other one has neither refused it
        as too late nor said that it never came: its sender takes that for its end, if it does not
        know by then that there are two."""
        each = (place, self.queues.twins[place.key])
        have = {at.node for at in each if message.copies[at.key].seen}
        key = message.uid, place.key
        without = self.queues.late.get(key, set()) | self.queues.denied.get(key, set())
        return message.unit is not None and bool(have) and not without - have

    def _of_each(self, message: Message, each: tuple[tuple[Place, Copy], ...]) -> str:
        """It stood in both: each of the two hands it out, or has a reason."""
        reasons = self.reasons
        for place, copy in each:
            letters = [n for n, _, _ in each[0][1].letters]
            told = bool(letters) if message.node not in self._pair else place.node in letters
            ended = copy.received or copy.rejected or told or reasons.excuse(message, place)
            if not ended and not reasons.leak(place):
                reasons.wrong(message, place, copy, "I1, it stood in both, and is gone from one")
        if all(copy.received for _, copy in each):
            self.kernel.marks[marks.STOOD_BOTH] += 1
        return "stood in both copies"

    @property
    def _pair(self) -> tuple[int, ...]:
        return tuple(node.index for node in self.pair.both)

    def _of_either(self, message: Message, each: tuple[tuple[Place, Copy], ...]) -> str:
        """It was transmitted to both, and each may have accepted it."""
        reasons, unit = self.reasons, message.unit
        place, copy = each[0]
        if unit is not None and unit.status is not Status.COMMITTED:
            reasons.wrong(message, place, copy, "I3, not committed")
        if any(one.received or one.rejected for _, one in each):
            return "to both copies: received"
        if copy.letters:
            return "to both copies: a dead letter"
        if copy.waiting:
            if unit is not None:
                reasons.wrong(message, place, copy, "I26, still waiting")
            return "to both copies: waiting"
        recoverable = message.properties.delivery is Delivery.RECOVERABLE
        sure = unit is not None or (message.done and recoverable and not place.transactional)
        why = "" if sure else "another kind"
        for one, _ in each:
            why = why or reasons.excuse(message, one)
            why = why or ("answer lost" if reasons.leak(one) else "")
        if not why:
            reasons.wrong(message, place, copy, "I1, sent to both copies, and lost")
        asked = unit is not None and bool(message.properties.journal & Journal.DEADLETTER)
        if asked and why != "answer lost" and not reasons.with_its_letter_queue(message):
            reasons.wrong(message, place, copy, f"I12, of both copies, no dead letter ({why})")
        return f"to both copies: {why}"

    def check(self, message: Message, place: Place, value: int) -> None:
        """Check that an acknowledgment message that both may send is true of one of the two."""
        twin = self.queues.twins[place.key]
        copies = message.copies[place.key], message.copies[twin.key]
        leaks = place.leaks + twin.leaks
        wrong = ""
        if value == MessageClass.ACK_RECEIVE and not any(c.received for c in copies) and not leaks:
            wrong = "received, and neither copy has handed it out"
        if value == MessageClass.NACK_RECEIVE_REJECTED and not any(c.rejected for c in copies):
            wrong = "rejected, and it is so at neither copy"
        if value == NOT_DELIVERED and self._only_accepted(message, place):
            wrong = "not delivered, and a copy has accepted it"
        if wrong:
            self.kernel.wrong(f"I13: message {message.uid} to {place} is said to be {wrong}")
