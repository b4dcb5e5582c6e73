"""What simulated operators do: make, purge and delete queues, steer outgoing queues, look.

Also the last phase of a world: everything is resumed and received, until nothing is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from onceq.directory import MemoryDirectory
from onceq.errors import OnceqError, QueueExists
from onceq.model.identity import guid_text
from onceq.model.queue import QUOTA_UNLIMITED_KB, QueueProperties
from onceq.model.requests import (
    Begin,
    Commit,
    CreateQueue,
    DeleteQueue,
    Look,
    PurgeQueue,
    Receive,
    SetQueue,
    Steer,
    SteerOutgoing,
)
from onceq.model.views.queues import OutgoingView, QueueView
from proof.sim.apps.apps import App, Ask, Lost, Program, Sleep, look_at_all
from proof.sim.apps.work import Talk, Work
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.options import MINUTE, SECOND
from proof.sim.base.pair import Pair
from proof.sim.judge.acknowledgments import Acknowledgments
from proof.sim.judge.books import ADMIN, OWN, OWN_DEAD, Books, Place
from proof.sim.judge.copied_queues import CopiedQueues
from proof.sim.judge.verdict import Verdict

TAKEN, PEEKED = 100, 10_000
"""Messages of one receive, and of one peek."""


@dataclass(slots=True)
class Operators:
    """Programs of the people who run the managers of one world."""

    kernel: Kernel
    books: Books
    pair: Pair
    queues: CopiedQueues
    work: Work
    verdict: Verdict
    acknowledgments: Acknowledgments
    directory: MemoryDirectory | None
    drained: bool = False
    """Nothing is left to be received."""

    # ---- at the beginning ---------------------------------------------------------------

    def set_up(self, app: App) -> Program:
        """Make the queues of one manager."""
        for place in list(self.books.places.values()):
            while place.node == app.node.index and place.created_us < 0 and not place.late:
                yield from self.create(app, place)
        properties = QueueProperties(ADMIN.rpartition("\\")[2])
        yield Ask(self._creating(properties), safe=True)
        self.books.listening[app.node.index] = self.kernel.now
        own = QueueProperties(OWN_DEAD.rpartition("\\")[2], transactional=True)
        yield Ask(self._creating(own), safe=True)

    def _creating(self, properties: QueueProperties, instance: bytes = b"") -> CreateQueue:
        drawn = self.kernel.stream("workload").randbytes(16)
        return CreateQueue(properties=properties, instance=instance or drawn)

    def create(self, app: App, place: Place) -> Program:
        """Make one queue."""
        properties = QueueProperties(
            place.name.rpartition("\\")[2], transactional=place.transactional,
            private=not place.instance,
            quota_kb=place.quota_kb or QUOTA_UNLIMITED_KB, journal=place.journal,
            poison_attempts=1 if place.poison else 0, poison_retry_after=place.retry_s,
        )  # fmt: skip

        def asked() -> None:
            if place.created_us < 0:
                place.created_us = self.kernel.now

        answer = yield Ask(self._creating(properties, place.instance), asked, safe=True)
        if isinstance(answer, QueueProperties) and not place.number:
            place.number = answer.number
            private = f"PRIVATE={guid_text(app.node.guid)}\\{answer.number:08x}"
            if place.instance:
                self.kernel.marks[marks.PUBLIC] += 1
            elif place.spellings[0] == "PRIVATE=":
                place.spellings[0] = private
            else:
                place.spellings.append(private)
        elif not isinstance(answer, (QueueProperties, QueueExists)):
            self.kernel.wrong(f"a queue cannot be made: {answer!r}")

    # ---- meanwhile ----------------------------------------------------------------------

    def next(self, app: App) -> Program | None:
        """Something that an operator may do now."""
        if not self.kernel.faulty:
            return None
        rng = app.rng
        places = [p for p in self.books.places.values() if p.node == app.node.index]
        late = [p for p in places if p.late and p.created_us < 0]
        if self.queues.frozen and self.pair.identity(app.node.index) == self.pair.of:
            late = []
        there = [p for p in places if p.created_us >= 0]
        draw = rng.randrange(18)
        if draw == 0 and late:
            return self.create_late(app, rng.choice(late))
        if draw == 1 and there:
            return self.delete(app, rng.choice(there))
        if draw <= 3 and there:
            return self.purge(app, rng.choice(there))
        if draw <= 10:
            return self.steer(app, draw)
        if draw == 11:
            return self.network(app)
        if draw == 16 and self.kernel.options.own_dead_letters and rng.random() < 0.3:
            return self.delete_dead_letters(app)
        if draw >= 16 and self.directory is not None:
            return self.take_directory(app, self.directory)
        return self.check_views(app)

    def create_late(self, app: App, place: Place) -> Program:
        """Make a queue to which messages were sent already."""
        try:
            yield from self.create(app, place)
        except Lost:
            return

    def delete(self, app: App, place: Place) -> Program:
        """Delete a queue permanently."""

        def asked() -> None:
            place.deleted_us = place.purged_us = self.kernel.now

        yield Ask(DeleteQueue(place.name), asked)

    def delete_dead_letters(self, app: App) -> Program:
        """Delete the dead-letter queue that messages may name: the system's takes its place."""

        def asked() -> None:
            self.books.letter_queues_gone.add(app.node.index)

        yield Ask(DeleteQueue(OWN_DEAD), asked)

    def take_directory(self, app: App, directory: MemoryDirectory) -> Program:
        """Put the directory out of reach for a while."""
        directory.online(False)
        try:
            yield Sleep(app.rng.choice([MINUTE, 10 * MINUTE, 60 * MINUTE]))
        finally:
            directory.online(True)

    def purge(self, app: App, place: Place) -> Program:
        """Purge a queue."""

        def asked() -> None:
            place.purged_us = self.kernel.now

        yield Ask(PurgeQueue(place.name), asked)

    def steer(self, app: App, draw: int) -> Program:
        """Pause, resume, resend or purge an outgoing queue."""
        views = yield from look_at_all("outgoing")
        targets = [v for v in views if self.place_of(v.destination) is not None]
        if not targets:
            return
        name = app.rng.choice(targets).destination
        if draw == 4:
            place = self.place_of(name)
            assert place is not None
            yield from self.purge_outgoing(app, name, place)
            return
        action = (Steer.PAUSE, Steer.RESUME, Steer.RESEND)[draw % 3]
        yield Ask(SteerOutgoing(name, action))
        if action is Steer.PAUSE:
            yield Sleep(app.rng.choice([SECOND, MINUTE, 30 * MINUTE]))
            yield Ask(SteerOutgoing(name, Steer.RESUME))

    def purge_outgoing(self, app: App, name: str, place: Place) -> Program:
        """Purge an outgoing queue."""

        def asked() -> None:
            self.books.purged[app.node.index, place.key] = self.kernel.now

        yield Ask(PurgeQueue(name), asked)

    def network(self, app: App) -> Program:
        """Tidy up, take the manager off the network for a while, rename the label of a queue."""
        yield Ask(SteerOutgoing("", Steer.TIDY))
        if self.kernel.stream("unanswered").random() < 0.3:
            yield from self.give_up_answers(app)
        yield Ask(SteerOutgoing("", Steer.DISCONNECT))
        yield Sleep(app.rng.choice([SECOND // 100, SECOND, MINUTE, 30 * MINUTE]))
        yield Ask(SteerOutgoing("", Steer.CONNECT))
        views: list[QueueView] = yield from look_at_all("queues")
        for view in views:
            if not view.system:
                yield Ask(SetQueue(view.path, {"label": f"seen at {self.kernel.now}"}))

    def give_up_answers(self, app: App) -> Program:
        """Give up the acknowledgment messages for strangers that nobody has answered at."""
        given_up, node = self.books.answers_given_up, app.node.index
        before = given_up.get(node, -1)

        def asked() -> None:
            given_up[node] = self.kernel.now

        count = yield Ask(SteerOutgoing("", Steer.FORGET_UNANSWERED), asked)
        if count == 0:
            given_up[node] = before
        else:
            self.kernel.marks[marks.ANSWERS_GONE] += 1

    def place_of(self, destination: str) -> Place | None:
        """The queue of the books that a format name means."""
        for place in (*self.books.places.values(), *self.queues.hails):
            if destination.casefold() in map(str.casefold, place.spellings):
                return place
        return None

    def check_views(self, app: App) -> Program:
        """Check that every view answers, and that its counts add up (I19)."""
        for what in ("status", "queues", "outgoing", "streams", "transactions"):
            answer = yield Ask(Look(what))
            if isinstance(answer, OnceqError):
                self.kernel.wrong(f"looking at {what}: {answer!r}")
            if what == "queues":
                self._check(answer.views)

    def _check(self, views: Sequence[QueueView]) -> None:
        for view in views:
            if view.bytes > view.quota_kb << 10:
                self.kernel.wrong(
                    f"I19: queue {view.name} holds {view.bytes} bytes, its quota is "
                    f"{view.quota_kb} KB"
                )
            if view.available + view.locked != view.messages or view.available < 0:
                self.kernel.wrong(
                    f"I19: queue {view.name} counts {view.available} available and {view.locked} "
                    f"locked of {view.messages}"
                )

    # ---- in the end ---------------------------------------------------------------------

    def reconnect(self, app: App) -> Program:
        """Put a manager back on the network that somebody has left off it."""
        yield Ask(SteerOutgoing("", Steer.CONNECT))

    def drain(self, app: App) -> Program:
        """Resume everything, then receive everything, again and again."""
        yield Ask(SteerOutgoing("", Steer.CONNECT))
        views: list[OutgoingView] = yield from look_at_all("outgoing")
        for view in views:
            if view.state == "ONHOLD":
                yield Ask(SteerOutgoing(view.destination, Steer.RESUME))
        while not self.drained:
            # Most queues are empty; to ask each of them in a transaction of its own was half of
            # the events of a small world.
            queues: list[QueueView] = yield from look_at_all("queues")
            yield from self._resume(app, queues)
            holding = {view.path for view in queues if view.available}
            for place in self.books.everywhere():
                if place.node == app.node.index and place.name in holding:
                    yield from self._empty(app, place)
            yield Sleep(MINUTE)

    def _resume(self, app: App, queues: list[QueueView]) -> Program:
        """Let everybody receive from queues that somebody has left paused."""
        pauses = self.work.pauses
        for view in queues:
            place = self.books.places.get((app.node.index, view.path))
            # A subqueue shows the properties of its queue, and is open.
            if view.paused_since and place is not None:
                asking = partial(pauses.asking, place, pause=False)
                yield Ask(SteerOutgoing(view.path, Steer.RESUME), asking)
                pauses.answered(place, app.node, pause=False)

    def _empty(self, app: App, place: Place) -> Program:
        ledger, work = self.work.ledger, self.work
        asked: list[int] = []
        while True:
            unit = ledger.unit(app.node.index) if place.transactional else None
            number = app.number() if unit else 0
            if unit:
                yield Ask(Begin(number))
            receive = Receive(place.name, number, TAKEN)
            answer = yield Ask(receive, lambda: asked.append(self.kernel.now))
            work.pauses.received(place, app.node, asked[-1], answer)
            took = work.take(place, answer, unit)
            if unit:
                yield Ask(Commit(number), lambda unit=unit: ledger.ask(unit))  # type: ignore[misc]
                ledger.answered(unit)
            if not took:
                return

    def dead_letters(self, app: App) -> Program:
        """Receive all messages of the system queues, and of the senders' own dead-letter queue."""
        system = [(f"SYSTEM$;{name}", name) for name in ("DEADXACT", "DEADLETTER", "JOURNAL")]
        for queue, name in (*system, (OWN_DEAD, OWN)):
            for packet in (yield from self._taken(queue)):
                self.verdict.dead_letter(app.node, name, packet)
        for place in self.books.places.values():
            if place.node == app.node.index and (place.journal or place.keeps):
                for packet in (yield from self._taken(f"{place.name};JOURNAL")):
                    self.verdict.journaled(place, packet)
        for packet in (yield from self._taken(ADMIN)):
            self.acknowledgments.received(app.node.index, packet)
        views: list[OutgoingView] = yield from look_at_all("outgoing")
        for view in views:
            there = self.place_of(view.destination)
            if there is not None and view.messages:
                after = 0
                while True:
                    answer = yield Ask(
                        Receive(view.destination, count_max=PEEKED, peek=True, after=after)
                    )
                    if isinstance(answer, OnceqError):
                        break
                    after = answer.lookup_ids[-1]
                    for packet in answer.run:
                        self.verdict.waiting(app.node, there, packet)

    def _taken(self, queue: str) -> Talk:
        """All packets of a queue, received."""
        packets: list[bytes] = []
        while True:
            answer = yield Ask(Receive(queue, count_max=TAKEN))
            if isinstance(answer, OnceqError):
                return packets
            packets += map(bytes, answer.run)
