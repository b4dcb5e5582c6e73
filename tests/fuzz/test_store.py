"""Bytes that no store has written: read, or refused with a declared error; never anything else."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceq.errors import DamagedRecord, NewerFormat, NotAStore, StorageFailure
from onceq.model.log import FRAME_HEADER, frame_size
from onceq.store import checkpoints, identification, promises
from onceq.store.framing import Framing
from onceq.store.log import LogStore
from onceq.store.recovery import check
from onceq.testing.disk import SimFiles
from proof.sim.base.scale import PRODUCT, Scale, put_in
from tests.crash.life import Life, head_for
from tests.crash.scenarios import random_life

PATH = "/store"
ID = b"S" * 16
FRAMING = Framing(ID)
SEGMENT = 4096
DECLARED = (DamagedRecord, NewerFormat, NotAStore)
EDGES = st.sampled_from([0, 1, 2**20, 2**30, 2**30 + 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1])


@given(data=st.binary(max_size=400), at=st.integers(0, 400), position=st.integers(0, 2**64 - 1))
def test_no_bytes_upset_a_frame(data: bytes, at: int, position: int) -> None:
    frame = FRAMING.parse(data, at, position=position)
    assert frame is None, "a frame by chance"
    end, _ = FRAMING.claim(data, at, position=position)
    assert end >= position


@given(
    sizes=st.lists(st.integers(0, 60), max_size=6),
    noise=st.binary(max_size=60),
    size=EDGES,
    synced=EDGES,
)
def test_frames_among_noise_are_found(
    sizes: list[int], noise: bytes, size: int, synced: int
) -> None:
    """Headers with any sizes between them do not lead the search astray."""
    data, wanted = bytearray(), []
    for payload in sizes:
        position = len(data)
        wanted.append(position)
        frame = FRAMING.encode(b"p" * payload, position=position, synced=0, epoch=1)
        data += b"".join(frame)
        data += noise + bytes(-len(noise) % 8)
        lie = (position ^ FRAMING._mask).to_bytes(8, "little")
        data += (size & 0xFFFFFFFF).to_bytes(4, "little") * 2 + lie
        data += synced.to_bytes(8, "little") + bytes(8)
    found = FRAMING.find(bytes(data), 0, offset=0).frames
    assert [frame.position for frame in found] == wanted


def test_search_looks_at_each_place_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linear in the bytes: also where every place looks like the beginning of a frame."""
    looked: list[int] = []
    real = Framing.sound

    def sound(self: Framing, data: bytes, at: int, *, position: int) -> object:
        looked.append(at)
        return real(self, data, at, position=position)

    monkeypatch.setattr(Framing, "sound", sound)
    data = b"".join(
        bytes(8) + (at ^ FRAMING._mask).to_bytes(8, "little") for at in range(0, 80_000, 16)
    )
    assert FRAMING.find(data, 0, offset=0).frames == []
    assert len(looked) == len(set(looked)) == 5_000


@given(data=st.binary(max_size=300))
def test_no_bytes_upset_the_small_files(data: bytes) -> None:
    disk = SimFiles()
    for name in ("STORE", "CLOSED", checkpoints.name_of(8)):
        disk.write(disk.open(f"{PATH}/{name}", create=True), 0, [data])
    with pytest.raises(DECLARED):
        identification.read_identification(disk, PATH)
    assert identification.read_closed(disk, PATH, ID) == identification.OrderlyClose()
    with pytest.raises(DECLARED):
        checkpoints.newest(disk, PATH, ID)


@given(data=st.binary(max_size=1_600), good=st.booleans())
def test_no_bytes_upset_the_promise(data: bytes, good: bool) -> None:
    """PROMISED and KEPT: a promise that was made, or a declared error; never anything else."""
    disk = SimFiles()
    promise = promises.StorePromise(800, 64, 4096, 40)
    promises.write_promised(disk, PATH, ID, promise)
    promises.write_kept(disk, PATH, ID, 40, [(0, 8)])
    offset = promises.SLOT_BYTES if good else 0
    for name in (promises.PROMISED_FILE, promises.KEPT_FILE):
        disk.write(disk.open(f"{PATH}/{name}"), offset, [data])
    try:
        found = promises.read_promised(disk, PATH, ID)
    except DECLARED:
        assert not good
    else:
        assert found == promise
    try:
        kept = promises.read_kept(disk, PATH, ID, checkpoints.CheckpointHead(40, 1, ()))
    except DECLARED:
        return
    assert kept == ((0, 8),)


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 12_000), min_size=1, max_size=5),
    at=st.integers(0, 60_000),
    mask=st.integers(1, 255),
    scale=st.sampled_from([PRODUCT, Scale(LARGE_RECORD_BYTES=3_000, LARGE_BLOCK_BYTES=512)]),
    data=st.data(),
)
def test_what_is_read_is_right_or_refused(
    sizes: list[int], at: int, mask: int, scale: Scale, data: st.DataObject
) -> None:
    """One byte altered anywhere in a segment, and any part of any record asked for; in every second
    example records are large from few bytes on."""
    with put_in(scale):
        _read_or_refused(sizes, at, mask, data)


def _read_or_refused(sizes: list[int], at: int, mask: int, data: st.DataObject) -> None:
    disk = SimFiles()
    store = LogStore.create(PATH, disk, store_id=ID, segment_bytes=65_536)
    records = [Random(n).randbytes(size) for n, size in enumerate(sizes)]
    places = [store.append(record, head_for(record)) + FRAME_HEADER for record in records]
    store.sync()
    store.checkpoint([b"state"], store.position)
    store.abandon()
    disk.flip(f"{PATH}/log-{0:016x}.seg", 64 + at, mask)
    again = LogStore.open(PATH, disk.kill(), segment_bytes=65_536)
    for place, record in zip(places, records, strict=True):
        start = data.draw(st.integers(0, len(record)))
        end = data.draw(st.integers(start, len(record)))
        inside = (
            place - FRAME_HEADER
            <= at
            < place - FRAME_HEADER + frame_size(len(record), head_for(record))
        )
        try:
            assert again.read(place + start, end - start) == record[start:end]
        except DamagedRecord:
            assert inside, "another record pays for it"
    again.close()


@given(position=EDGES, epoch=EDGES, size=EDGES, chunk=EDGES, count=EDGES)
def test_a_checkpoint_head_may_say_anything(
    position: int, epoch: int, size: int, chunk: int, count: int
) -> None:
    """Even with a right checksum: nothing is allocated by a number that was read."""
    import struct
    import zlib

    head = struct.pack(
        "<8sI16sQQQII", b"onceq\0ck", 1, ID, position, epoch, size, chunk & 0xFFFFFFFF,
        count & 0xFFFFFFFF,
    )  # fmt: skip
    disk = SimFiles()
    file = disk.open(f"{PATH}/{checkpoints.name_of(position)}", create=True)
    disk.write(file, 0, [head, zlib.crc32(head).to_bytes(4, "little")])
    try:
        found, state = checkpoints.newest(disk, PATH, ID)
    except DECLARED:
        return
    assert (found.position, size, state) == (position, 0, b"")


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10_000), data=st.data())
def test_a_mangled_store_is_opened_or_refused(seed: int, data: st.DataObject) -> None:
    """Parts zeroed, moved, cut off, files exchanged: a prefix of what was there, or an error."""
    life = Life(SimFiles())
    random_life(life, Random(seed))
    if life.store is not None:
        life.store.close()
    disk = life.files.kill()
    names = [name for name in disk.names(PATH) if name != "LOCK"]
    for _ in range(data.draw(st.integers(1, 3))):
        _mangle(disk, data, names)
    try:
        report = check(PATH, disk)
        store = LogStore.open(PATH, disk, segment_bytes=SEGMENT)
    except (*DECLARED, StorageFailure):
        return
    known = set(life.states.values()) | {None}
    assert store.recovered.checkpoint in known
    appended = dict(life.appended)
    covered = store.recovered.checkpoint_position
    records = [(position, bytes(payload)) for position, payload in store.records()]
    damaged = {at for piece in store.recovered.damaged for at in piece.span}
    for position, payload in records:
        for at, (one, other) in enumerate(
            zip(payload, appended[position], strict=True), position + FRAME_HEADER
        ):
            assert one == other or at in damaged, "a record of nobody"
    at = covered
    for position, payload in records:
        assert position == at
        at += frame_size(len(payload), head_for(payload))
    assert report.problem or report.end_position == store.position
    store.close()


def _mangle(disk: SimFiles, data: st.DataObject, names: list[str]) -> None:
    path = f"{PATH}/{data.draw(st.sampled_from(names))}"
    if not disk.exists(path):
        return
    size = len(disk.contents(path))
    how = data.draw(st.sampled_from(["zero", "noise", "cut", "move", "remove", "exchange"]))
    at = data.draw(st.integers(0, size))
    if how == "remove":
        disk.unlink(path)
    elif how == "exchange":
        other = f"{PATH}/{data.draw(st.sampled_from(names))}"
        if disk.exists(other) and other != path:
            disk.rename(other, path)
    elif how == "cut":
        contents = disk.contents(path)[:at]
        disk.unlink(path)
        disk.write(disk.open(path, create=True), 0, [contents])
    else:
        length = data.draw(st.integers(1, 2 * FRAME_HEADER))
        piece = {"zero": bytes(length), "noise": Random(at).randbytes(length)}.get(how)
        if piece is None:
            start = data.draw(st.integers(0, size))
            piece = disk.contents(path)[start : start + length]
        disk.write(disk.open(path), at, [piece])
