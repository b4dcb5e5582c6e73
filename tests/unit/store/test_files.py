"""The store on the real file system: modes, locks, large and many pieces, threads."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from onceq.errors import (
    DamagedRecord,
    NoSpace,
    NotAStore,
    StorageFailure,
    StoreExists,
    StoreLocked,
    SyncFailed,
)
from onceq.model.log import FRAME_HEADER
from onceq.store.files import IOV_MAX, RealFiles
from onceq.store.log import LogStore
from onceq.store.recovery import check

SEGMENT = 1 << 16
ID = b"S" * 16


def _new(path: Path, *, aside: bool = False) -> LogStore:
    return LogStore.create(
        str(path), RealFiles(), store_id=ID, identity=b"me", segment_bytes=SEGMENT, aside=aside
    )


def _again(path: Path) -> LogStore:
    return LogStore.open(str(path), RealFiles(), segment_bytes=SEGMENT)


def test_a_life(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "store"
    store = _new(path)
    places = [(store.append(b"%d" % n * 9_000), b"%d" % n * 9_000) for n in range(30)]
    store.sync()
    store.checkpoint([b"state" * 1000], store.position)
    assert store.reclaim(lambda base, end: base == 0) > 0
    store.append(b"behind")
    store.append(b"large" * SEGMENT)
    store.close()
    assert check(str(path), RealFiles()).problem == ""
    store = _again(path)
    assert store.recovered.clean
    assert store.recovered.checkpoint == b"state" * 1000
    assert [bytes(data) for _, data in store.records()] == [b"behind", b"large" * SEGMENT]
    position, data = places[0]
    assert store.read(position + FRAME_HEADER, len(data)) == data
    store.close()


def test_only_the_owner_may_look(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = _new(tmp_path / "store")
        store.prepare()
        store.append(b"x")
        store.sync()
        store.checkpoint([b"state"], store.position)
        store.close()
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700
    names = sorted(path.name for path in (tmp_path / "store").iterdir())
    assert {"STORE", "LOCK", "CLOSED"} <= set(names)
    assert len(names) >= 5
    for path in (tmp_path / "store").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


OTHER = """
import sys
from onceq.errors import OnceqError
from onceq.store.files import RealFiles
from onceq.store.log import LogStore
try:
    LogStore.open(sys.argv[1], RealFiles(), segment_bytes=1 << 16).close()
except OnceqError as error:
    print(error.code, error.text)
else:
    print("opened")
"""


def _other_process(path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", OTHER, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return done.stdout


@pytest.mark.slow
def test_a_second_process_is_told_who_holds_it(tmp_path: Path) -> None:
    store = _new(tmp_path / "store")
    said = _other_process(tmp_path / "store")
    assert said.startswith("store-locked")
    assert f"process {os.getpid()} " in said
    with pytest.raises(StoreLocked):
        _again(tmp_path / "store")
    store.close()
    assert _other_process(tmp_path / "store") == "opened\n"


def test_what_is_not_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAStore):
        _again(tmp_path)
    with pytest.raises(NotAStore):
        _again(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == [], "looking must not leave anything"
    _new(tmp_path / "store").close()
    with pytest.raises(StoreExists):
        _new(tmp_path / "store")
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(StorageFailure):
        _new(tmp_path / "file" / "store")


def test_more_pieces_than_one_call_takes(tmp_path: Path) -> None:
    files = RealFiles()
    file = files.open(str(tmp_path / "file"), create=True)
    pieces = [b"%04d" % n for n in range(2 * IOV_MAX + 7)]
    files.write(file, 10, pieces)
    files.sync(file)
    assert files.read(file, 10, 10**6) == b"".join(pieces)
    assert files.read(file, 10**6, 5) == b""
    assert files.size(file) == 10 + 4 * len(pieces)
    files.close(file)


def test_short_writes_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write, real_vector = os.pwrite, os.pwritev
    monkeypatch.setattr(os, "pwrite", lambda f, data, at: real_write(f, data[:3], at))
    monkeypatch.setattr(os, "pwritev", lambda f, pieces, at: real_vector(f, [pieces[0][:2]], at))
    files = RealFiles()
    file = files.open(str(tmp_path / "file"), create=True)
    files.write(file, 0, [b"hello", b", ", b"world"])
    assert files.read(file, 0, 100) == b"hello, world"


def test_short_reads_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = RealFiles()
    file = files.open(str(tmp_path / "file"), create=True)
    files.write(file, 0, [b"hello, world"])
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda f, size, at: real(f, min(size, 5), at))
    assert files.read(file, 0, 12) == b"hello, world"
    assert files.read(file, 7, 100) == b"world"


@pytest.mark.parametrize(
    ("call", "number", "error"),
    [
        ("pwritev", 28, NoSpace),
        ("pwritev", 122, NoSpace),
        ("pwritev", 5, StorageFailure),
        ("fdatasync", 5, SyncFailed),
        ("fdatasync", 28, SyncFailed),
        ("fsync", 5, SyncFailed),
    ],
)
def test_errors_of_the_system_have_names(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    number: int,
    error: type[StorageFailure],
) -> None:
    store = _new(tmp_path / "store")

    def fail(*args: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(error) as raised:
        _append_and_sync(store)
    monkeypatch.undo()
    with pytest.raises(error):
        store.sync()
    assert raised.value.text
    store.close()
    _again(tmp_path / "store").close()


def _append_and_sync(store: LogStore) -> None:
    store.append(b"x")
    store.sync()


def test_a_read_that_fails_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _new(tmp_path / "store")
    place = store.append(b"x" * 100)
    store.close()
    store = _again(tmp_path / "store")

    def fail(*args: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(DamagedRecord, match="Input/output error"):
        store.read(place + FRAME_HEADER, 100)
    store.close()


@pytest.mark.slow
def test_segments_are_prepared_aside(tmp_path: Path) -> None:
    store = _new(tmp_path / "store", aside=True)
    for n in range(60):
        store.append(b"%d" % (n % 10) * 20_000)
        store.sync()
        if n % 20 == 19:
            store.checkpoint([b"state"], store.position)
            store.reclaim(lambda base, end: False)
    thread = store._preparing._thread
    assert thread is not None
    thread.join()
    assert len(store._pool) >= 2
    store.close()
    again = _again(tmp_path / "store")
    assert again.recovered.clean
    again.close()


def test_a_failure_aside_ends_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _new(tmp_path / "store", aside=True)

    def fail(file: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    store.prepare()
    thread = store._preparing._thread
    assert thread is not None
    thread.join()
    monkeypatch.undo()
    with pytest.raises(SyncFailed):
        store.append(b"x")
    store.close()
