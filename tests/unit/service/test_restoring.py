"""Who can write where backups lie: what becomes of a restore, and of another queue manager.

Each attack is tried twice. Without asking who has made the backup (``unsigned``) it may at most put
back another store, of which every byte is the writer's; never is a file outside the target touched.
With that question nothing is put back but what the queue manager has signed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq.embedded import data_directory
from onceq.errors import (
    ConfigurationError,
    DamagedRecord,
    NewerFormat,
    NotABackup,
    OnceqError,
    UntrustedBackup,
)
from onceq.file_access import CONFIGURATION_FILE
from onceq.model.identity import guid_bytes
from onceq.model.limits import LOG_SEGMENT_BYTES_MIN
from onceq.model.marks import DAY_S
from onceq.model.settings import Settings
from onceq.service import data_directory as service_directory
from onceq.store import identification
from onceq.store.identification import MANIFEST, SIGNATURE
from onceq.tls.members import TOLD, Removal, put_removed
from tests.certificates import BETA, Authority
from tests.scratch import scratch

Q = r"private$\orders"
SMALL = f"""listen = ""
[settings]
log_segment_bytes = {LOG_SEGMENT_BYTES_MIN}
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a backup of ALPHA, the victim beside it, and where ALPHA's store is to be."""

    root: Path
    backup: Path
    victim: Path
    target: Path
    trusted: Path

    def restore(self, **how: Any) -> onceq.RestoreReport:
        return onceq.restore(str(self.backup), str(self.target), replace=True, **how)

    def manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.backup / MANIFEST).read_bytes())
        return found

    def reseal(self, values: dict[str, Any]) -> None:
        """Write a manifest with a checksum that is right."""
        values = {key: value for key, value in values.items() if key != "checksum"}
        values["checksum"] = identification._checksum(values)
        (self.backup / MANIFEST).write_text(json.dumps(values))

    def with_file(self, name: str, content: bytes) -> None:
        """A file more, in the directory if it can be there, and in the manifest."""
        if "/" not in name and "\0" not in name and name not in ("", ".", "..", MANIFEST):
            (self.backup / name).write_bytes(content)
        values = self.manifest()
        digest = hashlib.sha256(content).hexdigest()
        entry = {"name": name, "bytes": len(content), "sha256": digest}
        self.reseal({**values, "files": [entry, *values["files"]]})

    def reset(self, files: dict[str, bytes]) -> None:
        """Files of the backup become what they were."""
        for name, data in files.items():
            (self.backup / name).write_bytes(data)
        for one in list(self.backup.iterdir()):
            if len(files) > 1 and one.name not in files:
                one.unlink()

    def undo(self) -> None:
        """Take the store that was replaced back, as an operator does."""
        (kept,) = self.target.glob("replaced-*")
        for one in list(self.target.iterdir()):
            if one.is_file():
                one.unlink()
        for one in list(kept.iterdir()):
            one.rename(self.target / one.name)
        kept.rmdir()

    def damage_last(self) -> None:
        """Let the restore fail when everything else has been copied."""
        last = self.backup / self.manifest()["files"][-1]["name"]
        if last.is_file() and not last.is_symlink():
            raw = bytearray(last.read_bytes())
            raw[-1] ^= 1
            last.write_bytes(raw)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Made once: ALPHA with an identity, its backup, and a victim."""
    with scratch(tmp_path_factory, "w") as root:
        for name in ("target", "victim"):
            store = service_directory.init(
                str(root / name), name=name.upper(), configuration=SMALL,
                settings=Settings(log_segment_bytes=LOG_SEGMENT_BYTES_MIN),
            )  # fmt: skip
            store.close()
        with onceq.open(str(root / "target")) as qm:
            authority = Authority()
            authority.identity(root / "target", guid_bytes(qm.id))
            qm.create_queue(Q, transactional=True)
            qm.send(Q, b"what was there", transactional=True)
            assert qm.admin.backup(str(root / "backup")).signed_by
        (root / "authority.pem").write_bytes(authority.certificate)
        # So that it is put back, too, as every other file of the backup.
        (root / "target" / CONFIGURATION_FILE).unlink()
        yield root


@pytest.fixture
def place(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with scratch(tmp_path_factory, "v") as folder:
        root = folder / "r"
        shutil.copytree(original, root, ignore=shutil.ignore_patterns("onceq.sock"))
        yield Place(root, root / "backup", root / "victim", root / "target", root / "authority.pem")


def seen(path: Path) -> dict[str, Any]:
    """Everything below a path, but for locks, which say who looks."""
    found: dict[str, Any] = {}
    for folder, names, files in os.walk(path):
        for name in (*names, *files):
            one = Path(folder) / name
            status = one.lstat()
            what: Any = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino)
            if one.is_file() and not one.is_symlink() and name != "LOCK":
                found[str(one.relative_to(path))] = what, one.read_bytes()
    return found


def refusal(place: Place, how: dict[str, Any]) -> OnceqError | None:
    try:
        place.restore(**how)
    except OnceqError as error:
        return error
    return None


def attack(place: Place) -> bool:
    """Restore in each way: nothing is lost, and nothing outside is touched.

    Returns:
        Whether it was put back by who did not ask for a signature.
    """
    outside = {path: seen(path) for path in (place.victim, place.backup)}
    beside = sorted(os.listdir(place.root))
    before = seen(place.target)
    put_back = False
    for how in ({}, {"trust": str(place.trusted)}, {"unsigned": True}):
        refused = refusal(place, how)
        if refused is None:
            put_back = True
            assert "unsigned" in how, "somebody else has made it"
        else:
            expected = (UntrustedBackup, DamagedRecord, NewerFormat, NotABackup)
            assert isinstance(refused, expected) or "unsigned" in how, refused
            assert seen(place.target) == before, "it was refused, and something was changed"
    for path, was in outside.items():
        assert seen(path) == was, f"{path} was touched"
    assert sorted(os.listdir(place.root)) == beside
    assert not [name for name in os.listdir(place.target) if name.startswith("restoring")]
    if put_back:
        (kept,) = place.target.glob("replaced-*")
        names = {name for name in before if "/" not in name}
        assert {one.name for one in kept.iterdir()} == names, "what was there is kept"
        assert all(seen(kept)[name][1] == before[name][1] for name in names)
    return put_back


def test_the_backup_of_nobody_else_is_put_back(place: Place) -> None:
    """Without an attack, by each way of belief: else nothing below proves anything."""
    victim = seen(place.victim)
    certificate = place.target / "tls" / "certificate.pem"
    for how in ({}, {"trust": str(place.trusted)}, {"trust": str(certificate)}):
        assert place.restore(**how).signed_by
    assert place.restore(unsigned=True).signed_by == ""
    assert seen(place.victim) == victim
    with pytest.raises(ConfigurationError, match="exclude each other"):
        place.restore(unsigned=True, trust=str(place.trusted))


MARKS = [
    "aside", "moving", "restoring.aside", "restoring.moving", "restoring", "LOCK", "onceq.sock",
    "BACKUP.json", "BACKUP.unfinished", "BACKUP.signature", "STORE.new", "onceq.toml.new",
    "../victim/STORE", "../STORE", "replaced-1/STORE", "tls/key.pem", "", ".", "..", "sTORE",
    "\uff33TORE", "STORE\u200b", "STORE\0", "log-0000000000000000.seg/../../victim/STORE",
]  # fmt: skip


@pytest.mark.slow
def test_a_file_more_in_the_manifest(place: Place) -> None:
    """``aside`` with a path, and damage at the end: this has taken a store away."""
    original = {one.name: one.read_bytes() for one in place.backup.iterdir()}
    for name in (*MARKS, str(place.victim), str(place.victim / "STORE")):
        for damaged in (False, True):
            place.with_file(name, str(place.victim).encode())
            if damaged:
                place.damage_last()
            assert not attack(place), name
            place.reset(original)


VALUES: list[Any] = [
    "{victim}", "../victim", "", "\x1b]0;x\x07", None, -1, 0, 1 << 40, 1 << 62, 1 << 64, 1.5, True,
    [], {}, ["{victim}"], "x" * 100_000,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.tier("rest")
def test_each_field_of_the_manifest(place: Place) -> None:
    whole = (place.backup / MANIFEST).read_bytes()
    original = {MANIFEST: whole}
    tried = put_back = 0
    for field in json.loads(whole):
        if field == "checksum":
            continue
        for value in VALUES:
            told = json.loads(json.dumps(value).replace("{victim}", str(place.victim)))
            place.reseal({**place.manifest(), field: told})
            tried += 1
            if attack(place):
                put_back += 1
                assert field in ("manager", "taken_s", "checkpoint", "made_by"), (field, told)
                place.undo()
            place.reset(original)
    assert tried == 8 * len(VALUES)
    assert put_back, "who asks for no signature is told another time, name or version"


@pytest.mark.slow
@pytest.mark.tier("rest")
@pytest.mark.parametrize("field", ["name", "bytes", "sha256"])
def test_each_field_of_a_file(place: Place, field: str) -> None:
    original = {MANIFEST: (place.backup / MANIFEST).read_bytes()}
    for number in range(len(place.manifest()["files"])):
        for value in VALUES:
            told = json.loads(json.dumps(value).replace("{victim}", str(place.victim)))
            values = place.manifest()
            values["files"][number][field] = told
            place.reseal(values)
            assert not attack(place), (values["files"][number], told)
            place.reset(original)


def removed(path: Path, victim: Path) -> None:
    path.unlink()


def linked(path: Path, victim: Path) -> None:
    path.unlink()
    path.symlink_to(victim / "STORE")


def hard_linked(path: Path, victim: Path) -> None:
    path.unlink()
    os.link(victim / "STORE", path)


def same_through_a_link(path: Path, victim: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to("../elsewhere")


def a_pipe(path: Path, victim: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_socket(path: Path, victim: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(path.parent)
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


def a_directory(path: Path, victim: Path) -> None:
    path.unlink()
    path.mkdir()


def a_device(path: Path, victim: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def empty(path: Path, victim: Path) -> None:
    path.write_bytes(b"")


TURNS: list[Callable[[Path, Path], None]] = [
    removed, linked, hard_linked, same_through_a_link, a_pipe, a_socket, a_directory, a_device,
    empty,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("turn", TURNS)
def test_each_file_becomes_something_else(place: Place, turn: Callable[[Path, Path], None]) -> None:
    """None is put back then: a file is a regular one, and what it was."""
    for name in sorted(os.listdir(place.backup)):
        kept = place.root.parent / "kept"
        shutil.copytree(place.backup, kept)
        turn(place.backup / name, place.victim)
        if attack(place):
            assert name == SIGNATURE, "who does not ask for it does not read it"
            place.undo()
        shutil.rmtree(place.backup)
        kept.rename(place.backup)
        (place.root / "elsewhere").unlink(missing_ok=True)


def test_a_backup_of_another_queue_manager_is_not_this_one(place: Place) -> None:
    """Whole, and signed by nobody, or by another one; under its own name, and under ALPHA's."""
    with onceq.open(str(place.victim)) as qm:
        qm.admin.backup(str(place.root / "other"))
    shutil.rmtree(place.backup)
    (place.root / "other").rename(place.backup)
    with pytest.raises(UntrustedBackup, match="is not signed: everybody who could write"):
        place.restore()
    with onceq.open(str(place.target)) as qm:
        place.reseal({**place.manifest(), "id": qm.id})
    with pytest.raises(DamagedRecord, match="is not of queue manager"):
        place.restore(unsigned=True)


def test_an_older_signature_does_not_fit_a_newer_manifest(place: Place) -> None:
    """Parts of two right backups of one queue manager are none."""
    with onceq.open(str(place.target)) as qm:
        qm.send(Q, b"more", transactional=True)
        qm.admin.backup(str(place.root / "second"))
    shutil.copy(place.root / "second" / MANIFEST, place.backup / MANIFEST)
    with pytest.raises(UntrustedBackup, match="somebody has changed it"):
        place.restore()
    shutil.copy(place.root / "second" / SIGNATURE, place.backup / SIGNATURE)
    with pytest.raises(DamagedRecord):
        place.restore()


def test_the_backup_of_a_removed_member_is_put_back_only_by_who_says_so(place: Place) -> None:
    """At another member, which has heard of the removal; what it has signed stays as it is."""
    guid, authority = place.manifest()["id"], Authority()
    here = place.root / "here"
    authority.identity(here, BETA, trusts=place.trusted.read_bytes() + authority.certificate)
    at_s = authority.now_s + DAY_S
    put_removed(str(here / "tls"), TOLD, {guid: Removal(guid, "TARGET", at_s)})
    with pytest.raises(UntrustedBackup, match=r"was removed .*--trust FILE.*--unsigned"):
        onceq.restore(str(place.backup), str(here))
    done = onceq.restore(str(place.backup), str(here), trust=str(place.trusted))
    assert done.signed_by


def test_an_older_backup_is_put_back_as_a_newer_one_is(place: Place) -> None:
    """A signature says who has made it, and not that there is no newer one."""
    with onceq.open(str(place.target)) as qm:
        qm.send(Q, b"what came later", transactional=True)
        assert qm.admin.backup(str(place.root / "newer")).signed_by
    assert place.restore().signed_by
    with onceq.open(str(place.target)) as qm:
        assert [one.body for one in qm.peek_many(Q)] == [b"what was there"]


def test_a_restore_brings_the_rights_and_tokens_of_its_time(place: Place) -> None:
    who, older = "account:games", place.root / "older"
    with onceq.open(str(place.target)) as qm:
        qm.tokens.create("billing")
        qm.rights.grant(who, "send", Q)
        qm.admin.backup(str(older))
        qm.tokens.revoke("billing")
        qm.rights.revoke(who, "send", Q)
        assert (qm.tokens.list(), [one.who for one in qm.rights.list() if one.who == who]) == (
            [],
            [],
        )
    onceq.restore(str(older), str(place.target), replace=True)
    with onceq.open(str(place.target)) as qm:
        assert [one.name for one in qm.tokens.list()] == ["billing"]
        assert [one.rights for one in qm.rights.list() if one.who == who] == [("send",)]


def test_where_nothing_tells_by_whom_it_was_signed_the_ways_out_are_named(place: Place) -> None:
    new = place.root / "new"
    with pytest.raises(UntrustedBackup, match=r"has no identity .*--trust FILE.*--unsigned"):
        onceq.restore(str(place.backup), str(new))
    assert not new.exists()
    wrong = place.root / "wrong.pem"
    wrong.write_bytes(Authority().certificate)
    with pytest.raises(UntrustedBackup, match="no authority that is believed here"):
        onceq.restore(str(place.backup), str(new), trust=str(wrong))
    assert onceq.restore(str(place.backup), str(new), trust=str(place.trusted)).signed_by


def test_a_backup_without_the_configuration_has_no_password(place: Place) -> None:
    secret = 'databases = {bank = "postgresql://bank:correct-horse@127.0.0.1/bank"}\n'
    (place.target / CONFIGURATION_FILE).write_text(secret + SMALL)
    data_directory.backup(str(place.target), str(place.root / "with"))
    data_directory.backup(str(place.target), str(place.root / "without"), configuration=False)
    found = {
        name: b"correct-horse" in b"".join(
            one.read_bytes() for one in (place.root / name).iterdir()
        )
        for name in ("with", "without")
    }  # fmt: skip
    assert found == {"with": True, "without": False}
    keys = (place.target / "tls" / "key.pem").read_bytes()
    assert all(keys not in one.read_bytes() for one in (place.root / "with").iterdir())
    modes = {one.stat().st_mode & 0o777 for one in (place.root / "with").iterdir()}
    assert modes == {0o600}
    done = onceq.restore(str(place.root / "without"), str(place.root / "n"), unsigned=True)
    assert done.configuration == "none"
