"""The queues of a manager that was copied, in the books: each of the two copies has its own.

In some of the worlds with two copies (``faults/beside.py``) the manager that is copied has queues,
and others send to them. Its disk is copied at a moment when the books say all that it has; what
they say of its queues then is what they say of the copy's when that starts. From then on each copy
has queues of its own under the same names: what others send to such a name goes to the one that the
name leads to, or to both; what an application of a copy sends there stays with it.

What has become of such messages in the end is judged in ``copied_receivers.py``.

Watches: I4, I5, I17, I18 for each copy alone, while a world runs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Final

from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.pair import Pair
from proof.sim.judge.books import Books, Copy, Message, Place, Snapshot
from proof.sim.judge.meetings import Meetings

SHARE: Final = 0.6
"""Of the worlds with two copies: the manager that is copied has queues."""
WANTED: Final = 0.4
"""Of what others send then: it goes to one of these queues, too."""

Key = tuple[int, tuple[int, str]]
"""A message, and one of its destinations."""


class CopiedQueues:
    """See the module."""

    def __init__(self, kernel: Kernel, books: Books, pair: Pair, meetings: Meetings) -> None:
        self.kernel, self.books, self.pair, self.meetings = kernel, books, pair, meetings
        self.active = pair.of >= 0 and kernel.stream("copied receivers").random() < SHARE
        pair.by_address = self.active
        self.snapshot: Snapshot | None = None
        """Of the original, at the moment of which the copy is."""
        self.twins: dict[tuple[int, str], Place] = {}
        """By queue of the original: the same queue of the copy."""
        self._originals: dict[tuple[int, str], Place] = {}
        self.reached: dict[Key, set[int]] = defaultdict(set)
        """By message and queue of the original: which of the two it was transmitted to."""
        self.late: dict[Key, set[int]] = defaultdict(set)
        """Likewise: which of the two has said that it came too late."""
        self.denied: dict[Key, set[int]] = defaultdict(set)
        """Likewise: which of the two has said that it never came, to a sender that could not know
        that there are two."""
        self.ended: set[Key] = set()
        """Messages that had been accepted by the original, and had ended there, before that."""
        self.linked: dict[int, set[int]] = defaultdict(set)
        """By computer: which of the two it has had a connection with."""
        self.hails: list[Place] = []
        """Queues by the address of the other copy."""

    # ---- the copy -----------------------------------------------------------------------

    @property
    def frozen(self) -> bool:
        """Whether no queue is made there any more: it would not be the same one at both."""
        return self.snapshot is not None

    def copy(self, snapshot: Snapshot) -> None:
        """The disk is copied now."""
        self.snapshot = snapshot

    def begin(self, twin: Node) -> None:
        """The copy starts: its queues are as those of the original were."""
        books, snapshot = self.books, self.snapshot
        if snapshot is None:
            return
        for place, old in snapshot.places:
            old.node, old.parts = twin.index, []
            old.aborts = {lookup: (count, -1) for lookup, (count, _) in old.aborts.items()}
            if place.parent is None:
                self.twins[place.key], self._originals[old.key] = old, place
        for place, old in snapshot.places:
            if place.parent is not None:
                old.parent = self.twins[place.parent.key]
                old.parent.parts.append(old)
        books.places.update((old.key, old) for old in self.twins.values())
        for (uid, key), copy in snapshot.copies.items():
            message, there = books.messages[uid], self.twins.get(key)
            stood = (uid, key) in snapshot.standing
            ended = (copy.seen or copy.received) and not stood
            local = message.node == self.pair.of
            if there is not None and (stood or ended or not local):
                message.copies[there.key] = copy
                message.names[there.key] = message.names[key]
                if ended:
                    self.ended.add((uid, key))
        for message in books.messages.values():
            self.sent(message)
        for (uid, key), accepted in snapshot.accepted.items():
            if key in self.twins:
                books.accepted[uid, self.twins[key].key] = dict(accepted)
        self.kernel.marks[marks.COPIED_QUEUES] += 1

    def more(self, node: int, places: tuple[Place, ...], *, plain: bool) -> tuple[Place, ...]:
        """Destinations that were chosen, and perhaps a queue of the two besides."""
        if not self.twins or self.pair.identity(node) == self.pair.of:
            return places
        rng = self.kernel.stream("copied queues")
        here = [
            p for p in self._originals.values()
            if p.created_us >= 0 and p.transactional is not plain and p not in places
        ]  # fmt: skip
        return (*places, rng.choice(here)) if here and rng.random() < WANTED else places

    # ---- which queue of the two ---------------------------------------------------------

    def named(self) -> list[Place]:
        """All queues that messages may be sent to, each once."""
        return [p for p in self.books.places.values() if self.original(p) is p]

    def original(self, place: Place) -> Place:
        """The queue of the original of which this one is the copy's; else itself."""
        return self._originals.get(place.key, place)

    def at(self, node: int, place: Place) -> Place:
        """The queue that a name of the two means at a computer: each of the copies its own."""
        twin = self.pair.twin
        if twin is None or node != twin.index:
            return place
        return self.twins.get(place.key, place)

    def sent(self, message: Message) -> None:
        """Another manager sends: to whichever copy the name leads."""
        if self.twins and self.pair.identity(message.node) != self.pair.of:
            for place in message.places:
                there = self.twins.get(place.key)
                if there is not None and there.key not in message.copies:
                    message.copies[there.key] = Copy()
                    message.names[there.key] = message.names[place.key]

    # ---- what is transmitted ------------------------------------------------------------

    def concerns(self, target: Node) -> bool:
        """Whether it is noted what is transmitted to a computer."""
        return self.active and self.pair.identity(target.index) == self.pair.of

    def transmitted(self, target: Node, uid: int, destination: str) -> None:
        """A message leaves for one of the two."""
        message = self.books.messages.get(uid)
        if message is not None:
            place = self.books.place_of(message, destination)
            self.reached[uid, place.key].add(target.index)

    def came_too_late(self, source: Node, uid: int, destination: str) -> None:
        """One of the two has refused a message because its time to reach the queue was over."""
        message = self.books.messages.get(uid)
        if message is not None:
            self.late[uid, self.books.place_of(message, destination).key].add(source.index)

    def never_came(self, source: Node, target: Node, uid: int, destination: str) -> None:
        """One of the two tells a sender that asked it that a message never came."""
        message = self.books.messages.get(uid)
        if message is not None and not self.meetings.with_both(target):
            self.denied[uid, self.books.place_of(message, destination).key].add(source.index)

    def connected(self, node: Node, target: Node) -> None:
        """Two computers have a connection."""
        for one, other in ((node, target), (target, node)):
            if self.concerns(other):
                self.linked[one.index].add(other.index)

    def went_by(self, node: Node, message: Message, place: Place) -> bool:
        """Whether one of the two may have passed over a message: the other one was sent it."""
        if not self.twins or node not in self.pair.both:
            return False
        return self.pair.other(node.index) in self.reached.get((message.uid, place.key), ())

    # ---- what both may have -------------------------------------------------------------

    def judges(self, message: Message, place: Place) -> bool:
        """Whether both of the two may have it."""
        twin = self.twins.get(place.key)
        return twin is not None and twin.key in message.copies

    def stood(self, message: Message, place: Place) -> bool:
        """Whether it stood in the queue when that was copied."""
        known = self.snapshot
        return known is not None and (message.uid, place.key) in known.standing

    def reached_by(self, message: Message, place: Place) -> set[int]:
        """Return which of the two it was transmitted to."""
        return self.reached.get((message.uid, place.key), set())

    def doubtful(self, message: Message, place: Place) -> bool:
        """Whether both may tell how it ended."""
        return self.judges(message, place) and (
            self.stood(message, place)
            or (message.uid, place.key) in self.ended
            or len(self.reached_by(message, place)) > 1
        )

    def silent(self, message: Message, place: Place) -> bool:
        """Whether the one that would tell of it is off the network."""
        there, _ = self.of(message, place)
        return self.pair.ended is not None and self.pair.ended.index in (
            there.node, message.node,
        )  # fmt: skip

    def of(self, message: Message, place: Place) -> tuple[Place, Copy]:
        """The queue that a message went to, and what is known of it there."""
        copy = message.copies[place.key]
        twin = self.twins.get(place.key)
        if twin is None or twin.key not in message.copies:
            return place, copy
        if self.reached_by(message, place) == {twin.node}:
            there = message.copies[twin.key]
            return twin, replace(there, letters=copy.letters, waiting=copy.waiting)
        return place, copy

    def misled(self, message: Message, place: Place) -> bool:
        """Whether its sender may have asked one of the two of what only the other one knows."""
        place = self.original(place)
        return self.judges(message, place) and len(self.linked[message.node]) > 1

    def is_hail(self, name: str) -> bool:
        """Whether an outgoing queue leads to the other copy."""
        return any(name.casefold() == place.spellings[0].casefold() for place in self.hails)
