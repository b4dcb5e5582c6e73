"""``make bench-spark``: rows a second of the source, the sink and each operator, in one run.

Beside them, on the same rows: what Spark's Python data source API reaches when nothing is behind
it, Spark's own rate source to nowhere, Parquet written and read, and ``dropDuplicates``. Those are
the yardsticks: goals are ratios, because machines differ. With nine rows in ten of one stream the
memory of the largest Python worker is told, too. With several ``--rows`` the last table says how
the cost of a row grows. Goals missed are said, and are no failure; rows lost are.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

from proof.bench.spark import operators, sink, skew, source
from proof.bench.spark.source import BODY_BYTES

Figures = dict[str, float]

PARTS: dict[str, Callable[[int, int], Figures]] = {
    "source": source.run,
    "sink": sink.run,
    "operators": lambda rows, _: operators.run(rows),
    "skew": lambda rows, _: skew.run(rows),
}
ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio that is owed (speed.md): one figure beside another.

    Attributes:
        least: Bytes of a body from which on it is owed.
    """

    figure: str
    beside: str
    first_step: float
    goal: float
    least: int = 0


GOALS = (
    Goal("stream, all columns", "stream, all columns, API alone", 0.4, 0.8),
    Goal("stream, large triggers", "stream, large triggers, API alone", 0.4, 0.8),
    Goal("sink, own", "sink, own, API alone", 0.4, 0.8),
    Goal("sink, own", "Parquet write", 0.4, 0.8, 1_024),
    Goal("sink, wide", "sink, wide, API alone", 0.4, 0.8),
    Goal("sink, narrow", "sink, narrow, API alone", 0.4, 0.8),
    *(
        Goal(f"{way}, eod_filter, {of}", f"{way}, dropDuplicates, {of}", 1.0, goal)
        for way, goal in (("stream", 2.0), ("batch", 1.5))
        for of in (f"{count} streams" for count in operators.STREAMS)
    ),
)


def verdicts(found: Figures, size: int) -> list[str]:
    """One line for each goal whose figures are there, with bodies of that size."""
    lines = []
    for goal in GOALS:
        if goal.figure in found and goal.beside in found and size >= goal.least:
            ratio = found[goal.figure] / found[goal.beside]
            said = "goal met" if ratio >= goal.goal else "first step met"
            said = said if ratio >= goal.first_step else "MISSED"
            lines.append(
                f"{goal.figure:40} {ratio:5.2f} of {goal.beside}; first step {goal.first_step}, "
                f"goal {goal.goal}: {said}"
            )
    return lines


def tell(rows: int, size: int, figures: Figures) -> None:
    """Print the figures of a part, with ``rows`` rows of ``size`` bytes."""
    print(f"\nrows/s with {rows:,} rows of {size} bytes")
    for title, value in figures.items():
        print(f"{title:52} {value:14,.2f}" if value < 100 else f"{title:52} {value:14,.0f}")
    for line in verdicts(figures, size):
        print(line)
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, action="append", help=f"may be repeated [{ROWS:,}]")
    parser.add_argument("--bytes", type=int, default=BODY_BYTES, help="of a body [%(default)s]")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    sizes = sorted(options.rows or [ROWS])
    found: dict[int, Figures] = {}
    for rows in sizes:
        found[rows] = {}
        for name in options.part or PARTS:
            print(f"{name}, {rows:,} rows ...", file=sys.stderr, flush=True)
            figures = PARTS[name](rows, options.bytes)
            found[rows].update(figures)
            if not options.json:
                tell(rows, options.bytes, figures)
    if options.json:
        print(json.dumps(found))
        return 0
    if len(sizes) > 1:
        small, large = sizes[0], sizes[-1]
        print(f"\ncost of a row with {large:,} rows, against {small:,}")
        for title, value in found[small].items():
            if value >= 100 and title in found[large]:
                print(f"{title:52} {value / found[large][title]:14.2f}")
    return 0
