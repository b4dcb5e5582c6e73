"""Rights in a shared directory on real daemons: given at one, they hold at the other, whatever
becomes of the file and of the daemons."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import onceq
from onceq.cli.main import run
from onceq.errors import AccessDenied, DirectoryError, OnceqError
from tests.daemon.process import ROOT, WAIT_S, Process

pytestmark = pytest.mark.slow

ORDERS = r"private$\orders"
SOMEBODY = (str(ROOT / "tests" / "daemon" / "as_somebody.py"),)


class Pair:
    """ALPHA, asked by its administrator, and BETA, asked by an account that is nobody there."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "names.json"
        self.rights = folder / "names.json.rights"
        assert run(["directory", "init", str(self.file)]) == 0
        self.paths = {name: folder / name for name in ("alpha", "beta")}
        for name, path in self.paths.items():
            options = ["--name", name.upper(), "--listen", "127.0.0.1:0"]
            assert run(["qm", "init", str(path), *options]) == 0
            with open(path / "onceq.toml", "r+") as configuration:
                rest = configuration.read()
                configuration.seek(0)
                configuration.write(f'directory = "{self.file}"\n{rest}')
        first = Process(self.paths["beta"]).started()
        with onceq.connect(str(self.paths["beta"])) as qm:
            qm.create_queue(ORDERS, transactional=True)
        assert first.end(signal.SIGTERM) == 0
        self.alpha = Process(self.paths["alpha"]).started()
        self.start_beta()

    def start_beta(self) -> None:
        self.beta = Process(
            self.paths["beta"], program=SOMEBODY, ONCEQ_TEST_ACCOUNT="alice"
        ).started()

    def grant(self, words: str, queue: str = "") -> None:
        with onceq.connect(str(self.paths["alpha"])) as qm:
            qm.rights.grant("*", words, queue, everywhere=True)

    def revoke(self, words: str, queue: str) -> None:
        with onceq.connect(str(self.paths["alpha"])) as qm:
            qm.rights.revoke("*", words, queue, everywhere=True)

    def allowed(self) -> bool:
        """Whether alice may send at BETA; whoever asks about rights has them looked at."""
        with onceq.connect(str(self.paths["beta"])) as qm:
            asked = qm.rights.explain("send", ORDERS)
            try:
                qm.send(ORDERS, b"x", transactional=True)
            except AccessDenied:
                assert not asked.allowed
                return False
            assert asked.allowed
            assert "in the directory" in asked.because
            return True

    def trouble(self) -> str:
        """Of BETA; alice may monitor it."""
        with onceq.connect(str(self.paths["beta"])) as qm:
            qm.rights.list()
            return str(qm.admin.status().rights_trouble)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    for process in (made.alpha, made.beta):
        assert process.end(signal.SIGTERM) == 0, process.said


def test_a_right_is_given_once_and_holds_at_both(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not pair.allowed()
    pair.grant("monitor")
    alpha, beta = (str(path) for path in pair.paths.values())
    assert run(["-q", alpha, "grant", "--everywhere", "*", "send,receive", ORDERS]) == 0
    assert pair.allowed()
    capsys.readouterr()
    assert run(["-q", beta, "rights", "show"]) == 0
    assert "granted everywhere" in capsys.readouterr().out
    assert run(["-q", beta, "rights", "explain", "account:alice", "send", ORDERS]) == 0
    assert "yes: send at private$/orders was granted in the directory to *" in (
        capsys.readouterr().out
    )
    assert run(["-q", beta, "grant", "--everywhere", "*", "send", "*"]) == 3, "alice may not"
    assert run(["-q", alpha, "grant", "--everywhere", "bob", "send", "*"]) == 2
    assert "somebody else on every computer" in capsys.readouterr().err
    assert run(["-q", alpha, "revoke", "*", "send", ORDERS]) == 0
    assert "taken away with --everywhere" in capsys.readouterr().err
    assert run(["-q", alpha, "revoke", "--everywhere", "*", "send", ORDERS]) == 0
    assert not pair.allowed()
    with onceq.connect(beta) as qm:
        acts = [act for act in qm.admin.trail() if act.what == "follow rights"]
    assert {act.who for act in acts} == {"directory"}
    assert "granted * monitor" in acts[0].about
    assert acts[-1].about == rf"change 4; revoked * send at {ORDERS}"
    with onceq.connect(alpha) as qm:
        whats = [act.what for act in qm.admin.trail() if act.who != "directory"]
    assert whats == ["grant everywhere", "grant everywhere", "revoke", "revoke everywhere"]


def test_who_waits_at_the_other_ends_with_the_right(pair: Pair) -> None:
    pair.grant("monitor")
    pair.grant("receive", ORDERS)
    ended: list[OnceqError] = []

    def wait() -> None:
        try:
            with onceq.connect(str(pair.paths["beta"])) as qm:
                qm.receive(ORDERS, timeout=WAIT_S)
        except OnceqError as error:
            ended.append(error)

    waiting = threading.Thread(target=wait)
    with onceq.connect(str(pair.paths["beta"])) as qm:
        qm.rights.explain("receive", ORDERS)  # Whoever asks about rights has them looked at.
        waiting.start()
        while not qm.admin.status().waiting_readers:
            assert waiting.is_alive(), ended
        pair.revoke("receive", ORDERS)
        qm.rights.list()
    waiting.join(WAIT_S)
    (error,) = ended
    assert isinstance(error, AccessDenied)


def test_a_file_that_is_damaged_or_away_changes_nothing_through_a_kill(pair: Pair) -> None:
    pair.grant("monitor")
    pair.grant("send", ORDERS)
    assert pair.allowed()
    good = pair.rights.read_bytes()
    pair.rights.write_bytes(good[: len(good) // 2])
    assert "not a file of rights" in pair.trouble()
    assert pair.allowed()
    with pytest.raises(DirectoryError, match="not a file of rights"):
        pair.revoke("send", ORDERS)
    assert pair.rights.read_bytes() == good[: len(good) // 2], "what is there is not overwritten"
    pair.rights.unlink()
    pair.beta.end(signal.SIGKILL)
    pair.start_beta()
    assert "they are gone" in pair.trouble()
    assert pair.allowed()
    pair.beta.wait_to_say("rights of the directory are not followed")
    pair.revoke("send", ORDERS)
    assert pair.trouble() == "", "who knew the last change has written it again"
    assert not pair.allowed()


def test_an_older_copy_gives_nothing_back(pair: Pair) -> None:
    pair.grant("monitor")
    pair.grant("send", ORDERS)
    copy = pair.rights.with_suffix(".copy")
    shutil.copy(pair.rights, copy)
    pair.revoke("send", ORDERS)
    assert not pair.allowed()
    os.replace(copy, pair.rights)
    assert "older copy" in pair.trouble()
    assert not pair.allowed()
    pair.grant("monitor")
    assert pair.trouble() == ""
    assert not pair.allowed()
