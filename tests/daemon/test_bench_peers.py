"""``make bench-peers`` measures what is on this machine, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from proof.bench.peers.run import QUICK
from proof.bench.peers.systems import SYSTEMS

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
@pytest.mark.timeout(900)  # transactions of Kafka take long, if its jars are on this machine
def test_every_system_is_measured_or_the_reason_is_said(folder: Path) -> None:
    place, out = folder / "place", folder / "out"
    place.mkdir()
    done = subprocess.run(
        [*COMMAND, "--json", "--folder", str(place), "--out", str(out)],
        cwd=ROOT, capture_output=True, text=True, timeout=880, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found["outcomes"]) == list(SYSTEMS)
    for name, outcome in found["outcomes"].items():
        assert bool(outcome["rounds"]) != bool(outcome["reason"]), name
        for one in outcome["rounds"]:
            assert 0 <= one.pop("others") <= 1
            assert all(value > 0 for value in one.values())
    measured = {name for name, outcome in found["outcomes"].items() if outcome["rounds"]}
    assert {"onceq", "onceq-embedded", "onceq-two"} <= measured
    (daemon,) = found["outcomes"]["onceq"]["rounds"]
    ways = {f"{way} {per}" for way in ("send", "receive", "through") for per in QUICK.sizes}
    assert ways | {"sixteen", "commit p50", "whole p50", "yard"} <= set(daemon)
    assert json.loads((out / "run.json").read_text()) == json.loads(done.stdout)
    assert "<svg" in (out / "plot.svg").read_text()
    assert list(place.iterdir()) == []
    assert left(place) == []


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
