"""Backups of managers that work, and what is made of them: with every kind of client, through
kills, by the command line."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq import errors
from onceq.cli.main import run
from onceq.embedded import data_directory
from onceq.model.views.managers import Restored
from tests.daemon.applications import KINDS, Daemon, client
from tests.scratch import scratch

T = r"private$\orders"
OTHER = r"DIRECT=OS:BETA\private$\stock"


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with scratch(tmp_path_factory, "b") as path:
        yield path


def bodies(qm: Any, queue: str = T) -> list[bytes]:
    try:
        found: list[bytes] = qm.peek_many(queue, 10_000, timeout=0.0).bodies()
    except onceq.ReceiveTimeout:
        return []
    return found


def restored_of(qm: onceq.QueueManager) -> Restored:
    """What its status says of the backup that it was put back from."""
    found = qm.admin.status().restored
    assert found is not None
    return found


def restored(backup: Path, to: Path, **more: Any) -> onceq.RestoreReport:
    return onceq.restore(str(backup), str(to), **{"unsigned": True, **more})


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_client_makes_backups(kind: str, folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    with client(kind, folder / "a") as qm:
        qm.create_queue(T, transactional=True)
        qm.send(T, b"one", transactional=True)
        made = qm.admin.backup(str(folder / "b"), progress=lambda *at: seen.append(at))
        qm.send(T, b"two", transactional=True)
        with pytest.raises(errors.ConfigurationError, match="not empty"):
            qm.admin.backup(str(folder / "b"))
        second = qm.admin.backup(str(folder / "b2"))
        assert second.position > made.position
        assert (made.queue_manager, made.id) == (qm.name, qm.id)
        log = qm.admin.status()["log_position"]
    assert seen[-1][0] == seen[-1][1] > 0
    assert made.position < log
    done = restored(folder / "b", folder / "c")
    assert (done.queue_manager, done.id, done.previous) == (made.queue_manager, made.id, "")
    assert (done.position, done.taken_at) == (made.position, made.taken_at)
    with onceq.open(str(folder / "c")) as again:
        assert bodies(again) == [b"one"]
        told = restored_of(again)
        assert (told.position, told.taken_s) == (made.position, made.taken_at)
    restored(folder / "b2", folder / "d")
    with onceq.open(str(folder / "d")) as again:
        assert bodies(again) == [b"one", b"two"]


@pytest.mark.slow
def test_a_backup_under_load_has_what_was_committed_before_it_and_nothing_twice(
    folder: Path,
) -> None:
    with Daemon(folder / "a") as daemon, onceq.connect(daemon.where) as qm:
        qm.create_queue(T, transactional=True)
        count = 0
        over = threading.Event()
        first = threading.Event()

        def load() -> None:
            nonlocal count
            with onceq.connect(daemon.where) as other:
                while not over.is_set():
                    with other.transaction() as tx:
                        tx.send_many(T, [b"%d" % (count + n) for n in range(50)])
                    count += 50
                    first.set()

        thread = threading.Thread(target=load)
        thread.start()
        assert first.wait(60)
        ranges = []
        try:
            for number in range(3):
                before = count
                qm.admin.backup(str(folder / f"b{number}"))
                ranges.append((before, count + 50))
        finally:
            over.set()
            thread.join()
    for number, (least, most) in enumerate(ranges):
        restored(folder / f"b{number}", folder / f"c{number}")
        with onceq.open(str(folder / f"c{number}")) as again:
            messages = again.queue(T).messages
            assert least <= messages <= most
            found = again.receive_many(T, messages).bodies()
            assert found == [b"%d" % n for n in range(len(found))]


@pytest.mark.slow
def test_a_connection_over_tcp_makes_no_backup(folder: Path) -> None:
    with Daemon(folder / "a", tcp=True) as daemon:
        daemon.admit_nobody()
        with onceq.connect(daemon.tcp) as qm:
            _makes_none(qm, folder)


def _makes_none(qm: onceq.QueueManager, folder: Path) -> None:
    with pytest.raises(errors.UnsupportedOperation, match="over TCP"):
        qm.admin.backup(str(folder / "b"))
    assert not (folder / "b").exists()
    assert qm.admin.status()["name"] == "ALPHA", "the connection is as good as before"


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True])
def test_a_manager_that_is_killed_meanwhile_leaves_no_backup(folder: Path, again: bool) -> None:
    with Daemon(folder / "a") as daemon, onceq.connect(daemon.where) as qm:
        qm.create_queue(T, transactional=True)
        qm.send(T, b"kept", transactional=True)
        kills = iter([True])

        def kill(done: int, total: int) -> None:
            if next(kills, False):
                daemon.kill()
                if again:
                    daemon.start()

        expected = errors.BackupOver if again else errors.ServiceNotAvailable
        with pytest.raises(expected):
            qm.admin.backup(str(folder / "b"), progress=kill)
        if not again:
            daemon.start()
        with pytest.raises(errors.NotABackup, match="interrupted"):
            restored(folder / "b", folder / "c")
        with pytest.raises(errors.NotAStore, match="is a backup"):
            onceq.open(str(folder / "b"))
        assert not (folder / "c").exists()
        assert bodies(qm) == [b"kept"]
        qm.admin.backup(str(folder / "b2"))


@pytest.mark.slow
def test_a_client_that_is_lost_lets_go_at_once(folder: Path) -> None:
    from onceq.client.backups import begin

    with Daemon(folder / "a") as daemon, onceq.connect(daemon.where) as qm:
        with onceq.connect(daemon.where) as lost:
            lost._run(begin())
            with pytest.raises(errors.InsufficientResources, match="is being made"):
                qm.admin.backup(str(folder / "b"))
        # What the manager hears first is that the connection is gone; then this.
        made = _patiently(lambda: qm.admin.backup(str(folder / "b")))
        assert made.queue_manager == "ALPHA"


def _patiently(make: Callable[[], onceq.BackupReport]) -> onceq.BackupReport:
    """The end of a connection is heard some time, as everything else."""
    while True:
        try:
            return make()
        except errors.InsufficientResources:
            continue


@pytest.mark.slow
def test_what_a_directory_may_be_that_a_backup_is_put_back_to(folder: Path) -> None:
    with Daemon(folder / "a") as daemon, onceq.connect(daemon.where) as qm:
        qm.create_queue(T, transactional=True)
        qm.send(T, b"one", transactional=True)
        qm.admin.backup(str(folder / "b"))
        qm.send(T, b"two", transactional=True)
        with pytest.raises(errors.StoreLocked):
            restored(folder / "b", folder / "a", replace=True)
        daemon.stop()
        with pytest.raises(errors.StoreExists, match="holds a queue manager"):
            restored(folder / "b", folder / "a")
        with pytest.raises(errors.StoreExists):
            restored(folder / "b", folder / "a", dry_run=True)
        with pytest.raises(errors.ConfigurationError, match="is a backup"):
            restored(folder / "b", folder / "b")
        with pytest.raises(errors.ConfigurationError, match="keeps its name"):
            restored(folder / "b", folder / "c", name="OTHER")
        assert restored(folder / "b", folder / "c", dry_run=True).dry_run
        assert not (folder / "c").exists()
        done = restored(folder / "b", folder / "a", replace=True)
        with onceq.open(str(folder / "a")) as again:
            assert bodies(again) == [b"one"]
        # What was replaced is whole, and can be had again.
        aside = Path(done.replaced)
        assert aside.parent == folder / "a"
        shutil.move(aside, folder / "before")
        with onceq.open(str(folder / "before")) as before:
            assert bodies(before) == [b"one", b"two"]


@pytest.mark.slow
def test_a_configuration_that_is_there_stays(folder: Path) -> None:
    data_directory.init(str(folder / "a"), name="ALPHA", listen="127.0.0.1:4711")
    data_directory.backup(str(folder / "a"), str(folder / "b"))
    assert restored(folder / "b", folder / "c").configuration == "restored"
    assert 'listen = "127.0.0.1:4711"' in (folder / "c" / "onceq.toml").read_text()
    (folder / "d").mkdir()
    (folder / "d" / "onceq.toml").write_text('listen = ""\n')
    assert restored(folder / "b", folder / "d").configuration == "kept"
    assert (folder / "d" / "onceq.toml").read_text() == 'listen = ""\n'


@pytest.mark.slow
def test_a_damaged_backup_is_refused_and_its_file_named(folder: Path) -> None:
    data_directory.init(str(folder / "a"), name="ALPHA", listen="")
    with onceq.open(str(folder / "a")) as qm:
        qm.create_queue(T)
        qm.admin.backup(str(folder / "b"))
    victim = next((folder / "b").glob("log-*.seg"))
    raw = bytearray(victim.read_bytes())
    raw[200] ^= 1
    victim.write_bytes(raw)
    for dry_run in (True, False):
        with pytest.raises(errors.DamagedRecord, match=victim.name):
            restored(folder / "b", folder / "c", dry_run=dry_run)
    with pytest.raises(errors.NotAStore):
        onceq.open(str(folder / "c"))
    assert not (folder / "c" / "restoring").exists(), "nothing is left of it"


@pytest.mark.slow
def test_a_restore_is_remembered_by_backups_and_checkpoints(folder: Path) -> None:
    data_directory.init(str(folder / "a"), name="ALPHA", listen="")
    first = data_directory.backup(str(folder / "a"), str(folder / "b"))
    restored(folder / "b", folder / "c")
    for _ in range(2):
        with onceq.open(str(folder / "c")) as qm:
            assert restored_of(qm).position == first.position
            assert restored_of(qm).told
            qm.create_queue(rf"private$\q{_}")
    second = data_directory.backup(str(folder / "c"), str(folder / "b2"))
    restored(folder / "b2", folder / "d")
    with onceq.open(str(folder / "d")) as qm:
        assert restored_of(qm).position == second.position


@pytest.mark.slow
def test_a_copy_with_an_identity_of_its_own_sends_nothing_again(folder: Path) -> None:
    with Daemon(folder / "a") as daemon, onceq.connect(daemon.where) as qm:
        qm.create_queue(T, transactional=True)
        qm.create_queue(r"private$\own", transactional=True)
        qm.send(T, b"here", transactional=True)
        qm.send(OTHER, b"t1", transactional=True)
        qm.send(OTHER, b"t2", transactional=True, journal=onceq.Journal.DEADLETTER,
                dead_letter_queue=r"private$\own")  # fmt: skip
        qm.send(r"DIRECT=OS:GAMMA\private$\plain", b"p", transactional=False)
        qm.admin.backup(str(folder / "b"))
        id = qm.id
    done = restored(folder / "b", folder / "c", new_identity=True, name="COPY")
    assert (done.queue_manager, done.previous, done.set_aside) == ("COPY", id, 3)
    assert done.id != id
    with onceq.open(str(folder / "c")) as copy:
        assert (copy.name, copy.id) == ("COPY", done.id)
        assert bodies(copy) == [b"here"]
        assert not sum(o.messages for o in copy.admin.outgoing())
        dead = copy.peek_many("SYSTEM$;DEADXACT", 10)
        assert [(m.body, m.message_class) for m in dead] == [(b"t1", 0x800C)]
        assert bodies(copy, r"private$\own") == [b"t2"]
        assert bodies(copy, "SYSTEM$;DEADLETTER") == [b"p"]
        told = restored_of(copy)
        assert (told.aside, told.told) == (3, True)
    # The name may also stay; the original's identity may not.
    assert restored(folder / "b", folder / "d", new_identity=True).queue_manager == "ALPHA"


# ---- the command line ----------------------------------------------------------------------


def said(capfd: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    capfd.readouterr()
    assert run([str(a) for a in arguments]) == code, capfd.readouterr()
    found = capfd.readouterr()
    assert "Traceback" not in found.err
    return found.err if code else found.out


@pytest.mark.slow
def test_the_commands(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    a, b, c = folder / "a", folder / "b", folder / "c"
    with Daemon(a) as daemon:
        said(capfd, "-q", a, "queue", "create", "private$/orders", "--transactional")
        said(capfd, "-q", a, "send", OTHER.replace("\\", "/"), "one", "two")
        text = said(capfd, "qm", "backup", b, "-q", a)
        assert "backup of ALPHA" in text
        assert "found whole" in text
        assert "not empty" in said(capfd, "qm", "backup", b, "-q", a, code=2)
        assert "store-locked" in said(
            capfd, "qm", "restore", b, "--unsigned", "--to", a, "--replace", code=3
        )
        daemon.stop()
    made = json.loads(said(capfd, "qm", "backup", folder / "b2", "-q", a, "--json"))
    assert (made["queue_manager"], made["path"]) == ("ALPHA", str(folder / "b2"))
    assert "nothing was changed" in said(
        capfd, "qm", "restore", b, "--unsigned", "--to", c, "--dry-run"
    )
    assert "store-exists" in said(capfd, "qm", "restore", b, "--unsigned", "--to", a, code=2)
    text = said(capfd, "qm", "restore", b, "--unsigned", "--to", c)
    assert "never start the original again" in text
    with Daemon(c) as daemon:
        status = said(capfd, "-q", c, "qm", "status")
        assert "put back on" in status
        assert "what was done between is undone here" in status
        daemon.stop()
    log = (folder / "c.log").read_text()
    assert log.count("this queue manager was put back from a backup") == 1
    with Daemon(c) as daemon:
        daemon.stop()
    log = (folder / "c.log").read_text()
    assert log.count("this queue manager was put back from a backup") == 1, "at the first start"
    text = said(
        capfd,
        "qm",
        "restore",
        b,
        "--unsigned",
        "--to",
        folder / "d",
        "--new-identity",
        "--name",
        "TWO",
    )
    assert "another queue manager" in text
    assert "2 messages that waited" in text
    done = json.loads(
        said(capfd, "qm", "restore", b, "--unsigned", "--to", a, "--replace", "--json")
    )
    assert Path(done["replaced"]).is_dir()
    assert "not-a-backup" in said(
        capfd, "qm", "restore", a, "--unsigned", "--to", folder / "e", code=2
    )


@pytest.mark.slow
def test_a_new_name_stands_in_the_configuration(folder: Path) -> None:
    data_directory.init(str(folder / "a"), name="ALPHA", listen="", peers={"name": "127.0.0.1:1"})
    data_directory.backup(str(folder / "a"), str(folder / "b"))
    restored(folder / "b", folder / "c", new_identity=True, name="GAMMA")
    text = (folder / "c" / "onceq.toml").read_text()
    assert 'name = "GAMMA"' in text
    assert 'name = "127.0.0.1:1"' in text, "a peer of that name is none of our business"
    with onceq.open(str(folder / "c")) as qm:
        assert qm.name == "GAMMA"
