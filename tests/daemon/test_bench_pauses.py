"""The benchmark of pauses notes what has happened and what was slow, and judges it truly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proof.bench import pauses as bench_pauses

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_smoke_run_notes_what_has_happened() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "proof", "bench-pauses", "--messages", "4000", "--queues", "16",
         "--seconds", "3", "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    assert done.returncode == bool(found["missed"])
    assert found["answers_ms"]
    assert found["waiting"] > 0
    assert found["counted"]["PurgeQueue"]


def noted(**changes: float) -> dict[str, Any]:
    return {"at": 1.0, "long": 30.0, "worked": 25.0, "others": 0.0, "core": 0.0, "disk": 0.0,
            "stolen": 0.0, "slowness": 1.0,
            "work": {"pump": (2.0, 2.0, 3), "snapshot": (24.0, 22.0, 1)}, **changes}  # fmt: skip


def test_waiting_for_a_core_or_the_disk_is_no_pause_of_ours() -> None:
    counted = dict.fromkeys(bench_pauses.NEEDED, [1.0] * 5)
    judged = [
        len(bench_pauses.missed({"counted": counted, "pauses": [pause]}))
        for pause in (noted(), noted(core=11.0), noted(disk=11.0), noted(slowness=9.0))
    ]
    assert judged == [1, 0, 0, 0]


def test_the_yardstick_is_that_of_the_moment_of_the_pause() -> None:
    even = [(at / 50, 2.0) for at in range(500)]
    yardstick = bench_pauses.Yardstick([(at, 18.0 if at == 5.0 else ms) for at, ms in even])
    assert yardstick.usual_ms == 2.0
    assert yardstick.slowness(noted(at=5.03)) == 9.0
    assert yardstick.slowness(noted(at=5.3, long=300.0)) == 9.0, "a long one that began then"
    assert yardstick.slowness(noted(at=5.3)) == 1.0
    assert yardstick.slowness(noted(at=99.0)) == 1.0, "nothing was measured then"


def test_what_did_not_happen_is_a_miss() -> None:
    counted = dict.fromkeys(bench_pauses.NEEDED, [1.0] * 5)
    assert bench_pauses.missed({"counted": counted, "pauses": []}) == []
    del counted["Relocate"]
    (line,) = bench_pauses.missed({"counted": counted, "pauses": []})
    assert "Relocate" in line


def test_the_longest_parts_of_a_pause_are_named() -> None:
    parts = bench_pauses.causes(noted())
    assert parts == [("snapshot", 24.0, 22.0), ("3 x pump", 2.0, 2.0), ("the rest", 4.0, 1.0)]


def test_only_what_was_noted_in_time_counts() -> None:
    found = {
        "pauses": [noted(at=0.5), noted()], "pumps": [(0.5, 7.0), (1.0, 8.0)],
        "counted": {"expiry": [(0.5, 9.0), (1.0, 4.0), (1.5, 3.0), (3.0, 9.0)]},
    }  # fmt: skip
    seen = bench_pauses.inside(found, 0.9, 2.0)
    assert seen == {"pauses": [noted()], "pumps": [8.0], "counted": {"expiry": [3.0, 4.0]}}
