"""What may explain that a message is not where it was sent to, as the books have it.

Here stand the reasons, and nothing is judged: ``endings.py``, ``verdict.py`` and the judges of
copies ask.
"""

from __future__ import annotations

from onceq.model.marks import NEVER_S
from onceq.model.resultcodes import class_name
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.options import HOUR
from proof.sim.base.pair import Pair
from proof.sim.judge.books import Books, Copy, Message, Place
from proof.sim.judge.copied_queues import CopiedQueues
from proof.sim.judge.permissions import Permissions
from proof.sim.judge.siblings import Siblings
from proof.sim.judge.traffic import Traffic

HEADERS_BYTES = 2_000
"""More than the headers of any packet here have."""


class Reasons:
    """See the module."""

    def __init__(
        self, kernel: Kernel, nodes: list[Node], books: Books, pair: Pair, traffic: Traffic,
        queues: CopiedQueues, siblings: Siblings, permissions: Permissions,
    ) -> None:  # fmt: skip
        self.kernel, self.nodes, self.books, self.pair = kernel, nodes, books, pair
        self.traffic, self.queues, self.siblings = traffic, queues, siblings
        self.permissions = permissions
        self._most: dict[tuple[int, str], int] = {}
        self._leaks: dict[tuple[int, str], int] = {}

    def begin(self) -> None:
        """The end has come: count the receives whose answers were lost."""
        self._leaks = {place.key: place.leaks for place in self.books.places.values()}

    def wrong(self, message: Message, place: Place, copy: Copy, what: str) -> None:
        unit = message.unit
        letters = [(f"M{n}", q, class_name(c)) for n, q, c in copy.letters]
        self.kernel.wrong(
            f"{what}: message {message.uid} of M{message.node} to {place} "
            f"({message.names[place.key]}), sent at {message.sent_us / 1e6:.6f}s, "
            f"order {unit.order if unit else '-'}, {message.properties.journal!r}, "
            f"lifetimes {message.properties.time_to_reach_queue} and "
            f"{message.properties.time_to_be_received}; received {copy.received} times, "
            f"seen {copy.seen}, letters {letters}, waiting {copy.waiting}"
        )

    def with_its_letter_queue(self, message: Message) -> bool:
        """Whether its dead letter may have gone with the queue that it named."""
        gone = message.node in self.books.letter_queues_gone
        return gone and bool(message.properties.dead_letter_queue)

    def excuse(self, message: Message, place: Place) -> str:
        if place.node < 0 or place.late or place.created_us < 0:
            return "no queue"
        if place.deleted_us >= 0:
            return "deleted"
        if self.without_right(message, place):
            return "no right"
        if not place.transactional and message.unit is not None:
            other = self.mortal(message) or self.purged_here(message, place)
            return "other kind" if other else ""
        if self._over(message, place):
            return "lifetime"
        if place.quota_kb and self.most_bytes(place) > place.quota_kb << 10:
            return "quota"
        if self.purged_here(message, place):
            return "outgoing queue purged"
        if place.purged_us >= message.sent_us:
            return "purged"
        return ""

    def without_right(self, message: Message, place: Place) -> bool:
        """Whether its sender may have had no right to send there."""
        away = place.node != message.node
        return away and self.permissions.may_be_refused(place, message.sent_us)

    def purged_here(self, message: Message, place: Place) -> bool:
        purged = self.books.purged
        named = self.queues.original(place)
        senders = self.siblings.senders(message, named)
        return any(purged.get((n, named.key), -1) >= message.sent_us for n in senders)

    @staticmethod
    def mortal(message: Message) -> bool:
        properties = message.properties
        return min(properties.time_to_reach_queue, properties.time_to_be_received) != NEVER_S

    def may_have_ended(self, message: Message, place: Place) -> bool:
        """Whether its sender may have ended a message that was not acknowledged."""
        rotten = message.uid in self.books.rotten
        apart = rotten or self.stranded(message)
        over = self._over(message, place) or self._left_directory(place)
        return apart or over or self.purged_here(message, place)

    @staticmethod
    def _left_directory(place: Place) -> bool:
        """Whether a public queue may not be in the directory any more (DL-15)."""
        return bool(place.instance) and place.deleted_us >= 0

    def stranded(self, message: Message) -> bool:
        """Whether a message may have waited in a stream that its receiver had left."""
        return self.pair.identity(message.node) in self.traffic.stranded

    def _over(self, message: Message, place: Place) -> bool:
        """Whether the lifetime of a message can be over, by the clock of anybody who looks."""
        properties = message.properties
        lifetime = min(properties.time_to_reach_queue, properties.time_to_be_received)
        first = message.unit.sends[0].properties if message.unit else properties
        lifetime = min(lifetime, first.time_to_reach_queue, first.time_to_be_received)
        if lifetime == NEVER_S:
            return False
        options = self.kernel.options
        wrong = 2 * options.clock_offset_us
        if options.clock_every_us:
            wrong += len(self.nodes) * 24 * HOUR
        return self.kernel.now - message.sent_us + wrong >= (lifetime - 2) * 1_000_000

    def most_bytes(self, place: Place) -> int:
        """More bytes than ever can have stood in a queue: all that was ever sent there, twice."""
        if place.key not in self._most:
            self._most[place.key] = sum(
                2 * (len(message.body) + HEADERS_BYTES) * _times(message.copies[place.key])
                for message in self.books.messages.values()
                if place.key in message.copies
            )
        return self._most[place.key]

    def leak(self, place: Place) -> bool:
        """Whether a receive whose answer was lost may have taken one more message."""
        if self._leaks.get(place.key, 0) <= 0:
            return False
        self._leaks[place.key] -= 1
        return True


def _times(copy: Copy) -> int:
    """How often it was sent, at most."""
    return copy.own + copy.more + copy.perhaps_more
