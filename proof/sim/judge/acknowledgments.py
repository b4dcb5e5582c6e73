"""What applications were told: acknowledgment messages, held against what became of the messages.

Every manager of a world has an administration queue, which nobody reads before the end. An
acknowledgment says which message it is about by its correlation identifier; which message that is
the books learn from every packet that comes out of a queue, and from negative ones, whose body is
the original's.

Watches: I13.
"""

from __future__ import annotations

import re
from collections import defaultdict

from onceq.model.marks import NEVER_S
from onceq.model.message import Acknowledge
from onceq.model.message import Message as Decoded
from onceq.model.resultcodes import MessageClass
from onceq.packet.decode import decode, glance
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.judge.books import OWN, Books, Message, Place, Status
from proof.sim.judge.copied_queues import CopiedQueues
from proof.sim.judge.copied_receivers import CopiedReceivers
from proof.sim.judge.reasons import Reasons
from proof.sim.judge.restores import Restores
from proof.sim.judge.siblings import Siblings

_HOST = re.compile(r"DIRECT=OS:M(\d+)\\")
NEGATIVE, ON_RECEIVE = 0x8000, 0x4000
IN_DOUBT = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
"""It says that nothing is known: so it is true after every event."""
_BITS = {
    (False, False): Acknowledge.POSITIVE_ARRIVAL,
    (False, True): Acknowledge.POSITIVE_RECEIVE,
    (True, False): Acknowledge.NEGATIVE_ARRIVAL,
    (True, True): Acknowledge.NEGATIVE_RECEIVE,
}


class Acknowledgments:
    """See the module."""

    def __init__(
        self, kernel: Kernel, books: Books, queues: CopiedQueues, siblings: Siblings,
        restores: Restores, reasons: Reasons, receivers: CopiedReceivers,
    ) -> None:  # fmt: skip
        self.kernel, self.books, self.queues = kernel, books, queues
        self.siblings, self.restores = siblings, restores
        self.reasons, self.receivers = reasons, receivers
        self._who: dict[bytes, int] = {}
        """Message identifier: message of the books."""
        self._acks: dict[tuple[int, bytes, int], Decoded] = {}
        """(manager, source and number of the acknowledgment): it. A network repeats them."""

    def known(self, packet: memoryview | bytes, uid: int) -> None:
        """This packet, which came out of a queue, is that message."""
        fields = glance(packet)
        self._who[fields.source + fields.message.to_bytes(4, "little")] = uid

    def received(self, node: int, packet: bytes) -> None:
        """Take a packet of the administration queue of a manager."""
        found = decode(packet)
        if not found.message_class or found.acknowledge or found.admin_queue:
            self.kernel.wrong(f"I13: M{node} has {found!r} in its administration queue")
        if found.body:
            self._who[found.correlation_id] = int.from_bytes(found.body[:8], "little")
        self._acks[node, found.id.source, found.id.number] = found

    def judge(self) -> None:
        """Hold all of them against the books."""
        groups: dict[tuple[int, str, int], list[Decoded]] = defaultdict(list)
        for (node, _, _), ack in self._acks.items():
            uid = self._who.get(ack.correlation_id)
            if uid is None:
                continue
            message = self.books.messages.get(uid)
            if message is None:
                self.kernel.wrong(f"I13: class {ack.message_class:#x} about nothing that was sent")
            assert message is not None
            if uid in self.books.rotten:
                continue
            place = self.books.place_of(message, ack.response_queue)
            if self.restores.end_is_undone(message, place) or self._of_both(message, place):
                continue
            if message.copies[place.key].worked:
                continue
            if self.queues.doubtful(message, place):
                self.receivers.check(message, place, ack.message_class)
                continue
            groups[uid, f"{place.node}\\{place.name}", node].append(ack)
            self._one(message, place, ack)
        told: set[tuple[int, str, int]] = set()
        for (uid, key, _), acks in groups.items():
            self._together(self.books.messages[uid], acks)
            told.update((uid, key, ack.message_class) for ack in acks)
        for message in self.books.messages.values():
            if message.unit is None or message.unit.status is not Status.COMMITTED:
                continue
            if message.uid in self.books.rotten:
                continue  # its acknowledgments are made from its wrong bytes
            for place in message.places:
                if not self._untold(message, place):
                    self._due(message, place, told)

    def _of_both(self, message: Message, place: Place) -> bool:
        """Whether either of two copies may tell of it, and not know of the other."""
        return self.siblings.both_tell(message, place)

    def _untold(self, message: Message, place: Place) -> bool:
        """Return whether nobody can demand an acknowledgment of it."""
        queues = self.queues
        return (
            self.restores.end_is_undone(message, place)
            or message.copies[place.key].worked
            or self._of_both(message, place)
            or queues.doubtful(message, place)
            or queues.silent(message, place)
        )

    def _due(self, message: Message, place: Place, told: set[tuple[int, str, int]]) -> None:
        """What was asked for, and is certain to have happened, must have been told."""
        key = f"{place.node}\\{place.name}"
        p, (place, copy) = message.properties, self.queues.of(message, place)
        if not p.admin_queue or place.node < 0 or place.deleted_us >= 0:
            return
        there = _HOST.match(p.admin_queue)
        told_at = int(there[1]) if there else message.node
        since = self.books.listening.get(told_at)
        if since is None or since > message.sent_us:
            return  # it may have come before its queue was made
        if told_at not in (message.node, place.node) and self.reasons.permissions.active:
            return  # it does not go home (finding S13)
        due: list[int] = []
        if p.acknowledge & Acknowledge.POSITIVE_ARRIVAL and copy.received:
            due.append(MessageClass.ACK_REACH_QUEUE)
        if p.acknowledge & Acknowledge.POSITIVE_RECEIVE and copy.received and not copy.rejected:
            due.append(MessageClass.ACK_RECEIVE)
        for node, queue, reason in copy.letters:
            # The receiver has told the sender of this end: the acknowledgment is made there.
            home = node == message.node and queue in ("DEADXACT", OWN)
            bits = _BITS[bool(reason & NEGATIVE), bool(reason & ON_RECEIVE)]
            if home and reason & NEGATIVE and reason != IN_DOUBT and p.acknowledge & bits:
                due.append(reason)
        for value in due:
            self.kernel.marks[marks.DUE] += 1
            if (message.uid, key, value) not in told and not self._given_up(message, place):
                self.kernel.wrong(
                    f"I13: class {value:#06x} about message {message.uid} of M{message.node} to "
                    f"{place} was due at {p.admin_queue}, and never came; received "
                    f"{copy.received} times, letters {copy.letters}, {p.acknowledge!r}"
                )

    def _given_up(self, message: Message, place: Place) -> bool:
        """Whether an operator gave acknowledgments up that may have been of this message."""
        given_up = self.books.answers_given_up
        return any(
            message.sent_us <= given_up.get(node, -1) for node in (message.node, place.node)
        )  # fmt: skip

    def _wrong(self, message: Message, ack: Decoded, what: str) -> None:
        self.kernel.wrong(
            f"I13: class {ack.message_class:#06x} about message {message.uid} of M{message.node} "
            f"to {ack.response_queue}, sent with {message.properties.acknowledge!r}: {what}"
        )

    def _one(self, message: Message, place: Place, ack: Decoded) -> None:
        value = ack.message_class
        negative, late = bool(value & NEGATIVE), bool(value & ON_RECEIVE)
        bits = _BITS[negative, late]
        if value == IN_DOUBT:
            bits |= Acknowledge.NEGATIVE_ARRIVAL
        if not message.properties.acknowledge & bits:
            self._wrong(message, ack, "nobody asked for it")
        if message.refused or (message.unit is not None and not message.unit.seen
                               and message.unit.status.value != "committed"):  # fmt: skip
            self._wrong(message, ack, "it was never sent")
        self.kernel.marks[marks.NACKED if negative else marks.ACKED] += 1
        p, (place, copy) = message.properties, self.queues.of(message, place)
        ordered = message.unit is not None
        if value == MessageClass.ACK_RECEIVE and not copy.received and not place.leaks:
            self._wrong(message, ack, "nobody has received it")
        # A transaction that holds a message of a deleted queue commits without effect.
        without_effect = value in (MessageClass.NACK_QUEUE_DELETED, IN_DOUBT)
        if negative and ordered and copy.received and not without_effect:
            self._wrong(message, ack, "it was received")
        timers = (p.time_to_reach_queue, p.time_to_be_received)
        mortal = timers != (NEVER_S, NEVER_S) or self.reasons.stranded(message)
        if value == MessageClass.NACK_REACH_QUEUE_TIMEOUT and not mortal:
            self._wrong(message, ack, "it had all the time")
        if value == MessageClass.NACK_RECEIVE_TIMEOUT and timers[1] == NEVER_S:
            self._wrong(message, ack, "its time to be received has no end")
        if value == MessageClass.NACK_RECEIVE_REJECTED and not copy.rejected:
            self._wrong(message, ack, "nobody has rejected it")
        if value == MessageClass.NACK_QUEUE_PURGED and place.purged_us < 0:
            self._wrong(message, ack, "nobody has purged the queue")
        if value == MessageClass.NACK_QUEUE_DELETED and place.deleted_us < 0:
            self._wrong(message, ack, "nobody has deleted the queue")

    def _together(self, message: Message, acks: list[Decoded]) -> None:
        """Of each kind there is one at the most, and never both of a kind."""
        if message.unit is None:
            return  # the network may have repeated the message itself, long after
        acks = [ack for ack in acks if ack.message_class != IN_DOUBT]
        arrival = [a for a in acks if not a.message_class & ON_RECEIVE]
        ending = [a for a in acks if a.message_class & ON_RECEIVE]
        for kind in (arrival, ending):
            if len(kind) > 1:
                both = ", ".join(f"{a.message_class:#06x}" for a in kind)
                self._wrong(message, kind[0], f"and at the same queue also {both}")
        if ending and any(a.message_class & NEGATIVE for a in arrival):
            self._wrong(message, ending[0], "but it never arrived (ACK-3)")
