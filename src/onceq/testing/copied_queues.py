"""The queues of a manager that was copied, in the books: each of the two copies has its own.

In some of the worlds with two copies (``beside.py``) the manager that is copied has queues, and
others send to them. Its disk is copied at a moment when the books say all that it has; what they
say of its queues then is what they say of the copy's when that starts. From then on each copy has
queues of its own under the same names: what others send to such a name goes to the one that the
name leads to, or to both; what an application of a copy sends there stays with it.

What has become of such messages in the end is judged in ``copied_receivers.py``.

Watches: I4, I5, I17, I18 for each copy alone, while a world runs.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from onceq.testing import marks
from onceq.testing.ledger import Copy, Message, Place
from onceq.testing.restores import Books

if TYPE_CHECKING:
    from onceq.testing.beside import Beside
    from onceq.testing.node import Node

SHARE: Final = 0.6
"""Of the worlds with two copies: the manager that is copied has queues."""
WANTED: Final = 0.4
"""Of what others send then: it goes to one of these queues, too."""
EARLY: Final = 0.12
"""Of the time of a world, after which the copy is made at the latest: most work is done soon."""
MOVES: Final = 2
"""Programs of an application between two moves of the name; most connections are cut then, or
hardly anything that is under way to one of the two would come to the other."""
CUT: Final = 0.7
LEFT: Final = 0.8
"""Of the work of a world, so much at least is left when the copy starts."""

Key = tuple[int, tuple[int, str]]
"""A message, and one of its destinations."""


class CopiedQueues:
    """See the module."""

    def __init__(self, beside: Beside) -> None:
        self.beside = beside
        self.world = beside.world
        self.active = beside.active and self.world.stream("copied receivers").random() < SHARE
        self.books: Books | None = None
        """Of the original, at the moment of which the copy is."""
        self.twins: dict[tuple[int, str], Place] = {}
        """By queue of the original: the same queue of the copy."""
        self._originals: dict[tuple[int, str], Place] = {}
        self.reached: dict[Key, set[int]] = defaultdict(set)
        """By message and queue of the original: which of the two it was transmitted to."""
        self.ended: set[Key] = set()
        """Messages that had been accepted by the original, and had ended there, before that."""
        self.linked: dict[int, set[int]] = defaultdict(set)
        """By computer: which of the two it has had a connection with."""

    # ---- the copy -----------------------------------------------------------------------

    @property
    def frozen(self) -> bool:
        """Whether no queue is made there any more: it would not be the same one at both."""
        return self.books is not None

    def copy(self) -> None:
        """The disk is copied now."""
        self.books = self.world.restores.books(self.beside.original)

    def begin(self, twin: Node) -> None:
        """The copy starts: its queues are as those of the original were."""
        ledger, books = self.world.ledger, self.books
        if books is None:
            return
        for place, old in books.places:
            old.node, old.parts = twin.index, []
            old.aborts = {lookup: (count, -1) for lookup, (count, _) in old.aborts.items()}
            if place.parent is None:
                self.twins[place.key], self._originals[old.key] = old, place
        for place, old in books.places:
            if place.parent is not None:
                old.parent = self.twins[place.parent.key]
                old.parent.parts.append(old)
        ledger.places.update((old.key, old) for old in self.twins.values())
        for (uid, key), copy in books.copies.items():
            message, there = ledger.messages[uid], self.twins.get(key)
            stood = (uid, key) in books.standing
            ended = (copy.seen or copy.received) and not stood
            local = message.node == self.beside.of
            if there is not None and (stood or ended or not local):
                message.copies[there.key] = copy
                message.names[there.key] = message.names[key]
                if ended:
                    self.ended.add((uid, key))
        for message in ledger.messages.values():
            self.sent(message)
        for (uid, key), accepted in books.accepted.items():
            if key in self.twins:
                ledger.arrivals.accepted[uid, self.twins[key].key] = dict(accepted)
        work = self.world.workload
        work.left = max(work.left, int(self.world.options.transactions * LEFT))
        self.world.marks[marks.COPIED_QUEUES] += 1

    def moved(self) -> None:
        """The name leads to the other one: connections that were made by it may break."""
        world, rng = self.world, self.world.stream("copied queues")
        for end in list(world.network.ends):
            if end.alive and end.home in self.beside.pair and rng.random() < CUT:
                world.network.cut(end)

    def more(self, node: int, places: tuple[Place, ...], *, plain: bool) -> tuple[Place, ...]:
        """Destinations that were chosen, and perhaps a queue of the two besides."""
        if not self.twins or self.beside.identity(node) == self.beside.of:
            return places
        rng = self.world.stream("copied queues")
        here = [
            p for p in self._originals.values()
            if p.created_us >= 0 and p.transactional is not plain and p not in places
        ]  # fmt: skip
        return (*places, rng.choice(here)) if here and rng.random() < WANTED else places

    # ---- which queue of the two ---------------------------------------------------------

    def named(self) -> list[Place]:
        """All queues that messages may be sent to, each once."""
        return [p for p in self.world.ledger.places.values() if self.original(p) is p]

    def original(self, place: Place) -> Place:
        """The queue of the original of which this one is the copy's; else itself."""
        return self._originals.get(place.key, place)

    def at(self, node: int, place: Place) -> Place:
        """The queue that a name of the two means at a computer: each of the copies its own."""
        twin = self.beside.twin
        if twin is None or node != twin.index:
            return place
        return self.twins.get(place.key, place)

    def sent(self, message: Message) -> None:
        """Another manager sends: to whichever copy the name leads."""
        if self.twins and self.beside.identity(message.node) != self.beside.of:
            for place in message.places:
                there = self.twins.get(place.key)
                if there is not None and there.key not in message.copies:
                    message.copies[there.key] = Copy()
                    message.names[there.key] = message.names[place.key]

    # ---- what is transmitted ------------------------------------------------------------

    def concerns(self, target: Node) -> bool:
        """Whether it is noted what is transmitted to a computer."""
        return self.active and self.beside.identity(target.index) == self.beside.of

    def transmitted(self, target: Node, uid: int, destination: str) -> None:
        """A message leaves for one of the two."""
        message = self.world.ledger.messages.get(uid)
        if message is not None:
            place = self.world.verdict.place_of(message, destination)
            self.reached[uid, place.key].add(target.index)

    def connected(self, node: Node, target: Node) -> None:
        """Two computers have a connection."""
        for one, other in ((node, target), (target, node)):
            if self.concerns(other):
                self.linked[one.index].add(other.index)

    def went_by(self, node: Node, message: Message, place: Place) -> bool:
        """Whether one of the two may have passed over a message: the other one was sent it."""
        if not self.twins or node not in self.beside.pair:
            return False
        return self.beside.other(node.index) in self.reached.get((message.uid, place.key), ())
