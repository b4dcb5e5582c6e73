"""While one system is measured, all others are halted; one that cannot be had is named."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from proof.bench.peers import rounds
from proof.bench.peers.contract import About, Address, Link, System
from proof.bench.peers.run import QUICK
from tests.programs import NoServer


class Idle(System):
    """A process that does nothing."""

    name = "onceq"

    def start(self) -> None:
        self.process = subprocess.Popen(["tail", "-f", "/dev/null"])

    def about(self) -> About:
        return About("1.0", "none")

    def address(self) -> Address:
        return {}

    @classmethod
    def link(cls, address: Address) -> Link:
        raise NotImplementedError

    def pids(self) -> list[int]:
        return [self.process.pid]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Absent(Idle):
    def start(self) -> None:
        raise NoServer("there is none")

    def close(self) -> None:
        """Nothing was started."""


LOOKS = 1_000
"""At a process that does not seem to stand still: between taking the signal and standing still it
shows neither, for a moment."""


def halted(system: System) -> bool:
    """Whether its process stands still, or will before it does anything else."""
    (pid,) = system.pids()
    for _ in range(LOOKS):
        status = Path("/proc", str(pid), "status").read_text()
        pending = int(status.partition("ShdPnd:")[2].split()[0], 16)
        if "State:\tT" in status or pending & 1 << 18:  # bit of SIGSTOP
            return True
    return False


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[rounds.Turns, System, System]]:
    turns = rounds.Turns(QUICK)
    with ExitStack() as stack:
        for name in ("one", "other"):
            system = Idle(tmp_path)
            system.start()
            stack.callback(system.close)
            turns.running[name] = system
        yield turns, turns.running["one"], turns.running["other"]


def test_one_at_a_time_is_not_halted(two: tuple[rounds.Turns, System, System]) -> None:
    turns, one, other = two
    for chosen, rest in ((one, other), (other, one)):
        with turns.turn(chosen):
            assert halted(rest)
            assert not halted(chosen)
        assert halted(chosen)


def test_who_cannot_be_had_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def system(name: str) -> type[System]:
        if name == "nats":
            raise ImportError("No module named 'nats'")
        return {"onceq": Idle, "redis": Absent}[name]

    def measure(turns: rounds.Turns, chosen: System) -> dict[str, float]:
        assert not halted(chosen)
        return {"send 1": 1.0}

    monkeypatch.setattr(rounds, "system", system)
    monkeypatch.setattr(rounds.Turns, "measure", measure)
    monkeypatch.setattr(rounds, "conditions", lambda folder: {"yard": 9.0})
    said: list[str] = []
    kept: list[set[str]] = []
    found = rounds.run(
        ["onceq", "redis", "nats"], tmp_path, QUICK, said.append,
        lambda outcomes: kept.append(set(outcomes)),
    )  # fmt: skip
    assert kept == [{"onceq", "redis", "nats"}]
    assert found["onceq"].rounds == [{"send 1": 1.0, "yard": 9.0}]
    assert found["redis"].reason == "there is none"
    assert "onceq[bench]" in found["nats"].reason
    assert said[-1] == "round 1 of 1: onceq"


def test_who_fails_is_out_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(turns: rounds.Turns, chosen: System) -> dict[str, float]:
        raise RuntimeError("it went away")

    monkeypatch.setattr(rounds, "system", lambda name: Idle)
    monkeypatch.setattr(rounds.Turns, "measure", measure)
    monkeypatch.setattr(rounds, "conditions", lambda folder: {"yard": 9.0})
    found = rounds.run(["onceq"], tmp_path, QUICK, print, lambda outcomes: None)
    assert found["onceq"].rounds == []
    assert found["onceq"].reason == "failed in round 1: it went away"
