"""``make bench-peers``, interrupted, leaves nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "proof", "bench-peers", "--quick", "--no-fetch"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not tmp_path: with a long test name the sockets in it would have too long a path, and
    servers that run as another user could not enter it."""
    with tempfile.TemporaryDirectory(prefix="onceq-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def left(folder: Path) -> list[str]:
    """Command lines of processes that name this folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            said = place.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended meanwhile
            continue
        if str(folder) in said:
            found.append(said)
    return found


@pytest.mark.slow
def test_who_interrupts_it_finds_nothing_left(folder: Path) -> None:
    command = [*COMMAND, "--only", "onceq,onceq-two,postgresql", "--folder", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("round 1"):
                assert left(folder) != []
                process.send_signal(signal.SIGINT)
                process.send_signal(signal.SIGINT)
                break
        said = process.stderr.read()
        assert process.wait(60) == 130, said
    assert "interrupted; everything was stopped" in said
    assert list(folder.iterdir()) == []
    assert left(folder) == []
