"""Verdicts of the benchmarks: goals are judged the right way round, lost messages are noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import onceq
from onceq.cli.bench import WrongMessages
from proof.bench import against as bench_against
from proof.bench import bench
from proof.bench import loss as bench_loss
from proof.bench import pauses as bench_pauses
from proof.bench import tls as bench_tls
from proof.bench.cases import QUEUE, check_senders
from proof.bench.client import SENDER_SHIFT
from proof.bench.tls import PLAIN, TLS, Case, Row


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


def test_goals_are_judged_the_right_way_round() -> None:
    assert bench_loss.verdict({"share": 0.34, "resends_per_loss": 2.0}) == []
    assert len(bench_loss.verdict({"share": 0.33, "resends_per_loss": 2.1})) == 2


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
