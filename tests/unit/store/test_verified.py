"""What is read from a file of the log is what was written, or it is refused by place (I23)."""

from __future__ import annotations

import pytest

from onceq.errors import DamagedRecord, StorageFailure
from onceq.model.log import (
    BLOCK_BYTES,
    FRAME_HEADER,
    LARGE_BLOCK_BYTES,
    LARGE_RECORD_BYTES,
    frame_size,
)
from onceq.store.log import LogStore
from onceq.store.recovery import check
from onceq.store.scan import SEGMENT_HEADER
from onceq.store.verified import AHEAD_BYTES
from onceq.testing.disk import SimFiles
from tests.unit.store import format_one, format_three

PATH = "/store"
SEGMENT = 128 << 10
SIZES = (100, 20_000, 3, BLOCK_BYTES, BLOCK_BYTES + 1, 5 * BLOCK_BYTES - 7, 900)
PLAIN = (0,) * len(SIZES)
HEADS = (20, 5_000, 1, 0, 60, 2 * BLOCK_BYTES, 899)
"""What comes before the packets of these records."""


def _data(n: int, size: int) -> bytes:
    return bytes((n * 7 + at * 13 + at // 256) & 0xFF for at in range(size))


def _cold(
    heads: tuple[int, ...] = PLAIN, sizes: tuple[int, ...] = SIZES, segment_bytes: int = SEGMENT
) -> tuple[SimFiles, LogStore, list[tuple[int, bytes]]]:
    """A store in whose memory nothing is, and address and bytes of its records."""
    disk = SimFiles()
    store = LogStore.create(PATH, disk, store_id=b"S" * 16, segment_bytes=segment_bytes)
    places = []
    for n, size in enumerate(sizes):
        data = _data(n, size)
        places.append((store.append(data, heads[n]) + FRAME_HEADER, data))
    store.sync()
    store.checkpoint([b"state"], store.position)
    store.abandon()
    return disk, _again(disk), places


def _again(disk: SimFiles) -> LogStore:
    return LogStore.open(PATH, disk.kill(), segment_bytes=SEGMENT)


def _flip(disk: SimFiles, address: int, mask: int = 1) -> None:
    disk.flip(f"{PATH}/log-{0:016x}.seg", SEGMENT_HEADER + address, mask)


@pytest.mark.parametrize("heads", [PLAIN, HEADS])
def test_every_part_of_every_record_is_read_back(heads: tuple[int, ...]) -> None:
    _, store, places = _cold(heads)
    for address, data in places:
        for start in range(0, len(data), 997):
            for size in (0, 1, 50, 4_096, 9_000):
                want = data[start : start + size]
                assert bytes(store.read(address + start, len(want))) == want


def test_small_parts_in_order_are_read_from_the_disk_once() -> None:
    """Messages of a large record are received one at a time: their blocks are verified once."""
    disk, _, places = _cold()
    files, reads = disk.kill(), 0
    store = LogStore.open(PATH, files, segment_bytes=SEGMENT)
    address, data = places[1]
    assert bytes(store.read(address, 10)) == data[:10]

    def counted(path: str) -> None:
        nonlocal reads
        reads += 1

    files.fail_read = counted
    for start in range(10, len(data), 100):
        size = min(100, len(data) - start)
        assert bytes(store.read(address + start, size)) == data[start : start + size]
    assert reads == 1


def test_small_parts_of_two_places_in_turn_are_read_from_the_disk_once() -> None:
    """As packets in two parts are: their fronts lie one after another, their rests with gaps."""
    disk, _, places = _cold()
    files, reads = disk.kill(), 0
    store = LogStore.open(PATH, files, segment_bytes=SEGMENT)
    address, data = places[1]
    half = len(data) // 2
    assert bytes(store.read(address, 10)) == data[:10]
    assert bytes(store.read(address + half, 10)) == data[half : half + 10]

    def counted(path: str) -> None:
        nonlocal reads
        reads += 1

    files.fail_read = counted
    for front, rest in zip(
        range(10, half - 20, 20), range(half, len(data) - 200, 300), strict=False
    ):
        for start, size in ((front, 20), (rest + 100, 100)):
            assert bytes(store.read(address + start, size)) == data[start : start + size]
    assert reads <= 2


def test_an_altered_byte_costs_one_block_of_a_large_record() -> None:
    disk, _, places = _cold()
    address, data = places[1]
    _flip(disk, address + 9_000)
    store = _again(disk)
    block = 9_000 // BLOCK_BYTES
    for start in range(0, len(data), 100):
        size = min(100, len(data) - start)
        touched = {start // BLOCK_BYTES, (start + size - 1) // BLOCK_BYTES}
        if block in touched:
            with pytest.raises(DamagedRecord) as error:
                store.read(address + start, size)
            (piece,) = error.value.pieces
            assert piece.address == address + block * BLOCK_BYTES
            assert piece.size == BLOCK_BYTES
            assert piece.path == f"{PATH}/log-{0:016x}.seg"
            assert piece.offset == SEGMENT_HEADER + piece.address
        else:
            assert bytes(store.read(address + start, size)) == data[start : start + size]
    for other, data in places[:1] + places[2:]:
        assert bytes(store.read(other, len(data))) == data


@pytest.mark.tier("rest")
@pytest.mark.slow
@pytest.mark.parametrize("heads", [PLAIN, HEADS])
@pytest.mark.parametrize("mask", [0x80, 0xFF])
def test_no_altered_byte_is_handed_out(mask: int, heads: tuple[int, ...]) -> None:
    """Anywhere in the frames: what is read is right, or refused; and other records are right."""
    disk, _, places = _cold(heads)
    end = places[-1][0] + len(places[-1][1])
    for at in range(0, end, 31):
        _flip(disk, at, mask)
        store = _again(disk)
        wrong = 0
        for (address, data), head in zip(places, heads, strict=True):
            begin = address - FRAME_HEADER
            inside = begin <= at < begin + frame_size(len(data), head)
            try:
                assert bytes(store.read(address, len(data))) == data, at
            except DamagedRecord:
                wrong += 1
                assert inside, f"byte {at} cost the record at {begin}"
        _flip(disk, at, mask)
        store.abandon()


def test_a_block_at_a_wrong_place_is_wrong() -> None:
    """Two blocks exchanged by the disk: each has a right checksum, but not there."""
    disk, _, places = _cold()
    address, _ = places[1]
    path = f"{PATH}/log-{0:016x}.seg"
    at = SEGMENT_HEADER + address
    contents = disk.contents(path)
    one, two = contents[at : at + BLOCK_BYTES], contents[at + BLOCK_BYTES : at + 2 * BLOCK_BYTES]
    disk.write(disk.open(path), at, [two, one])
    store = _again(disk)
    with pytest.raises(DamagedRecord):
        store.read(address, 10)
    with pytest.raises(DamagedRecord):
        store.read(address + BLOCK_BYTES, 10)


def test_a_header_that_reaches_too_far_costs_its_own_record_only() -> None:
    """The size in a header is altered so that the next records would seem to be parts of it."""
    disk, _, places = _cold()
    for index in (0, 1, 3):
        address, _ = places[index]
        for byte in (4, 5, 6):
            _flip(disk, address - FRAME_HEADER + byte, 0x20)
            store = _again(disk)
            for other, data in places[index + 1 :]:
                assert bytes(store.read(other, len(data))) == data
            _flip(disk, address - FRAME_HEADER + byte, 0x20)


def test_a_block_that_cannot_be_read_is_damaged_and_others_are_not() -> None:
    disk, _, places = _cold()
    address, data = places[1]
    copy = disk.kill()
    store = LogStore.open(PATH, copy, segment_bytes=SEGMENT)
    bad = SEGMENT_HEADER + address + 2 * BLOCK_BYTES
    real = copy.read

    def read(file: int, offset: int, size: int) -> bytes:
        if offset < bad + 512 and offset + size > bad:
            raise StorageFailure("reading failed: Input/output error")
        return real(file, offset, size)

    copy.read = read  # type: ignore[method-assign]
    with pytest.raises(DamagedRecord) as error:
        store.read(address, len(data))
    assert [piece.address for piece in error.value.pieces] == [address + 2 * BLOCK_BYTES]
    assert bytes(store.read(address, BLOCK_BYTES)) == data[:BLOCK_BYTES]


def test_a_store_of_format_one_is_read_and_verified() -> None:
    disk, places = format_one.store(PATH, SIZES, SEGMENT)
    store = LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    address, data = places[1]
    found = [bytes(store.read(a, len(d))) for a, d in places]
    assert found == [d for _, d in places]
    more = store.append(b"new" * 4_000) + FRAME_HEADER
    store.sync()
    store.close()
    again = LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    assert bytes(again.read(more, 12_000)) == b"new" * 4_000
    assert bytes(again.read(address + 100, 50)) == data[100:150]
    assert check(PATH, disk).problem == ""


def test_a_damaged_record_of_format_one_is_noticed() -> None:
    disk, places = format_one.store(PATH, SIZES, SEGMENT, covered=True)
    address, data = places[1]
    _flip(disk, address + 9_000)
    store = LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    with pytest.raises(DamagedRecord) as error:
        store.read(address, 10)
    assert error.value.pieces[0].size == len(data)
    assert bytes(store.read(places[2][0], 3)) == places[2][1]


def test_a_check_names_every_damaged_piece_before_the_checkpoint() -> None:
    disk, _, places = _cold()
    for index, at in ((0, 5), (1, 100), (1, 9_000), (5, 0)):
        _flip(disk, places[index][0] + at)
    report = check(PATH, disk)
    assert "damaged" in report.problem
    assert not report.refused
    assert [piece.address for piece in report.damaged] == [
        places[0][0], places[1][0], places[1][0] + 2 * BLOCK_BYTES, places[5][0],
    ]  # fmt: skip
    assert report.records == len(SIZES) - 3


def test_an_altered_packet_costs_what_lies_in_its_block_behind_the_head() -> None:
    """Read in parts that begin behind the head, in any order: no more than one block is lost."""
    for index, at in ((0, 50), (1, 5_100), (1, 13_000), (5, 2 * BLOCK_BYTES), (6, 899)):
        disk, _, places = _cold(HEADS)
        address, data = places[index]
        _flip(disk, address + at)
        store = _again(disk)
        lost = 0
        for start in [*range(HEADS[index], len(data), 100), HEADS[index]]:
            size = min(100, len(data) - start)
            near = {start // BLOCK_BYTES, (start + size - 1) // BLOCK_BYTES}
            try:
                found = bytes(store.read(address + start, size))
            except DamagedRecord as error:
                lost += 1
                assert at // BLOCK_BYTES in near
                (piece,) = error.pieces
                assert address + at in piece.span
                assert piece.address >= address + HEADS[index]
            else:
                assert found == data[start : start + size]
        assert lost
        report = check(PATH, disk)
        assert [address + at in piece.span for piece in report.damaged] == [True]
        assert not report.refused
        assert report.records == len(SIZES) - 1
        store.abandon()


# ---- large records -------------------------------------------------------------------------------

LARGE = (900, LARGE_RECORD_BYTES + 70_001, 500)
LARGE_HEADS = (20, LARGE_BLOCK_BYTES + 9_000, 1)


@pytest.mark.parametrize("behind", [0, 5_000, LARGE_BLOCK_BYTES - 1, 250_000, 280_000])
def test_an_altered_byte_costs_one_block_of_the_large_ones(behind: int) -> None:
    """A large record has larger blocks; of its packets no more than one of them is lost."""
    disk, _, places = _cold(LARGE_HEADS, LARGE, 1 << 20)
    address, data = places[1]
    head = LARGE_HEADS[1]
    at = head + behind
    _flip(disk, address + at)
    store = _again(disk)
    lost = 0
    for start in range(head, len(data), 1_000):
        part = data[start : start + 1_000]
        try:
            assert bytes(store.read(address + start, len(part))) == part
        except DamagedRecord as error:
            (piece,) = error.pieces
            assert address + at in piece.span
            assert piece.size <= LARGE_BLOCK_BYTES
            lost += len(part)
    assert 0 < lost <= LARGE_BLOCK_BYTES + 2 * 1_000
    for other, whole in (places[0], places[2]):
        assert bytes(store.read(other, len(whole))) == whole
    report = check(PATH, disk)
    assert not report.refused
    assert [address + at in piece.span for piece in report.damaged] == [True]


@pytest.mark.tier("rest")
@pytest.mark.parametrize("size", [1_000, 40_000, 107_000, 200_000, 400_000])
def test_parts_of_one_size_are_read_from_the_disk_once(size: int) -> None:
    """All but the blocks in which what is read ahead ends."""
    parts = 3_000_000 // size
    disk, _, places = _cold((60, 60), (parts * size + 60, 10_000))
    files, read = disk.kill(), 0
    store = LogStore.open(PATH, files, segment_bytes=SEGMENT)
    real = files.read

    def counted(file: int, offset: int, size: int) -> bytes:
        nonlocal read
        read += size
        return real(file, offset, size)

    files.read = counted  # type: ignore[method-assign]
    address, data = places[0]
    for start in range(60, len(data), size):
        assert bytes(store.read(address + start, size)) == data[start : start + size]
    at_once = max(AHEAD_BYTES // size, 1) * size
    reads = 3_000_000 // at_once + 3
    assert read <= len(data) + reads * 2 * LARGE_BLOCK_BYTES


# ---- as format 3 wrote them ----------------------------------------------------------------------

THREE = ((900, 20), (LARGE_RECORD_BYTES + 70_001, 9_000), (500, 1))


@pytest.mark.parametrize("covered", [False, True], ids=["behind", "before the checkpoint"])
def test_a_store_of_format_three_goes_on(covered: bool) -> None:
    """Its large records keep their blocks of 4 KiB; those that come have the larger ones."""
    disk, places = format_three.store(PATH, THREE, covered=covered)
    store = LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    assert [bytes(store.read(a, len(d))) for a, d in places] == [d for _, d in places]
    more = _data(9, LARGE_RECORD_BYTES)
    place = store.append(more, 60) + FRAME_HEADER
    store.sync()
    store.close()
    again = LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    assert bytes(again.read(place, len(more))) == more
    assert [bytes(again.read(a, len(d))) for a, d in places] == [d for _, d in places]
    assert len(list(again.records())) == (1 if covered else len(THREE) + 1)
    report = check(PATH, disk)
    assert (report.problem, report.records) == ("", len(THREE) + 1)


@pytest.mark.parametrize("covered", [False, True], ids=["behind", "before the checkpoint"])
def test_an_altered_byte_of_format_three_costs_4_kib(covered: bool) -> None:
    disk, places = format_three.store(PATH, THREE, covered=covered)
    address, data = places[1]
    _flip(disk, address + 200_000)
    store = LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    found = store.recovered.damaged if not covered else check(PATH, disk).damaged
    block = address + 200_000 // 4_096 * 4_096
    assert [(piece.address, piece.size) for piece in found] == [(block, 4_096)]
    with pytest.raises(DamagedRecord):
        store.read(address + 200_000, 10)
    assert bytes(store.read(block + 4_096, 50)) == data[block + 4_096 - address :][:50]


def test_a_segment_that_is_given_back_during_a_look_is_not_damaged() -> None:
    """A scrub looks in another thread, and the file of a segment may be closed meanwhile."""
    _, store, _ = _cold(sizes=(100, 50_000, 60_000, 60_000))
    assert len(store.segments()) > 1
    reads: list[str] = []

    def closed(path: str) -> StorageFailure | None:
        reads.append(path)
        if len(reads) != 2:  # the first one finds the header
            return None
        assert store.reclaim(lambda base, end: False)
        return StorageFailure("bad file descriptor")

    store._files.fail_read = closed  # type: ignore[attr-defined]
    assert store.verify(0, store.synced, 1).damaged == []
