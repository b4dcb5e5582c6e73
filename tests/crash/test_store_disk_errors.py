"""Disks that fail (P8): every operation of every scenario fails once, in each way that it can.

After a failure the store is dead, and whatever disk is found then keeps every promise. Two things
may fail without harm: preparing a segment, and writing a checkpoint, while the disk is full.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from random import Random

import pytest

from onceq.errors import NoSpace, StorageFailure, SyncFailed
from onceq.store.log import LogStore
from onceq.testing.disk import SimFiles, failing
from tests.crash.life import PATH, SEGMENT, Life
from tests.crash.scenarios import SCENARIOS, scenario

FAILURES: dict[str, Callable[[], StorageFailure]] = {
    "EIO": lambda: StorageFailure("writing failed: Input/output error"),
    "ENOSPC": lambda: NoSpace("writing: the disk is full"),
    "EIO at a sync": lambda: SyncFailed("a sync failed (Input/output error)"),
}


def _kinds(name: str) -> list[str]:
    """The operations of a scenario, in order."""
    life = Life(SimFiles())
    kinds: list[str] = []

    def note(kind: str, number: int) -> None:
        kinds.append(kind)

    life.files.fail = note
    SCENARIOS[name](life)
    return kinds


def _judge(life: Life) -> None:
    for image in life.files.images(12):
        life.judge(image)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_every_call_fails_once(name: str) -> None:
    failed = 0
    for number, kind in enumerate(_kinds(name), 1):
        for what, make in FAILURES.items():
            if ("sync" in kind) != ("sync" in what):
                continue
            life = Life(SimFiles())
            life.files.fail = failing(kind, number, make())
            try:
                SCENARIOS[name](life)
            except StorageFailure:
                failed += 1
                _dead_or_only_full(life, what)
            life.files.fail = lambda kind, number: None
            _judge(life)
    assert failed >= 3


def _dead_or_only_full(life: Life, what: str) -> None:
    store = life.store
    if store is None:
        return
    before = life.files.operations
    calls: list[Callable[[], object]] = [
        lambda: store.append(b"x"), store.flush, store.sync, store.sync,
        lambda: store.reclaim(lambda base, end: False), store.prepare,
    ]  # fmt: skip
    if what == "ENOSPC" and store._dead is None and store._lock >= 0:
        # A checkpoint was refused for want of space: the store lives on.
        life.append(b"life goes on all the same")
        life.sync()
        return
    for call in calls:
        with pytest.raises(StorageFailure):
            call()
    assert life.files.operations == before, "something was tried again"


def test_a_failed_sync_is_never_tried_again() -> None:
    """The kernel has dropped the pages: the next sync would succeed, and mean nothing."""
    life = Life(SimFiles())
    life.create()
    life.append(b"first")
    life.sync()
    life.append(b"second")
    life.files.fail = failing("sync", life.files.operations + 2)
    with pytest.raises(SyncFailed):
        life.sync()
    life.files.fail = lambda kind, number: None
    with pytest.raises(SyncFailed):
        life.sync()
    operations = life.files.operations
    life.open_store.close()
    assert life.files.operations == operations, "a dead store writes nothing, it only lets go"
    life.judge(next(iter(life.files.images(1))))


def test_a_store_that_syncs_again_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test before, held by a planted mistake."""

    def stubborn(self: LogStore) -> None:
        try:
            real(self)
        except SyncFailed:
            self._dead = None
            real(self)

    real = LogStore.sync
    monkeypatch.setattr(LogStore, "sync", stubborn)
    life = Life(SimFiles())
    life.create()
    life.append(b"first")
    life.sync()
    life.append(b"second")
    life.files.fail = failing("sync", life.files.operations + 2)
    life.sync()
    with pytest.raises(AssertionError, match="I1"):
        life.judge(next(iter(life.files.images(1))))


@pytest.mark.search("store", few=6)
@pytest.mark.slow
@pytest.mark.parametrize("name", [*sorted(SCENARIOS), *(f"random-{n}" for n in range(1, 30))])
def test_the_disk_is_full_at_any_size(name: str) -> None:
    """A disk of any size: some bytes of a write may fit; then the store stops, and starts again."""
    life = Life(SimFiles())
    scenario(name)(life)
    used = life.files.used
    for capacity in Random(name).sample(range(1, used + 8_000), 40):
        life = Life(SimFiles())
        life.files.capacity = capacity
        try:
            scenario(name)(life)
        except NoSpace:
            pass
        life.files.capacity = 0
        for image in life.files.images(4):
            image.capacity = 0
            life.judge(image)


def test_the_reserve_takes_records_on_a_full_disk() -> None:
    disk = SimFiles()
    store = LogStore.create(PATH, disk, store_id=b"S" * 16, segment_bytes=SEGMENT)
    while store.prepare():
        pass
    disk.capacity = disk.used
    assert not store.prepare(), "there is no room for another"
    assert store.free_bytes() == 2 * SEGMENT
    for _ in range(2):
        store.append(b"removals and acknowledgments" * 100)
        store.sync()
    assert store.free_bytes() < SEGMENT
    with pytest.raises(NoSpace):
        store.append(b"one too many" * 300)
    with pytest.raises(NoSpace):
        store.sync()


def test_a_checkpoint_is_worth_the_reserve() -> None:
    """On a full disk only a checkpoint lets segments go, so it may use what is kept ready."""
    disk = SimFiles()
    store = LogStore.create(PATH, disk, store_id=b"S" * 16, segment_bytes=SEGMENT)
    while store.prepare():
        pass
    for _ in range(3):
        store.append(b"old" * 1000)
        store.sync()
        store.prepare()
        store.prepare()
    disk.capacity = disk.used
    with pytest.raises(NoSpace):
        store.checkpoint([b"far too large" * 2000], store.position)
    assert store.free_bytes() >= 2 * SEGMENT, "nothing was sacrificed in vain"
    store.checkpoint([b"state" * 700], store.position)
    assert store.reclaim(lambda base, end: False) == 2 * SEGMENT
    store.append(b"on we go" * 400)
    store.sync()
    store.close()
    again = LogStore.open(PATH, disk.kill(), segment_bytes=SEGMENT)
    assert again.recovered.checkpoint == b"state" * 700
    assert [bytes(data) for _, data in again.records()] == [b"on we go" * 400]


def test_the_reserve_is_used_where_free_space_is_not_what_it_seems() -> None:
    """Under a quota the system says that the disk has room, and takes no byte more."""
    disk = SimFiles()
    store = LogStore.create(PATH, disk, store_id=b"S" * 16, segment_bytes=SEGMENT)
    while store.prepare():
        pass
    store.append(b"old" * 1000)
    store.sync()
    store.prepare()
    disk.capacity = disk.used
    disk.free_bytes = lambda path: 1 << 40  # type: ignore[method-assign]
    store.checkpoint([b"state" * 700], store.position)
    store.close()
    again = LogStore.open(PATH, disk.kill(), segment_bytes=SEGMENT)
    assert again.recovered.checkpoint == b"state" * 700


def test_opening_fails_at_every_operation_and_works_afterwards() -> None:
    life = Life(SimFiles())
    SCENARIOS["reclaim"](life)
    for number in range(1, 12):
        image = next(iter(life.files.images(1, seed=number)))
        image.fail = failing("", number)
        with contextlib.suppress(SyncFailed):
            LogStore.open(PATH, image, segment_bytes=SEGMENT).abandon()
        image.fail = lambda kind, number: None
        life.judge(image)
