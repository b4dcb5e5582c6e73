"""``make bench``: durable transactional sends, receives and store-and-forward of 1 KiB messages,
beside the disk's own rate of syncs, measured in between.

Rounds are interleaved and medians are printed; ratios are to y, the yardstick measured right
before. Figures depend on the machine and on who else uses it; ratios less so. Every message that
comes back is checked for order and count: a run that loses one fails (exit code 1). Goals missed
are said, and are no failure.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from onceq.cli.bench import WrongMessages, sync_rate
from proof.bench.cases import PROCESSES, QUICK, SIZES, Bench, Figures, Scale, benching

YARD_S = 0.3
VERIFIED_MAX = 1.03
"""Of the time that the same takes without verifying: what that may cost."""
GOALS_Y = 9_000
"""Syncs a second of the disk for which the goals were written."""


@dataclass(frozen=True)
class Row:
    """One line of the result.

    Attributes:
        case, figure: Where the value comes from.
        goal: The first step; in y for rates with ``per_y``, else in the unit. 0: none.
        less: Whether less is better.
    """

    title: str
    case: str
    figure: str
    unit: str = "/s"
    goal: float = 0.0
    per_y: bool = True
    less: bool = False


def rows() -> Iterator[Row]:
    """All lines, with the goals of the first step."""
    for per, goal in zip(SIZES, (0.7, 4.5, 22.0, 38.0), strict=True):
        yield Row(f"embedded, one thread, send, {per} a tx", f"embedded {per}", "send", goal=goal)
    for per in SIZES:
        yield Row(f"embedded, one thread, receive, {per} a tx", f"embedded {per}", "receive")
    yield Row("embedded, 16 threads, send, 1 a tx", "embedded16 1", "send")
    for way in ("send", "receive"):
        for per, goal in zip(SIZES, (0.4, 3.0, 12.0, 18.0), strict=True):
            yield Row(f"daemon, one client, {way}, {per} a tx", f"daemon {per}", way, goal=goal)
    yield Row(
        f"daemon, 16 clients ({PROCESSES} processes), send, 1 a tx", "daemon16 1", "send", goal=1.5
    )
    for per in SIZES:
        goal = 50_000.0 if per == 100 else 0.0
        yield Row(
            f"client, manager, manager, client, {per} a tx", f"forward {per}", "through",
            goal=goal, per_y=False,
        )  # fmt: skip
    yield from _times()
    for per, _ in Scale().cold:
        title = f"verifying what is read after a restart, {per} a tx"
        yield Row(
            f"{title}: time", "cold", f"time {per}", unit="x", goal=VERIFIED_MAX, per_y=False,
            less=True,
        )  # fmt: skip
        yield Row(f"{title}: processor", "cold", f"processor {per}", unit="x", per_y=False)


def _times() -> Iterator[Row]:
    def time(title: str, figure: str, goal: float) -> Row:
        return Row(title, "single", figure, unit="ms", goal=goal, per_y=False, less=True)

    def deep(title: str, figure: str, unit: str, goal: float) -> Row:
        return Row(title, "depth", figure, unit=unit, goal=goal, per_y=False, less=True)

    yield time("commit of one message, idle daemon, p50", "commit_p50", 0.35)
    yield time("commit of one message, idle daemon, p99", "commit_p99", 1.5)
    yield time("sent and received, one manager, p50", "whole_p50", 0.0)
    yield time("sent and received, two managers, p50", "far_p50", 2.0)
    yield time("sent and received, two managers, p99", "far_p99", 6.0)
    yield deep("time of a message, deep against 1,000 waiting", "depth_ratio", "x", 1.3)
    yield deep("the daemon's processor time, likewise", "depth_processor_ratio", "x", 0.0)
    yield deep("memory of a waiting message", "memory_bytes", "B", 120.0)
    yield deep("open again after SIGKILL, at depth", "reopen_s", "s", 3.0)
    yield deep("open again after a stop, at depth", "reopen_checkpointed_s", "s", 0.0)
    yield deep("start of an empty one, for comparison", "start_empty_s", "s", 0.0)
    yield deep("disk after all were sent and received", "disk_mib", "MiB", 128.0)


def measure(bench: Bench, folder: Path, say: Callable[[str], None]) -> dict[str, list[Figures]]:
    """All cases, all rounds; each result with the yardstick measured before it."""
    cases: dict[str, Callable[[], Figures]] = {}
    for per in SIZES:
        cases[f"embedded {per}"] = lambda per=per: bench.embedded(per)  # type: ignore[misc]
        cases[f"daemon {per}"] = lambda per=per: bench.daemon(per)  # type: ignore[misc]
        cases[f"forward {per}"] = lambda per=per: bench.forward(per)  # type: ignore[misc]
    cases["embedded16 1"] = lambda: bench.embedded_sixteen(1)
    cases["daemon16 1"] = lambda: bench.daemon_sixteen(1)
    cases["single"] = bench.single
    found: dict[str, list[Figures]] = {name: [] for name in cases}
    for number in range(bench.scale.rounds):
        for name, case in cases.items():
            say(f"round {number + 1} of {bench.scale.rounds}: {name}")
            yard = sync_rate(str(folder), min(YARD_S, bench.scale.seconds))
            found[name].append({**case(), "y": yard})
    say(f"depth {bench.scale.depth:,}")
    say("cold reads")
    found["cold"] = [{**bench.cold(), "y": sync_rate(str(folder), bench.scale.seconds)}]
    found["depth"] = [{**bench.depth(), "y": sync_rate(str(folder), bench.scale.seconds)}]
    return found


@dataclass(frozen=True)
class Line:
    """A row with its figures."""

    row: Row
    value: float
    ratio: float

    @property
    def met(self) -> bool | None:
        """Whether the first step is met; None if there is no goal."""
        if not self.row.goal:
            return None
        value = self.ratio if self.row.per_y else self.value
        return value <= self.row.goal if self.row.less else value >= self.row.goal


def summed_up(found: dict[str, list[Figures]]) -> list[Line]:
    """Medians over the rounds."""
    lines = []
    for row in rows():
        rounds = found[row.case]
        value = statistics.median(r[row.figure] for r in rounds)
        ratio = statistics.median(r[row.figure] / r["y"] for r in rounds)
        lines.append(Line(row, value, ratio))
    return lines


def table(lines: list[Line], found: dict[str, list[Figures]], scale: Scale) -> str:
    """The result for people."""
    yards = [r["y"] for rounds in found.values() for r in rounds]
    text = [
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, Python "
        f"{platform.python_version()}; bodies of {scale.body} B; median of {scale.rounds} rounds",
        f"y, 4 KiB overwrite + fdatasync: {statistics.median(yards):,.0f}/s "
        f"({min(yards):,.0f} to {max(yards):,.0f}); depth {scale.depth:,}",
        "",
        f"{'':56} {'measured':>14} {'in y':>7} {'first step':>11}",
    ]
    for line in lines:
        row = line.row
        form = ",.0f" if line.value >= 100 else ",.2f"
        ratio = f"{line.ratio:.2f}" if row.unit == "/s" else ""
        goal = (f"{row.goal:g} y" if row.per_y else f"{row.goal:,g}") if row.goal else ""
        met = {True: "met", False: "MISSED", None: ""}[line.met]
        value = f"{line.value:{form}} {row.unit}"
        text.append(f"{row.title:56} {value:>14} {ratio:>7} {goal:>11} {met}".rstrip())
    judged = [line.met for line in lines if line.met is not None]
    text += ["", f"{sum(judged)} of {len(judged)} goals of the first step met"]
    text += caution(yards)
    return "\n".join(text)


def caution(yards: list[float]) -> list[str]:
    """What keeps the verdicts of this run from being worth much, if anything does.

    With a disk much slower than the one that the goals were written for, goals in y are met by
    anything (the sync is all there is to wait for), and those in absolute terms by nothing.
    """
    found = []
    yard = statistics.median(yards)
    if yard < GOALS_Y / 2:
        found.append(
            f"CAUTION y is {yard:,.0f}/s; the goals were written for {GOALS_Y:,}/s. Goals in y are "
            "too easy on such a disk, and the others too hard: take no verdict from this run"
        )
    if max(yards) > 2 * min(yards):
        found.append("CAUTION y has moved by more than twice: somebody else used this machine")
    return found


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run: figures mean nothing")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--depth", type=int, default=0, help="messages of the depth case")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="on the disk to measure")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    scale = QUICK if options.quick else Scale()
    changes = {name: getattr(options, name) for name in ("rounds", "depth")}
    scale = Scale(**{**vars(scale), **{name: v for name, v in changes.items() if v}})
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="onceq-bench-", dir=options.folder))
    shown = sys.stderr.isatty() and not options.json

    def say(text: str) -> None:
        if shown:
            print(f"\r{text:60}", end="", file=sys.stderr, flush=True)

    try:
        with benching(folder, scale) as bench:
            found = measure(bench, folder, say)
    except KeyboardInterrupt:
        print("interrupted; everything was stopped", file=sys.stderr)
        return 130
    except WrongMessages as error:
        print(f"WRONG MESSAGES: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    say("")
    lines = summed_up(found)
    if options.json:
        yards = [r["y"] for rounds in found.values() for r in rounds]
        said = {"lines": [_plain(line) for line in lines], "cautions": caution(yards)}
        print(json.dumps({**said, "rounds": found}, indent=1))
    else:
        print(table(lines, found, scale))
    return 0


def _plain(line: Line) -> dict[str, object]:
    return {
        "title": line.row.title, "value": round(line.value, 3), "unit": line.row.unit,
        "in_y": round(line.ratio, 3), "first_step": line.row.goal or None, "met": line.met,
    }  # fmt: skip
