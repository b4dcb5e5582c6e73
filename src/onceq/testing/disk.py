"""A disk in memory that forgets what was not synced, in every way that real disks do.

It also plans which operations have happened when the power goes, and names the points at which a
queue manager can be made to die.

``SimFiles`` has the operations of ``onceq.store.files.Files``. It keeps two views: what a running
process sees, and what is durable, together with every operation since the last sync that covers
it. ``crash`` and ``images`` give the disk as it may be found after a power cut: any of the pending
operations may have been done or not, in any order, a write may be torn, and changes of names that
no directory sync covers may be undone one by one (P5). What was synced is always
intact. All choices come from a seed or a generator that is handed in.

Faults can be planted: a disk that is full, an operation that fails at its n-th call, a stored bit
that flips. A failed sync loses what it should have covered, and the next one succeeds: so do
kernels, and so a store that tries a sync again is found out.
"""

from __future__ import annotations

import random as _random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Final

from onceq.errors import NoSpace, StorageFailure, StoreLocked, SyncFailed
from onceq.model.run import Buffer
from onceq.store.checkpoints import PendingCheckpoint
from onceq.store.log import LogStore

# ---- power ---------------------------------------------------------------------------------------
#
# Which pending operations of a disk have happened when the power goes: the plans of P5.


SECTOR = 512
SUBSETS_OF = 8
"""Up to this many pending operations, all subsets are tried, of more only some."""
RANDOM_SUBSETS = 200
RANDOM_CUTS = 20
FILLS = ("", "zero", "noise", "late")


@dataclass(frozen=True, slots=True)
class Torn:
    """A write of which not all came.

    Only the first ``length`` bytes did, and the rest is old (``fill`` is ""), "zero" or "noise";
    or ("late") the first ``length`` bytes are old, and only what lies behind them came.
    """

    write: int
    length: int
    fill: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which pending operations have reached the disk when the power went.

    Attributes:
        writes: Their numbers, in the order in which they reached it.
        names: Numbers of the changes of names that did.
    """

    writes: tuple[int, ...]
    names: tuple[int, ...]
    torn: Torn | None = None


def systematic(
    random: _random.Random, sizes: dict[int, int], names: Sequence[int]
) -> Iterator[Plan]:
    """The plans that P5 lists; may repeat itself."""
    writes, every_name = tuple(sizes), tuple(names)
    yield Plan((), every_name)
    yield Plan((), ())
    yield Plan(writes, every_name)
    yield Plan(writes, ())
    both = sorted([*writes, *names])
    for count in range(1, len(both)):
        done = set(both[:count])
        yield Plan(tuple(w for w in writes if w in done), tuple(n for n in names if n in done))
    for some in _subsets(random, every_name):
        yield Plan(writes, some)
        yield Plan((), some)
    for some in _subsets(random, writes):
        yield Plan(some, every_name)
        yield Plan(some, ())
    if len(writes) > 1:
        yield Plan(writes[::-1], every_name)
    if writes:
        last, size = writes[-1], sizes[writes[-1]]
        cuts = [*range(0, size, SECTOR), *(random.randrange(size) for _ in range(RANDOM_CUTS))]
        for cut, fill in product(cuts, FILLS):
            yield Plan(writes, every_name, Torn(last, cut, fill))
            yield Plan((last,), every_name, Torn(last, cut, fill))


def _subsets(random: _random.Random, of: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if len(of) <= SUBSETS_OF:
        for size in range(len(of) + 1):
            yield from combinations(of, size)
        return
    for left in of:
        yield tuple(n for n in of if n != left)
    for pair in combinations(of, 2):
        yield tuple(n for n in of if n not in pair)
    for _ in range(RANDOM_SUBSETS):
        yield tuple(n for n in of if random.random() < 0.5)


def random_plan(random: _random.Random, sizes: dict[int, int], names: Sequence[int]) -> Plan:
    """Any plan, from the pending writes with their sizes and the changes of names, by number."""
    how = random.choice(("all", "none", "prefix", "subset", "mixed", "torn", "torn"))
    writes = list(sizes)
    if how == "none":
        return Plan((), ())
    if how == "prefix":
        last = random.choice([*writes, *names, 0])
        return Plan(tuple(w for w in writes if w <= last), tuple(n for n in names if n <= last))
    if how != "all":
        chance = random.choice((0.1, 0.5, 0.9))
        writes = [write for write in writes if random.random() < chance]
        names = [name for name in names if random.random() < chance]
    if how == "mixed":
        random.shuffle(writes)
    torn = None
    if how == "torn" and writes:
        write = random.choice(writes)
        torn = Torn(write, random.randint(0, sizes[write]), random.choice(FILLS))
    return Plan(tuple(writes), tuple(names), torn)


def tear(data: bytes, torn: Torn) -> tuple[int, bytes]:
    """What has come of a write that was torn: from which byte on, and what."""
    rest = len(data) - torn.length
    if torn.fill == "late":
        return torn.length, data[torn.length :]
    if torn.fill == "zero":
        return 0, data[: torn.length] + bytes(rest)
    if torn.fill == "noise":
        return 0, data[: torn.length] + _random.Random(torn.length).randbytes(rest)
    return 0, data[: torn.length]


# ---- disk ----------------------------------------------------------------------------------------


IMAGES = 2_000
"""Images after one crash, if nobody says how many."""


@dataclass(slots=True)
class _Write:
    """Bytes on their way to a file; ``number`` orders all pending operations of the disk."""

    number: int
    offset: int
    data: bytes


@dataclass(slots=True)
class _Inode:
    """One file's contents: as seen, as durable, and what lies between."""

    seen: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[_Write] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Naming:
    """A change of a directory that is not synced yet: path to inode number, 0 for removed."""

    number: int
    path: str
    inode: int


class PowerCut(BaseException):
    """The machine stops here. Not an Exception: nothing may handle it but the test."""


class SimFiles:
    """The files of a simulated disk, as one process sees them.

    Attributes:
        operations: How many operations that change the disk were done.
        stop_at: Raise PowerCut before that operation; 0: never.
        fail: Asked before each operation with its kind (write, sync, rename, unlink, create,
            sync-directory) and number; an error that it returns is raised.
        fail_read: The same for reads, with the path.
        capacity: Bytes that all files together may have; 0: no limit.
        changed: When every file was changed last; a copy of the disk has another time.
    """

    def __init__(self) -> None:
        self._inodes: dict[int, _Inode] = {}
        self._names: dict[str, int] = {}
        self._durable_names: dict[str, int] = {}
        self._naming: list[_Naming] = []
        self._directories: set[str] = set()
        self._open: dict[int, tuple[int, str]] = {}
        self._locks: dict[int, str] = {}
        self._next = 1
        self.operations = 0
        self.stop_at = 0
        self.fail: Callable[[str, int], StorageFailure | None] = lambda kind, number: None
        self.fail_read: Callable[[str], StorageFailure | None] = lambda path: None
        self.capacity = 0
        self.changed = 1

    # ---- operations -----------------------------------------------------------------------

    def _operation(self, kind: str) -> None:
        self.operations += 1
        if self.stop_at and self.operations >= self.stop_at:
            raise PowerCut(f"before operation {self.operations} ({kind})")
        error = self.fail(kind, self.operations)
        if error is not None:
            raise error

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    def open(
        self, path: str, *, create: bool = False, reading: bool = False, plain: bool = False
    ) -> int:
        """Open a file, or make a new one."""
        if create:
            if path in self._names:
                raise StorageFailure(f"opening {path} failed: it exists")
            self._operation("create")
            inode = self._number()
            self._inodes[inode] = _Inode()
            self._name(path, inode)
        elif path not in self._names:
            raise StorageFailure(f"opening {path} failed: there is no such file")
        file = self._number()
        self._open[file] = (self._names[path], path)
        return file

    def _name(self, path: str, inode: int) -> None:
        if inode:
            self._names[path] = inode
        else:
            del self._names[path]
        self._naming.append(_Naming(self._number(), path, inode))

    def _inode(self, file: int) -> _Inode:
        return self._inodes[self._open[file][0]]

    def close(self, file: int) -> None:
        """Close a file."""
        self._locks.pop(file, None)
        self._open.pop(file, None)

    def size(self, file: int) -> int:
        """Return the bytes in a file."""
        return len(self._inode(file).seen)

    def read(self, file: int, offset: int, size: int) -> bytes:
        """Return up to ``size`` bytes; fewer at the end."""
        error = self.fail_read(self._open[file][1])
        if error is not None:
            raise error
        return bytes(self._inode(file).seen[offset : offset + size])

    def write(self, file: int, offset: int, pieces: Sequence[Buffer]) -> None:
        """Write all pieces from ``offset`` on; on a full disk, the part that fits, then raise."""
        self._operation("write")
        data = b"".join(pieces)
        inode = self._inode(file)
        over = 0
        if self.capacity:
            grown = max(offset + len(data) - len(inode.seen), 0)
            over = min(max(self.used + grown - self.capacity, 0), grown)
            data = data[: len(data) - over]
        end = offset + len(data)
        if data:
            if len(inode.seen) < end:
                inode.seen.extend(bytes(end - len(inode.seen)))
            inode.seen[offset:end] = data
            inode.pending.append(_Write(self._number(), offset, data))
        if over:
            raise NoSpace("writing: the disk is full")

    def allocate(self, file: int, size: int) -> None:
        """Give a new file its size and its room on the disk."""
        self.write(file, 0, [bytes(size)])

    def sync(self, file: int) -> None:
        """Wait until the contents written so far are on the disk."""
        inode = self._inode(file)
        try:
            self._operation("sync")
        except StorageFailure:
            inode.pending.clear()
            raise
        for write in inode.pending:
            _apply_write(inode.durable, write.offset, write.data)
        inode.pending.clear()

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, replacing what had it."""
        self._operation("rename")
        inode = self._names[old]
        self._name(old, 0)
        self._name(new, inode)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        self._operation("unlink")
        self._name(path, 0)

    def sync_directory(self, path: str) -> None:
        """Wait until names made, changed and removed in a directory are on the disk."""
        self._operation("sync-directory")
        kept: list[_Naming] = []
        for naming in self._naming:
            if naming.path.rpartition("/")[0] == path:
                _apply_name(self._durable_names, naming)
            else:
                kept.append(naming)
        self._naming = kept

    def make_directory(self, path: str) -> None:
        """Make a directory, if it is not there."""
        if path not in self._directories:
            self._operation("make-directory")
            self._directories.add(path)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        if any(name.startswith(path + "/") for name in self._names):
            raise StorageFailure(f"removing {path} failed: it is not empty")
        self._operation("remove-directory")
        self._directories.discard(path)

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; empty if there is none."""
        prefix = path + "/"
        inside = {
            name[len(prefix) :].partition("/")[0]
            for name in (*self._names, *self._directories)
            if name.startswith(prefix)
        }
        return sorted(inside)

    def exists(self, path: str) -> bool:
        """Return True if there is such a file or directory."""
        return path in self._names or path in self._directories

    def lock(self, path: str) -> int:
        """Hold a lock file until ``close``; raises StoreLocked."""
        if path in self._locks.values():
            raise StoreLocked(f"another process runs the queue manager that holds {path}")
        file = self._number()
        self._locks[file] = path
        return file

    def changed_ns(self, path: str) -> int:
        """Return when a file or its attributes were changed last, in nanoseconds."""
        return self.changed

    def free_bytes(self, path: str) -> int:
        """Return the space left on the disk."""
        return max(self.capacity - self.used, 0) if self.capacity else 1 << 40

    @property
    def used(self) -> int:
        """Bytes in all files."""
        return sum(len(self._inodes[inode].seen) for inode in set(self._names.values()))

    @property
    def pending(self) -> int:
        """Writes and changes of names that no sync covers yet."""
        return len(self._naming) + sum(len(i.pending) for i in self._inodes.values())

    @property
    def pending_writes(self) -> tuple[int, ...]:
        """Numbers of the writes that no sync covers yet, for a Plan."""
        return tuple(self._writes())

    @property
    def pending_names(self) -> tuple[int, ...]:
        """Numbers of the changes of names that no sync covers yet, for a Plan."""
        return tuple(naming.number for naming in self._naming)

    def contents(self, path: str) -> bytes:
        """What a running process sees in a file."""
        return bytes(self._inodes[self._names[path]].seen)

    def flip(self, path: str, offset: int, mask: int = 1) -> None:
        """Alter stored bits of one byte."""
        inode = self._inodes[self._names[path]]
        inode.seen[offset] ^= mask
        inode.durable[offset] ^= mask

    # ---- crashes --------------------------------------------------------------------------

    def _writes(self) -> dict[int, tuple[int, _Write]]:
        """Pending writes by number, in order: to which file, and what."""
        found = {
            write.number: (inode, write)
            for inode, contents in self._inodes.items()
            for write in contents.pending
        }
        return dict(sorted(found.items()))

    def crash(self, random: _random.Random) -> SimFiles:
        """The disk after a power cut now, one of the many ways that it may be."""
        sizes = {number: len(write.data) for number, (_, write) in self._writes().items()}
        return self.image(random_plan(random, sizes, self.pending_names))

    def images(self, most: int = IMAGES, *, seed: int = 0) -> Iterator[SimFiles]:
        """Disks as they may be found after a power cut now: at most this many, all different plans.

        The first is that no pending write has come, but all names have.
        """
        for plan in self.plans(most, seed=seed):
            yield self.image(plan)

    def plans(self, most: int = IMAGES, *, seed: int = 0) -> list[Plan]:
        """Of a crash now: the systematic plans of P5, as many of them as asked for, then more."""
        random = _random.Random(seed)
        sizes = {number: len(write.data) for number, (_, write) in self._writes().items()}
        names = self.pending_names
        found = list(dict.fromkeys(systematic(random, sizes, names)))
        if len(found) > most:
            # The first few are the plain ones; of the others a fair choice.
            found = found[:4] + random.sample(found[4:], max(most - 4, 0))
        elif sizes or names:
            seen = set(found)
            for _ in range(most - len(found)):
                plan = random_plan(random, sizes, names)
                if plan not in seen:
                    seen.add(plan)
                    found.append(plan)
        return found[:most]

    def image(self, plan: Plan) -> SimFiles:
        """The disk after a crash that went according to plan."""
        after = SimFiles()
        after._directories = set(self._directories)
        after._next = self._next
        after.capacity, after.changed = self.capacity, self.changed
        after._durable_names = dict(self._durable_names)
        kept = set(plan.names)
        for change in self._naming:
            if change.number in kept:
                _apply_name(after._durable_names, change)
        after._names = dict(after._durable_names)
        for number in set(after._names.values()):
            durable = bytearray(self._inodes[number].durable)
            after._inodes[number] = _Inode(durable, durable)
        writes = self._writes()
        for number in plan.writes:
            inode, write = writes[number]
            if inode in after._inodes:
                skip, data = 0, write.data
                if plan.torn is not None and plan.torn.write == number:
                    skip, data = tear(data, plan.torn)
                _apply_write(after._inodes[inode].durable, write.offset + skip, data)
        for contents in after._inodes.values():
            contents.seen = bytearray(contents.durable)
        return after

    def kill(self) -> SimFiles:
        """The disk after the process alone was killed: everything written is seen, nothing more
        is durable."""
        after = SimFiles()
        after._inodes = self._inodes
        after._names = self._names
        after._durable_names = self._durable_names
        after._naming = self._naming
        after._directories = self._directories
        after._next = self._next
        after.capacity, after.changed = self.capacity, self.changed
        return after


def _apply_write(contents: bytearray, offset: int, data: bytes) -> None:
    if len(contents) < offset:
        contents.extend(bytes(offset - len(contents)))
    contents[offset : offset + len(data)] = data


def _apply_name(names: dict[str, int], change: _Naming) -> None:
    if change.inode:
        names[change.path] = change.inode
    else:
        names.pop(change.path, None)


def failing(
    kind: str, number: int, error: StorageFailure | None = None
) -> Callable[[str, int], StorageFailure | None]:
    """A ``fail`` that lets the operation of that number fail if it is of that kind ("" any)."""
    planted = error or SyncFailed("a planted failure")

    def fail(what: str, at: int) -> StorageFailure | None:
        return planted if at == number and (not kind or what == kind) else None

    return fail


# ---- points --------------------------------------------------------------------------------------
#
# Named points at which a queue manager can be made to die.


BEFORE_APPEND: Final = "before-append"
"""Something was decided; nothing of it is written."""
AFTER_APPEND: Final = "after-append"
"""A record is in memory, and nowhere else."""
BEFORE_SYNC: Final = "before-sync"
"""Records were handed to the operating system; a power cut may take them."""
AFTER_SYNC: Final = "after-sync"
"""Records are durable; nobody has heard of it."""
BEFORE_CHECKPOINT: Final = "before-checkpoint"
AFTER_CHECKPOINT: Final = "after-checkpoint"
BEFORE_ANSWER: Final = "before-answer"
AFTER_ANSWER: Final = "after-answer"
BEFORE_PACKET: Final = "before-packet"
AFTER_PACKET: Final = "after-packet"
"""Around what is written to an application, and to another queue manager."""
STORE_POINTS: Final = (BEFORE_APPEND, AFTER_APPEND, BEFORE_SYNC, AFTER_SYNC)
CHECKPOINT_POINTS: Final = (BEFORE_CHECKPOINT, AFTER_CHECKPOINT)
WIRE_POINTS: Final = (BEFORE_ANSWER, AFTER_ANSWER, BEFORE_PACKET, AFTER_PACKET)
POINTS: Final = STORE_POINTS + CHECKPOINT_POINTS + WIRE_POINTS


class Points:
    """Which points are armed."""

    def __init__(self, die: Callable[[], None]) -> None:
        """Args:
        die: Ends the queue manager; does not return.
        """
        self._die = die
        self._armed: dict[str, int] = {}

    def arm(self, name: str, count: int = 1) -> None:
        """Die when that point is reached for the ``count``-th time from now."""
        if name not in POINTS or count < 1:
            raise ValueError(f"{name!r} is not one of {', '.join(POINTS)}")
        self._armed[name] = count

    def armed(self, name: str) -> bool:
        """Whether that point waits to be reached."""
        return name in self._armed

    def reach(self, name: str) -> None:
        """This is such a point."""
        left = self._armed.get(name)
        if left is None:
            return
        if left > 1:
            self._armed[name] = left - 1
            return
        del self._armed[name]
        self._die()


class PointedStore(LogStore):
    """The store, with points around what it is asked. Set ``points`` after opening it."""

    points: Points | None = None

    def _reach(self, name: str) -> None:
        if self.points is not None:
            self.points.reach(name)

    def append(self, payload: bytes, head: int = 0) -> int:
        """Add one record; no I/O yet."""
        self._reach(BEFORE_APPEND)
        position = super().append(payload, head)
        self._reach(AFTER_APPEND)
        return position

    def sync(self) -> None:
        """Make everything appended so far survive a power cut."""
        if self.points is not None and self.points.armed(BEFORE_SYNC):
            self.flush()  # so that it is written, and only not safe yet
        self._reach(BEFORE_SYNC)
        super().sync()
        self._reach(AFTER_SYNC)

    def checkpoint_begin(self, state: Sequence[Buffer], position: int) -> PendingCheckpoint:
        """Begin a checkpoint."""
        self._reach(BEFORE_CHECKPOINT)
        return super().checkpoint_begin(state, position)

    def checkpoint_install(self, pending: PendingCheckpoint) -> None:
        """Make a written checkpoint the one that counts."""
        super().checkpoint_install(pending)
        self._reach(AFTER_CHECKPOINT)
