"""Any altered byte of a store is repaired, refused by name, or outside every record (I23).

In packets it is named, and costs no more than the packets that lie in its block.

Exhaustive over small stores: each byte of each file is altered, alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from onceq.errors import (
    DamagedPiece,
    DamagedRecord,
    NewerFormat,
    NotAStore,
    OnceqError,
    StorageFailure,
)
from onceq.model.log import FRAME_HEADER, frame_size
from onceq.store.log import LogStore
from onceq.store.recovery import check
from onceq.store.scan import SEGMENT_HEADER
from onceq.testing.disk import SimFiles

PATH = "/store"
SEGMENT = 1024
HEADS = (0, 100, 0, 7)
"""Bytes before the packets of each record behind the checkpoint; 0: it has none."""
NAMED = (DamagedRecord, NewerFormat, NotAStore)


@dataclass(frozen=True, slots=True)
class Whole:
    """What a store gives back before anything is altered."""

    checkpoint: bytes | None
    records: tuple[tuple[int, bytes], ...]
    end: int
    damaged: tuple[DamagedPiece, ...] = ()

    def restored(self, whole: Whole) -> Whole:
        """With the damaged bytes as they were."""
        data = [(position, bytearray(record)) for position, record in self.records]
        for piece in self.damaged:
            for at in piece.span:
                for (position, record), (_, right) in zip(data, whole.records, strict=False):
                    if 0 <= at - position - FRAME_HEADER < len(record):
                        record[at - position - FRAME_HEADER] = right[at - position - FRAME_HEADER]
        return Whole(self.checkpoint, tuple((at, bytes(raw)) for at, raw in data), self.end)


def _contents(disk: SimFiles) -> tuple[Whole, LogStore]:
    store = LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    records = tuple((position, bytes(data)) for position, data in store.records())
    found = store.recovered
    whole = Whole(found.checkpoint, records, store.position, found.damaged)
    store.abandon()
    return whole, store


def _store(*, closed: bool) -> SimFiles:
    """Three segments, one of them before a checkpoint, one ready file."""
    disk = SimFiles()
    store = LogStore.create(PATH, disk, store_id=b"S" * 16, identity=b"who", segment_bytes=SEGMENT)
    store.prepare()
    for n in range(4):
        store.append(b"before %d " % n * 45)
        store.sync()
    store.checkpoint([b"state" * 30], store.position)
    for n in range(4):
        store.append(b"behind %d " % n * 45 + b"+" * n, HEADS[n])
        store.sync()
    if closed:
        store.close()
    else:
        store.abandon()
    return disk.kill()


def _copy(disk: SimFiles) -> SimFiles:
    return next(iter(disk.images(1)))


def _places(disk: SimFiles) -> Iterator[tuple[str, int]]:
    for name in disk.names(PATH):
        path = f"{PATH}/{name}"
        for offset in range(len(disk.contents(path))):
            yield path, offset


def _in_record(disk: SimFiles, path: str, offset: int, spans: list[tuple[int, int]]) -> bool:
    """Whether a byte of a file belongs to the header or payload of a record."""
    name = path.rpartition("/")[2]
    if not name.startswith("log-") or offset < SEGMENT_HEADER:
        return False
    position = int(name[4:-4], 16) + offset - SEGMENT_HEADER
    later = [other for other in disk.names(PATH) if other.startswith("log-") and other > name]
    if later and position >= int(later[0][4:-4], 16):
        return False
    return any(start <= position < end for start, end in spans)


@pytest.mark.slow
@pytest.mark.parametrize("everything", [False, True], ids=["one bit", "all bits"])
def test_any_altered_byte_of_a_closed_store(everything: bool) -> None:
    disk = _store(closed=True)
    whole, _ = _contents(_copy(disk))
    spans = [(position, position + FRAME_HEADER + len(data)) for position, data in _all(disk)]
    refused = repaired = named = 0
    for path, offset in _places(disk):
        copy = _copy(disk)
        copy.flip(path, offset, 0xFF if everything else 1 << offset % 8)
        changes = copy.operations
        problem = _problem(copy)
        try:
            found, _ = _contents(copy)
        except NAMED:
            refused += 1
            assert copy.operations == changes, f"refused, but changed: {path} byte {offset}"
            assert problem, f"check sees nothing at {path} byte {offset}"
        else:
            repaired += 1
            altered = f"other contents after altering {path} byte {offset}"
            assert found.restored(whole) == whole, altered
            if found.damaged:
                named += 1
                assert any(p.path == path and p.offset <= offset < p.offset + p.size
                           for p in found.damaged), altered  # fmt: skip
            if _in_record(disk, path, offset, spans):
                assert problem, f"nobody sees the altered {path} byte {offset}"
    assert refused > 700, "hardly anything was refused"
    assert named > 600, "hardly any packet was damaged"
    assert repaired > 500


def _all(disk: SimFiles) -> list[tuple[int, bytes]]:
    """All records that were appended, also those before the checkpoint."""
    found: list[tuple[int, bytes]] = []
    position = 0
    for n in range(8):
        data = b"before %d " % n * 45 if n < 4 else b"behind %d " % (n - 4) * 45 + b"+" * (n - 4)
        found.append((position, data))
        position += frame_size(len(data), HEADS[n - 4] if n >= 4 else 0)
    return found


def _problem(disk: SimFiles) -> str:
    try:
        return check(PATH, disk).problem
    except OnceqError as error:
        return error.text


@pytest.mark.slow
def test_any_altered_byte_after_a_crash() -> None:
    """The last record before a crash may be cut, for nobody can tell; no other one may."""
    disk = _store(closed=False)
    whole, _ = _contents(_copy(disk))
    cut = 0
    for path, offset in _places(disk):
        copy = _copy(disk)
        copy.flip(path, offset, 1 << offset % 8)
        try:
            found, store = _contents(copy)
        except NAMED:
            continue
        assert found.checkpoint == whole.checkpoint, f"{path} byte {offset}"
        found = found.restored(whole)
        assert found.records == whole.records[: len(found.records)], f"{path} byte {offset}"
        if found.records != whole.records:
            cut += 1
            assert len(found.records) == len(whole.records) - 1, f"{path} byte {offset}"
            assert path.endswith(".seg"), f"{path} byte {offset}"
            assert not store.recovered.clean
    assert cut > 100, "the last record was never cut"


@pytest.mark.parametrize("kept", [0, 1, 30, 64, 65, 100, 600])
def test_a_file_cut_short_is_refused(kept: int) -> None:
    disk = _store(closed=True)
    covered = check(PATH, disk).checkpoint_position
    for name in disk.names(PATH):
        if not name.startswith("log-"):
            continue
        copy = _copy(disk)
        data = copy.contents(f"{PATH}/{name}")[:kept]
        copy.unlink(f"{PATH}/{name}")
        file = copy.open(f"{PATH}/{name}", create=True)
        copy.write(file, 0, [data])
        assert "damaged" in check(PATH, copy).problem, name
        if int(name[4:-4], 16) >= covered:
            with pytest.raises(DamagedRecord, match="restore a backup"):
                LogStore.open(PATH, copy, segment_bytes=SEGMENT)


def test_a_missing_segment_is_named() -> None:
    disk = _store(closed=True)
    last = [name for name in disk.names(PATH) if name.startswith("log-")][-1]
    disk.unlink(f"{PATH}/{last}")
    with pytest.raises(DamagedRecord, match=f"{last} is missing"):
        LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    assert f"{last} is missing" in check(PATH, disk).problem


def test_damage_is_named_with_file_and_byte() -> None:
    disk = _store(closed=True)
    name = [name for name in disk.names(PATH) if name.startswith("log-")][-1]
    disk.flip(f"{PATH}/{name}", SEGMENT_HEADER + 40)
    with pytest.raises(DamagedRecord, match=rf"{name} is damaged at byte {SEGMENT_HEADER}:"):
        LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    report = check(PATH, disk)
    assert (report.problem_file, report.problem_offset) == (f"{PATH}/{name}", SEGMENT_HEADER)


def test_a_frame_inside_a_message_is_no_frame() -> None:
    """Who may send messages may not write the log: not even with a copy of somebody's segment."""
    other = SimFiles()
    store = LogStore.create(PATH, other, store_id=b"T" * 16, segment_bytes=SEGMENT)
    for _ in range(3):
        store.append(b"x" * 40)
        store.sync()
    body = other.contents(f"{PATH}/log-{0:016x}.seg")[SEGMENT_HEADER:400]
    disk = SimFiles()
    mine = LogStore.create(PATH, disk, store_id=b"S" * 16, segment_bytes=SEGMENT)
    for shift in range(0, 80, 8):
        mine.append(bytes(shift) + body)
    mine.flush()
    image = disk.kill()
    image.flip(f"{PATH}/log-{0:016x}.seg", SEGMENT_HEADER)
    again = LogStore.open(PATH, image, segment_bytes=SEGMENT)
    assert list(again.records()) == []


def test_unreadable_is_not_torn() -> None:
    """A read that fails ends the opening; nothing is cut because of it."""
    disk = _store(closed=True)
    for name in disk.names(PATH):
        if name == "LOCK" or name.startswith("ready-"):
            continue
        copy = _copy(disk)
        copy.fail_read = lambda path, name=name: (  # type: ignore[misc]
            StorageFailure("reading failed") if path.endswith(name) else None
        )
        with pytest.raises(StorageFailure):
            LogStore.open(PATH, copy, segment_bytes=SEGMENT)
        assert copy.pending == 0
