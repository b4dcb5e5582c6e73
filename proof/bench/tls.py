"""``make bench-tls``: what TLS between queue managers costs, and what an identity costs those who
have nothing to do with it.

Two pairs of daemons do the same work in turn, one pair with identities, the other without; who
begins changes with each round. What is printed is the median of the ratios of the same round, and
where its middle half lies: a difference smaller than that is none. Every message is checked for
order and count, and a run that loses one fails. Goals missed are said, and are no failure.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from onceq.cli.bench import WrongMessages
from proof.bench.cases import QUICK, SIZES, Bench, Scale, benching

LOCAL_ROUNDS = 150
"""Of the case at one daemon: it is short, and what it may cost is little."""
FORWARD_ROUNDS = 9
SCALE = Scale(seconds=0.05, latency_rounds=200, forward=(800, 6_000, 40_000, 75_000))
PLAIN, TLS = "plain", "tls"


@dataclass(frozen=True)
class Row:
    """One line of the result.

    Attributes:
        less: Whether the value is a time, and not a rate.
        goal: The share of what is reached without TLS that must be kept; 0: none.
    """

    title: str
    unit: str = "/s"
    less: bool = False
    goal: float = 0.0


@dataclass
class Case:
    """Work that gives the values of some rows, in their order."""

    rows: tuple[Row, ...]
    work: Callable[[Bench], tuple[float, ...]]
    rounds: int
    found: list[dict[str, tuple[float, ...]]] = field(default_factory=list)

    def in_turn(self, number: int, benches: dict[str, Bench]) -> None:
        """One round: both, the other one first than in the round before."""
        names = list(benches) if number % 2 else list(benches)[::-1]
        self.found.append({name: self.work(benches[name]) for name in names})


@dataclass(frozen=True)
class Line:
    """A row with its figures.

    Attributes:
        kept: Median share of what is reached without TLS; of a time, how much longer it is.
        middle: The quartiles of that.
    """

    row: Row
    plain: float
    tls: float
    kept: float
    middle: tuple[float, float]

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None if there is none."""
        return self.kept >= self.row.goal if self.row.goal else None


def cases(scale: Scale) -> Iterator[Case]:
    """Everything that is measured."""
    yield Case(
        (
            Row("one daemon, Unix socket, commit of one message", goal=0.98),
            Row("one daemon, Unix socket, one message received"),
            Row("  processor time of the daemon, both together", unit="us", less=True),
        ),
        _local,
        LOCAL_ROUNDS,
    )
    for per in SIZES:
        yield Case(
            (
                Row(
                    f"client, manager, manager, client, {per} a tx",
                    goal=0.8 if per == 100 else 0.0,
                ),
                Row("  processor time of both daemons", unit="us", less=True),
            ),
            lambda bench, per=per: _forward(bench, per),  # type: ignore[misc]
            FORWARD_ROUNDS,
        )
    yield Case(
        (Row("one message over two managers, p50", unit="ms", less=True),),
        lambda bench: (bench.single()["far_p50"],),
        FORWARD_ROUNDS,
    )


def _local(bench: Bench) -> tuple[float, ...]:
    before = spent_s(bench.alpha.pid)
    found, count = bench.daemon(1), bench.sent
    return found["send"], found["receive"], (spent_s(bench.alpha.pid) - before) * 1e6 / count


def _forward(bench: Bench, per: int) -> tuple[float, ...]:
    pids = bench.alpha.pid, bench.beta.pid
    before = sum(map(spent_s, pids))
    rate = bench.forward(per)["through"]
    spent = sum(map(spent_s, pids)) - before
    return rate, spent * 1e6 / bench.scale.forward[SIZES.index(per)]


def spent_s(pid: int) -> float:
    """Processor time that the loop of a daemon has used, which is its main thread: in nanoseconds,
    as Linux counts it, because rounds are short."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def summed_up(measured: list[Case]) -> list[Line]:
    """Medians over the rounds."""
    lines = []
    for case in measured:
        for at, row in enumerate(case.rows):
            plain, tls = ([found[name][at] for found in case.found] for name in (PLAIN, TLS))
            ratios = [two / one for one, two in zip(plain, tls, strict=True)]
            low, middle, high = quartiles(ratios)
            lines.append(
                Line(row, statistics.median(plain), statistics.median(tls), middle, (low, high))
            )
    return lines


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """Between which the middle half lies, and its middle."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def table(lines: list[Line]) -> str:
    """The result for people."""
    text = [f"{'':48} {'without TLS':>14} {'with TLS':>14} {'kept':>6} {'middle half':>13} goal"]
    for line in lines:
        row = line.row
        values = [
            f"{value:{',.0f' if value >= 100 else ',.2f'}} {row.unit}"
            for value in (line.plain, line.tls)
        ]
        middle = f"{line.middle[0]:.2f} - {line.middle[1]:.2f}"
        kept = f"x{line.kept:.2f}" if row.less else f"{line.kept:.2f}"
        met = {True: f"{row.goal:.2f} met", False: f"{row.goal:.2f} MISSED", None: ""}[line.met]
        text.append(
            f"{row.title:48} {values[0]:>14} {values[1]:>14} {kept:>6} {middle:>13} {met}".rstrip()
        )
    return "\n".join(text)


def measure(folder: Path, scale: Scale, say: Callable[[str], None], *, quick: bool) -> list[Case]:
    """All cases, all rounds."""
    measured = list(cases(scale))
    with ExitStack() as stack:
        benches = {}
        for name in (PLAIN, TLS):
            (folder / name).mkdir()
            made = benching(folder / name, scale, tls=name == TLS)
            benches[name] = stack.enter_context(made)
        for case in measured:
            for number in range(1 if quick else case.rounds):
                say(f"{case.rows[0].title}, round {number + 1} of {case.rounds}")
                case.in_turn(number, benches)
    return measured


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run: figures mean nothing")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="on the disk to measure")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="onceq-bench-", dir=options.folder))
    shown = sys.stderr.isatty() and not options.json

    def say(text: str) -> None:
        if shown:
            print(f"\r{text:70}", end="", file=sys.stderr, flush=True)

    scale = replace(QUICK, seconds=SCALE.seconds) if options.quick else SCALE
    try:
        measured = measure(folder, scale, say, quick=options.quick)
    except KeyboardInterrupt:
        print("interrupted; everything was stopped", file=sys.stderr)
        return 130
    except WrongMessages as error:
        print(f"WRONG MESSAGES: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    say("")
    lines = summed_up(measured)
    print(json.dumps([_plain(line) for line in lines], indent=1) if options.json else table(lines))
    return 0


def _plain(line: Line) -> dict[str, object]:
    return {
        "title": line.row.title.strip(), "unit": line.row.unit, "plain": round(line.plain, 3),
        "tls": round(line.tls, 3), "kept": round(line.kept, 3), "goal": line.row.goal or None,
        "met": line.met,
    }  # fmt: skip
