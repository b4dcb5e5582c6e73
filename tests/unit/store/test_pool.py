"""The pool of ready segments."""

from __future__ import annotations

from collections import deque

import pytest

from onceq.errors import StorageFailure, SyncFailed
from onceq.store import pool as pool_module
from onceq.store.pool import READY_MAX, READY_MIN, Pool, Preparing
from onceq.store.scan import segment_header
from onceq.testing.disk import SimFiles, failing

PATH = "/store"
ID = b"S" * 16
SIZE = 4096


def test_it_is_filled_and_emptied() -> None:
    disk = SimFiles()
    pool = Pool(disk, PATH, SIZE)
    while pool.wanting:
        assert pool.prepare()
    assert (len(pool), pool.bytes) == (READY_MIN, READY_MIN * SIZE)
    assert disk.pending == 0, "a ready segment is durable"
    assert pool.take() == f"{PATH}/ready-2.seg", "the last one: it is still in memory"
    assert pool.take() == f"{PATH}/ready-1.seg"
    assert pool.take() is None


def test_another_thread_may_take_the_last_one() -> None:
    """On a full disk the thread that writes a checkpoint gives segments back, while the owner takes
    one: it is gone between a look at the pool and the taking."""

    class Raced(deque[str]):
        def __len__(self) -> int:
            return 1

    pool = Pool(SimFiles(), PATH, SIZE)
    pool._ready = Raced()
    assert pool.take() is None


def test_old_segments_are_kept_up_to_a_number() -> None:
    disk = SimFiles()
    pool = Pool(disk, PATH, SIZE)
    for n in range(READY_MAX + 2):
        disk.open(f"{PATH}/log-{n}", create=True)
        pool.retire(f"{PATH}/log-{n}", SIZE)
    disk.open(f"{PATH}/log-large", create=True)
    pool.retire(f"{PATH}/log-large", 5 * SIZE)
    assert len(pool) == READY_MAX
    assert all(name.startswith("ready-") for name in disk.names(PATH))


def test_old_segments_leave_room_on_the_disk_for_others() -> None:
    """No more are kept than an eighth of what is free, but for those that are the reserve."""
    disk = SimFiles()
    pool = Pool(disk, PATH, SIZE)
    disk.free_bytes = lambda path: 32 * SIZE  # type: ignore[method-assign]
    for n in range(6):
        disk.open(f"{PATH}/log-{n}", create=True)
        pool.retire(f"{PATH}/log-{n}", SIZE)
    assert len(pool) == 4
    full = Pool(disk, "/other", SIZE)
    disk.free_bytes = lambda path: 0  # type: ignore[method-assign]
    for n in range(6):
        disk.open(f"/other/log-{n}", create=True)
        full.retire(f"/other/log-{n}", SIZE)
    assert len(full) == READY_MIN


def test_what_was_kept_for_a_burst_is_given_back_by_halves() -> None:
    disk = SimFiles()
    pool = Pool(disk, PATH, SIZE)
    for n in range(READY_MIN + 9):
        disk.open(f"{PATH}/log-{n}", create=True)
        pool.retire(f"{PATH}/log-{n}", SIZE)
    left = []
    while pool.plenty:
        assert pool.trim(half=True)
        left.append(len(pool) - READY_MIN)
    assert left == [4, 2, 1, 0]
    assert disk.names(PATH) == ["ready-10.seg", "ready-11.seg"], "the last ones are in memory"
    assert not pool.trim(half=True)
    assert not pool.trim()


def test_zeros_are_written_and_synced_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit beside it waits for one step at most, and between them the disk is left alone."""
    monkeypatch.setattr(pool_module, "ZEROS", bytes(SIZE // 4))
    disk = SimFiles()
    pauses: list[int] = []
    assert Pool(disk, PATH, SIZE).prepare(lambda: pauses.append(disk.pending))
    assert pauses[:4] == [1, 1, 1, 1], "the name of the file alone is not durable yet"
    assert len(pauses) == 4


def test_who_waits_for_the_thread_waits_for_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(SimFiles(), PATH, SIZE)
    monkeypatch.setattr(pool_module, "REST_S", 1e6)
    preparing = Preparing(pool)
    preparing.begin()
    preparing.join()
    assert len(pool) == READY_MIN


def test_a_full_disk_is_no_failure() -> None:
    disk = SimFiles()
    pool = Pool(disk, PATH, SIZE)
    disk.capacity = SIZE - 1
    assert not pool.prepare()
    disk.free_bytes = lambda path: 1 << 40  # type: ignore[method-assign]
    assert not pool.prepare()
    assert disk.names(PATH) == []


def test_other_failures_are() -> None:
    disk = SimFiles()
    disk.fail = failing("sync", 3, SyncFailed("no"))
    with pytest.raises(StorageFailure):
        Pool(disk, PATH, SIZE).prepare()


def test_what_an_earlier_process_left() -> None:
    disk = SimFiles()
    contents = {
        "ready-3.seg": bytes(SIZE),
        "ready-7.seg": segment_header(ID, 64).ljust(SIZE, b"\xa5"),
        "ready-8.seg": segment_header(ID, 4096).ljust(SIZE, b"\xa5"),
        "ready-9.seg": bytes(100),
        "ready-x.seg": bytes(SIZE),
        "notes.txt": b"mine",
    }
    for name, data in contents.items():
        disk.write(disk.open(f"{PATH}/{name}", create=True), 0, [data])
    pool = Pool(disk, PATH, SIZE)
    useless = pool.load(ID, [0, 4096])
    assert useless == [f"{PATH}/ready-8.seg", f"{PATH}/ready-9.seg"]
    assert pool.take() == f"{PATH}/ready-7.seg"
    assert pool.take() == f"{PATH}/ready-3.seg"
    assert pool.prepare()
    assert pool.take() == f"{PATH}/ready-10.seg"
