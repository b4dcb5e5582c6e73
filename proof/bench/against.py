"""``make bench-against TREE=path``: this tree and another checkout measured in turn; their ratios.

Each round is one whole ``make bench`` of the one tree and one of the other, each with its own
sources, in an order that changes from round to round. What is compared are the figures of the same
round; the median of their ratios is printed with the least and the greatest, so that it can be seen
how far the noise of the machine reaches. Above 1 this tree is better for every figure: for times
and sizes the ratio is turned round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from proof import ROOT
from proof.bench import bench

FLOOR = 0.97
"""A figure whose median is below it is named at the end."""
TIMEOUT_S = 1_800.0
DEPTH = 200_000
BENCH = "proof/bench/bench.py"
EARLIER = "tools/bench.py"
"""Where a checkout of before has it: a change is compared with what was there."""

Figures = Mapping[str, float]
"""Value of each line of a bench, by its title; rates in y."""


class FailedBench(Exception):
    """One of the two trees could not be measured; says which, and what it said itself."""


@dataclass(frozen=True)
class Compared:
    """One line of the bench in both trees.

    Attributes:
        ratios: This tree by the other, one for each round; above 1 is better.
    """

    title: str
    unit: str
    here: float
    there: float
    ratios: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median over the rounds."""
        return statistics.median(self.ratios)


def compared(pairs: Sequence[tuple[Figures, Figures]]) -> list[Compared]:
    """Every line that both trees know, over all rounds (this tree first in each pair)."""
    found = []
    for row in bench.rows():
        values = [
            (here[row.title], there[row.title])
            for here, there in pairs
            if row.title in here and row.title in there
        ]
        values = [(here, there) for here, there in values if here > 0 and there > 0]
        if not values:
            continue  # ``unknown`` names it
        ratios = tuple(there / here if _less(row) else here / there for here, there in values)
        unit = "y" if row.unit == "/s" else row.unit
        found.append(
            Compared(
                row.title, unit, statistics.median(v[0] for v in values),
                statistics.median(v[1] for v in values), ratios,
            )
        )  # fmt: skip
    return found


def unknown(pairs: Sequence[tuple[Figures, Figures]]) -> list[str]:
    """Lines that only one of the trees measures: they are not compared."""
    here, there = pairs[0]
    return sorted(set(here) ^ set(there))


def _less(row: bench.Row) -> bool:
    return row.unit != "/s"


def table(lines: Sequence[Compared], rounds: int) -> str:
    """The result for people; lines below ``FLOOR`` once more at the end."""
    text = [
        f"median of {rounds} rounds; ratio above 1: this tree is better",
        f"{'':56} {'this':>9} {'other':>9}     {'ratio':>5}  {'least':>5} {'most':>5}",
    ]
    for line in lines:
        text.append(
            f"{line.title:56} {line.here:9.4g} {line.there:9.4g} {line.unit:3} {line.ratio:6.3f} "
            f"{min(line.ratios):6.3f} {max(line.ratios):5.3f}"
        )
    below = [line for line in lines if line.ratio < FLOOR]
    text.append(f"{len(lines) - len(below)} of {len(lines)} lines at {FLOOR} or above")
    text += [f"BELOW {line.title}: {line.ratio:.3f}" for line in below]
    return "\n".join(text)


def bench_of(tree: Path) -> list[str]:
    """What Python is given to run the bench of a tree, in the folder of the tree."""
    return [EARLIER] if (tree / EARLIER).is_file() else ["-m", "proof", "bench"]


def measured(tree: Path, depth: int, *, quick: bool) -> Figures:
    """One round of the bench of a tree.

    Raises:
        FailedBench: It ended with an error, or lost a message.
    """
    command = [sys.executable, *bench_of(tree), "--json", "--rounds", "1"]
    command += ["--quick"] if quick else ["--depth", str(depth)]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise FailedBench(f"{tree}: its bench took more than {TIMEOUT_S:.0f} s") from None
    if done.returncode:
        raise FailedBench(f"{tree}: {done.stderr.strip()[-2_000:] or done.returncode}")
    return figures(json.loads(done.stdout))


def figures(said: dict[str, list[dict[str, object]]]) -> Figures:
    """What a bench has printed as JSON, by title: rates in y, all others as they are."""
    return {
        str(line["title"]): float(str(line["in_y" if line["unit"] == "/s" else "value"]))
        for line in said["lines"]
    }


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("tree", type=Path, help="another checkout of this repository")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--depth", type=int, default=DEPTH, help="messages of the depth case")
    parser.add_argument("--quick", action="store_true", help="a smoke run: figures mean nothing")
    options = parser.parse_args(arguments)
    other = options.tree.resolve()
    if not any((other / name).is_file() for name in (BENCH, EARLIER)):
        parser.error(f"{other} is no checkout: it has no {BENCH}")
    pairs: list[tuple[Figures, Figures]] = []
    try:
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            order = (ROOT, other) if number % 2 == 0 else (other, ROOT)
            found = {tree: measured(tree, options.depth, quick=options.quick) for tree in order}
            pairs.append((found[ROOT], found[other]))
    except FailedBench as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"interrupted after {len(pairs)} of {options.rounds} rounds", file=sys.stderr)
        if not pairs:
            return 130
    print(table(compared(pairs), len(pairs)))
    for title in unknown(pairs):
        print(f"NOT COMPARED {title}: only one of the trees measures it")
    return 0
