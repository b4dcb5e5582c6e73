"""Checkpoint files: chunks, heads, and which one counts."""

from __future__ import annotations

import pytest

from onceq.errors import DamagedRecord, NewerFormat, NoSpace
from onceq.store import checkpoints
from onceq.store.checkpoints import CHUNK, CheckpointHead
from onceq.testing.disk import SimFiles

PATH = "/store"
ID = b"S" * 16


def _written(disk: SimFiles, state: list[bytes], position: int = 8, epoch: int = 1) -> None:
    head = CheckpointHead(position, epoch, ((0, 8),))
    path = checkpoints.write(disk, PATH, ID, head, state)
    assert len(disk.contents(path)) == checkpoints.size_of(state, 1)
    checkpoints.install(disk, PATH, path, position)


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
def test_a_state_of_any_size_comes_back(size: int) -> None:
    disk = SimFiles()
    state = bytes(range(256)) * (size // 256 + 1)
    pieces = [state[:3], b"", state[3 : size // 2 + 3], state[size // 2 + 3 : size]]
    if size < 3:
        pieces = [state[:size]]
    _written(disk, pieces)
    assert checkpoints.newest(disk, PATH, ID) == (CheckpointHead(8, 1, ((0, 8),)), state[:size])


def test_no_checkpoint_is_position_zero() -> None:
    assert checkpoints.newest(SimFiles(), PATH, ID) == (CheckpointHead(0, 0), None)


def test_the_newest_counts_and_older_ones_go() -> None:
    disk = SimFiles()
    for position in (8, 4096, 1 << 40):
        _written(disk, [b"state %d" % position], position)
    assert checkpoints.newest(disk, PATH, ID)[1] == b"state %d" % (1 << 40)
    assert disk.names(PATH) == [checkpoints.name_of(1 << 40)]


def test_an_unfinished_one_does_not_count() -> None:
    disk = SimFiles()
    _written(disk, [b"old"], 8)
    checkpoints.write(disk, PATH, ID, CheckpointHead(16, 1), [b"new"])
    assert checkpoints.newest(disk, PATH, ID)[1] == b"old"
    assert checkpoints.unfinished(disk.names(PATH)) == [checkpoints.name_of(16) + ".new"]
    assert checkpoints.unfinished(["mine.new", "state-1.ckp.new"]) == []


def test_every_altered_byte_is_noticed() -> None:
    disk = SimFiles()
    _written(disk, [b"some state"])
    path = f"{PATH}/{checkpoints.name_of(8)}"
    for offset in range(len(disk.contents(path))):
        disk.flip(path, offset, 4)
        with pytest.raises((DamagedRecord, NewerFormat)):
            checkpoints.newest(disk, PATH, ID)
        disk.flip(path, offset, 4)
    assert checkpoints.newest(disk, PATH, ID)[1] == b"some state"


def test_every_shorter_file_is_noticed() -> None:
    disk = SimFiles()
    _written(disk, [b"some state"])
    path = f"{PATH}/{checkpoints.name_of(8)}"
    whole = disk.contents(path)
    for size in range(len(whole)):
        disk.unlink(path)
        disk.write(disk.open(path, create=True), 0, [whole[:size]])
        with pytest.raises(DamagedRecord):
            checkpoints.newest(disk, PATH, ID)


def test_a_checkpoint_of_another_store_or_place_is_refused() -> None:
    disk = SimFiles()
    _written(disk, [b"some state"])
    with pytest.raises(DamagedRecord, match="not a checkpoint of this store"):
        checkpoints.newest(disk, PATH, b"T" * 16)
    disk.rename(f"{PATH}/{checkpoints.name_of(8)}", f"{PATH}/{checkpoints.name_of(16)}")
    with pytest.raises(DamagedRecord, match="renamed"):
        checkpoints.newest(disk, PATH, ID)


def test_a_full_disk_leaves_nothing_behind() -> None:
    disk = SimFiles()
    _written(disk, [b"old"], 8)
    disk.capacity = disk.used + 10
    with pytest.raises(NoSpace):
        checkpoints.write(disk, PATH, ID, CheckpointHead(16, 1), [b"new" * 100])
    assert disk.names(PATH) == [checkpoints.name_of(8)]
