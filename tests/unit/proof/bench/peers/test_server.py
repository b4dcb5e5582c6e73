"""A server that is measured ends with all of its children, halted or not."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from proof.bench.peers.server import Measured, family, lives, signal_all

FOREVER = ["tail", "-f", "/dev/null"]


class Parent(Measured):
    def command(self) -> list[str]:
        return ["sh", "-c", f"setsid {' '.join(FOREVER)} & echo here; wait"]

    def answers(self) -> bool:
        return self.said.read_text() == "here\n"


def test_children_with_sessions_of_their_own_end_too(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    server = Parent(tmp_path)
    try:
        server.start()
        pids = server.pids()
        assert len(pids) == 2
        signal_all(pids, signal.SIGSTOP)
    finally:
        server.close()
    assert server.pids() == []
    assert not any(map(lives, pids))
    assert list(tmp_path.iterdir()) == []


def test_a_family_is_a_process_and_what_it_has_started() -> None:
    with subprocess.Popen(FOREVER) as child:
        try:
            assert child.pid in family(os.getpid())
            assert family(child.pid) == [child.pid]
        finally:
            child.kill()
