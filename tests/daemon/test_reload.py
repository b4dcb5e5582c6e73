"""The configuration is read again: by SIGHUP, by a command, and inside an application."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import onceq
from onceq import aio
from onceq.errors import ConfigurationError
from onceq.file_access import CONFIGURATION_FILE
from onceq.model.settings import Settings
from tests import nursery
from tests.daemon.process import ROOT, WAIT_S, Process

pytestmark = pytest.mark.slow

Q = r"private$\q"
FILE_TEXT = 'listen = "127.0.0.1:0"\nlog_level = "info"\n[settings]\nconnect_retry_s = 600.0\n'


@pytest.fixture
def alpha(tmp_path: Path) -> Iterator[Process]:
    path = tmp_path / "alpha"
    path.mkdir()
    (path / CONFIGURATION_FILE).write_text(FILE_TEXT)
    process = Process(path, "--create", "ALPHA").started()
    yield process
    assert process.end(signal.SIGTERM) == 0, process.said


def told(process: Process, found: Callable[[str], bool]) -> str:
    """Wait until its log says it (each look asks the manager something, so time passes there)."""
    with onceq.connect(str(process.path)) as qm:
        while not found(process.said):
            qm.admin.status()
            assert process.popen.poll() is None, process.said
    return process.said


def test_sighup_reads_the_file_again_and_the_manager_goes_on(alpha: Process) -> None:
    (alpha.path / CONFIGURATION_FILE).write_text(
        FILE_TEXT.replace("600.0", "0.5") + "hardened = true\n"
    )
    with onceq.connect(str(alpha.path)) as qm:
        qm.create_queue(Q, transactional=True)
        with qm.transaction() as tx:
            tx.send(Q, "over a reload")
            alpha.popen.send_signal(signal.SIGHUP)
            said = told(alpha, lambda text: "configuration reloaded" in text)
        assert qm.receive(Q, timeout=WAIT_S).text == "over a reload"
    assert 'changed="settings.connect_retry_s: 600.0 -> 0.5"' in said
    assert 'needs_restart="settings.hardened: false -> true"' in said


def test_a_mistake_in_the_file_changes_nothing_and_is_told(alpha: Process) -> None:
    (alpha.path / CONFIGURATION_FILE).write_text(
        FILE_TEXT.replace("connect_retry_s", "conect_retry_s")
    )
    alpha.popen.send_signal(signal.SIGHUP)
    said = told(alpha, lambda text: "nothing has changed" in text)
    assert "did you mean 'connect_retry_s'" in said
    with onceq.connect(str(alpha.path)) as qm:
        with pytest.raises(ConfigurationError, match=r"onceq\.toml:4: settings\.conect_retry_s"):
            qm.admin.reload()
        (alpha.path / CONFIGURATION_FILE).write_text(FILE_TEXT)
        assert qm.admin.reload() == onceq.Reloaded()


def test_a_new_address_book_is_used_at_the_next_attempt(alpha: Process, tmp_path: Path) -> None:
    """And a shorter interval between attempts counts at once for what is tried from then on."""
    beta = Process(tmp_path / "beta", "--create", "BETA", "--listen", "127.0.0.1:0").started()
    try:
        text = FILE_TEXT.replace("600.0", "0.1")
        with onceq.connect(str(alpha.path)) as qm, onceq.connect(str(beta.path)) as there:
            there.create_queue(Q, transactional=True)
            (alpha.path / CONFIGURATION_FILE).write_text(text + '[peers]\nBETA = "127.0.0.1:1"\n')
            assert len(qm.admin.reload().changed) == 2
            qm.send(rf"DIRECT=OS:BETA\{Q}", "found", transactional=True)
            told(alpha, lambda said: "peer not reached" in said)
            (alpha.path / CONFIGURATION_FILE).write_text(
                text + f'[peers]\nBETA = "{beta.peers_at}"\n'
            )
            assert qm.admin.reload() == onceq.Reloaded(("peers",))
            assert there.receive(Q, timeout=WAIT_S).text == "found"
    finally:
        assert beta.end() == 0


def test_the_command_says_what_changed_and_what_needs_a_restart(alpha: Process) -> None:
    (alpha.path / CONFIGURATION_FILE).write_text(
        FILE_TEXT.replace("127.0.0.1:0", "127.0.0.1:1").replace("info", "debug")
    )
    for first in (True, False):
        done = nursery.run(
            [sys.executable, "-m", "onceq.cli.main", "qm", "reload", "-q", str(alpha.path)],
            cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "needs a restart: listen: 127.0.0.1:0 -> 127.0.0.1:1\n" in done.stdout
        assert ("changed: log_level: info -> debug" in done.stdout) == first


def test_embedded_managers_reload_what_no_argument_takes_the_place_of(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.mkdir()
    (path / CONFIGURATION_FILE).write_text('listen = ""\n[peers]\nB = "127.0.0.1:1"\n')
    settings = Settings(connect_retry_s=7.0)
    with onceq.open(str(path), name="A", settings=settings, peers={"C": "x"}, create=True) as qm:
        assert qm.admin.reload() == onceq.Reloaded()
        (path / CONFIGURATION_FILE).write_text('listen = ""\n[settings]\nconnect_retry_s = 1.0\n')
        assert qm.admin.reload() == onceq.Reloaded(("peers",))
        (path / CONFIGURATION_FILE).write_text("nonsense")
        with pytest.raises(ConfigurationError, match="not TOML"):
            qm.admin.reload()

    async def again() -> None:
        (path / CONFIGURATION_FILE).write_text('listen = ""\n')
        async with await aio.open(str(path)) as qm:
            (path / CONFIGURATION_FILE).write_text('name = "B"\n')
            with pytest.raises(ConfigurationError, match="keeps its name"):
                await qm.admin.reload()
            assert qm.name == "A"

    asyncio.run(again())
