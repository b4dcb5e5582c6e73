"""The benchmark runs, its goals are judged the right way round, and it notices lost messages."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import onceq
from onceq.cli.measure import WrongMessages
from proof.bench import against as bench_against
from proof.bench import bench
from proof.bench.cases import QUEUE, check_senders
from proof.bench.client import SENDER_SHIFT

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_smoke_run_measures_everything() -> None:
    # Not tmp_path: with a long test name the sockets in it would have too long a path.
    with tempfile.TemporaryDirectory(prefix="onceq-") as name:
        _smoke(Path(name))


def _smoke(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "proof", "bench", "--quick", "--json", "--folder", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["lines"]) == len(list(bench.rows()))
    assert all(isinstance(line["value"], float) for line in found["lines"])
    by_title = {line["title"]: line for line in found["lines"]}
    assert by_title["daemon, one client, send, 100 a tx"]["value"] > 0
    assert list(folder.iterdir()) == []


def line(value: float, ratio: float, **row: object) -> bench.Line:
    return bench.Line(bench.Row("t", "c", "f", **row), value, ratio)  # type: ignore[arg-type]


def test_goals_in_y_are_judged_by_the_ratio() -> None:
    assert line(10.0, 0.7, goal=0.7).met is True
    assert line(9_999.0, 0.69, goal=0.7).met is False


def test_goals_in_units_are_judged_by_the_value() -> None:
    assert line(50_000.0, 1.0, goal=50_000.0, per_y=False).met is True
    assert line(2.5, 1.0, goal=2.0, per_y=False, less=True, unit="ms").met is False
    assert line(1.9, 1.0, goal=2.0, per_y=False, less=True, unit="ms").met is True
    assert line(1.9, 1.0).met is None


def test_a_slow_or_unsteady_disk_takes_the_verdict_away() -> None:
    assert bench.caution([9_000.0, 8_000.0]) == []
    (slow,) = bench.caution([200.0, 210.0])
    assert "take no verdict" in slow
    (unsteady,) = bench.caution([9_000.0, 9_000.0, 4_000.0])
    assert "somebody else" in unsteady


def test_a_case_missing_from_the_figures_is_an_error() -> None:
    with pytest.raises(KeyError):
        bench.summed_up({})


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [[0, 2], [0, 0], [1, 0]])
def test_what_many_senders_sent_is_checked(tmp_path: Path, numbers: list[int]) -> None:
    with onceq.open(str(tmp_path / "qm"), name="ALPHA", create=True) as qm:
        qm.create_queue(QUEUE, transactional=True)
        for sender in (3, 4):
            for n in (0, 1) if sender == 3 else numbers:
                body = ((sender << SENDER_SHIFT) | n).to_bytes(8, "little")
                qm.send(QUEUE, body, transactional=True)
        with pytest.raises(WrongMessages, match="sender 4"):
            check_senders(qm, 4, 8)


@pytest.mark.slow
def test_too_many_messages_are_noticed(tmp_path: Path) -> None:
    with onceq.open(str(tmp_path / "qm"), name="ALPHA", create=True) as qm:
        qm.create_queue(QUEUE, transactional=True)
        for n in range(3):
            qm.send(QUEUE, n.to_bytes(8, "little"), transactional=True)
        with pytest.raises(WrongMessages, match="more messages"):
            check_senders(qm, 2, 8)


def test_two_trees_are_compared_round_by_round() -> None:
    send, p50 = "daemon, one client, send, 1 a tx", "commit of one message, idle daemon, p50"
    pairs = [
        ({send: 0.5, p50: 2.0, "only here": 1.0}, {send: 0.25, p50: 1.0}),
        ({send: 0.3, p50: 3.0, "only here": 1.0}, {send: 0.3, p50: 1.5}),
        ({send: 0.4, p50: 1.0, "only here": 1.0}, {send: 0.8, p50: 1.0}),
    ]
    rate, time = bench_against.compared(pairs)
    assert (rate.title, rate.unit, rate.ratios) == (send, "y", (2.0, 1.0, 0.5))
    assert (rate.ratio, rate.here, rate.there) == (1.0, 0.4, 0.3)
    assert (time.title, time.ratios, time.ratio) == (p50, (0.5, 0.5, 1.0), 0.5), "less is better"
    assert bench_against.unknown(pairs) == ["only here"]
    said = bench_against.table([rate, time], 3)
    assert "1 of 2 lines at 0.97 or above" in said
    assert said.endswith(f"BELOW {p50}: 0.500")


def test_a_tree_whose_bench_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "bench.py").write_text("import sys\nsys.exit('it lost a message')\n")
    with pytest.raises(bench_against.FailedBench, match=f"{tmp_path}: it lost a message"):
        bench_against.measured(tmp_path, 10, quick=True)


def test_a_tree_says_its_rates_in_y() -> None:
    said = {
        "lines": [
            {"title": "a", "unit": "/s", "value": 900.0, "in_y": 0.3},
            {"title": "b", "unit": "ms", "value": 1.5, "in_y": 0.1},
        ]
    }
    assert bench_against.figures(said) == {"a": 0.3, "b": 1.5}
