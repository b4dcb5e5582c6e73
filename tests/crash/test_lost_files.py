"""A file of the log that is missing, emptied or shortened is noticed, whatever the store has lived
through: before the first checkpoint and behind it, after a kill and after an orderly stop (I23)."""

from __future__ import annotations

import pytest

from onceq.errors import DamagedRecord
from onceq.store.log import LogStore
from onceq.store.recovery import check
from onceq.testing.disk import SimFiles
from tests.crash import lost_files
from tests.crash.life import PATH, SEGMENT, Life
from tests.crash.programme import lived, points
from tests.crash.scenarios import SCENARIOS, scenario


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_at_the_end_of_each_scenario(name: str) -> None:
    life, _ = lived(name, 0)
    for file, how, disk in lost_files.mangled(lost_files.as_written(life.files)):
        refused = lost_files.judge(life, disk)
        newest = max(file for file in life.files.names(PATH) if file < "ready")
        if file.startswith("log-") and how in ("removed", "emptied") and life.promised:
            assert refused or file != newest, f"{name}: {file} {how}"


@pytest.mark.slow
def test_at_any_point_of_a_few_scenarios() -> None:
    refused = whole = 0
    for name in ("batch", "roll", "checkpoint", "reclaim", "large"):
        for point in points(name):
            life, _ = lived(name, point.stop)
            if not life.existed:
                continue
            for _, _, disk in lost_files.mangled(lost_files.as_written(life.files)):
                if lost_files.judge(life, disk):
                    refused += 1
                else:
                    whole += 1
    assert refused > 300
    assert whole > 30


def _store(count: int = 5, *, closed: bool = False) -> SimFiles:
    disk = SimFiles()
    life = Life(disk)
    life.create()
    for n in range(count):
        life.append(b"%d" % n * 900)
        life.sync()
    if closed:
        life.close()
    else:
        life.open_store.abandon()
    return lost_files.as_written(disk)


@pytest.mark.parametrize("closed", [False, True], ids=["killed", "closed"])
def test_a_log_that_is_gone_is_not_a_new_store(closed: bool) -> None:
    """Killed before the first checkpoint, and the log removed."""
    disk = _store(3, closed=closed)
    (name,) = [name for name in disk.names(PATH) if name.startswith("log-")]
    disk.unlink(f"{PATH}/{name}")
    with pytest.raises(DamagedRecord, match=f"{name} is missing"):
        LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    report = check(PATH, disk)
    assert report.refused
    assert f"{name} is missing" in report.problem


@pytest.mark.parametrize("kept", [0, 64, 1_000, SEGMENT - 1])
def test_a_segment_has_a_known_size(kept: int) -> None:
    disk = _store(3)
    (name,) = [name for name in disk.names(PATH) if name.startswith("log-")]
    data = disk.contents(f"{PATH}/{name}")[:kept]
    disk.unlink(f"{PATH}/{name}")
    disk.write(disk.open(f"{PATH}/{name}", create=True), 0, [data])
    with pytest.raises(DamagedRecord, match="damaged"):
        LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    assert check(PATH, disk).refused


def test_zeros_in_place_of_a_log_are_noticed() -> None:
    """The right size and the right beginning, and nothing in it: its first sync was promised."""
    disk = _store(3)
    (name,) = [name for name in disk.names(PATH) if name.startswith("log-")]
    disk.write(disk.open(f"{PATH}/{name}"), 64, [bytes(SEGMENT - 64)])
    with pytest.raises(DamagedRecord, match="was durable"):
        LogStore.open(PATH, disk, segment_bytes=SEGMENT)


def test_zeros_in_place_of_a_log_are_refused_by_the_check() -> None:
    disk = _store(3)
    (name,) = [name for name in disk.names(PATH) if name.startswith("log-")]
    disk.write(disk.open(f"{PATH}/{name}"), 64, [bytes(SEGMENT - 64)])
    assert check(PATH, disk).refused


def test_what_was_noted_meanwhile_is_not_cut() -> None:
    """The promise follows the log; what it covers is no torn tail, even where nothing follows."""
    disk = SimFiles()
    store = LogStore.create(PATH, disk, store_id=b"S" * 16, segment_bytes=SEGMENT)
    places = []
    for n in range(3):
        places.append(store.append(b"%d" % n * 300))
        store.sync()
    store.note()
    store.abandon()
    disk = lost_files.as_written(disk)
    (name,) = [name for name in disk.names(PATH) if name.startswith("log-")]
    disk.flip(f"{PATH}/{name}", 64 + places[-1] + 50)
    with pytest.raises(DamagedRecord, match="was durable"):
        LogStore.open(PATH, disk, segment_bytes=SEGMENT)


def test_an_old_segment_that_messages_need_is_missed() -> None:
    """It lies before the checkpoint, where no start reads; it was kept, so it must be there."""
    disk = SimFiles()
    life = Life(disk, live=lambda base, end: True)
    life.create()
    for n in range(5):
        life.append(b"%d" % n * 3_000)
        life.sync()
    life.checkpoint()
    life.reclaim()
    life.close()
    disk = lost_files.as_written(disk)
    oldest = next(name for name in disk.names(PATH) if name.startswith("log-"))
    disk.unlink(f"{PATH}/{oldest}")
    with pytest.raises(DamagedRecord, match=f"{oldest} is missing"):
        LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    assert f"{oldest} is missing" in check(PATH, disk).problem


def test_what_was_let_go_while_a_checkpoint_was_written_is_not_missed() -> None:
    """The head of that checkpoint lists what was there when it was begun."""
    disk = SimFiles()
    life = Life(disk)
    scenario("reclaim_meanwhile")(life)
    life.killed()
    life.reopen()


def test_a_checkpoint_that_is_gone_is_missed() -> None:
    disk = SimFiles()
    life = Life(disk)
    life.create()
    life.append(b"x")
    life.checkpoint()
    life.close()
    disk = lost_files.as_written(disk)
    (name,) = [name for name in disk.names(PATH) if name.startswith("state-")]
    disk.unlink(f"{PATH}/{name}")
    with pytest.raises(DamagedRecord, match=f"{name} is missing"):
        LogStore.open(PATH, disk, segment_bytes=SEGMENT)
