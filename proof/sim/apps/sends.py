"""What simulated applications send: destinations, their names, properties and bodies.

Everything is drawn here, and entered into the books before it is sent.
"""

from __future__ import annotations

from dataclasses import replace

from onceq.errors import InsufficientResources, NoDirectory, OnceqError, StorageReserve
from onceq.model.marks import NEVER_S
from onceq.model.message import Acknowledge, Delivery, Journal, Properties
from onceq.model.requests import SendItem
from onceq.model.run import Run
from onceq.packet.own import own_headers
from proof.sim.apps.delaying import Delaying
from proof.sim.apps.places import Names
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.pair import Pair
from proof.sim.judge.books import ADMIN, OWN_DEAD, Books, Message, Place, Unit
from proof.sim.judge.copied_queues import CopiedQueues
from proof.sim.judge.ledger import Ledger


class Sends:
    """See the module."""

    def __init__(
        self, kernel: Kernel, books: Books, ledger: Ledger, pair: Pair, queues: CopiedQueues,
        delaying: Delaying, spelled: Names,
    ) -> None:  # fmt: skip
        self.kernel, self.books, self.ledger = kernel, books, ledger
        self.pair, self.queues, self.delaying, self.spelled = pair, queues, delaying, spelled
        self.rng = kernel.stream("workload")

    def _places(self, *, plain: bool) -> tuple[Place, ...]:
        """One to five destinations, most of them right."""
        rng = self.rng
        places = self.queues.named()
        if rng.random() >= self.kernel.options.wrong:
            right = [p for p in places if p.created_us >= 0 and p.transactional is not plain]
            places = right or places
        count = min(rng.choice([1, 1, 1, 2, 3, 5]), len(places))
        return tuple(rng.sample(places, count))

    def _names(self, node: int, places: tuple[Place, ...]) -> list[tuple[Place, str]]:
        """A format name for each place."""
        rng, names = self.rng, []
        for place in places:
            name = place.spellings[0]
            if rng.random() < self.kernel.options.spellings:
                name = rng.choice(place.spellings)
            if place.node == self.pair.identity(node):
                name = f"DIRECT=OS:.\\{place.name}"
            names.append((place, self.spelled.written(name)))
        return names

    def _properties(self, node: int, *, plain: bool) -> Properties:
        rng, options = self.rng, self.kernel.options
        reach = receive = NEVER_S
        if rng.random() < options.lifetimes:
            reach = rng.choice([0, 1, 5, 60, 600, 7_200])
        if rng.random() < options.lifetimes * 0.5:
            receive = rng.choice([1, 30, 600, 7_200, 86_400])
        level, admin = Acknowledge.NONE, ""
        if rng.random() < options.acknowledged:
            level = Acknowledge(rng.randrange(16))
            told = node if rng.random() < 0.8 else rng.randrange(options.managers)
            admin = f"DIRECT=OS:M{told}\\{ADMIN}" if told != node or rng.random() < 0.5 else ADMIN
        journal = Journal(
            (self.kernel.stream("plain") if plain else rng).choice([0, 0, 1, 1, 2, 3])
        )
        more = self.kernel.stream("graves")  # by this name the kept seeds have drawn it
        own = (
            journal & Journal.DEADLETTER and not plain and more.random() < options.own_dead_letters
        )
        return Properties(
            dead_letter_queue=OWN_DEAD if own else "",
            acknowledge=level,
            admin_queue=admin,
            delivery=Delivery.EXPRESS if plain and rng.random() < 0.4 else Delivery.RECOVERABLE,
            priority=rng.randrange(8) if rng.random() < 0.3 else None,
            journal=journal,
            label=rng.choice(["", "", "label"]),
            time_to_reach_queue=reach,
            time_to_be_received=receive,
        )

    def item(
        self, node: int, unit: Unit | None, *, plain: bool = False
    ) -> tuple[SendItem, list[Message]]:
        """A batch to send, and what the books say of it."""
        rng, options = self.rng, self.kernel.options
        names = self._names(node, self.queues.more(node, self._places(plain=plain), plain=plain))
        text = ""
        lists = self.kernel.stream("listed")
        if self.books.lists and lists.random() < options.lists:
            text, names = self._listed(lists.choice(sorted(self.books.lists)), names)
        names = [(self.queues.at(node, place), name) for place, name in names]
        properties = self._properties(self.pair.identity(node), plain=plain)
        if unit is not None and unit.sends:
            first = unit.sends[0].properties
            effective = Properties(
                journal=properties.journal, acknowledge=properties.acknowledge,
                admin_queue=properties.admin_queue, time_to_reach_queue=first.time_to_reach_queue,
                time_to_be_received=first.time_to_be_received,
                dead_letter_queue=properties.dead_letter_queue,
            )  # fmt: skip
        else:
            effective = properties
        delay = self.delaying.draw()
        if delay:
            properties = replace(properties, delay=delay)
            effective = replace(effective, delay=delay)
        count = rng.choice([1, 1, 1, 2, 4])
        messages = [
            self.ledger.message(node, unit, names, effective, rng.randrange(options.body_bytes_max))
            for _ in range(count)
        ]
        bodies = Run.of([message.body for message in messages])
        destination = text or ",".join(name for _, name in names)
        if self.kernel.stream("own").random() >= options.own_headers:
            return SendItem(destination, properties, bodies), messages
        self.kernel.marks[marks.OWN_HEADERS] += 1
        for message in messages:
            message.label = f"message {message.uid}"
        own = own_headers(count, {"label": [message.label for message in messages]})
        return SendItem(destination, replace(properties, label=""), bodies, own=own), messages

    def _listed(
        self, name: str, more: list[tuple[Place, str]]
    ) -> tuple[str, list[tuple[Place, str]]]:
        """A list and other destinations: the name, and all that it stands for."""
        self.kernel.marks[marks.LISTED] += 1
        inside = {
            place.key: (place, self.books.members[place.key]) for place in self.books.lists[name]
        }
        # Beside the list by the same name as in it: that two other names are of one queue is known
        # only to who has seen the other manager's entry in the directory.
        beside = [inside.get(place.key, (place, spelled)) for place, spelled in more]
        text = ",".join([name, *(spelled for _, spelled in beside)])
        return text, list((inside | {place.key: (place, s) for place, s in beside}).values())

    def refused(self, error: OnceqError, messages: list[Message]) -> None:
        """A send was refused."""
        if isinstance(error, StorageReserve):
            self.kernel.marks[marks.RESERVE] += 1
        elif isinstance(error, NoDirectory):
            self.kernel.marks[marks.OFFLINE] += 1
        elif isinstance(error, InsufficientResources):
            self.kernel.marks[marks.QUOTA] += 1
        self.ledger.refuse(error, messages)
