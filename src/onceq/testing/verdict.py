"""What must have become of every message when a world is quiet.

For each copy of each committed message there must be exactly one end that the books can explain.
Here the ledger is closed: each copy that was committed has one end, and is counted once.

Watches: I1, I2, I3, I6, I11, I12, I14, I19.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from onceq.model.classes import MessageClass, class_name
from onceq.model.limits import DOUBTS_MAX
from onceq.model.message import Delivery, Journal
from onceq.model.time import NEVER_S
from onceq.packet.decode import decode
from onceq.testing import marks
from onceq.testing.ledger import Copy, Message, Place, Status
from onceq.testing.options import HOUR

if TYPE_CHECKING:
    from onceq.testing.node import Node
    from onceq.testing.world import World

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
HEADERS_BYTES = 2_000
"""More than the headers of any packet here have."""
GRAVES = "private$\\graves"
"""A dead-letter queue of the senders' own, on each manager."""
OWN = "GRAVES"


class Verdict:
    """See the module."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._most: dict[tuple[int, str], int] = {}
        self._leaks: dict[tuple[int, str], int] = {}
        self.ends: Counter[str] = Counter()  # how many copies met which end

    # ---- what is found in the end -------------------------------------------------------

    def grave(self, node: Node, queue: str, packet: bytes) -> None:
        """A message stands in a system queue."""
        found = decode(packet)
        ledger = self.world.ledger
        message = ledger.messages.get(int.from_bytes(found.body[:8], "little"))
        if message is None or message.body != found.body:
            self.world.wrong(f"I12: {queue} of {node.name} holds a message that nobody sent")
        assert message is not None
        place = self.place_of(message, found.destination)
        self.world.told.known(packet, message.uid)
        if self.world.beside.siblings.is_inherited(node, message, place):
            return
        message.copies[place.key].graves.append((node.index, queue, found.message_class))

    def place_of(self, message: Message, destination: str) -> Place:
        """Which of its destinations a copy went to, by the name in its packet."""
        given = destination.casefold()
        host, _, path = given.partition("\\")
        host = host.rpartition(":")[2]
        for place in message.places:
            hosts = {f"m{self.world.beside.identity(place.node)}", f"10.0.0.{place.node + 1}"}
            if place.node == message.node:
                hosts.add(".")
            spellings = {message.names[place.key], *map(str.casefold, place.spellings)}
            if given in spellings or (path == place.name and host in hosts):
                return place
        self.world.wrong(f"message {message.uid} went to {destination}, where nobody sent it")
        raise AssertionError

    def journaled(self, place: Place, packet: bytes) -> None:
        """A copy stands in the journal of a queue."""
        found = decode(packet)
        message = self.world.ledger.messages.get(int.from_bytes(found.body[:8], "little"))
        if message is None or message.body != found.body or place.key not in message.copies:
            self.world.wrong(f"I14: the journal of {place} holds a message that nobody sent there")
        message.copies[place.key].journaled += 1

    def waiting(self, node: Node, place: Place, packet: memoryview) -> None:
        """A message still waits to be transmitted."""
        found = decode(packet)
        message = self.world.ledger.messages[int.from_bytes(found.body[:8], "little")]
        if node is self.world.beside.ended:
            return  # its disk is looked at as a whole (``siblings.py``)
        message.copies[place.key].waiting = True

    # ---- judging ------------------------------------------------------------------------

    def judge(self) -> None:
        """Judge every copy of every message."""
        ledger = self.world.ledger
        ledger.check_order()
        self._leaks = {place.key: place.leaks for place in ledger.places.values()}
        for message in ledger.messages.values():
            if message.refused:
                continue
            for place in message.places:
                copy = message.copies[place.key]
                if message.uid in ledger.rotten:
                    end = self._rotten(message, place, copy)
                elif self.world.restores.touched(message, place):
                    end = self._put_back(message, place, copy)
                elif self.world.beside.siblings.apart(message, place):
                    end = self.world.beside.siblings.judge(message, place, copy)
                elif self.world.beside.receivers.judges(message, place):
                    end = self.world.beside.receivers.judge(message, place)
                elif message.unit is not None:
                    end = self._ordered(message, place, copy)
                else:
                    end = self._plain(message, place, copy)
                self.ends[end] += 1
        self.world.beside.receivers.judged()

    def _rotten(self, message: Message, place: Place, copy: Copy) -> str:
        """Its bytes, or some beside them, were altered where it was stored: it may have been set
        aside there, and everything that is made of it. What was handed out was right."""
        unit = message.unit
        if unit is not None and copy.received > 1:
            self._wrong(message, place, copy, "I4, received twice")
        if unit is not None and unit.status is Status.ABORTED and copy.received:
            self._wrong(message, place, copy, "I3, not committed")
        return "damaged"

    def _put_back(self, message: Message, place: Place, copy: Copy) -> str:
        """It was under way when its sender or its receiver was put back (``restores.py``)."""
        unit, restores = message.unit, self.world.restores
        if unit is not None and copy.received > 1:
            self._wrong(message, place, copy, "I4, received twice")
        if restores.is_undone(message):
            return "undone"
        if unit is not None and unit.status is not Status.COMMITTED:
            if copy.seen or copy.received or copy.graves or copy.waiting:
                self._wrong(message, place, copy, "I3, not committed")
            return "not committed"
        if copy.received or copy.graves or copy.rejected:
            return "received over a restore"
        if copy.waiting and place.node >= 0 and unit is not None:
            self._wrong(message, place, copy, "I26, still waiting")
        sure = message.done and message.properties.delivery is Delivery.RECOVERABLE
        why = self._excuse(message, place)
        if unit is None and (place.transactional or copy.waiting or not sure):
            why = why or "another kind"
        if not why and not restores.excused(message, place) and not self._leak(place):
            self._wrong(message, place, copy, "I1, lost over a restore")
        if not why and self._letter_due(message, place) and not self._leak(place):
            self._wrong(message, place, copy, "I12, forgotten by a receiver that was put back, "
                        "and no dead letter says so")  # fmt: skip
        return "gone with a restore"

    def _letter_due(self, message: Message, place: Place) -> bool:
        """Whether a sender that was not put back waits for an end that nobody has told it."""
        return (
            message.unit is not None
            and bool(message.properties.journal & Journal.DEADLETTER)
            and message.node not in self.world.restores.at
            and place.transactional
            and not self._with_its_grave(message)
            and not self.world.tap.told_end(message.uid, place)
        )

    def _wrong(self, message: Message, place: Place, copy: Copy, what: str) -> None:
        unit = message.unit
        graves = [(f"M{n}", q, class_name(c)) for n, q, c in copy.graves]
        self.world.wrong(
            f"{what}: message {message.uid} of M{message.node} to {place} "
            f"({message.names[place.key]}), sent at {message.sent_us / 1e6:.6f}s, "
            f"order {unit.order if unit else '-'}, {message.properties.journal!r}, "
            f"lifetimes {message.properties.time_to_reach_queue} and "
            f"{message.properties.time_to_be_received}; received {copy.received} times, "
            f"seen {copy.seen}, graves {graves}, waiting {copy.waiting}"
        )

    def _ordered(self, message: Message, place: Place, copy: Copy) -> str:
        unit = message.unit
        assert unit is not None

        def wrong(what: str) -> None:
            self._wrong(message, place, copy, what)

        if unit.status is not Status.COMMITTED:
            if unit.status is not Status.ABORTED:
                wrong(f"I3a, still {unit.status.value}")
            if copy.seen or copy.received or copy.graves or copy.waiting:
                wrong("I3, not committed")
            return "not committed"
        journal = message.properties.journal
        home = [(q, c) for n, q, c in copy.graves if n == message.node]
        dead = [c for q, c in home if q in ("DEADXACT", OWN)]
        there = [c for n, q, c in copy.graves if q == "DEADXACT" and n == place.node]
        kept = sum(q == "JOURNAL" for _, q, _ in copy.graves)
        if place.node == message.node:
            dead = [c for c in dead if c != MISFIT]
        else:
            there = [c for c in there if c == MISFIT]
        if max(len(dead), len(there), kept) > 1:
            wrong("I12, two copies in one system queue")
        if (
            dead
            and not journal & Journal.DEADLETTER
            and not (self.stranded(message) and STRANDED.issuperset(dead))
            and not (self.stranded(message) and self.world.tap.told_end(message.uid, place))
        ):
            wrong("I12, a dead letter that nobody asked for")
        self._own(message, place, copy, [q for q, c in home if c != MISFIT])
        self._journal(message, place, copy)
        if kept and not journal & Journal.JOURNAL:
            wrong("I14, a journal copy that nobody asked for")
        if kept and not copy.received:
            if not self._leak(place):
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
                and not self._with_its_grave(message)
                and not (self._mortal(message) or self._purged_here(message, place))
            ):
                wrong("I12, no dead letter")
            return class_name(MISFIT)
        return self._vanished(message, place, copy)

    def _unheard(self, message: Message, place: Place) -> bool:
        """Whether what its receiver tells of a message's end may find nothing at its sender.

        A receive that commits after its queue was deleted means nothing (Q-43). What
        expired, or was purged here, is settled by its end, however late that comes. But a doubt
        that was one too many stays in doubt for ever; and a dead letter in doubt that went with the
        queue where it stood is not there to be settled (decision 0014).
        """
        few = self.world.scale.DOUBTS_MAX < DOUBTS_MAX
        grave = bool(message.properties.dead_letter_queue)
        gone = grave and message.node in self.world.ledger.graves_gone
        misled = place.deleted_us >= 0 or self.world.beside.siblings.misled(message, place)
        return misled or ((few or gone) and self.may_have_ended(message, place))

    def _own(self, message: Message, place: Place, copy: Copy, found: list[str]) -> None:
        """A dead letter stands where its sender wanted it, if that can be."""
        own = bool(message.properties.dead_letter_queue)
        if OWN in found:
            self.world.marks[marks.OWN_GRAVE] += 1
            if not own:
                self._wrong(
                    message, place, copy, "I12, in a dead-letter queue that it did not name"
                )
        elif own and "DEADXACT" in found:
            self.world.marks[marks.GRAVE_GONE] += 1
            if message.node not in self.world.ledger.graves_gone:
                self._wrong(message, place, copy, "I12, not in the dead-letter queue that it named")

    def _journal(self, message: Message, place: Place, copy: Copy) -> None:
        """The journal of a queue has what was received from it, and nothing else (I14)."""
        if copy.journaled:
            self.world.marks[marks.JOURNALED] += 1
        if copy.journaled > 1:
            self._wrong(message, place, copy, "I14, two copies in the journal of its queue")
        if copy.journaled and not copy.received and not place.leaks:
            self._wrong(message, place, copy, "I14, in the journal, and nobody has received it")
        if copy.received and place.journal and not copy.journaled and place.deleted_us < 0:
            self._wrong(message, place, copy, "I14, received, and not in the journal of its queue")

    def _check_claim(self, message: Message, place: Place, copy: Copy, reason: int) -> None:
        """A dead letter claims something; it must be true (I11)."""
        mortal = self._mortal(message) or self.stranded(message)
        if reason == IN_DOUBT:
            self.world.marks[marks.IN_DOUBT] += 1
            ended = mortal or self._purged_here(message, place) or place.deleted_us >= 0
            if not (ended or self.world.beside.siblings.misled(message, place)):
                self._wrong(message, place, copy, "I11, in doubt, and nothing has ended it")
            return
        if reason == REMOVED_HERE:
            if not self._purged_here(message, place):
                self._wrong(message, place, copy, "I11, removed by nobody")
            elif copy.received or copy.seen:
                self._wrong(message, place, copy, "I11, accepted, and said to be removed unsent")
            return
        gone_with_queue = reason == 0xC000 and place.deleted_us >= 0
        if copy.received and not gone_with_queue:
            self._wrong(message, place, copy, f"I11, received and {class_name(reason)}")
        if reason == REJECTED:
            self.world.marks[marks.REJECTED] += 1
            if not copy.rejected:
                self._wrong(message, place, copy, "I13, rejected by nobody")
        if reason in ENDED_THERE:
            if reason == 0xC002 and message.properties.time_to_be_received == NEVER_S:
                self._wrong(message, place, copy, "I15, expired without a lifetime")
            if reason in (0xC000, 0xC001) and place.purged_us < 0:
                self._wrong(message, place, copy, "I13, purged by nobody")
        elif copy.seen and place.deleted_us < 0:
            self._wrong(message, place, copy, f"I11, accepted and {class_name(reason)}")
        elif reason == MessageClass.NACK_REACH_QUEUE_TIMEOUT and not mortal:
            self._wrong(message, place, copy, "I15, expired without a lifetime")

    def _vanished(self, message: Message, place: Place, copy: Copy) -> str:
        """Nowhere: there must be a reason, and nobody may have asked to be told."""
        why = "rejected" if copy.rejected else self._excuse(message, place)
        why = why or ("answer lost" if self._leak(place) else "")
        if self._with_its_grave(message):
            return f"with its dead-letter queue: {why}"
        asked = bool(message.properties.journal & Journal.DEADLETTER)
        if asked and why != "answer lost":
            if not self._leak(place):
                self._wrong(message, place, copy, f"I12, gone without a dead letter ({why})")
            why = "answer lost"
        if not why:
            self._wrong(message, place, copy, "I1, lost")
        return f"silently: {why}"

    def _with_its_grave(self, message: Message) -> bool:
        """Whether its dead letter may have gone with the queue that it named."""
        gone = message.node in self.world.ledger.graves_gone
        return gone and bool(message.properties.dead_letter_queue)

    def _excuse(self, message: Message, place: Place) -> str:
        if place.node < 0 or place.late or place.created_us < 0:
            return "no queue"
        if place.deleted_us >= 0:
            return "deleted"
        if not place.transactional and message.unit is not None:
            other = self._mortal(message) or self._purged_here(message, place)
            return "other kind" if other else ""
        if self._over(message, place):
            return "lifetime"
        if place.quota_kb and self.most_bytes(place) > place.quota_kb << 10:
            return "quota"
        if self._purged_here(message, place):
            return "outgoing queue purged"
        if place.purged_us >= message.sent_us:
            return "purged"
        return ""

    def _purged_here(self, message: Message, place: Place) -> bool:
        purged = self.world.ledger.purged
        named = self.world.beside.queues.original(place)
        senders = self.world.beside.siblings.senders(message, named)
        return any(purged.get((n, named.key), -1) >= message.sent_us for n in senders)

    @staticmethod
    def _mortal(message: Message) -> bool:
        properties = message.properties
        return min(properties.time_to_reach_queue, properties.time_to_be_received) != NEVER_S

    def may_have_ended(self, message: Message, place: Place) -> bool:
        """Whether its sender may have ended a message that was not acknowledged."""
        rotten = message.uid in self.world.ledger.rotten
        apart = rotten or self.stranded(message)
        return apart or self._over(message, place) or self._purged_here(message, place)

    def stranded(self, message: Message) -> bool:
        """Whether a message may have waited in a stream that its receiver had left."""
        return self.world.beside.identity(message.node) in self.world.tap.stranded

    def _over(self, message: Message, place: Place) -> bool:
        """Whether the lifetime of a message can be over, by the clock of anybody who looks."""
        properties = message.properties
        lifetime = min(properties.time_to_reach_queue, properties.time_to_be_received)
        first = message.unit.sends[0].properties if message.unit else properties
        lifetime = min(lifetime, first.time_to_reach_queue, first.time_to_be_received)
        if lifetime == NEVER_S:
            return False
        options = self.world.options
        wrong = 2 * options.clock_offset_us
        if options.clock_every_us:
            wrong += len(self.world.nodes) * 24 * HOUR
        return self.world.now - message.sent_us + wrong >= (lifetime - 2) * 1_000_000

    def most_bytes(self, place: Place) -> int:
        """More bytes than ever can have stood in a queue: all that was ever sent there, twice."""
        if place.key not in self._most:
            self._most[place.key] = sum(
                2 * (len(message.body) + HEADERS_BYTES)
                for message in self.world.ledger.messages.values()
                if place.key in message.copies
            )
        return self._most[place.key]

    def _leak(self, place: Place) -> bool:
        """Whether a receive whose answer was lost may have taken one more message."""
        if self._leaks.get(place.key, 0) <= 0:
            return False
        self._leaks[place.key] -= 1
        return True

    def _plain(self, message: Message, place: Place, copy: Copy) -> str:
        """Outside transactions: recoverable messages arrive at least once, if they can."""
        journal = message.properties.journal
        kept = [q for n, q, _ in copy.graves if q == "JOURNAL" and n == message.node]
        dead = [c for _, q, c in copy.graves if q == "DEADLETTER"]
        if len(kept) + len(dead) != len(copy.graves):
            self._wrong(message, place, copy, "I12, in a system queue of another kind")
        if kept and not journal & Journal.JOURNAL:
            self._wrong(message, place, copy, "I14, a journal copy that nobody asked for")
        if dead and not journal & Journal.DEADLETTER:
            self._wrong(message, place, copy, "I12, a dead letter that nobody asked for")
        for reason in dead:
            self._check_plain_claim(message, place, copy, reason)
        if copy.received:
            return "plain: received"
        sure = message.done and message.properties.delivery is Delivery.RECOVERABLE
        if not sure or copy.waiting or dead:
            return "plain: not received"
        why = "another kind" if place.transactional else self._excuse(message, place)
        asked = bool(journal & Journal.DEADLETTER)
        if (asked or not why) and self._leak(place):
            return "plain: answer lost"
        if not why:
            self._wrong(message, place, copy, "I1, a recoverable message is lost")
        if asked:
            self._wrong(message, place, copy, f"I12, gone without a dead letter ({why})")
        return "plain: not received"

    def _check_plain_claim(self, message: Message, place: Place, copy: Copy, reason: int) -> None:
        """A dead letter of a message outside transactions claims something, too."""
        timers = (MessageClass.NACK_REACH_QUEUE_TIMEOUT, MessageClass.NACK_RECEIVE_TIMEOUT)
        if reason in timers and not self._mortal(message):
            self._wrong(message, place, copy, "I15, expired without a lifetime")
        if reason == MessageClass.NACK_QUEUE_PURGED and place.purged_us < 0:
            self._wrong(message, place, copy, "I13, purged by nobody")
        if reason == MessageClass.NACK_QUEUE_EXCEED_QUOTA and not place.quota_kb:
            self._wrong(message, place, copy, "I13, a quota that the queue does not have")
        self.world.marks[marks.PLAIN_GRAVE] += 1
