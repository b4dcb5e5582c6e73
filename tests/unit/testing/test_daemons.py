"""A queue manager in a process of its own: killed, it has what was confirmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceq.file_access import CONFIGURATION_FILE
from onceq.testing.daemons import Daemon

pytestmark = pytest.mark.slow
Q = r"private$\q"


def test_killed_and_started_again(tmp_path: Path) -> None:
    with Daemon(tmp_path / "a") as daemon:
        qm = daemon.connect()
        qm.create_queue(Q, transactional=True)
        qm.send(Q, b"x", transactional=True)
        daemon.kill()
        assert not daemon.running
        daemon.start()
        assert qm.receive(Q, timeout=0.0).body == b"x"
        with pytest.raises(RuntimeError, match="stop or kill it first"):
            daemon.start()
        size = sum(file.stat().st_size for file in (tmp_path / "a").iterdir())
        assert size < 4 << 20, "a manager for tests is small"


def test_one_that_cannot_start_says_why(tmp_path: Path) -> None:
    with Daemon(tmp_path / "a") as daemon:
        daemon.stop()
        (tmp_path / "a" / CONFIGURATION_FILE).write_text("nme = 1\n")
        with pytest.raises(RuntimeError, match=r"nme: there is no such key"):
            daemon.start()
