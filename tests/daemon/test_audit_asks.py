"""``onceq audit --ask``: a daemon at work says how much waits in it, and its history the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import onceq
from onceq.cli import audit
from onceq.cli.main import run
from tests.daemon.applications import Daemon

pytestmark = pytest.mark.slow


def test_a_daemon_and_its_history_say_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its history has a part an hour; for whoever asks it writes the next one at once."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "onceq.toml").write_text(
        "[settings]\nhistory = true\nhistory_roll_s = 3600\n"
    )
    with Daemon(tmp_path / "a") as daemon, onceq.connect(daemon.where) as qm:
        qm.create_queue("private$/q", transactional=True)
        for after in (3, 4):
            for body in range(after):
                qm.send("private$/q", b"%d" % body)
            qm.receive("private$/q", timeout=5)
            waits = qm.queue("private$/q").messages
            asks = ["--ask", daemon.where, "--ask", daemon.where]
            assert run(["audit", daemon.where, *asks, "--json"]) == 0
            found = json.loads(capsys.readouterr().out)
            assert (found["waiting"], found["notes"]) == ([], [])
            (looked,) = (o for o in found["checked"] if o["fault"] == "waiting-differs")
            assert looked["looked_at"] == 1
            assert found["states"]["waiting in its queue"] == waits
    assert run(["audit", daemon.where, "--ask", daemon.where]) != 0, "nobody is there to be asked"


def test_of_one_that_keeps_no_history_none_is_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said at once: no first file will come, nor a later one."""
    configuration = tmp_path / "a" / "onceq.toml"
    configuration.parent.mkdir()
    configuration.write_text("[settings]\nhistory = true\nhistory_roll_s = 3600\n")
    with Daemon(tmp_path / "a") as daemon, onceq.connect(daemon.where) as qm:
        qm.create_queue("private$/q", transactional=True)
        assert run(["audit", daemon.where, "--ask", daemon.where]) == 0

    def pause(seconds: float) -> None:
        raise AssertionError("it waits for a history")

    monkeypatch.setattr(audit, "pause", pause)
    configuration.write_text("")
    with Daemon(tmp_path / "a") as daemon, onceq.connect(daemon.where) as qm:
        qm.send("private$/q", b"x", transactional=True)
        assert run(["audit", daemon.where, "--ask", daemon.where]) == 0
        assert "was not compared: its history ends" in capsys.readouterr().out
        for one in (tmp_path / "a" / "history").iterdir():
            one.unlink()
        (tmp_path / "a" / "history").rmdir()
        assert run(["audit", daemon.where, "--ask", daemon.where]) != 0
        assert "keeps no history (history = true in [settings]" in capsys.readouterr().err
