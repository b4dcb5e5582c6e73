"""Power cuts while a backup is made, and while one is put back: nothing half is taken for whole."""

from __future__ import annotations

from functools import cache

import pytest

from onceq.errors import NotABackup, NotAStore, OnceqError
from onceq.store.backup import Backup, RestoreTarget, verify_files, write_file
from onceq.store.identification import read_manifest
from onceq.store.log import LogStore
from onceq.store.recovery import check
from onceq.testing.disk import PowerCut, SimFiles

STORE, BACKUP, NEW = "/store", "/backup", "/new"
SEGMENT = 4096
IMAGES = 12
"""Disks that may be found after one power cut."""


def lived() -> tuple[SimFiles, LogStore]:
    files = SimFiles()
    store = LogStore.create(STORE, files, store_id=b"S" * 16, identity=b"me", segment_bytes=SEGMENT)
    for number in range(20):
        store.append(b"%d " % number * 150)
        store.sync()
        if number == 5:
            store.checkpoint([b"the state"], store.position)
            store.reclaim(lambda base, end: False)
    return files, store


def make_backup(files: SimFiles, store: LogStore) -> None:
    making = Backup(files, store.hold(), BACKUP)
    while making.step():
        store.append(b"meanwhile")
        store.sync()
    making.finish(manager="ALPHA", id="some-guid", taken_s=77, made_by="0.1.0")
    store.release()


def records(files: SimFiles, path: str) -> list[bytes]:
    store = LogStore.open(path, files, segment_bytes=SEGMENT)
    found = [bytes(payload) for _, payload in store.records()]
    store.abandon()
    return found


@pytest.mark.slow
def test_a_power_cut_while_a_backup_is_made_leaves_the_store_and_no_half_backup() -> None:
    whole = stopped = 0
    files, store = lived()
    synced = store.position
    first = files.operations
    make_backup(files, store)
    last = files.operations
    for stop in range(first + 1, last + 2):
        files, store = lived()
        files.stop_at = stop
        try:
            make_backup(files, store)
        except PowerCut:
            stopped += 1
        for image in files.images(IMAGES, seed=stop):
            try:
                manifest = read_manifest(image, BACKUP)
            except NotABackup:
                if image.names(BACKUP):
                    with pytest.raises(NotAStore):
                        LogStore.open(BACKUP, image, segment_bytes=SEGMENT)
            else:
                whole += 1
                verify_files(image, BACKUP, manifest)
                assert check(BACKUP, image).end_position == manifest.position == synced
            report = check(STORE, image)
            assert not report.problem
            assert report.end_position >= synced
            assert len(records(image, STORE)) >= 14
    assert stopped > 20
    assert whole > 4, "the ends were not tried"


def put_back(files: SimFiles, *, replace: bool) -> None:
    """As ``onceq.restore`` does it."""
    manifest = read_manifest(files, BACKUP)
    target = RestoreTarget(files, NEW, BACKUP)
    try:
        target.check(replace=replace)
        for _ in target.stage(BACKUP, manifest):
            pass
        store = LogStore.open(target.staging, files, segment_bytes=SEGMENT)
        store.append(b"restored")
        store.close()
        target.install("replaced-1")
    finally:
        target.close()


def with_backup(*, old: bool) -> SimFiles:
    files, store = lived()
    make_backup(files, store)
    store.close()
    if old:
        store = LogStore.create(NEW, files, store_id=b"O" * 16, segment_bytes=SEGMENT)
        for number in range(4):
            store.append(b"old %d " % number * 200)
            store.sync()
        store.checkpoint([b"old state"], store.position)
        store.append(b"old and last")
        store.close()
    # Whatever was done so far is durable: an image of it, with nothing under way.
    return next(iter(files.images(1)))


def found_in(files: SimFiles) -> str:
    """What a start finds: "old", "restored" or "nothing"."""
    try:
        last = records(files, NEW)[-1:]
    except NotAStore:
        return "nothing"
    ends = {b"old and last": "old", b"restored": "restored"}
    assert [end in ends for end in last] == [True], "half a store was started"
    return ends[last[0]]


@pytest.mark.slow
@pytest.mark.parametrize("old", [False, True])
def test_a_power_cut_while_one_is_put_back_leaves_the_old_the_new_or_nothing(old: bool) -> None:
    """And whatever was left, the restore can be run again, and loses nothing that was there."""
    found = {"old": 0, "restored": 0, "nothing": 0}
    files = with_backup(old=old)
    put_back(files, replace=old)
    last = files.operations
    for stop in range(1, last + 2):
        files = with_backup(old=old)
        files.stop_at = stop
        try:
            put_back(files, replace=old)
        except PowerCut:
            pass
        for image in files.images(IMAGES, seed=stop):
            if old and vanished(image):
                continue
            again = next(iter(image.images(1)))
            what = found_in(image)
            found[what] += 1
            if what == "nothing":
                nobody_begins_anew(image)
            if what == "restored":
                continue
            put_back(again, replace=old)
            assert found_in(again) == "restored"
            assert not again.exists(NEW + "/restoring")
            if old:
                assert records(old_of(again), NEW)[-1] == b"old and last"
    assert found["restored"] > 4
    assert found["nothing"] > IMAGES
    assert (found["old"] > IMAGES) == old


def vanished(files: SimFiles) -> bool:
    """Whether a file of the old store has neither its old name nor its new one: this disk may do
    half of a rename, and no file system does."""
    places = (NEW, NEW + "/replaced-1")
    return any(not any(files.exists(f"{at}/{name}") for at in places) for name in old_names())


@cache
def old_names() -> list[str]:
    return [name for name in with_backup(old=True).names(NEW) if not name.endswith(".new")]


def nobody_begins_anew(files: SimFiles) -> None:
    """A directory in which a restore was begun is not taken for an empty one."""
    if files.exists(NEW + "/restoring"):
        with pytest.raises(OnceqError):
            LogStore.create(NEW, files, store_id=b"N" * 16)


def old_of(files: SimFiles) -> SimFiles:
    """The disk with what was moved aside in its old place again."""
    copy = next(iter(files.images(1)))
    for name in copy.names(NEW):
        if not name.startswith("replaced"):
            copy.unlink(f"{NEW}/{name}")
    for name in copy.names(NEW + "/replaced-1"):
        copy.rename(f"{NEW}/replaced-1/{name}", f"{NEW}/{name}")
    return copy


def test_a_disk_that_fails_while_one_is_put_back_leaves_the_old_store() -> None:
    files = with_backup(old=True)
    files.capacity = files.used + 1000
    with pytest.raises(OnceqError, match="has room for"):
        put_back(files, replace=True)
    assert found_in(files) == "old"


def test_a_damaged_backup_leaves_the_old_store() -> None:
    files = with_backup(old=True)
    name = next(name for name in files.names(BACKUP) if name.startswith("log-"))
    files.flip(f"{BACKUP}/{name}", 2000)
    with pytest.raises(OnceqError, match=f"{name} is damaged"):
        put_back(files, replace=True)
    assert found_in(files) == "old"


# ---- backups that somebody else has written ------------------------------------------------

VICTIM = "/victim"


def with_victim(files: SimFiles) -> dict[str, bytes]:
    """Another queue manager's store on the same computer; what its files say."""
    store = LogStore.create(VICTIM, files, store_id=b"V" * 16, segment_bytes=SEGMENT)
    store.append(b"of somebody else")
    store.close()
    return everything(files, VICTIM)


def everything(files: SimFiles, path: str) -> dict[str, bytes]:
    return {name: files.contents(f"{path}/{name}") for name in files.names(path)}


def with_damage_at_the_end(files: SimFiles) -> None:
    """The last file that is staged is not what the manifest says."""
    last = read_manifest(files, BACKUP).files[-1].name
    files.flip(f"{BACKUP}/{last}", 40)


@pytest.mark.slow
@pytest.mark.parametrize("old", [False, True])
def test_a_power_cut_while_a_damaged_one_is_refused_changes_no_store(old: bool) -> None:
    files = with_backup(old=old)
    with_damage_at_the_end(files)
    with pytest.raises(OnceqError, match="damaged"):
        put_back(files, replace=old)
    last = files.operations
    tried = 0
    for stop in range(1, last + 2):
        files = with_backup(old=old)
        victim = with_victim(files)
        with_damage_at_the_end(files)
        files = next(iter(files.images(1)))
        files.stop_at = stop
        with pytest.raises((PowerCut, OnceqError)):
            put_back(files, replace=old)
        for image in files.images(IMAGES, seed=stop):
            tried += 1
            assert everything(image, VICTIM) == victim
            assert found_in(next(iter(image.images(1)))) == ("old" if old else "nothing")
            with pytest.raises(OnceqError, match="damaged"):
                put_back(image, replace=old)
            assert found_in(image) == ("old" if old else "nothing")
            assert not [name for name in image.names(NEW) if name.startswith("restoring")]
    assert tried > 5 * IMAGES


MARKS = ("aside", "moving", "restoring.aside", "restoring.moving")


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("says", [VICTIM, "../victim", "replaced-1/../../victim", ""])
def test_a_mark_in_the_staged_directory_is_a_file_as_any_other(mark: str, says: str) -> None:
    """As a backup could have brought it that an earlier version has staged."""
    files = with_backup(old=False)
    victim = with_victim(files)
    files.make_directory(NEW + "/restoring")
    write_file(files, NEW + "/restoring", mark, says.encode())
    put_back(files, replace=False)
    assert found_in(files) == "restored"
    assert everything(files, VICTIM) == victim
    assert not [name for name in files.names(NEW) if name.startswith("restoring")]


@pytest.mark.parametrize(
    "says", [VICTIM, "../victim", "replaced-1/../../victim", "", ".", "restoring"]
)
def test_a_mark_leads_to_no_directory_that_no_restore_has_made(says: str) -> None:
    files = with_backup(old=False)
    victim = with_victim(files)
    write_file(files, NEW, "restoring.aside", says.encode())
    with pytest.raises(OnceqError, match="names no directory that a restore makes"):
        put_back(files, replace=False)
    assert everything(files, VICTIM) == victim
