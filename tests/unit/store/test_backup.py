"""A backup on the simulated disk: what is in it, what it refuses, and how damage is noticed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from onceq.errors import (
    ConfigurationError,
    DamagedRecord,
    NewerFormat,
    NoSpace,
    NotABackup,
    NotAStore,
    StorageFailure,
)
from onceq.model.views.managers import StoreCut
from onceq.store import backup
from onceq.store.backup import Backup, cut_of_stopped, verify_files
from onceq.store.identification import Entry, Manifest, decode, encode, read_manifest
from onceq.store.log import LogStore
from onceq.testing.disk import SimFiles

STORE, TO = "/store", "/backup"
SEGMENT = 4096


def store_with(files: SimFiles, records: int = 60) -> LogStore:
    """A store of several segments, with a checkpoint, of which the first segments are gone."""
    store = LogStore.create(STORE, files, store_id=b"S" * 16, identity=b"me", segment_bytes=SEGMENT)
    for number in range(records):
        store.append(b"%d " % number * 100)
        store.sync()
        if number == records // 3:
            store.checkpoint([b"the state"], store.position)
            store.reclaim(lambda base, end: False)
    return store


def made(files: SimFiles, cut: StoreCut, to: str = TO) -> Manifest:
    making = Backup(files, cut, to, beside=("onceq.toml",))
    while making.step():
        pass
    assert making.done == making.bytes
    return making.finish(manager="ALPHA", id="some-guid", taken_s=77, made_by="0.1.0")


def contents(files: SimFiles, path: str) -> list[tuple[int, bytes]]:
    """The records of a backup or a store behind its checkpoint, without starting it."""
    copy = next(iter(files.images(1)))
    for name in ("BACKUP.json", "BACKUP.unfinished"):
        if copy.exists(f"{path}/{name}"):
            copy.unlink(f"{path}/{name}")
    store = LogStore.open(path, copy, segment_bytes=SEGMENT)
    found = [(at, bytes(payload)) for at, payload in store.records()]
    store.abandon()
    return found


def test_a_backup_is_the_store_as_of_its_position_whatever_happens_meanwhile() -> None:
    files = SimFiles()
    store = store_with(files)
    cut = store.hold()
    expected = [(at, bytes(raw)) for at, raw, _ in store.replay(cut.checkpoint, cut.position)]
    assert len(expected) == 39
    making = Backup(files, cut, TO)
    while making.step():
        # The log goes on, rolls over, is covered and given back, and files are used again.
        for _ in range(20):
            store.append(b"later " * 100)
            store.sync()
        store.checkpoint([b"a later state"], store.position)
        store.reclaim(lambda base, end: False)
    store.release()
    manifest = making.finish(manager="ALPHA", id="some-guid", taken_s=77, made_by="0.1.0")
    assert manifest.position == cut.position
    assert contents(files, TO) == expected
    assert read_manifest(files, TO) == manifest
    assert "BACKUP.unfinished" not in files.names(TO)


def test_what_was_held_goes_when_it_is_let_go() -> None:
    files = SimFiles()
    store = store_with(files)
    before = len(store.segments())
    store.hold()
    store.checkpoint([b"new"], store.position)
    assert store.reclaim(lambda base, end: False) == 0
    checkpoints = [name for name in files.names(STORE) if name.endswith(".ckp")]
    assert len(checkpoints) == 2, "the one that is held, and the newest"
    store.release()
    assert store.reclaim(lambda base, end: False) > 0
    assert len(store.segments()) < before
    store.append(b"more")
    store.sync()
    store.checkpoint([b"newer"], store.position)
    assert len([name for name in files.names(STORE) if name.endswith(".ckp")]) == 1


def test_a_stopped_store_is_copied_with_its_configuration_and_left_as_it_is() -> None:
    files = SimFiles()
    store = store_with(files)
    store.close()
    backup.write_file(files, STORE, "onceq.toml", b"name = 'ALPHA'\n")
    before = {name: files.contents(f"{STORE}/{name}") for name in files.names(STORE)}
    manifest = made(files, cut_of_stopped(files, STORE))
    assert {name: files.contents(f"{STORE}/{name}") for name in files.names(STORE)} == before
    assert {"onceq.toml", "STORE", "CLOSED"} <= {entry.name for entry in manifest.files}
    assert contents(files, TO) == contents(files, STORE)


def test_an_empty_store_has_a_backup_too() -> None:
    files = SimFiles()
    store = LogStore.create(STORE, files, store_id=b"S" * 16, segment_bytes=SEGMENT)
    made(files, store.hold())
    assert contents(files, TO) == []


def test_records_that_are_not_in_the_cut_are_not_in_the_backup() -> None:
    files = SimFiles()
    store = store_with(files, 5)
    cut = store.hold()
    store.append(b"too late")
    store.sync()
    made(files, cut)
    name = f"{TO}/log-{store.segments()[-1].base:016x}.seg"
    assert b"too late" not in files.contents(name)
    assert len(files.contents(name)) == SEGMENT, "a segment has its size"


# ---- refusals ------------------------------------------------------------------------------


def test_nothing_is_written_into_a_directory_in_which_something_is() -> None:
    files = SimFiles()
    store = store_with(files, 3)
    backup.write_file(files, TO, "letter", b"dear")
    with pytest.raises(ConfigurationError, match="not empty"):
        Backup(files, store.hold(), TO)
    assert files.names(TO) == ["letter"]


@pytest.mark.parametrize("path", [STORE, f"{STORE}/inside"])
def test_a_backup_does_not_lie_in_its_own_store(path: str) -> None:
    files = SimFiles()
    with pytest.raises(ConfigurationError, match="data directory itself"):
        Backup(files, store_with(files, 3).hold(), path)


def test_a_target_without_room_is_told_before_anything_is_written() -> None:
    files = SimFiles()
    store = store_with(files)
    files.capacity = files.used + 100
    with pytest.raises(NoSpace, match="has room for 100 bytes"):
        Backup(files, store.hold(), TO)
    assert files.names(TO) == []


def test_a_disk_that_fails_leaves_no_backup() -> None:
    files = SimFiles()
    making = Backup(files, store_with(files).hold(), TO)
    assert making.step()
    files.fail = lambda kind, number: NoSpace("full") if kind == "write" else None
    with pytest.raises(NoSpace):
        while making.step():
            pass
    files.fail = lambda kind, number: None
    with pytest.raises(NotABackup, match="interrupted"):
        read_manifest(files, TO)
    with pytest.raises(NotAStore, match="is a backup"):
        LogStore.open(TO, files)


def test_nobody_starts_in_a_backup() -> None:
    files = SimFiles()
    made(files, store_with(files).hold())
    before = {name: files.contents(f"{TO}/{name}") for name in files.names(TO)}
    with pytest.raises(NotAStore, match="qm restore"):
        LogStore.open(TO, files)
    assert {name: files.contents(f"{TO}/{name}") for name in files.names(TO)} == before


# ---- damage --------------------------------------------------------------------------------


def test_a_damaged_store_makes_no_backup_and_the_place_is_named() -> None:
    files = SimFiles()
    store = store_with(files)
    segment = store.segments()[-2]
    files.flip(f"{STORE}/log-{segment.base:016x}.seg", 1000)
    making = Backup(files, store.hold(), TO)
    while making.step():
        pass
    with pytest.raises(DamagedRecord, match=f"log-{segment.base:016x}.seg is damaged at byte"):
        making.finish(manager="A", id="x", taken_s=1, made_by="0")
    with pytest.raises(NotABackup):
        read_manifest(files, TO)


def test_what_was_written_is_read_back() -> None:
    """A disk that takes bytes and gives others back is noticed before there is a manifest."""
    files = SimFiles()
    making = Backup(files, store_with(files).hold(), TO)
    while making.step():
        pass
    name = next(name for name in files.names(TO) if name.startswith("log-"))
    files.flip(f"{TO}/{name}", SEGMENT - 1)  # behind every record: only its checksum tells
    with pytest.raises(DamagedRecord, match=name):
        making.finish(manager="A", id="x", taken_s=1, made_by="0")
    with pytest.raises(NotABackup):
        read_manifest(files, TO)


def test_every_changed_file_of_a_backup_is_named() -> None:
    files = SimFiles()
    manifest = made(files, store_with(files).hold())
    verify_files(files, TO, manifest)
    for entry in manifest.files:
        files.flip(f"{TO}/{entry.name}", entry.bytes // 2)
        with pytest.raises(DamagedRecord, match=f"{entry.name} is damaged"):
            verify_files(files, TO, manifest)
        files.flip(f"{TO}/{entry.name}", entry.bytes // 2)
    files.unlink(f"{TO}/CLOSED")
    with pytest.raises(DamagedRecord, match="CLOSED is missing"):
        verify_files(files, TO, manifest)


def test_a_file_that_has_grown_is_named() -> None:
    files = SimFiles()
    manifest = made(files, store_with(files).hold())
    file = files.open(f"{TO}/CLOSED")
    files.write(file, files.size(file), [b"x"])
    with pytest.raises(DamagedRecord, match="has 49 bytes, and had 48"):
        verify_files(files, TO, manifest)


@pytest.mark.parametrize("at", [0, 20, 200, -5])
def test_a_changed_manifest_is_damage(at: int) -> None:
    files = SimFiles()
    made(files, store_with(files).hold())
    size = len(files.contents(f"{TO}/BACKUP.json"))
    files.flip(f"{TO}/BACKUP.json", at % size, 4)
    with pytest.raises((DamagedRecord, NewerFormat)):
        read_manifest(files, TO)


def test_every_flipped_bit_of_a_manifest_is_noticed() -> None:
    manifest = Manifest("ALPHA", "x", 5, 7, 0, "0", (Entry("STORE", 5, "0f" * 32),))
    raw = encode(manifest)
    assert decode(raw) == manifest
    for at in range(len(raw)):
        for mask in (1, 4, 32):
            other = raw[:at] + bytes([raw[at] ^ mask]) + raw[at + 1 :]
            try:
                assert decode(other) == manifest, "white space"
            except (ValueError, KeyError, TypeError, AttributeError, NewerFormat):
                continue


STRANGE = [
    "../STORE", "/etc/passwd", "a/b", "", ".", "..", "aside", "moving", "restoring.aside",
    "restoring.moving", "restoring", "LOCK", "onceq.sock", "BACKUP.json", "store", "STORE.new",
    "STORE\n", "\uff33TORE", "ONCEQ.TOML", "log-00000000000000\u0661\u0661.seg",
    "log-000000000000000A.seg", "ready-1.seg", "replaced-1", "tls/key.pem", "C:\\STORE", 7, None,
]  # fmt: skip


@pytest.mark.parametrize("name", STRANGE)
def test_a_manifest_names_files_of_a_store_alone(name: Any) -> None:
    entries = (entry("STORE"), entry(name))
    raw = encode(Manifest("A", "x", 5, 7, 0, "0", entries))
    with pytest.raises(ValueError, match="a file that no backup has"):
        decode(raw)


def entry(name: str = "STORE", size: Any = 5, sha256: Any = "0f" * 32) -> Entry:
    return Entry(name, size, sha256)


GOOD = Manifest("A", "x", 5, 7, 0, "0", (entry(),))
LIES: list[dict[str, Any]] = [
    {"manager": 7}, {"manager": "A" * 300}, {"manager": "\x1b[2J"}, {"id": None},
    {"position": -1}, {"position": "5"}, {"position": 1 << 60}, {"position": True},
    {"position": 1.5}, {"taken_s": -1}, {"taken_s": 1 << 50}, {"checkpoint": [0]},
    {"made_by": {"a": 1}}, {"made_by": "0\r"}, {"files": ()}, {"files": (entry("CLOSED"),)},
    {"files": (entry(), entry())}, {"files": (entry(size=-1),)}, {"files": (entry(size="5"),)},
    {"files": (entry(sha256="0f"),)}, {"files": (entry(sha256="0F" * 32),)},
    {"files": (entry(sha256=5),)},
]  # fmt: skip


@pytest.mark.parametrize("lie", LIES, ids=repr)
def test_a_manifest_says_nothing_that_none_says_which_was_made(lie: dict[str, Any]) -> None:
    assert decode(encode(GOOD)) == GOOD
    with pytest.raises((ValueError, TypeError)):
        decode(encode(replace(GOOD, **lie)))


@pytest.mark.parametrize("raw", [b"[" * 100_000, b"null", b"[]", b'{"format": 1}', b"\xff", b"NaN"])
def test_what_is_no_manifest_is_damage(raw: bytes) -> None:
    files = SimFiles()
    backup.write_file(files, TO, "BACKUP.json", raw)
    with pytest.raises(DamagedRecord, match=r"BACKUP\.json is damaged"):
        read_manifest(files, TO)


def test_a_newer_backup_is_called_so() -> None:
    files = SimFiles()
    made(files, store_with(files).hold())
    values = json.loads(files.contents(f"{TO}/BACKUP.json"))
    files.unlink(f"{TO}/BACKUP.json")
    backup.write_file(files, TO, "BACKUP.json", json.dumps({**values, "format": 2}).encode())
    with pytest.raises(NewerFormat, match="format 2"):
        read_manifest(files, TO)


def test_a_directory_without_manifest_is_no_backup() -> None:
    files = SimFiles()
    store_with(files).close()
    with pytest.raises(NotABackup, match=r"no file BACKUP\.json"):
        read_manifest(files, STORE)


def test_a_source_that_got_shorter_is_damage() -> None:
    files = SimFiles()
    store = store_with(files, 5)
    cut = store.hold()
    base, _, size = cut.segments[-1]
    longer = StoreCut(cut.path, base + 2 * size, cut.epoch, cut.checkpoint,
                 (*cut.segments[:-1], (base, base + 2 * size, 3 * size)))  # fmt: skip
    making = Backup(files, longer, TO)
    with pytest.raises(DamagedRecord, match="ends at byte"):
        while making.step():
            pass


def test_reading_fails_as_the_disk_does() -> None:
    files = SimFiles()
    making = Backup(files, store_with(files).hold(), TO)
    files.fail_read = lambda path: StorageFailure("EIO") if path.endswith(".seg") else None
    with pytest.raises(StorageFailure, match="EIO"):
        while making.step():
            pass
