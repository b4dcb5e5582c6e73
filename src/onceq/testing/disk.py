"""A disk in memory that forgets what was not synced, in every way that real disks do.

``SimFiles`` has the operations of ``onceq.store.files.Files``. It keeps two views: what a running
process sees, and what is durable, together with every operation since the last sync that covers
it. ``crash`` gives the disk as it may be found after a power cut: any of the pending operations
may have been done or not, in any order, the last write may be torn, and names not covered by a
directory sync may be as they were (testing P5, 1 to 6). What was synced is always intact.

Faults can be planted: a disk that is full, a sync or a write that fails at its n-th call.
"""

from __future__ import annotations

import random as _random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from onceq.errors import NoSpace, StorageFailure, StoreLocked, SyncFailed
from onceq.model.run import Buffer

SECTOR = 512


@dataclass(slots=True)
class _Inode:
    """One file's contents: as seen, as durable, and what lies between."""

    seen: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Naming:
    """A change of a directory that is not synced yet: path to inode number, 0 for removed."""

    path: str
    inode: int


class PowerCut(BaseException):
    """The machine stops here. Not an Exception: nothing may handle it but the test."""


class SimFiles:
    """See the module. One process's view of one disk.

    Attributes:
        operations: How many operations that change the disk were done.
        stop_at: Raise PowerCut before that operation; 0: never.
        fail: Asked before each operation with its kind (write, sync, rename, unlink, create,
            sync-directory) and number; an error that it returns is raised.
        capacity: Bytes that all files together may have; 0: no limit.
    """

    def __init__(self) -> None:
        self._inodes: dict[int, _Inode] = {}
        self._names: dict[str, int] = {}
        self._durable_names: dict[str, int] = {}
        self._naming: list[_Naming] = []
        self._directories: set[str] = set()
        self._open: dict[int, int] = {}
        self._locks: dict[int, str] = {}
        self._next = 1
        self.operations = 0
        self.stop_at = 0
        self.fail: Callable[[str, int], StorageFailure | None] = lambda kind, number: None
        self.capacity = 0

    # ---- operations -----------------------------------------------------------------------

    def _operation(self, kind: str) -> None:
        self.operations += 1
        if self.stop_at and self.operations >= self.stop_at:
            raise PowerCut(f"before operation {self.operations} ({kind})")
        error = self.fail(kind, self.operations)
        if error is not None:
            raise error

    def open(self, path: str, *, create: bool = False) -> int:
        """See Files."""
        if create:
            if path in self._names:
                raise StorageFailure(f"opening {path} failed: it exists")
            self._operation("create")
            number = self._next
            self._next += 1
            self._inodes[number] = _Inode()
            self._name(path, number)
        elif path not in self._names:
            raise StorageFailure(f"opening {path} failed: there is no such file")
        file = self._next
        self._next += 1
        self._open[file] = self._names[path]
        return file

    def _name(self, path: str, inode: int) -> None:
        if inode:
            self._names[path] = inode
        else:
            del self._names[path]
        self._naming.append(_Naming(path, inode))

    def close(self, file: int) -> None:
        """See Files."""
        self._locks.pop(file, None)
        self._open.pop(file, None)

    def size(self, file: int) -> int:
        """See Files."""
        return len(self._inodes[self._open[file]].seen)

    def read(self, file: int, offset: int, size: int) -> bytes:
        """See Files."""
        return bytes(self._inodes[self._open[file]].seen[offset : offset + size])

    def write(self, file: int, offset: int, pieces: Sequence[Buffer]) -> None:
        """See Files."""
        self._operation("write")
        data = b"".join(pieces)
        inode = self._inodes[self._open[file]]
        end = offset + len(data)
        if self.capacity and self.used + max(end - len(inode.seen), 0) > self.capacity:
            raise NoSpace("writing: the disk is full")
        if len(inode.seen) < end:
            inode.seen.extend(bytes(end - len(inode.seen)))
        inode.seen[offset:end] = data
        inode.pending.append((offset, data))

    def sync(self, file: int) -> None:
        """See Files."""
        self._operation("sync")
        inode = self._inodes[self._open[file]]
        inode.durable = bytes(inode.seen) if inode.pending else inode.durable
        inode.pending.clear()

    def rename(self, old: str, new: str) -> None:
        """See Files."""
        self._operation("rename")
        inode = self._names[old]
        self._name(old, 0)
        self._name(new, inode)

    def unlink(self, path: str) -> None:
        """See Files."""
        self._operation("unlink")
        self._name(path, 0)

    def sync_directory(self, path: str) -> None:
        """See Files."""
        self._operation("sync-directory")
        kept: list[_Naming] = []
        for naming in self._naming:
            if naming.path.rpartition("/")[0] == path:
                _apply_name(self._durable_names, naming)
            else:
                kept.append(naming)
        self._naming = kept

    def make_directory(self, path: str) -> None:
        """See Files."""
        self._directories.add(path)

    def names(self, path: str) -> list[str]:
        """See Files."""
        prefix = path + "/"
        return sorted(name[len(prefix) :] for name in self._names if name.startswith(prefix))

    def exists(self, path: str) -> bool:
        """See Files."""
        return path in self._names or path in self._directories

    def lock(self, path: str) -> int:
        """See Files."""
        if path in self._locks.values():
            raise StoreLocked(f"another process runs the queue manager that holds {path}")
        file = self._next
        self._next += 1
        self._locks[file] = path
        return file

    def free_bytes(self, path: str) -> int:
        """See Files."""
        return max(self.capacity - self.used, 0) if self.capacity else 1 << 40

    @property
    def used(self) -> int:
        """Bytes in all files."""
        return sum(len(self._inodes[inode].seen) for inode in set(self._names.values()))

    @property
    def pending(self) -> int:
        """Writes and changes of names that no sync covers yet."""
        return len(self._naming) + sum(len(i.pending) for i in self._inodes.values())

    # ---- crashes --------------------------------------------------------------------------

    def crash(self, random: _random.Random) -> SimFiles:
        """The disk after a power cut now, one of the many ways that it may be."""
        how = random.choice(("all", "none", "prefix", "subset", "torn", "torn"))
        writes = [(n, i) for n, inode in self._inodes.items() for i in range(len(inode.pending))]
        if how == "all":
            kept = set(writes)
        elif how == "none":
            kept = set()
        elif how == "prefix":
            kept = set(writes[: random.randint(0, len(writes))])
        else:
            kept = {write for write in writes if random.random() < 0.5}
        torn = random.choice(writes) if writes and how == "torn" else None
        cut = random.random()
        fill = random.choice((b"", b"\0", b"\xa5"))
        naming = [n for n in self._naming if how == "all" or random.random() < 0.5]
        if how == "none":
            naming = []
        return self._image(kept, torn, cut, fill, naming)

    def images(self) -> Iterator[SimFiles]:
        """Disks as they may be found after a power cut now: the systematic ones of P5."""
        writes = [(n, i) for n, inode in self._inodes.items() for i in range(len(inode.pending))]
        names = list(self._naming)
        if len(writes) <= 6:
            subsets = [
                {w for bit, w in enumerate(writes) if mask >> bit & 1}
                for mask in range(1 << len(writes))
            ]
        else:
            subsets = [set(), set(writes)]
            subsets += [set(writes) - {w} for w in writes]
            subsets += [set(writes[:n]) for n in range(1, len(writes))]
        namings: list[list[_Naming]] = [[], names]
        namings += [names[:n] for n in range(1, len(names))]
        namings += [[n for n in names if n is not left] for left in names]
        for kept in subsets:
            yield self._image(kept, None, 0.0, b"", names)
            if names:
                yield self._image(kept, None, 0.0, b"", [])
        for naming in namings:
            yield self._image(set(writes), None, 0.0, b"", naming)
        if writes:
            number, index = last = writes[-1]
            size = max(len(self._inodes[number].pending[index][1]), 1)
            cuts = [at / size for at in range(0, min(size, 8 * SECTOR), SECTOR)]
            cuts += [n / 21 for n in range(1, 21)]
            for cut in cuts:
                for fill in (b"", b"\0", b"\xa5"):
                    yield self._image(set(writes), last, cut, fill, names)

    def _image(
        self,
        kept: set[tuple[int, int]],
        torn: tuple[int, int] | None,
        cut: float,
        fill: bytes,
        naming: Sequence[_Naming],
    ) -> SimFiles:
        after = SimFiles()
        after._directories = set(self._directories)
        after._next = self._next
        after._durable_names = dict(self._durable_names)
        for change in naming:
            _apply_name(after._durable_names, change)
        after._names = dict(after._durable_names)
        for number in set(after._names.values()):
            contents = self._after(number, kept, torn, cut, fill)
            after._inodes[number] = _Inode(bytearray(contents), bytes(contents), [])
        return after

    def _after(
        self,
        number: int,
        kept: set[tuple[int, int]],
        torn: tuple[int, int] | None,
        cut: float,
        fill: bytes,
    ) -> bytearray:
        inode = self._inodes[number]
        contents = bytearray(inode.durable)
        for index, (offset, data) in enumerate(inode.pending):
            piece = data
            if torn == (number, index):
                length = int(len(data) * cut)
                rest = fill * (len(data) - length) if fill else b""
                piece = data[:length] + rest
            elif (number, index) not in kept:
                continue
            end = offset + len(piece)
            if len(contents) < end:
                contents.extend(bytes(end - len(contents)))
            contents[offset:end] = piece
        return contents

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
        after.capacity = self.capacity
        return after


def _apply_name(names: dict[str, int], change: _Naming) -> None:
    if change.inode:
        names[change.path] = change.inode
    else:
        names.pop(change.path, None)


def failing(kind: str, number: int, error: StorageFailure | None = None) -> Callable[
    [str, int], StorageFailure | None
]:  # fmt: skip
    """A ``fail`` that lets the operation of that number fail if it is of that kind ("" any)."""
    planted = error or SyncFailed("a planted failure")

    def fail(what: str, at: int) -> StorageFailure | None:
        return planted if at == number and (not kind or what == kind) else None

    return fail
