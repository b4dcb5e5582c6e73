"""Two copies of one manager's directory that run at the same time, under one identity.

Some worlds have them. At a random moment the disk of a manager is copied, with all that is durable
then; later the copy is started as another computer, with an address and a clock of its own, beside
the original. Sometimes it tells that it is a copy (its directory was made at another time), and
sometimes nothing does, as with a machine that was cloned. The name that others know leads to one of
the two, and moves. Both have applications, both crash and are cut off. In the end both go on; or
one of them is taken off the network for good, and only its disk is looked at.

What the judge makes of it is in ``judge/copied_senders.py`` and ``judge/copied_receivers.py``.
What shares its outcome with somebody else (partners, databases, groups) and damage are left out of
these worlds, as with restores.

Watches: I1, I3, I4, I5, I7, I25, I26 over copies that run side by side.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from onceq.testing.disk import Plan, SimFiles
from proof.sim.apps.apps import App
from proof.sim.apps.operators import Operators
from proof.sim.apps.workload import Workload
from proof.sim.base import marks
from proof.sim.base.clock import SimClock
from proof.sim.base.kernel import Kernel
from proof.sim.base.network import SimNetwork
from proof.sim.base.node import Node
from proof.sim.base.options import MS
from proof.sim.base.pair import Pair
from proof.sim.faults import backups
from proof.sim.faults.greetings import Greetings
from proof.sim.faults.on_hold import OnHold
from proof.sim.judge.copied_queues import CopiedQueues
from proof.sim.judge.restores import Restores
from proof.sim.judge.siblings import Siblings

EVERYWHERE: Final = "ONCEQ_SIM_BESIDE"
"""Environment variable, for the processes of a batch: every world has two copies."""
SHARE = 1.0 if os.environ.get(EVERYWHERE) else 0.05
"""Of all worlds; 1 with ``make sim ARGS=--beside``."""
CLONES = 0.4
"""Of these: nothing tells the copy that it is one."""
ENDED = 0.4
"""Of these: one of the two is taken off the network for good."""
SOON_US: Final = 50 * MS
EARLY: Final = 0.12
"""Of the time of a world, after which a manager with queues is copied at the latest: most work is
done soon."""
MOVES: Final = 2
"""Programs of an application between two moves of the name then; most connections are cut at one,
or hardly anything that is under way to one of the two would come to the other."""
CUT: Final = 0.7
LEFT: Final = 0.8
"""Of the work of a world, so much at least is left when the copy of such a manager starts."""
TRIES: Final = 400
"""So often it is looked whether the books say all that a manager with queues has."""


def everywhere() -> None:
    """Let every world of this process, and of those that it starts, have two copies."""
    global SHARE
    SHARE = 1.0
    os.environ[EVERYWHERE] = "1"


def draw(kernel: Kernel, *, fit: bool) -> int:
    """Draw which manager of a world is copied; -1: none.

    Args:
        fit: Whether it may have copies.
    """
    rng = kernel.stream("beside")
    drawn = rng.random() < SHARE
    return rng.randrange(kernel.options.managers) if drawn and fit else -1


class Beside:
    """Plans the copy, its start, where the name leads, and the end of one of the two."""

    def __init__(
        self, kernel: Kernel, nodes: list[Node], pair: Pair, network: SimNetwork,
        restores: Restores, queues: CopiedQueues, siblings: Siblings, work: Workload,
        greetings: Greetings,
        operators: Operators, make: Callable[[], Node], employ: Callable[[Node], list[App]],
    ) -> None:  # fmt: skip
        """Nothing happens yet.

        Args:
            make: Makes another computer of this world.
            employ: Lets applications and operators of a manager go to work.
        """
        self.kernel, self.nodes, self.pair = kernel, nodes, pair
        self.network, self.restores = network, restores
        self.queues, self.siblings, self.work, self.greetings = queues, siblings, work, greetings
        self._make, self._employ = make, employ
        self._on_hold = OnHold(kernel, pair, siblings, operators)
        self.rng = kernel.stream("beside")
        self.apps: list[App] = []
        """Applications of the copy."""

    # ---- what happens -----------------------------------------------------------------------

    def begin(self) -> None:
        """From now on."""
        if self.pair.of >= 0:
            safety, share = self.kernel.options.safety_us, self.rng.uniform(0.05, 0.5)
            self._after((share * EARLY if self.queues.active else share) * safety, self._copy)

    def _after(self, us: float, what: Callable[..., None], *arguments: object) -> None:
        def due() -> None:
            if self.kernel.faulty:
                what(*arguments)

        self.kernel.at(self.kernel.now + int(us) + 1, due)

    def _copy(self, tries: int = TRIES) -> None:
        """What is durable now is what another computer will start from; of a manager with queues,
        all that it has at a moment when the books say the same."""
        image = self.pair.original.disk.image(Plan((), ()))
        if self.queues.active:
            if not self.restores.quiet(self.pair.original):
                if tries:
                    self._after(SOON_US, self._copy, tries - 1)
                return
            image = backups.whole(self.pair.original.disk)
            self.queues.copy(self.restores.snapshot(self.pair.original))
        self.kernel.note("copied", self.pair.original.name)
        if self.rng.random() < CLONES:
            self.kernel.marks[marks.CLONED] += 1
        else:
            image.changed += 1
        delay = self.rng.choice([0, 0.05, 0.3]) * self.kernel.options.safety_us
        self._after(delay * EARLY if self.queues.active else delay, self._start, image)

    def _start(self, image: SimFiles) -> None:
        kernel, rng, original = self.kernel, self.rng, self.pair.original
        twin = self._make()
        twin.guid, twin.settings = original.guid, original.settings
        offset, drift = kernel.options.clock_offset_us, kernel.options.drift_ppm
        twin.clock = SimClock(kernel, rng.randint(-offset, offset), rng.randint(-drift, drift))
        if self.queues.active:
            twin.addresses |= original.addresses
        twin.begin_with(image)
        self.nodes.append(twin)
        self.pair.twin = twin
        kernel.note("beside", original.name, twin.name)
        twin.up()
        self.siblings.begin(twin)
        self.work.ledger.copied(self.pair.of, twin.index)
        self.queues.begin(twin)
        if self.queues.frozen:
            self.work.left = max(self.work.left, int(kernel.options.transactions * LEFT))
        self.apps = self._employ(twin) + self._on_hold.begin()
        safety = kernel.options.safety_us
        self._move_name()
        if rng.random() < ENDED:
            self._after(rng.uniform(0.1, 0.9) * safety, self._end, rng.choice(self.pair.both))
        self.apps += self.greetings.hail()
        kernel.marks[marks.BESIDE] += 1

    def _move_name(self) -> None:
        """The name leads to one of the two, and some time later perhaps to the other."""
        if self.pair.ended is None:
            before = self.pair.leads_to_twin
            self.pair.leads_to_twin = self.rng.random() < 0.5
            every = self.kernel.options.safety_us / 8
            if self.queues.active:
                every = self.kernel.options.think_us * MOVES
                if before is not self.pair.leads_to_twin:
                    self._break()
            self._after(self.rng.expovariate(1 / every), self._move_name)

    def _break(self) -> None:
        """The name leads to the other one: connections that were made by it may break."""
        network, rng = self.network, self.kernel.stream("copied queues")
        for end in list(network.ends):
            if end.alive and end.home in self.pair.both and rng.random() < CUT:
                network.cut(end)

    def _end(self, node: Node) -> None:
        """An operator has read of it, and takes one of the two off the network."""
        self.kernel.note("ended", node.name)
        self.kernel.marks[marks.COPY_ENDED] += 1
        self.pair.ended = node
        self.pair.leads_to_twin = node is self.pair.original
        if node.engine is not None:
            node.down(power=False)
