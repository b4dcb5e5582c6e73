"""A run of ``make bench-peers`` is summed up the right way round."""

from __future__ import annotations

import msgspec

from proof.bench.peers import summary
from proof.bench.peers.contract import About
from proof.bench.peers.run import Outcome, Run, Scale
from proof.bench.peers.summary import Spread


def run(**figures: list[float]) -> Run:
    """Systems that sent so many, one message a transaction, in each round."""
    outcomes = {
        name: Outcome(
            name, About("1.0", "synced"), [{"send 1": value, "yard": 9.0} for value in of]
        )
        for name, of in figures.items()
    }
    return Run("2026-01-01", "a machine", Scale(rounds=3), outcomes)


def test_a_cell_is_the_median_with_the_least_and_the_greatest() -> None:
    assert summary.spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert summary.cell(Spread(2_010.0, 900.0, 12_000.0)) == "2,010 (900–12,000)"
    assert summary.cell(Spread(122_400.0, 9_000.0, 131_000.0)) == "122 k (9–131)"
    assert summary.cell(Spread(0.123, 0.1, 0.2)) == "0.12 (0.10–0.20)"
    assert summary.cell(Spread(12.34, 0.1, 0.2), whole=False) == "12.3"
    assert summary.cell(None) == "-"


def test_a_ratio_is_taken_in_each_round_to_the_fastest_with_transactions() -> None:
    found = run(
        onceq=[10.0, 30.0, 20.0], postgresql=[10.0, 10.0, 10.0], redis=[9.0, 9.0, 90.0],
        **{"onceq-embedded": [99.0, 99.0, 99.0]},
    )  # fmt: skip
    (ratio,) = summary.ratios(found)
    assert (ratio.figure, ratio.ours, ratio.peer) == ("send 1", "onceq", "postgresql")
    assert ratio.found == Spread(2.0, 1.0, 3.0)


def test_nothing_is_compared_with_what_was_not_measured() -> None:
    assert list(summary.ratios(run(onceq=[1.0]))) == []
    assert list(summary.ratios(run(redis=[1.0]))) == []
    found = run(onceq=[], redis=[])
    assert list(summary.ratios(found)) == []
    assert summary.over_all(found, "yard") is None


def test_what_was_not_measured_is_named_with_its_reason() -> None:
    found = run(onceq=[1.0])
    found.outcomes["redis"] = Outcome("redis", reason="no redis-server\non the PATH")
    assert summary.absences(found) == ["Redis, stream: no redis-server on the PATH"]
    said = summary.text(found)
    assert "NOT MEASURED\nRedis, stream: no redis-server on the PATH" in said
    assert "| onceq, daemon | 1.00 (1.00–1.00) |" in said


def test_a_run_among_others_is_told_with_caution() -> None:
    found = run(onceq=[1.0, 2.0])
    assert "CAUTION" not in summary.preface(found)
    for outcome in found.outcomes["onceq"].rounds:
        outcome["others"] = 0.05
    assert "CAUTION" not in summary.preface(found)
    found.outcomes["onceq"].rounds[0]["others"] = 0.75
    assert "others took 40% of the processors" in summary.preface(found)


def test_columns_of_a_table_have_one_width() -> None:
    lines = summary.table(run(onceq=[1.0], postgresql=[2.0]), summary.SMALL).split("\n")
    assert len({len(line) for line in lines}) == 1
    assert len(lines) == 4


def test_a_run_is_kept_whole() -> None:
    found = run(onceq=[1.0])
    assert msgspec.json.decode(msgspec.json.encode(found), type=Run) == found
