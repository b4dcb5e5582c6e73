"""Files of a store that are missing, emptied or cut short, at any point of a life (way ``lost``).

Whatever is done to one file of a store that has promised something: either the store gives back all
that it has promised, or a start refuses it, and the check refuses it for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator

from onceq.errors import DamagedRecord, NewerFormat, NotAStore
from onceq.store.log import LogStore
from onceq.store.recovery import check
from onceq.testing.disk import Plan, SimFiles
from tests.crash.life import PATH, SEGMENT, Life

REFUSED = (DamagedRecord, NewerFormat, NotAStore)
HOWS = ("removed", "emptied", "halved", "without its last byte", "all zeros")
BESIDE = ("LOCK", "ready-", "CLOSED")
"""Files that promise nothing by themselves: what they say is said elsewhere as well."""


def as_written(disk: SimFiles) -> SimFiles:
    """A disk of its own, on which all that was written is durable."""
    return disk.image(Plan(disk.pending_writes, disk.pending_names))


def mangled(disk: SimFiles) -> Iterator[tuple[str, str, SimFiles]]:
    """The disk once for each file and each thing that may happen to it."""
    for name in disk.names(PATH):
        if name.startswith(BESIDE) or name.endswith(".new"):
            continue
        path = f"{PATH}/{name}"
        data = disk.contents(path)
        for how in HOWS:
            copy = as_written(disk)
            copy.unlink(path)
            if how != "removed":
                left = {
                    "emptied": b"", "halved": data[: len(data) // 2],
                    "without its last byte": data[:-1], "all zeros": bytes(len(data)),
                }[how]  # fmt: skip
                copy.write(copy.open(path, create=True), 0, [left])
            yield name, how, as_written(copy)


def judge(life: Life, disk: SimFiles) -> bool:
    """Whether the store was refused; else everything that was promised must be there."""
    try:
        report = check(PATH, as_written(disk))
        said = report.refused
    except REFUSED:
        said = True
    try:
        store = LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    except REFUSED:
        assert said, "a start refuses what the check calls sound"
        return True
    try:
        life.compare(store)
    finally:
        store.abandon()
    assert not said, f"the check refuses what starts: {report.problem}"
    return False
