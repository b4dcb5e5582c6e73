"""A disk that does what real disks do: what was not synced may be lost, kept in part, or torn.

Each file remembers what the last successful sync covered and every write since; the directory
remembers names made, changed and removed since its last sync. ``crash`` leaves any legal image of
that (testing.md P5, 1 to 6), drawn at random. A process that is merely killed loses nothing that
it wrote: ``killed``.

Upholds nothing by itself; programme P4 runs the real store on it (I1, I22, I23).
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from onceq.errors import NoSpace, StorageFailure, StoreLocked, SyncFailed
from onceq.model.run import Buffer

SECTOR = 512


@dataclass(slots=True)
class Content:
    """Bytes of one file: now, as of the last sync, and the writes between."""

    now: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes]] = field(default_factory=list)

    def sync(self) -> None:
        """All of it is on the disk."""
        for offset, data in self.pending:
            _put(self.durable, offset, data)
        self.pending.clear()

    def copy(self) -> Content:
        """An independent copy."""
        return Content(bytearray(self.now), bytearray(self.durable), list(self.pending))


@dataclass(frozen=True, slots=True)
class Loss:
    """What a crash took: writes lost or torn, names undone."""

    writes: int
    torn: int
    names: int


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class SimDisk:
    """One directory's disk, as ``store.files.Files``.

    Attributes:
        capacity: Bytes that fit.
        step: Called at every call that changes something, before and after it; raises to crash.
        sync_fails_in: The sync after so many fails; -1: none.
    """

    def __init__(self, rng: Random, *, capacity: int = 1 << 30) -> None:
        self.capacity = capacity
        self.taken = 0
        """Bytes that something else on this disk takes."""
        self.step: Callable[[str], None] = lambda what: None
        self.sync_fails_in = -1
        self.syncs = 0
        self._rng = rng
        self._names: dict[str, Content] = {}
        self._durable_names: dict[str, Content] = {}
        self._changes: list[tuple[str, str, Content]] = []
        """(verb, path, content) of names since the last sync of the directory."""
        self._open: dict[int, Content] = {}
        self._locks: dict[int, str] = {}
        self._next = 3

    # ---- Files --------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> int:
        """See Files."""
        if create:
            self.step("create")
            if path in self._names:
                raise StorageFailure(f"{path} exists")
            self._name("link", path, Content())
            self.step("create")
        elif path not in self._names:
            raise StorageFailure(f"opening {path} failed: no such file")
        self._next += 1
        self._open[self._next] = self._names[path]
        return self._next

    def _name(self, verb: str, path: str, content: Content) -> None:
        self._changes.append((verb, path, content))
        _apply(self._names, verb, path, content)

    def close(self, file: int) -> None:
        """See Files."""
        self._open.pop(file, None)
        self._locks.pop(file, None)

    def size(self, file: int) -> int:
        """See Files."""
        return len(self._open[file].now)

    def read(self, file: int, offset: int, size: int) -> bytes:
        """See Files."""
        return bytes(self._open[file].now[offset : offset + size])

    def write(self, file: int, offset: int, pieces: Sequence[Buffer]) -> None:
        """See Files."""
        self.step("write")
        content = self._open[file]
        data = b"".join(pieces)
        if offset + len(data) > len(content.now) and self.free_bytes("") < len(data):
            raise NoSpace("writing: the disk is full")
        _put(content.now, offset, data)
        content.pending.append((offset, data))
        self.step("write")

    def sync(self, file: int) -> None:
        """See Files."""
        self.step("sync")
        self._fail_sync()
        self._open[file].sync()
        self.syncs += 1
        self.step("sync")

    def _fail_sync(self) -> None:
        if self.sync_fails_in == 0:
            self.sync_fails_in = -1
            raise SyncFailed("a sync failed (simulated); nothing after it was said")
        if self.sync_fails_in > 0:
            self.sync_fails_in -= 1

    def rename(self, old: str, new: str) -> None:
        """See Files."""
        self.step("rename")
        content = self._names[old]
        del self._names[old]
        self._names[new] = content
        self._changes.append((f"rename {old}", new, content))
        self.step("rename")

    def unlink(self, path: str) -> None:
        """See Files."""
        self.step("unlink")
        self._name("unlink", path, self._names[path])
        self.step("unlink")

    def sync_directory(self, path: str) -> None:
        """See Files."""
        self.step("sync-directory")
        self._fail_sync()
        self._durable_names = dict(self._names)
        self._changes.clear()
        self.step("sync-directory")

    def make_directory(self, path: str) -> None:
        """See Files."""

    def names(self, path: str) -> list[str]:
        """See Files."""
        return sorted(os.path.basename(name) for name in self._names)

    def exists(self, path: str) -> bool:
        """See Files."""
        return path in self._names

    def lock(self, path: str) -> int:
        """See Files."""
        if path in self._locks.values():
            raise StoreLocked("another process runs this queue manager")
        self._next += 1
        self._locks[self._next] = path
        return self._next

    def free_bytes(self, path: str) -> int:
        """See Files."""
        used = sum(len(content.now) for content in self._names.values())
        return max(self.capacity - self.taken - used, 0)

    # ---- what happens to it -------------------------------------------------------------

    def killed(self) -> None:
        """The process is gone; what it wrote is still there."""
        self._open.clear()
        self._locks.clear()

    def crash(self) -> Loss:
        """The power goes: what was not synced is there in part, or not at all."""
        self.killed()
        lost_names = self._crash_names()
        lost = torn = 0
        contents = {id(c): c for c in self._names.values()}
        for path in sorted(self._names):
            content = contents.pop(id(self._names[path]), None)
            if content is not None:
                a, b = self._crash_content(content)
                lost, torn = lost + a, torn + b
        self._durable_names = dict(self._names)
        return Loss(lost, torn, lost_names)

    def _crash_names(self) -> int:
        names = dict(self._durable_names)
        style = self._rng.randrange(4)
        kept = self._rng.randrange(len(self._changes) + 1)
        undone = 0
        for index, (verb, path, content) in enumerate(self._changes):
            if style == 0 or (style == 1 and index < kept) or (
                style == 2 and self._rng.random() < 0.5
            ):
                _apply(names, verb, path, content)
            else:
                undone += 1
        self._changes.clear()
        self._names = names
        return undone

    def _crash_content(self, content: Content) -> tuple[int, int]:
        rng, pending = self._rng, content.pending
        lost = torn = 0
        if pending:
            style = rng.randrange(5)
            order = list(range(len(pending)))
            if style == 1:
                order = []
            elif style == 2:
                order = order[: rng.randrange(len(order) + 1)]
            elif style == 3:
                order = [i for i in order if rng.random() < 0.5]
                rng.shuffle(order)
            lost = len(pending) - len(order)
            for place, index in enumerate(order):
                offset, data = pending[index]
                if style >= 2 and place == len(order) - 1 and rng.random() < 0.6:
                    data, torn = self._tear(data), torn + 1
                _put(content.durable, offset, data)
            if lost and rng.random() < 0.2:
                # The length grew, the content never came.
                _put(content.durable, len(content.now), b"")
            pending.clear()
        content.now = bytearray(content.durable)
        return lost, torn

    def _tear(self, data: bytes) -> bytes:
        """A first part of a write, cut at a sector or anywhere; the rest old, zero or garbage."""
        rng = self._rng
        cut = rng.randrange(len(data) + 1)
        if rng.random() < 0.5:
            cut = cut // SECTOR * SECTOR
        rest = len(data) - cut
        fill = rng.randrange(3)
        if fill == 0:
            return data[:cut]
        return data[:cut] + (bytes(rest) if fill == 1 else rng.randbytes(rest))

    def clone(self) -> SimDisk:
        """A copy on which somebody may try things; it never fails."""
        other = SimDisk(Random(0), capacity=self.capacity)
        copies = {id(c): c.copy() for c in self._names.values()}
        other._names = {path: copies[id(c)] for path, c in self._names.items()}
        other._durable_names = dict(other._names)
        return other


def _apply(names: dict[str, Content], verb: str, path: str, content: Content) -> None:
    if verb == "link":
        names[path] = content
    elif verb == "unlink":
        if names.get(path) is content:
            del names[path]
    else:
        old = verb.partition(" ")[2]
        if names.get(old) is content:
            del names[old]
        names[path] = content
