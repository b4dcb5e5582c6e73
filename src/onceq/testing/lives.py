"""Managers that are put back to an earlier moment; and copies that take turns.

Images of a disk are kept at random moments: as somebody's copy of the directory, and as real hot
backups. Later the process is killed, the directory is put back to one of them, the manager records
it as ``onceq qm restore`` does, and goes on. Or, in other worlds, one copy of a directory is
stopped and another one is started in its place, again and again, and nobody is told of it.

What shares its outcome with somebody else (partners, databases, groups) is left out of these
worlds: a restore takes back what the others keep, and nobody can say what would be right.

Watches: I1, I3, I4, I5, I22, I26 over restores.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from onceq.core.manager import Manager
from onceq.store.log import LogStore
from onceq.testing import backups, marks
from onceq.testing.disk import SimFiles
from onceq.testing.options import MS, Options
from onceq.testing.restores import Books

if TYPE_CHECKING:
    from onceq.testing.node import Node
    from onceq.testing.world import World

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
    books: Books
    hot: bool
    taken_s: int
    position: int


def everywhere() -> None:
    """Let every world of this process, and of those that it starts, have lives."""
    global SHARE
    SHARE = 1.0
    os.environ[EVERYWHERE] = "1"


class Lives:
    """Plans the next image, backup and restore after each one."""

    def __init__(self, world: World, *, fit: bool) -> None:
        """Draw whether a world has lives.

        Args:
            fit: Whether it may: nobody puts histories of managers back.
        """
        self.world = world
        self.rng = world.stream("restores")
        self.active = (self.rng.random() - FROM) % 1 < SHARE and fit
        self.copies = self.rng.random() < COPIES
        self.images: dict[int, list[Image]] = {}
        self.made = 1
        self.restored: dict[int, Image] = {}
        """The last restore of a computer."""

    def fitted(self, options: Options) -> Options:
        """The options of such a world: nothing in it is shared with somebody else's decision."""
        return replace(options, shared=0, branches=0.0) if self.active else options

    def begin(self) -> None:
        """From now on."""
        if self.active:
            safety = self.world.options.safety_us
            self._plan(safety // self.rng.randint(6, 16), self._image)
            change = self._take_turns if self.copies else self._restore
            self._plan(safety // self.rng.randint(2, 8), change)

    def _plan(self, every_us: int, what: Callable[[], None]) -> None:
        world = self.world

        def due() -> None:
            if world.network.faulty:
                what()
                self._plan(every_us, what)

        world.at(world.now + int(self.rng.expovariate(1 / every_us)) + 1, due)

    # ---- images -----------------------------------------------------------------------------

    def _image(self) -> None:
        self._when_quiet(self.rng.choice(self.world.nodes), self._take)

    def _when_quiet(self, node: Node, what: Callable[[Node], None], tries: int = TRIES) -> None:
        """Do something as soon as the books say all that a computer has."""
        world = self.world
        if not world.network.faulty:
            return
        if world.restores.quiet(node):
            what(node)
        elif tries:
            world.at(world.now + SOON_US, self._when_quiet, node, what, tries - 1)

    def _take(self, node: Node) -> None:
        if self.copies or self.rng.random() < 0.5:
            self.world.note("image", node.name)
            self._keep(node, self._plain(node))
            return
        self.world.note("backup", node.name)
        now = self._plain(node)

        def done(disk: SimFiles, position: int) -> None:
            self._keep(node, replace(now, disk=disk, hot=True, position=position))

        backups.Hot(node, self.rng, done).begin()

    def _plain(self, node: Node) -> Image:
        """Its disk as it is now."""
        assert node.engine is not None
        return Image(
            backups.whole(node.disk), self.world.restores.books(node), False,
            node.clock.read().wall_s, node.engine.store.position,
        )  # fmt: skip

    def _keep(self, node: Node, image: Image) -> None:
        kept = self.images.setdefault(node.index, [])
        kept.append(image)
        del kept[:-IMAGES_MAX]

    # ---- restores ---------------------------------------------------------------------------

    def _restore(self) -> None:
        node = self.rng.choice(self.world.nodes)
        image = self._usable(node)
        if node.engine is not None and image is not None:
            self.world.note("restore", node.name, image.hot, image.position)
            self._change(node, image, self._put_back)
            self.restored[node.index] = image
            self.world.marks[marks.RESTORED] += 1
            self.world.marks[marks.RESTORED_HOT] += image.hot

    def _usable(self, node: Node) -> Image | None:
        fits = self.world.restores.fits
        usable = [i for i in self.images.get(node.index, ()) if fits(node, i.books)]
        return self.rng.choice(usable) if usable else None

    def _change(self, node: Node, image: Image, put: Callable[[Node, Image], None]) -> None:
        """Another disk takes the place of the one that a computer has, and other books."""
        restores = self.world.restores
        # The process that ends is judged by what it had, which may be less than the image has.
        node.down(power=False)
        restores.undo(node, image.books)
        put(node, image)
        restores.put_back(node, image.books)

    def _take_turns(self) -> None:
        self._when_quiet(self.rng.choice(self.world.nodes), self._turn)

    def _turn(self, node: Node) -> None:
        """One copy of a directory is stopped, and another one is started in its place; the one
        that was stopped may have its turn again."""
        image = self._usable(node)
        if image is not None:
            self.world.note("turn", node.name, image.position)
            left = self._plain(node)
            self._change(node, image, self._start_copy)
            self._keep(node, left)
            self.world.marks[marks.TURNS] += 1

    def _start_copy(self, node: Node, image: Image) -> None:
        """Sometimes the whole machine is rolled back: then nothing tells that it is a copy."""
        disk = backups.whole(image.disk)
        if self.rng.random() < 0.5:
            self.world.marks[marks.ROLLED_BACK] += 1
        else:
            disk.changed = self._another()
        node.put_in(disk)

    def _another(self) -> int:
        """When a directory was made that is a copy."""
        self.made += 1
        return self.made

    def _put_back(self, node: Node, image: Image) -> None:
        """Let the disk be that of the image, with the record of the restore."""
        if image.hot:
            node.disk.fail, node.disk.capacity = SimFiles().fail, 0
            node.disk.changed = self._another()
            backups.restore(node, image.disk)
            disk = backups.whole(node.disk)
        else:
            disk = backups.whole(image.disk)
            disk.changed = self._another()
            segment_bytes = self.world.options.segment_bytes
            store = LogStore.open(node.path, disk, segment_bytes=segment_bytes)
            backups.remember(node, store, taken_s=image.taken_s, position=image.position)
        node.put_in(disk)

    # ---- in the end -------------------------------------------------------------------------

    def in_the_end(self, node: Node, manager: Manager) -> None:
        """A restore is told of by the manager that it was done to (I25)."""
        world, state = self.world, manager.state
        image, known = self.restored.get(node.index), state.restored
        if image is not None and (
            known is None or not known.told or known.position != image.position
        ):
            world.wrong(f"I25: {node.name} was put back, and says {known}")
        if image is None and known is not None:
            world.wrong(f"I25: {node.name} was never put back, and says {known}")
        world.marks[marks.UNDONE_KNOWN] += len(state.undone)
