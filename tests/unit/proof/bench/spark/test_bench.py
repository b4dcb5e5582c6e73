"""What ``make bench-spark`` says of its goals."""

from __future__ import annotations

from proof.bench.spark.bench import GOALS, verdicts


def test_a_goal_is_a_ratio_of_two_figures_of_one_run() -> None:
    goal = next(goal for goal in GOALS if goal.figure == "sink, wide")
    for part, said in ((0.39, "MISSED"), (0.41, "first step met"), (0.81, "goal met")):
        (line,) = verdicts({goal.figure: part * 1e6, goal.beside: 1e6}, 200)
        assert line.endswith(said)
        assert f"{part:.2f} of sink, wide, API alone" in line


def test_nothing_is_said_of_what_was_not_measured() -> None:
    assert verdicts({"sink, wide": 1.0}, 200) == []
    assert len({(goal.figure, goal.beside) for goal in GOALS}) == len(GOALS) == 12


def test_parquet_is_a_yardstick_for_bodies_of_a_kibibyte() -> None:
    found = {"sink, own": 1.0, "Parquet write": 2.0}
    assert verdicts(found, 200) == []
    (line,) = verdicts(found, 1_024)
    assert "0.50 of Parquet write" in line
