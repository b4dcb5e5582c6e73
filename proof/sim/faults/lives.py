"""Managers that are put back to an earlier moment; and copies that take turns.

Images of a disk are kept at random moments: as somebody's copy of the directory, and as real hot
backups. Later the process is killed, the directory is put back to one of them, the manager records
it as ``onceq qm restore`` does, and goes on. Or, in other worlds, one copy of a directory is
stopped and another one is started in its place, again and again, and nobody hears of it.

What shares its outcome with somebody else (partners, databases, groups) is left out of these
worlds: a restore takes back what the others keep, and nobody can say what would be right.

Watches: I1, I3, I4, I5, I22, I26 over restores.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final, NamedTuple

from onceq.core.manager import Manager
from onceq.store.log import LogStore
from onceq.testing.disk import SimFiles
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.node import Node
from proof.sim.base.options import MS
from proof.sim.faults import backups
from proof.sim.judge.books import Snapshot
from proof.sim.judge.restores import Restores

EVERYWHERE: Final = "ONCEQ_SIM_LIVES"
"""Environment variable, for the processes of a batch: every world has lives."""
SHARE = 1.0 if os.environ.get(EVERYWHERE) else 0.18
"""Of all worlds; 1 with ``make sim ARGS=--lives``."""
FROM: Final = 0.6
"""Where the draw of these worlds begins, between 0 and 1: so that none of the seeds that were kept
before every batch had such worlds (``tests/simulation/seeds.txt``) is one of them, and each goes on
to find what it found."""
COPIES = 0.3
"""Of these: copies take turns under one identity, and nobody tells them of it."""
IMAGES_MAX: Final = 4
"""Of each computer; the oldest goes."""
SOON_US: Final = 50 * MS
TRIES: Final = 40


@dataclass(frozen=True, slots=True)
class Image:
    """A disk of some moment, with the books of then."""

    disk: SimFiles
    snapshot: Snapshot
    hot: bool
    taken_s: int
    position: int


def everywhere() -> None:
    """Let every world of this process, and of those that it starts, have lives."""
    global SHARE
    SHARE = 1.0
    os.environ[EVERYWHERE] = "1"


class Draw(NamedTuple):
    """Whether a world has lives, and of which kind."""

    rng: Random
    """For all that is drawn of them."""
    active: bool
    copies: bool
    """Copies take turns; else managers are put back."""


def draw(kernel: Kernel, *, fit: bool) -> Draw:
    """Draw whether a world has lives.

    Args:
        fit: Whether it may: nobody puts histories of managers back.
    """
    # Not the stream that restores share (``backups.remember``): the kept seeds have drawn it so.
    rng = kernel.fresh("restores")
    active = (rng.random() - FROM) % 1 < SHARE and fit
    return Draw(rng, active, rng.random() < COPIES)


class Lives:
    """Plans the next image, backup and restore after each one."""

    def __init__(self, kernel: Kernel, nodes: list[Node], restores: Restores, drawn: Draw) -> None:
        self.kernel, self.nodes, self.restores = kernel, nodes, restores
        self.rng, self.active, self.copies = drawn
        self.images: dict[int, list[Image]] = {}
        self.made = 1
        self.restored: dict[int, Image] = {}
        """The last restore of a computer."""

    def begin(self) -> None:
        """From now on."""
        if self.active:
            safety = self.kernel.options.safety_us
            self.kernel.at_times(self.rng, safety // self.rng.randint(6, 16), self._image)
            change = self._take_turns if self.copies else self._restore
            self.kernel.at_times(self.rng, safety // self.rng.randint(2, 8), change)

    # ---- images -----------------------------------------------------------------------------

    def _image(self) -> None:
        self._when_quiet(self.rng.choice(self.nodes), self._take)

    def _when_quiet(self, node: Node, what: Callable[[Node], None], tries: int = TRIES) -> None:
        """Do something as soon as the books say all that a computer has."""
        kernel = self.kernel
        if not kernel.faulty:
            return
        if self.restores.quiet(node):
            what(node)
        elif tries:
            kernel.at(kernel.now + SOON_US, self._when_quiet, node, what, tries - 1)

    def _take(self, node: Node) -> None:
        if self.copies or self.rng.random() < 0.5:
            self.kernel.note("image", node.name)
            self._keep(node, self._plain(node))
            return
        self.kernel.note("backup", node.name)
        now = self._plain(node)

        def done(disk: SimFiles, position: int) -> None:
            self._keep(node, replace(now, disk=disk, hot=True, position=position))

        backups.Hot(node, self.rng, done).begin()

    def _plain(self, node: Node) -> Image:
        """Copy its disk."""
        assert node.engine is not None
        return Image(
            backups.whole(node.disk), self.restores.snapshot(node), False,
            node.clock.read().wall_s, node.engine.store.position,
        )  # fmt: skip

    def _keep(self, node: Node, image: Image) -> None:
        kept = self.images.setdefault(node.index, [])
        kept.append(image)
        del kept[:-IMAGES_MAX]

    # ---- restores ---------------------------------------------------------------------------

    def _restore(self) -> None:
        node = self.rng.choice(self.nodes)
        image = self._usable(node)
        if node.engine is not None and image is not None:
            self.kernel.note("restore", node.name, image.hot, image.position)
            self._change(node, image, self._put_back)
            self.restored[node.index] = image
            self.kernel.marks[marks.RESTORED] += 1
            self.kernel.marks[marks.RESTORED_HOT] += image.hot

    def _usable(self, node: Node) -> Image | None:
        fits = self.restores.fits
        usable = [i for i in self.images.get(node.index, ()) if fits(node, i.snapshot)]
        return self.rng.choice(usable) if usable else None

    def _change(self, node: Node, image: Image, put: Callable[[Node, Image], None]) -> None:
        """Another disk takes the place of the one that a computer has, and other books."""
        restores = self.restores
        # The process that ends is judged by what it had, which may be less than the image has.
        node.down(power=False)
        restores.undo(node, image.snapshot)
        put(node, image)
        restores.put_back(node, image.snapshot)

    def _take_turns(self) -> None:
        self._when_quiet(self.rng.choice(self.nodes), self._turn)

    def _turn(self, node: Node) -> None:
        """One copy of a directory is stopped, and another one is started in its place; the one
        that was stopped may have its turn again."""
        image = self._usable(node)
        if image is not None:
            self.kernel.note("turn", node.name, image.position)
            left = self._plain(node)
            self._change(node, image, self._start_copy)
            self._keep(node, left)
            self.kernel.marks[marks.TURNS] += 1

    def _start_copy(self, node: Node, image: Image) -> None:
        """Sometimes the whole machine is rolled back: then nothing tells that it is a copy."""
        disk = backups.whole(image.disk)
        if self.rng.random() < 0.5:
            self.kernel.marks[marks.ROLLED_BACK] += 1
        else:
            disk.changed = self._another()
        node.put_in(disk)

    def _another(self) -> int:
        """When a directory was made that is a copy."""
        self.made += 1
        return self.made

    def _put_back(self, node: Node, image: Image) -> None:
        """Replace the disk by the one of the image, with the record of the restore."""
        if image.hot:
            node.disk.fail, node.disk.capacity = SimFiles().fail, 0
            node.disk.changed = self._another()
            backups.restore(node, image.disk)
            disk = backups.whole(node.disk)
        else:
            disk = backups.whole(image.disk)
            disk.changed = self._another()
            segment_bytes = self.kernel.options.segment_bytes
            store = LogStore.open(node.path, disk, segment_bytes=segment_bytes)
            backups.remember(node, store, taken_s=image.taken_s, position=image.position)
        node.put_in(disk)

    # ---- in the end -------------------------------------------------------------------------

    def in_the_end(self, node: Node, manager: Manager) -> None:
        """Check that a restored manager tells of its restore (I25)."""
        kernel, state = self.kernel, manager.state
        image, known = self.restored.get(node.index), state.restored
        if image is not None and (
            known is None or not known.told or known.position != image.position
        ):
            kernel.wrong(f"I25: {node.name} was put back, and says {known}")
        if image is None and known is not None:
            kernel.wrong(f"I25: {node.name} was never put back, and says {known}")
        kernel.marks[marks.UNDONE_KNOWN] += len(state.undone)
