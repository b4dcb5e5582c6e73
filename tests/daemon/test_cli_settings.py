"""``onceq qm settings`` of a daemon: what it goes by, beside the defaults."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, cast

import pytest

from onceq.cli.main import run
from onceq.file_access import CONFIGURATION_FILE
from onceq.model.settings import SETTING_NAMES
from tests.daemon.process import Process
from tests.daemon.shell import Shell

pytestmark = pytest.mark.slow


def test_all_settings_are_shown(onceq_: Shell) -> None:
    told = onceq_.json("qm", "settings")
    assert isinstance(told, list)
    assert tuple(one["name"] for one in told) == SETTING_NAMES
    shown = onceq_("qm", "settings")
    assert [line.split()[0] for line in shown.splitlines()[1:]] == list(SETTING_NAMES)


def test_what_was_set_is_told_before_and_after_a_reload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alpha = Process(tmp_path / "alpha", "--create", "ALPHA", "--listen", "127.0.0.1:0").started()
    where = str(alpha.path)
    assert run(["-q", where, "qm", "settings", "--changed"]) == 0
    assert capsys.readouterr().out == "every setting is at its default\n"
    wanted = "[settings]\nconnect_retry_s = 1.5\nhistory_bytes_max = 1_000_000_000\n"
    (alpha.path / CONFIGURATION_FILE).write_text(wanted)
    assert run(["-q", where, "qm", "reload"]) == 0
    capsys.readouterr()
    assert run(["-q", where, "qm", "settings", "--changed"]) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split() for row in rows] == [
        ["connect_retry_s", "1.5", "5", "at", "a", "reload"]
    ], "no restart yet"
    assert alpha.end(signal.SIGTERM) == 0
    alpha = Process(tmp_path / "alpha", "--listen", "127.0.0.1:0").started()
    assert run(["-q", where, "qm", "settings", "--changed"]) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[:2] for row in rows] == [
        ["connect_retry_s", "1.5"], ["history_bytes_max", "1000000000"],
    ]  # fmt: skip
    assert alpha.end(signal.SIGTERM) == 0


def test_one_setting_is_shown_by_its_name(onceq_: Shell) -> None:
    _, row = onceq_("qm", "settings", "connect-retry-s").splitlines()
    assert row.split()[0] == "connect_retry_s"
    (told,) = cast(list[dict[str, Any]], onceq_.json("qm", "settings", "connect_retry_s"))
    assert told["name"] == "connect_retry_s"
    assert onceq_("qm", "settings", "hardened", "--changed") == "hardened is at its default\n"
    onceq_("qm", "settings", "conect_retry", code=2)
    assert "did you mean connect_retry_s" in onceq_.error
    onceq_("qm", "settings", "undecided", code=2)
    assert "undecided_s" in onceq_.error, "a part of the name will do"
    onceq_("qm", "settings", "zzz", code=2)
    assert "'onceq qm settings' lists them" in onceq_.error
