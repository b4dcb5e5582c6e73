"""The stores on files and in memory: what the contract says of both; then of files only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from onceq.errors import DamagedRecord, StorageFailure, StoreExists, StoreLocked
from onceq.model.log import FRAME_HEADER, frame_size
from onceq.store import identification
from onceq.store.contract import Store
from onceq.store.log import LogStore
from onceq.store.memory import MemoryStore
from onceq.store.recovery import check
from onceq.store.scan import SEGMENT_HEADER
from onceq.testing.disk import Plan, SimFiles

PATH = "/store"
SEGMENT = 4096
ID = b"S" * 16


def _new(disk: SimFiles | None = None) -> LogStore:
    return LogStore.create(
        PATH, disk or SimFiles(), store_id=ID, identity=b"who", created_s=7, segment_bytes=SEGMENT
    )


def _again(disk: SimFiles) -> LogStore:
    return LogStore.open(PATH, disk, segment_bytes=SEGMENT)


MAKERS: list[Callable[[], Store]] = [_new, MemoryStore]


@pytest.mark.parametrize("make", MAKERS)
def test_positions_are_those_the_core_computes(make: Callable[[], Store]) -> None:
    store = make()
    position = 0
    for size in (0, 1, 8, 100, 5_000, 3):
        assert store.position == position
        assert store.append(b"x" * size) == position
        position += frame_size(size)
    assert (store.position, store.synced) == (position, 0)
    store.flush()
    store.sync()
    assert store.synced == position


@pytest.mark.parametrize("make", MAKERS)
def test_bytes_are_read_by_address(make: Callable[[], Store]) -> None:
    store = make()
    first = store.append(b"onetwo") + FRAME_HEADER
    second = store.append(b"three") + FRAME_HEADER
    assert store.read(first, 6) == b"onetwo"
    assert store.read(first + 3, 3) == b"two"
    assert store.read(second, 5) == b"three"
    assert store.read(second, 0) == b""
    with pytest.raises(DamagedRecord):
        store.read(second + 500, 9)


@pytest.mark.parametrize("make", MAKERS)
def test_records_come_back_from_the_checkpoint_on(make: Callable[[], Store]) -> None:
    store = make()
    store.append(b"before")
    store.sync()
    position = store.position
    store.checkpoint([b"the ", b"state"], position)
    store.append(b"behind")
    store.sync()
    assert list(make().records()) == []
    if isinstance(store, MemoryStore):
        found = store.recovered
        records = list(store.records())
    else:
        assert isinstance(store, LogStore)
        store.close()
        store = LogStore.open(PATH, store._files, segment_bytes=SEGMENT)
        found = store.recovered
        records = list(store.records())
    assert (found.checkpoint, found.checkpoint_position) == (b"the state", position)
    assert (found.torn_bytes, found.clean) == (0, True)
    assert [(at, bytes(data)) for at, data in records] == [(position, b"behind")]


@pytest.mark.parametrize("make", MAKERS)
def test_dead_segments_go_and_live_ones_stay(make: Callable[[], Store]) -> None:
    store = make()
    places = [store.append(b"%d" % n * 3_000) for n in range(4)]
    store.sync()
    store.checkpoint([b"state"], store.position)
    asked: list[tuple[int, int]] = []

    def live(base: int, end: int) -> bool:
        asked.append((base, end))
        return base <= places[1] < end

    assert store.reclaim(live) > 0
    assert (places[0], places[1]) in asked
    assert bytes(store.read(places[1] + FRAME_HEADER, 3_000)) == b"1" * 3_000
    assert places[0] not in [use.base for use in store.segments()]
    assert places[1] in [use.base for use in store.segments()]
    assert store.disk_bytes() > 0
    assert store.free_bytes() > 0


def test_a_large_record_is_read_in_parts() -> None:
    disk = SimFiles()
    store = _new(disk)
    whole = b"head of it" + bytes(range(256)) * 1_200
    places = [store.append(b"before"), store.append(whole), store.append(b"behind")]

    def judge() -> None:
        edges = [0, 4, 9, 76_800, 2 * 76_800, len(whole) - 5, len(whole)]
        for first in edges:
            for end in edges[edges.index(first) + 1 :]:
                found = store.read(places[1] + FRAME_HEADER + first, end - first)
                assert bytes(found) == whole[first:end]

    judge()
    store.sync()
    judge()
    store.close()
    store = _again(disk)
    assert [bytes(payload) for _, payload in store.records()] == [b"before", whole, b"behind"]
    judge()


def test_reading_does_not_need_the_memory_of_what_was_appended() -> None:
    disk = SimFiles()
    store = _new(disk)
    places = [store.append(b"%d" % n * 1_000) for n in range(10)]
    store.close()
    store = _again(disk)
    assert list(store.records())
    for n, place in enumerate(places):
        assert store.read(place + FRAME_HEADER + 10, 20) == b"%d" % n * 20


def test_reading_a_reclaimed_or_unreadable_place_is_damage() -> None:
    disk = SimFiles()
    store = _new(disk)
    places = [store.append(b"%d" % n * 3_000) for n in range(3)]
    store.sync()
    store.checkpoint([], store.position)
    store.reclaim(lambda base, end: False)
    store.close()
    store = _again(disk)
    with pytest.raises(DamagedRecord, match="any more"):
        store.read(places[0] + FRAME_HEADER, 10)
    with pytest.raises(DamagedRecord):
        store.read(store.position, 1)
    disk.fail_read = lambda path: StorageFailure("reading failed: Input/output error")
    with pytest.raises(DamagedRecord, match="Input/output"):
        store.read(places[2] + FRAME_HEADER, 10)


def test_what_lets_messages_go_is_durable_before_their_bytes_are_gone() -> None:
    """Otherwise the messages stood there again after a power cut, and their bytes did not."""
    disk = SimFiles()
    store = _new(disk)
    for n in range(3):
        store.append(b"%d" % n * 3_000)
    store.sync()
    store.checkpoint([], store.position)
    let_go = store.append(b"nothing of it is needed any more")
    assert store.reclaim(lambda base, end: False) > 0
    store = _again(disk.image(Plan((), ())))
    assert let_go in [position for position, _ in store.records()]


def test_a_file_cut_short_while_it_runs_is_damage() -> None:
    disk = SimFiles()
    store = _new(disk)
    place = store.append(b"x" * 3_000)
    store.close()
    store = _again(disk)
    del disk._inode(store._table[1][0].file).seen[2_000:]
    with pytest.raises(DamagedRecord, match="cut short"):
        store.read(place + FRAME_HEADER, 3_000)


def test_the_store_knows_who_it_is() -> None:
    disk = SimFiles()
    _new(disk).close()
    store = _again(disk)
    assert (store.store_id, store.identity, store.created_s) == (ID, b"who", 7)
    assert store.recovered.checkpoint is None


def test_only_one_at_a_time() -> None:
    disk = SimFiles()
    store = _new(disk)
    with pytest.raises(StoreLocked):
        _again(disk)
    with pytest.raises(StoreLocked):
        _new(disk)
    store.close()
    with pytest.raises(StoreExists):
        _new(disk)
    _again(disk).close()


def test_parts_of_a_store_are_not_overwritten() -> None:
    disk = SimFiles()
    _new(disk).append(b"x")
    disk = disk.kill()
    disk.unlink(f"{PATH}/STORE")
    with pytest.raises(StoreExists, match="empty directory"):
        _new(disk)


def test_a_closed_store_takes_nothing() -> None:
    store = _new()
    store.append(b"x")
    store.close()
    store.close()
    for call in (lambda: store.append(b"y"), store.sync, store.flush, store.prepare):
        with pytest.raises(StorageFailure, match="closed"):
            call()


def test_files_of_others_in_the_directory_are_left_alone() -> None:
    disk = SimFiles()
    _new(disk).close()
    strange = ["onceq.toml", "onceq.toml.new", "log-12.seg", "log-zz.seg.new", "state-1.ckp"]
    for name in strange:
        disk.open(f"{PATH}/{name}", create=True)
    _again(disk).close()
    assert set(strange) <= set(disk.names(PATH))
    assert check(PATH, disk).problem == ""


def test_a_crash_is_not_clean_and_a_torn_tail_is_counted() -> None:
    disk = SimFiles()
    store = _new(disk)
    store.append(b"kept")
    store.sync()
    store.append(b"torn" * 100)
    store.flush()
    image = next(iter(disk.images(1)))
    assert not _again(image).recovered.clean
    killed = disk.kill()
    killed.flip(f"{PATH}/log-{0:016x}.seg", SEGMENT_HEADER + frame_size(4) + 200)
    assert check(PATH, killed).torn_bytes == frame_size(400)
    again = _again(killed)
    assert again.recovered.torn_bytes == frame_size(400)
    assert not again.recovered.clean
    assert again.position == frame_size(4)


def test_who_opens_and_writes_nothing_does_not_make_a_crash_an_orderly_end() -> None:
    disk = SimFiles()
    store = _new(disk)
    store.append(b"kept")
    store.sync()
    killed = disk.kill()
    for _ in range(2):
        again = _again(killed)
        assert not again.recovered.clean
        again.close()
    again = _again(killed)
    again.append(b"more")
    again.close()
    for _ in range(2):
        again = _again(killed)
        assert again.recovered.clean
        again.close()


def test_a_commit_is_one_write_and_one_sync() -> None:
    disk = SimFiles()
    store = _new(disk)
    store.append(b"first")
    store.sync()
    kinds: list[str] = []

    def note(kind: str, number: int) -> None:
        kinds.append(kind)

    disk.fail = note
    for _ in range(5):
        store.append(b"a record")
    store.sync()
    store.sync()
    assert kinds == ["write", "sync"]


def test_a_ready_segment_makes_rolling_cheap() -> None:
    disk = SimFiles()
    store = _new(disk)
    assert store.prepare()
    assert store.prepare()
    assert not store.prepare(), "two are enough"
    kinds: list[str] = []

    def note(kind: str, number: int) -> None:
        kinds.append(kind)

    disk.fail = note
    store.append(b"x")
    store.sync()
    begun = ["rename", "write", "sync", "sync-directory", "write", "sync"]
    assert kinds == [*begun, "write", "sync", "write", "sync"], "the promise is noted twice"
    kinds.clear()
    store.append(b"y")
    store.sync()
    assert kinds == ["write", "sync"], "a commit waits for one sync"


def test_a_checkpoint_may_be_written_while_the_log_goes_on() -> None:
    disk = SimFiles()
    store = _new(disk)
    store.append(b"before")
    store.sync()
    pending = store.checkpoint_begin([b"state"], store.position)
    store.append(b"meanwhile")
    store.sync()
    pending.write()
    store.checkpoint_install(pending)
    store.close()
    again = _again(disk)
    assert again.recovered.checkpoint == b"state"
    assert [bytes(data) for _, data in again.records()] == [b"meanwhile"]


def test_check_tells_what_is_there() -> None:
    disk = SimFiles()
    store = _new(disk)
    store.prepare()
    for n in range(4):
        store.append(b"%d" % n * 1_500)
        store.sync()
    store.checkpoint([b"state"], store.position)
    store.append(b"behind")
    store.sync()
    end = store.position
    store.close()
    report = check(PATH, disk)
    assert (report.records, report.record_bytes) == (5, 6_006)
    assert (report.first_position, report.end_position) == (0, end)
    assert report.checkpoint_bytes == 5
    assert (report.segments, report.ready_segments) == (2, 0)
    assert report.closed
    assert (report.problem, report.torn_bytes, report.store_id) == ("", 0, ID)


@pytest.mark.parametrize("behind", [0, 1])
def test_a_torn_tail_with_packets_is_cut(behind: int) -> None:
    """A record whose packets did not all reach the disk before a crash was promised to nobody;
    and what lies behind it was not either."""
    disk = SimFiles()
    store = _new(disk)
    store.append(b"kept")
    store.sync()
    at = store.append(b"torn" * 100, 40)
    for _ in range(behind):
        store.append(b"behind" * 50, 40)
    store.flush()
    reach = store.position
    killed = disk.kill()
    killed.flip(f"{PATH}/log-{0:016x}.seg", SEGMENT_HEADER + at + FRAME_HEADER + 200)
    assert check(PATH, killed).torn_bytes == reach - at
    again = _again(killed)
    assert again.recovered.torn_bytes == reach - at
    assert again.recovered.damaged == ()
    assert again.position == at
    again.append(b"other" * 80, 40)
    again.sync()
    again.close()
    assert check(PATH, killed).problem == ""
    (_, first), (_, second) = _again(killed).records()
    assert (bytes(first), bytes(second)) == (b"kept", b"other" * 80)


def test_packets_that_were_promised_are_damage_and_the_log_goes_on() -> None:
    disk = SimFiles()
    store = _new(disk)
    at = store.append(b"damaged" * 100, 40)
    store.sync()
    store.append(b"behind")
    store.sync()
    end = store.position
    store.abandon()
    image = disk.kill()
    path = f"{PATH}/log-{0:016x}.seg"
    image.flip(path, SEGMENT_HEADER + at + FRAME_HEADER + 200)
    report = check(PATH, image)
    assert "is damaged at byte" in report.problem
    assert not report.refused
    again = _again(image)
    (piece,) = again.recovered.damaged
    assert (piece.path, piece.address) == (path, at + FRAME_HEADER + 40)
    assert at + FRAME_HEADER + 200 in piece.span
    assert (again.position, again.recovered.torn_bytes) == (end, 0)
    assert len(list(again.records())) == 2
    assert next(again.replay(0, end)).damaged == ((piece.address, piece.size),)


def test_a_store_of_format_two_becomes_one_of_the_present_before_it_is_written() -> None:
    disk = SimFiles()
    store = _new(disk)
    store.append(b"old")
    store.close()
    who = identification.read_identification(disk, PATH)
    identification.write_identification(disk, PATH, replace(who, version=2))
    _again(disk).abandon()
    assert identification.read_identification(disk, PATH).version == identification.FORMAT
