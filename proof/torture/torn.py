"""What a disk may have of writes that no sync has covered: some of their sectors, in any order.

A file system that is shut down forgets such writes altogether. A disk does not: what was under way
may stand on it in part. So the segments of the log are read while the process that writes them is
stopped, and some sectors of what was forgotten since are written after the file system is back.
Only bytes of files that are still there, at places that were written and synced before, are put
back: nothing else could have been written without the file system knowing of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

SECTOR_BYTES = (512, 4_096)
"""What disks write as a whole."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as processes see it, however much of it is durable."""

    inode: int
    data: bytes


def segments(store: Path) -> dict[str, Seen]:
    """The segments of the log, by their names."""
    return {path.name: _read(path) for path in sorted(store.glob("log-*.seg"))}


def _read(path: Path) -> Seen:
    return Seen(path.stat().st_ino, path.read_bytes())


def tear(store: Path, before: dict[str, Seen], random: Random) -> int:
    """Put back some of what was forgotten.

    Args:
        before: The segments as they were seen before.

    Returns:
        How many sectors stand there now that did not.
    """
    size = random.choice(SECTOR_BYTES)
    lost = [
        (store / name, offset, old.data[offset : offset + size])
        for name, old in sorted(before.items())
        for offset in _differing(store / name, old, size)
    ]
    written = _chosen(len(lost), random)
    for at in written:
        path, offset, data = lost[at]
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(data)
    return len(written)


def _differing(path: Path, old: Seen, size: int) -> list[int]:
    if not path.exists():
        return []
    now = _read(path)
    if now.inode != old.inode:
        return []
    end = min(len(now.data), len(old.data)) // size * size
    if now.data[:end] == old.data[:end]:
        return []
    return [
        at for at in range(0, end, size) if now.data[at : at + size] != old.data[at : at + size]
    ]


def _chosen(count: int, random: Random) -> list[int]:
    """Choose which of ``count`` sectors were written: in the file's order, backwards, or any."""
    every = list(range(count))
    if not every:
        return []
    some = random.randint(1, count)
    way = random.randrange(4)
    if way == 0:
        return every[:some]
    if way == 1:
        return every[-some:]
    if way == 2:
        return sorted(random.sample(every, some))
    return every[:]
