"""Two copies of one manager's directory that run at the same time, under one identity.

Some worlds have them. At a random moment the disk of a manager is copied, as whatever is durable
then; later the copy is started as another computer, with an address and a clock of its own, beside
the original. Sometimes it tells that it is a copy (its directory was made at another time), and
sometimes nothing does, as with a machine that was cloned. The name that others know leads to one of
the two, and moves. Both have applications, both crash and are cut off. In the end both go on; or
one of them is taken off the network for good, and only its disk is looked at.

What the judge makes of it is in ``siblings.py``. What shares its outcome with somebody else
(partners, databases, groups) and damage are left out of these worlds, as with restores.

Watches: I1, I3, I4, I5, I7, I25, I26 over copies that run side by side.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from onceq.testing import backups, marks
from onceq.testing.apps import App
from onceq.testing.clock import SimClock
from onceq.testing.copied_queues import EARLY, MOVES, CopiedQueues
from onceq.testing.copied_receivers import CopiedReceivers
from onceq.testing.disk import SimFiles
from onceq.testing.node import Node
from onceq.testing.on_hold import OnHold
from onceq.testing.options import MS, Options
from onceq.testing.power import Plan
from onceq.testing.siblings import Siblings

if TYPE_CHECKING:
    from onceq.testing.world import World

EVERYWHERE: Final = "ONCEQ_SIM_BESIDE"
"""Environment variable, for the processes of a batch: every world has two copies."""
SHARE = 1.0 if os.environ.get(EVERYWHERE) else 0.05
"""Of all worlds; 1 with ``make sim ARGS=--beside``."""
CLONES = 0.4
"""Of these: nothing tells the copy that it is one."""
ENDED = 0.4
"""Of these: one of the two is taken off the network for good."""
SOON_US: Final = 50 * MS
TRIES: Final = 400
"""So often it is looked whether the books say all that a manager with queues has."""


def everywhere() -> None:
    """Let every world of this process, and of those that it starts, have two copies."""
    global SHARE
    SHARE = 1.0
    os.environ[EVERYWHERE] = "1"


class Beside:
    """Plans the copy, its start, where the name leads, and the end of one of the two."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.stream("beside")
        self.active = self.rng.random() < SHARE
        if SHARE == 1:
            world.lives.active = False
        self.active = self.active and not world.lives.active
        self.of = self.rng.randrange(world.options.managers) if self.active else -1
        """The manager that is copied."""
        self.twin: Node | None = None
        self.ended: Node | None = None
        """The one that is off the network for good."""
        self.apps: list[App] = []
        """Applications of the copy."""
        self.siblings = Siblings(self)
        self.queues = CopiedQueues(self)
        self.receivers = CopiedReceivers(self)
        self._leads_to_twin = False

    def fitted(self, options: Options) -> Options:
        """The options of such a world: nothing in it is shared with somebody else's decision."""
        return replace(options, shared=0, branches=0.0) if self.active else options

    # ---- who is who -------------------------------------------------------------------------

    @property
    def original(self) -> Node:
        """The one that was copied."""
        return self.world.nodes[self.of]

    @property
    def pair(self) -> tuple[Node, ...]:
        """Both copies; empty as long as there is one only."""
        return (self.original, self.twin) if self.twin is not None else ()

    def identity(self, node: int) -> int:
        """The computer under whose name and GUID one speaks."""
        return self.of if self.twin is not None and node == self.twin.index else node

    def other(self, node: int) -> int:
        """The other one of the two."""
        assert self.twin is not None
        return self.of if node == self.twin.index else self.twin.index

    def reached(self, found: Node | None, address: str) -> Node | None:
        """Who is reached where a name, an address or a GUID leads to one of the two."""
        if found is None or self.twin is None or found.guid != self.twin.guid:
            return found
        # Where the two have queues, others reach them by an address, too, which the copy has taken
        # along; what it is called by for itself, nobody else knows.
        own = self.twin.ip if self.queues.active else found.ip
        if address not in (own, self.twin.name.casefold()):
            found = self.twin if self._leads_to_twin else self.original
        return None if found is self.ended else found

    # ---- what happens -----------------------------------------------------------------------

    def begin(self) -> None:
        """From now on."""
        if self.active:
            safety, share = self.world.options.safety_us, self.rng.uniform(0.05, 0.5)
            self._after((share * EARLY if self.queues.active else share) * safety, self._copy)

    def _after(self, us: float, what: Callable[..., None], *arguments: object) -> None:
        def due() -> None:
            if self.world.network.faulty:
                what(*arguments)

        self.world.at(self.world.now + int(us) + 1, due)

    def _copy(self, tries: int = TRIES) -> None:
        """What is durable now is what another computer will start from; of a manager with queues,
        all that it has at a moment when the books say the same."""
        image = self.original.disk.image(Plan((), ()))
        if self.queues.active:
            if not self.world.restores.quiet(self.original):
                if tries:
                    self._after(SOON_US, self._copy, tries - 1)
                return
            image = backups.whole(self.original.disk)
            self.queues.copy()
        self.world.note("copied", self.original.name)
        if self.rng.random() < CLONES:
            self.world.marks[marks.CLONED] += 1
        else:
            image.changed += 1
        delay = self.rng.choice([0, 0.05, 0.3]) * self.world.options.safety_us
        self._after(delay * EARLY if self.queues.active else delay, self._start, image)

    def _start(self, image: SimFiles) -> None:
        world, rng = self.world, self.rng
        twin = Node(world, len(world.nodes))
        twin.guid, twin.settings = self.original.guid, self.original.settings
        offset, drift = world.options.clock_offset_us, world.options.drift_ppm
        twin.clock = SimClock(world, rng.randint(-offset, offset), rng.randint(-drift, drift))
        if self.queues.active:
            twin.addresses |= self.original.addresses
        twin.begin_with(image)
        world.nodes.append(twin)
        self.twin = twin
        world.note("beside", self.original.name, twin.name)
        twin.on_down.append(lambda: world.ledger.crashed(twin))
        twin.up()
        self.siblings.begin(twin)
        self.queues.begin(twin)
        self.apps = world.employ(twin) + OnHold(self).begin()
        safety = world.options.safety_us
        self._move_name()
        if rng.random() < ENDED:
            self._after(rng.uniform(0.1, 0.9) * safety, self._end, rng.choice(self.pair))
        self.receivers.begin()
        world.marks[marks.BESIDE] += 1

    def _move_name(self) -> None:
        """The name leads to one of the two, and some time later perhaps to the other."""
        if self.ended is None:
            before, self._leads_to_twin = self._leads_to_twin, self.rng.random() < 0.5
            every = self.world.options.safety_us / 8
            if self.queues.active:
                every = self.world.options.think_us * MOVES
                if before is not self._leads_to_twin:
                    self.queues.moved()
            self._after(self.rng.expovariate(1 / every), self._move_name)

    def _end(self, node: Node) -> None:
        """An operator has read of it, and takes one of the two off the network."""
        self.world.note("ended", node.name)
        self.world.marks[marks.COPY_ENDED] += 1
        self.ended = node
        self._leads_to_twin = node is self.original
        if node.engine is not None:
            node.down(power=False)
