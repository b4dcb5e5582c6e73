"""What each message that comes out of a queue says of itself: its times, and whether it came twice.

Its packet holds the times, which a few lines of this module read. A receiver remembers a message
outside transactions for half an hour, and up to a number of others: within that it must not be
accepted again. Who has received nothing can only say so where nothing else explains it.

Watches: I4 (for messages outside transactions), I15, I28 (for what other managers send).
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from onceq.model.limits import DUPLICATE_AGE_S_MAX
from onceq.model.marks import NEVER_S
from onceq.model.message import Delivery
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.pair import Pair
from proof.sim.judge.books import Books, Message, Place
from proof.sim.judge.permissions import Permissions

_REACH, _TIMES = struct.Struct("<I"), struct.Struct("<II")
REACH_AT, TIMES_AT = 12, 48
PATIENCE_S = 1
"""Seconds are counted whole on both sides."""


class Arrivals:
    """See the module."""

    def __init__(
        self, kernel: Kernel, nodes: list[Node], books: Books, pair: Pair,
        permissions: Permissions, not_early: Callable[[Place, memoryview, Message], None],
    ) -> None:  # fmt: skip
        """Nothing has come yet.

        Args:
            not_early: Looks whether the time of a message has come.
        """
        self.kernel, self.nodes, self.books, self.pair = kernel, nodes, books, pair
        self.permissions, self._not_early = permissions, not_early

    def handed(
        self, place: Place, packet: memoryview, lookup: int, arrived: int, message: Message,
        claimed_s: int = 0,
    ) -> None:  # fmt: skip
        """A message was handed out, or shown.

        Args:
            claimed_s: By the clock of its manager, when it was claimed; 0: it was not. A message
                that is claimed does not expire.
        """
        now_s = claimed_s or self.nodes[place.node].clock.wall_us() // 1_000_000
        self._in_time(place, packet, arrived, message, now_s)
        self._not_early(place, packet, message)
        if message.node != place.node:
            self.permissions.check_arrival(place, message)
        if message.unit is None and place.parent is None:
            self._once(place, lookup, arrived, message)

    def _in_time(
        self, place: Place, packet: memoryview, arrived: int, message: Message, now: int
    ) -> None:
        (reach,) = _REACH.unpack_from(packet, REACH_AT)
        receive, sent = _TIMES.unpack_from(packet, TIMES_AT)
        copy = message.copies[place.home.key]
        # What a policy has set aside is for people, who may also move it back.
        copy.aside |= place.home.poison and place.name.endswith(";poison")
        if receive < NEVER_S - 1 and not copy.aside and now > sent + receive + PATIENCE_S:
            self.kernel.wrong(
                f"I15: {place} hands out message {message.uid} at {now}, "
                f"{now - sent - receive} s after its time to be received"
            )
        # 0 is one attempt, and arriving is that (CNF-4).
        local = self.pair.identity(place.node) == self.pair.identity(message.node)
        if 0 < reach < NEVER_S - 1 and not local and arrived:
            self.kernel.marks[marks.TIMED] += 1
            if arrived > sent + reach + PATIENCE_S and place.parent is None:
                self.kernel.wrong(
                    f"I15: {place} accepted message {message.uid} at {arrived}, "
                    f"{arrived - sent - reach} s after its time to reach the queue"
                )

    def _once(self, place: Place, lookup: int, arrived: int, message: Message) -> None:
        places = self.books.accepted.setdefault((message.uid, place.key), {})
        places.setdefault(lookup, arrived)
        if len(places) < 2 or message.copies[place.key].worked:
            return
        self.kernel.marks[marks.REPEATED] += 1
        express = message.properties.delivery is Delivery.EXPRESS
        if express or not self._remembered(place, places):
            return
        self.kernel.wrong(
            f"I4: message {message.uid} of M{message.node}, outside transactions, was accepted "
            f"in {place} more than once, (identifier, second): {list(places.items())}"
        )

    def _remembered(self, place: Place, places: dict[int, int]) -> bool:
        """Whether its receiver must still have known it."""
        kernel = self.kernel
        if kernel.options.clock_every_us or max(places.values()) - min(places.values()) >= (
            DUPLICATE_AGE_S_MAX - PATIENCE_S
        ):
            return False
        others = sum(
            key[0] == place.node
            for message in self.books.messages.values()
            if message.unit is None or message.properties.acknowledge
            for key in message.copies
        )
        # Each of them may have been acknowledged twice.
        return 3 * others < kernel.scale.DUPLICATE_IDS_MAX
