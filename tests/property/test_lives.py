"""Restores and copies at random moments: whatever is done to its directory, nothing is lost.

A queue manager A, and copies of it, send to B while links fail and processes die. Disks of earlier
moments are put back; copies run beside the original for a while, and one of them ends for good. The
judge knows what a restore takes back: messages of the life that is undone may have arrived, once.
Everything that was committed in a store which is there in the end has arrived once, in order, or,
where another copy had it too, is in doubt in a dead-letter queue.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from onceq.packet.arrived import USER
from onceq.testing.disk import Plan, SimFiles
from onceq.testing.links import Passing
from tests.conformance.world import Node, World

Q, PLAIN = "DIRECT=OS:B\\private$\\q", "DIRECT=OS:B\\private$\\p"
STEPS = 40
RESTORED, COPIED, CLASH = "restored", "copied", "clash noticed"
DRAINED, MOVED, DOUBT = "an earlier stream drained first", "moved to a newer stream", "in doubt"
_UID = struct.Struct(">I")


@dataclass
class Store:
    """A disk, and what was committed in it."""

    files: SimFiles
    sent: list[int] = field(default_factory=list)
    plain: list[int] = field(default_factory=list)


class Story:
    """One world; ``marks`` say what it has been through."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"lives {seed}")
        self.world = World("A", "B")
        self.world.entropy = Random(f"entropy {seed}").randbytes
        self.b = self.world["B"]
        self.b.create("q")
        self.b.create("p", transactional=False)
        self.alive: dict[Node, Store] = {self.world["A"]: Store(SimFiles())}
        self.images: list[Store] = []
        self.next = 0
        self.places: dict[tuple[int, int], int] = {}
        self.marks: Counter[str] = Counter()
        self.loss = self.random.choice([0.0, 0.1, 0.4])
        self.world.link("A", "B").policy = self.passes

    def passes(self, passing: Passing) -> list[tuple[int, Passing]]:
        """A bad link, which looks at every packet: a number is given to one message only (I7)."""
        if passing.kind == USER and passing.transactional:
            (uid,) = _UID.unpack(passing.packet[-_UID.size :])
            known = self.places.setdefault((passing.stream, passing.number), uid)
            assert known == uid, f"I7: {passing.stream:#x}.{passing.number}: {known}, now {uid}"
        if passing.transactional or passing.kind != USER:
            if self.random.random() < self.loss:
                return []
            if self.random.random() < self.loss:
                return [(0, passing), (self.random.randrange(5_000_000), passing)]
        return [(0, passing)]

    # ---- what happens ---------------------------------------------------------------------

    def send(self) -> None:
        node = self.some()
        count = self.random.randint(1, 3)
        uids = [self.next + n for n in range(count)]
        self.next += count
        bodies = [_UID.pack(uid) for uid in uids]
        if self.random.random() < 0.2:
            node.send(0, PLAIN, *bodies, delivery=1)
            self.alive[node].plain += uids
        else:
            node.once(Q, *bodies)
            self.alive[node].sent += uids
        if node.look("outgoing-queue", Q if uids[0] in self.alive[node].sent else PLAIN):
            behind = [v.behind_stream for v in node.look("outgoing")]
            self.marks[DRAINED] += any(behind)

    def some(self) -> Node:
        return self.random.choice(list(self.alive))

    def image(self) -> None:
        node = self.some()
        store, files = self.alive[node], node.files
        copy = files.image(Plan(files.pending_writes, files.pending_names))
        self.images.append(Store(copy, list(store.sent), list(store.plain)))

    def put_back(self) -> None:
        if self.images:
            node, image = self.some(), self.random.choice(self.images)
            if not node.dead:
                node.kill()
            self.start(node, image)
            self.marks[RESTORED] += 1

    def start(self, node: Node, image: Store) -> None:
        node.files = image.files.image(Plan((), ()))
        self.alive[node] = Store(node.files, list(image.sent), list(image.plain))
        node.start()

    def copy(self) -> None:
        if self.images and len(self.alive) < 3:
            world = self.world
            twin = Node(world, f"TWIN{len(world.nodes)}{self.next}", world.settings)
            twin.kill()
            twin.identity = world["A"].identity
            self.start(twin, self.random.choice(self.images))
            self.marks[COPIED] += 1

    def end(self) -> None:
        """One of two copies ends for good."""
        if len(self.alive) > 1:
            node = self.some()
            node.kill()
            del self.alive[node]

    def restart(self) -> None:
        node = self.random.choice([self.some(), self.b])
        self.random.choice([node.kill, node.crash])()
        node.start()

    def link(self) -> None:
        way = self.world.cut if self.random.random() < 0.5 else self.world.mend
        way("A", "B")

    def clock(self) -> None:
        """Somebody sets a wall clock, also back below where a stamp was taken; so they differ."""
        node = self.random.choice([self.some(), self.b])
        node.clock.jump(self.random.choice([-3_600, -60, 60, 3_600]))

    def live(self) -> None:
        steps = [self.send] * 8 + [self.restart, self.link, self.image, self.image]
        steps += [self.clock] if self.random.random() < 0.4 else []
        steps += [self.put_back] if self.random.random() < 0.7 else []
        steps += [self.copy, self.end] if self.random.random() < 0.5 else []
        for _ in range(STEPS):
            self.random.choice(steps)()
            self.world.run(self.random.choice([0.0, 0.001, 0.5, 5.0, 40.0]))
            for node in self.alive:
                self.marks[CLASH] += len(node.look("status").clashes)
                state = node.engine.manager.state  # type: ignore[union-attr]
                self.marks[MOVED] += any(o.moved_to for o in state.outgoing.values())

    # ---- what has become of it ----------------------------------------------------------------

    def judge(self) -> None:
        self.loss = 0.0
        self.world.mend("A", "B")
        for _ in range(40):
            self.world.run(3_600)
            if not any(n.look("outgoing-queue", Q).messages for n in self.alive if self.used(n)):
                break
        arrived = [_UID.unpack(body)[0] for body in self.b.bodies("private$\\q")]
        plain = {_UID.unpack(body)[0] for body in self.b.bodies("private$\\p")}
        assert len(arrived) == len(set(arrived)), "I4: something has arrived twice"
        doubtful = {uid for node in self.alive for uid in dead(node)}
        self.marks[DOUBT] += len(doubtful)
        if not (self.marks[COPIED] or self.marks[MOVED]):
            assert not doubtful, "one after another: nothing is in doubt"
        for node, store in self.alive.items():
            lost = set(store.sent) - set(arrived) - doubtful
            assert not lost, f"I1: {sorted(lost)} of {store.sent} are lost"
            assert not set(store.plain) - plain, "I1: a recoverable message is lost"
            if self.used(node):
                assert node.look("outgoing-queue", Q).messages == 0, "I26: something waits"
            if not (self.marks[COPIED] or doubtful):
                order = [uid for uid in arrived if uid in set(store.sent)]
                assert order == store.sent, "I5: in the order of the commits"

    def used(self, node: Node) -> bool:
        return any(view.destination.endswith("q") for view in node.look("outgoing"))


def dead(node: Node) -> list[int]:
    try:
        return [_UID.unpack(m.body)[0] for m in node.messages("SYSTEM$;DEADXACT")]
    except TimeoutError:
        return []


def run(seed: int) -> Counter[str]:
    story = Story(seed)
    story.live()
    story.judge()
    return story.marks


@pytest.mark.slow
def test_restores_and_copies_at_random_moments() -> None:
    marks: Counter[str] = Counter()
    for seed in range(60):
        try:
            marks += run(seed)
        except Exception as error:
            raise AssertionError(f"run({seed}): {error!r}") from error
    assert all(marks[m] for m in (RESTORED, COPIED, CLASH, DRAINED, MOVED)), marks
