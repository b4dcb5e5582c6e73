"""The benchmark of TLS runs, compares the two of one round, and judges its goals the right way
round."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import onceq
from proof.bench import tls as bench_tls
from proof.bench.cases import QUICK, benching
from proof.bench.tls import PLAIN, TLS, Case, Row

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_smoke_run_measures_everything_and_misses_nothing_by_its_exit_code() -> None:
    # Not tmp_path: with a long test name the sockets in it would have too long a path.
    with tempfile.TemporaryDirectory(prefix="onceq-") as folder:
        done = subprocess.run(
            [sys.executable, "-m", "proof", "bench-tls", "--quick", "--json", "--folder", folder],
            cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert list(Path(folder).iterdir()) == []
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    rows = [row for case in bench_tls.cases(QUICK) for row in case.rows]
    assert [line["title"] for line in found] == [row.title.strip() for row in rows]
    rates = [line for line in found if line["unit"] == "/s"]
    assert all(line["plain"] > 0 and line["tls"] > 0 for line in rates)
    goals = {line["goal"] for line in found if line["goal"] is not None}
    assert goals == {0.8, 0.98}


@pytest.mark.slow
@pytest.mark.parametrize("tls", [False, True])
def test_the_two_pairs_differ_in_what_is_compared(tls: bool) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="onceq-") as folder,
        benching(Path(folder), QUICK, tls=tls) as bench,
    ):
        assert bench.forward(10)["through"] > 0
        for node in (bench.alpha, bench.beta):
            with onceq.connect(str(node.path)) as manager:
                assert manager.status().tls is tls


def judged(row: Row, *rounds: tuple[float, float]) -> bench_tls.Line:
    case = Case((row,), lambda bench: (0.0,), len(rounds))
    case.found = [{PLAIN: (plain,), TLS: (tls,)} for plain, tls in rounds]
    (line,) = bench_tls.summed_up([case])
    return line


def test_what_is_kept_is_the_median_of_the_ratios_of_each_round() -> None:
    """A machine that is slower in one round is so for both."""
    line = judged(Row("x", goal=0.8), (100.0, 85.0), (10.0, 8.1), (1_000.0, 700.0))
    assert line.kept == pytest.approx(0.81)
    assert line.met is True
    assert line.middle == pytest.approx((0.755, 0.83))
    assert judged(Row("x", goal=0.8), (100.0, 79.0)).met is False
    assert judged(Row("x"), (100.0, 1.0)).met is None
    assert "0.80 MISSED" in bench_tls.table([judged(Row("x", goal=0.8), (100.0, 79.0))])


def test_each_round_begins_with_the_other_one() -> None:
    began: list[str] = []
    benches = {PLAIN: PLAIN, TLS: TLS}

    def work(bench: object) -> tuple[float, ...]:
        began.append(str(bench))
        return (1.0,)

    case = Case((Row("x"),), work, 2)
    for number in range(2):
        case.in_turn(number, benches)  # type: ignore[arg-type]
    assert began == [TLS, PLAIN, PLAIN, TLS]
