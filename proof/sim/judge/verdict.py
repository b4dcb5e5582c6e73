"""What must have become of every message when a world is quiet.

For each copy of each committed message there must be exactly one end that the books can explain.
Here the ledger is closed: each copy that was committed has one end, and is counted once.

Watches: I1, I2, I3, I6, I11, I12, I14, I19.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from onceq.model.message import Delivery, Journal
from onceq.packet.decode import decode
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.pair import Pair
from proof.sim.judge.acknowledgments import Acknowledgments
from proof.sim.judge.books import Books, Copy, Message, Place, Status
from proof.sim.judge.copied_receivers import CopiedReceivers
from proof.sim.judge.copied_senders import CopiedSenders
from proof.sim.judge.endings import Endings
from proof.sim.judge.reasons import Reasons
from proof.sim.judge.restores import Restores
from proof.sim.judge.siblings import Siblings
from proof.sim.judge.traffic import Traffic
from proof.sim.judge.worked import Worked


class Verdict:
    """See the module."""

    def __init__(
        self, kernel: Kernel, books: Books, pair: Pair, restores: Restores, traffic: Traffic,
        siblings: Siblings, reasons: Reasons, endings: Endings, senders: CopiedSenders,
        receivers: CopiedReceivers, acknowledgments: Acknowledgments,
        check_order: Callable[[], None],
    ) -> None:  # fmt: skip
        self.kernel, self.books, self.pair, self.restores = kernel, books, pair, restores
        self.traffic, self.siblings = traffic, siblings
        self.reasons, self.endings = reasons, endings
        self.senders, self.receivers, self.acknowledgments = senders, receivers, acknowledgments
        self.worked = Worked(reasons)
        self._check_order = check_order
        self.ends: Counter[str] = Counter()  # how many copies met which end

    # ---- what is found in the end -------------------------------------------------------

    def dead_letter(self, node: Node, queue: str, packet: bytes) -> None:
        """Judge a message of a system queue."""
        found = decode(packet)
        message = self.books.messages.get(int.from_bytes(found.body[:8], "little"))
        if message is None or message.body != found.body:
            self.kernel.wrong(f"I12: {queue} of {node.name} holds a message that nobody sent")
        assert message is not None
        place = self.books.place_of(message, found.destination)
        self.acknowledgments.known(packet, message.uid)
        if self.siblings.is_inherited(node, message, place):
            return
        message.copies[place.key].letters.append((node.index, queue, found.message_class))

    def journaled(self, place: Place, packet: bytes) -> None:
        """Judge a copy in the journal of a queue."""
        found = decode(packet)
        message = self.books.messages.get(int.from_bytes(found.body[:8], "little"))
        if message is None or message.body != found.body or place.key not in message.copies:
            self.kernel.wrong(f"I14: the journal of {place} holds a message that nobody sent there")
        message.copies[place.key].journaled += 1

    def waiting(self, node: Node, place: Place, packet: memoryview) -> None:
        """A message still waits to be transmitted."""
        found = decode(packet)
        message = self.books.messages[int.from_bytes(found.body[:8], "little")]
        if node is self.pair.ended:
            return  # its disk is looked at as a whole (``siblings.py``)
        message.copies[place.key].waiting = True

    # ---- judging ------------------------------------------------------------------------

    def judge(self) -> None:
        """Judge every copy of every message."""
        books = self.books
        self._check_order()
        self.reasons.begin()
        for message in books.messages.values():
            if message.refused:
                continue
            for place in message.places:
                copy = message.copies[place.key]
                if message.uid in books.rotten:
                    end = self._rotten(message, place, copy)
                elif copy.worked:
                    end = self.worked.judge(message, place, copy)
                elif self.restores.touched(message, place):
                    end = self._put_back(message, place, copy)
                elif self.siblings.apart(message, place):
                    end = self.senders.judge(message, place, copy)
                elif self.receivers.queues.judges(message, place):
                    end = self.receivers.judge(message, place)
                elif message.unit is not None:
                    end = self.endings.ordered(message, place, copy)
                else:
                    end = self.endings.plain(message, place, copy)
                self.ends[end] += 1
        self.receivers.judged()

    def _rotten(self, message: Message, place: Place, copy: Copy) -> str:
        """Its bytes, or some beside them, were altered where it was stored: it may have been set
        aside there, and everything that is made of it. What was handed out was right."""
        unit = message.unit
        if unit is not None and copy.received > copy.lives:
            self.reasons.wrong(message, place, copy, "I4, received twice")
        if unit is not None and unit.status is Status.ABORTED and copy.received:
            self.reasons.wrong(message, place, copy, "I3, not committed")
        return "damaged"

    def _put_back(self, message: Message, place: Place, copy: Copy) -> str:
        """It was under way when its sender or its receiver was put back (``restores.py``)."""
        unit, restores = message.unit, self.restores
        if unit is not None and copy.received > 1:
            self.reasons.wrong(message, place, copy, "I4, received twice")
        if restores.is_undone(message):
            return "undone"
        if unit is not None and unit.status is not Status.COMMITTED:
            if copy.seen or copy.received or copy.letters or copy.waiting:
                self.reasons.wrong(message, place, copy, "I3, not committed")
            return "not committed"
        if copy.received or copy.letters or copy.rejected:
            return "received over a restore"
        if copy.waiting and place.node >= 0 and unit is not None:
            self.reasons.wrong(message, place, copy, "I26, still waiting")
        sure = message.done and message.properties.delivery is Delivery.RECOVERABLE
        why = self.reasons.excuse(message, place)
        if unit is None and (place.transactional or copy.waiting or not sure):
            why = why or "another kind"
        if not why and not restores.excused(message, place) and not self.reasons.leak(place):
            self.reasons.wrong(message, place, copy, "I1, lost over a restore")
        if not why and self._letter_due(message, place) and not self.reasons.leak(place):
            self.reasons.wrong(
                message, place, copy,
                "I12, forgotten by a receiver that was put back, and no dead letter says so",
            )  # fmt: skip
        return "gone with a restore"

    def _letter_due(self, message: Message, place: Place) -> bool:
        """Whether a sender that was not put back waits for an end that nobody has told it."""
        return (
            message.unit is not None
            and bool(message.properties.journal & Journal.DEADLETTER)
            and message.node not in self.restores.at
            and place.transactional
            and not self.reasons.with_its_letter_queue(message)
            and not self.traffic.told_end(message.uid, place)
        )
