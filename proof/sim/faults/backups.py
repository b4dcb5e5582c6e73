"""Hot backups of simulated queue managers, made and put back by the product's own code.

A backup is copied piece by piece while its manager goes on; the manager may end meanwhile, its disk
may fill, the hold may run out. What becomes whole has a manifest; it is proved by a restore to an
empty directory, in which a manager must recover to the very state that the cut has.

Upholds: I22, I23 (what a backup says is in it is in it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from onceq.errors import OnceqError
from onceq.model.identity import guid_text
from onceq.model.requests import Grip, HoldLog
from onceq.model.run import Buffer
from onceq.model.views.managers import BackupHold
from onceq.service.engine import Engine
from onceq.service.restoring import record
from onceq.store.backup import Backup, RestoreTarget, verify_store
from onceq.store.identification import read_manifest
from onceq.store.log import LogStore
from onceq.testing.disk import Plan, SimFiles
from proof.sim.base import marks
from proof.sim.base.node import Node
from proof.sim.base.options import MS, SECOND

PIECE_US = (MS, SECOND, 20 * SECOND)
"""From one step of a backup to the next; the last is near what a hold bears."""
AWAY = "/backup"
REPLACED = "replaced"


def whole(disk: SimFiles) -> SimFiles:
    """A disk with everything that a running process sees in it, all of it durable."""
    return disk.image(Plan(disk.pending_writes, disk.pending_names))


class TwoDisks:
    """The disk of a computer, and another one for its backups (``store.files.Files``)."""

    def __init__(self, near: SimFiles, away: SimFiles) -> None:
        self._disks = near, away
        self._open: dict[int, tuple[SimFiles, int]] = {}
        self._next = 1

    def _of(self, path: str) -> SimFiles:
        return self._disks[path == AWAY or path.startswith(AWAY + "/")]

    def _keep(self, disk: SimFiles, file: int) -> int:
        self._open[self._next] = disk, file
        self._next += 1
        return self._next - 1

    def open(
        self, path: str, *, create: bool = False, reading: bool = False, plain: bool = False
    ) -> int:
        """See Files."""
        disk = self._of(path)
        return self._keep(disk, disk.open(path, create=create, reading=reading, plain=plain))

    def lock(self, path: str) -> int:
        """See Files."""
        disk = self._of(path)
        return self._keep(disk, disk.lock(path))

    def close(self, file: int) -> None:
        """See Files."""
        disk, there = self._open.pop(file)
        disk.close(there)

    def size(self, file: int) -> int:
        """See Files."""
        disk, there = self._open[file]
        return disk.size(there)

    def read(self, file: int, offset: int, size: int) -> bytes:
        """See Files."""
        disk, there = self._open[file]
        return disk.read(there, offset, size)

    def write(self, file: int, offset: int, pieces: Sequence[Buffer]) -> None:
        """See Files."""
        disk, there = self._open[file]
        disk.write(there, offset, pieces)

    def allocate(self, file: int, size: int) -> None:
        """See Files."""
        disk, there = self._open[file]
        disk.allocate(there, size)

    def sync(self, file: int) -> None:
        """See Files."""
        disk, there = self._open[file]
        disk.sync(there)

    def rename(self, old: str, new: str) -> None:
        """See Files."""
        self._of(old).rename(old, new)

    def unlink(self, path: str) -> None:
        """See Files."""
        self._of(path).unlink(path)

    def sync_directory(self, path: str) -> None:
        """See Files."""
        self._of(path).sync_directory(path)

    def make_directory(self, path: str) -> None:
        """See Files."""
        self._of(path).make_directory(path)

    def remove_directory(self, path: str) -> None:
        """See Files."""
        self._of(path).remove_directory(path)

    def names(self, path: str) -> list[str]:
        """See Files."""
        return self._of(path).names(path)

    def exists(self, path: str) -> bool:
        """See Files."""
        return self._of(path).exists(path)

    def changed_ns(self, path: str) -> int:
        """See Files."""
        return self._of(path).changed_ns(path)

    def free_bytes(self, path: str) -> int:
        """See Files."""
        return self._of(path).free_bytes(path)


@dataclass(slots=True)
class Hot:
    """A backup that is being made, as a client of the manager makes it."""

    node: Node
    rng: Random
    done: Callable[[SimFiles, int], None]
    """Given the disk of a backup that has become whole, and the position of its cut."""
    _away: SimFiles = field(default_factory=SimFiles)
    _making: Backup | None = None
    _number: int = 0
    _owner: int = 0
    _answer: object = None

    def begin(self) -> None:
        """Take the cut, when the manager has nothing else to do."""
        self.node.run(self._begin)

    def _ask(self, engine: Engine, grip: Grip) -> object:
        self._answer = None
        engine.submit(HoldLog(grip, self._number, owner=self._owner, request=1))
        engine.pump()
        return self._answer

    def _begin(self, engine: Engine) -> None:
        def answered(request: int, result: object) -> None:
            self._answer = result

        self._owner = engine.owner(answered)
        held = self._ask(engine, Grip.BEGIN)
        if held is None or isinstance(held, OnceqError):
            return
        assert isinstance(held, BackupHold)
        self._number = held.number
        self._away.make_directory(AWAY)
        self._making = Backup(TwoDisks(self.node.disk, self._away), held.cut, AWAY)
        self._plan()

    def _plan(self) -> None:
        self.node.later(self.rng.choice(PIECE_US), self.node.run, self._step)

    def _step(self, engine: Engine) -> None:
        """Copy a piece, and say that it goes on; in the end look whether all of it is there."""
        assert self._making is not None
        more = self._making.step()
        over = self._ask(engine, Grip.KEEP if more else Grip.END)
        if engine.stopped:
            return
        if isinstance(over, OnceqError):
            self.node.kernel.marks[marks.BACKUP_OVER] += 1
        elif more:
            self._plan()
        else:
            who = engine.manager.identity
            made = self._making.finish(
                manager=who.name, id=guid_text(who.guid), taken_s=engine.clock.read().wall_s,
                made_by="simulated",
            )  # fmt: skip
            self._prove()
            self.node.kernel.marks[marks.HOT_BACKUP] += 1
            self.done(self._away, made.position)

    def _prove(self) -> None:
        """What is put back to an empty directory is what the manager was at the cut."""
        node, disks = self.node, TwoDisks(SimFiles(), self._away)
        target = RestoreTarget(disks, node.path, AWAY)
        store = _staged(target, disks, node)
        node.recovery.put_back(store)
        store.abandon()
        target.close()


def _staged(target: RestoreTarget, disks: TwoDisks, node: Node) -> LogStore:
    manifest = read_manifest(disks, AWAY)
    for _ in target.stage(AWAY, manifest):
        pass
    verify_store(disks, target.staging, manifest.position)
    segment_bytes = node.kernel.options.segment_bytes
    return LogStore.open(target.staging, disks, segment_bytes=segment_bytes)


def restore(node: Node, away: SimFiles) -> None:
    """Put a backup back to the disk of a computer whose process is over, as a restore does."""
    disks = TwoDisks(node.disk, away)
    manifest = read_manifest(disks, AWAY)
    target = RestoreTarget(disks, node.path, AWAY)
    store = _staged(target, disks, node)
    remember(node, store, taken_s=manifest.taken_s, position=manifest.position)
    target.install(REPLACED)
    target.close()
    replaced = f"{node.path}/{REPLACED}"
    for name in node.disk.names(replaced):
        node.disk.unlink(f"{replaced}/{name}")
    node.disk.sync_directory(replaced)
    node.disk.remove_directory(replaced)


def remember(node: Node, store: LogStore, *, taken_s: int, position: int) -> None:
    """Let the manager of a store that was put back record it."""
    random = node.kernel.stream("restores").randbytes
    record(store, node.clock, taken_s=taken_s, position=position, random=random)
