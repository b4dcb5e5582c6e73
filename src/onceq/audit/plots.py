"""Pictures of a report as SVG, drawn by matplotlib; text stays text, colours suit both themes."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import matplotlib as mpl

mpl.use("svg")

from matplotlib import dates as mdates
from matplotlib import ticker
from matplotlib.figure import Figure

COLORS: Final = (
    "#2f6fde",
    "#e0862f",
    "#2f9e62",
    "#a24fc4",
    "#c94f5c",
    "#1f9ba8",
    "#8a7a2c",
    "#777f8c",
)
ROUTES_MAX: Final = 6
"""Lines in one picture; more cannot be told apart."""
LATENCIES_MAX: Final = 16
"""Rows in the picture of latencies."""
MARKS_MAX: Final = 40
"""Starts of managers in one picture."""
NAMES_MAX: Final = 3
NAME_CHARS: Final = 24
"""Names, and characters, above one line or several that are close to each other."""
NARROW_CHARS: Final = 54
WIDE_CHARS: Final = 140
"""Of the name of a route, in a narrow and in a wide picture."""
NEAR: Final = 0.02
"""Lines that differ by less of what the picture shows lie on each other."""
DASH: Final = 3.0
DOT: Final = 3.5
"""Length of a piece of a broken line, in its widths, and size of a dot, in points."""
_LINES: Final = ("-", (0, (5, 2)), (0, (1, 1.5)))
"""Lines in turn; they can be told apart without their colours."""
_SOFT: Final = "#8a93a0"
_AFTER: Final = "#c94f5c"
_STYLE: Final = {
    "svg.fonttype": "none", "svg.hashsalt": "onceq", "font.family": "sans-serif", "font.size": 10,
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#8a93a0",
    "axes.labelcolor": "#5b6573", "xtick.color": "#5b6573", "ytick.color": "#5b6573",
    "text.color": "#5b6573", "axes.grid": True, "grid.color": "#8a93a0", "grid.alpha": 0.22,
    "axes.axisbelow": True,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mark:
    """The start of a queue manager, to be marked in a picture.

    Attributes:
        orderly: Whether its process before had ended in order; None: not known, or none.
    """

    second: float
    name: str
    orderly: bool | None


def totals(points: Sequence[Mapping[str, Any]], event: str) -> dict[str, int]:
    """Messages of each route, most first."""
    total: dict[str, int] = {}
    for point in points:
        if point["event"] == event:
            total[point["route"]] = total.get(point["route"], 0) + point["messages"]
    return dict(sorted(total.items(), key=lambda one: (-one[1], one[0])))


def grid(points: Sequence[Mapping[str, Any]]) -> range:
    """The seconds that a picture has; the pictures of all events have the same."""
    seconds = sorted({point["second"] for point in points})
    step = min((b - a for a, b in pairwise(seconds)), default=1)
    return range(seconds[0], seconds[-1] + step, step) if seconds else range(0)


def traffic(
    points: Sequence[Mapping[str, Any]], event: str, *, narrow: bool, marks: Sequence[Mark] = ()
) -> str:
    """Messages by time, a line a route, as SVG; "" if there were none.

    Args:
        narrow: For a narrow screen: the same text on less room.
        marks: Starts of managers, in order of time.
    """
    routes = list(totals(points, event))[:ROUTES_MAX]
    if not routes:
        return ""
    seconds = grid(points)
    times = [_day(at) for at in seconds]
    series = []
    for route in routes:
        by_time = {p["second"]: p["messages"] for p in points
                   if p["event"] == event and p["route"] == route}  # fmt: skip
        series.append([by_time.get(at, 0) / seconds.step for at in seconds])
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.2, 2.8) if narrow else (10.4, 3.2))
        axes = figure.add_subplot()
        dots = len(times) < 20
        for number, (values, stroke) in enumerate(zip(series, _strokes(series), strict=True)):
            axes.plot(times, values, color=COLORS[number], linewidth=1.8, label=routes[number],
                      linestyle=stroke.line, marker="o" if dots else "",
                      markersize=stroke.dot)  # fmt: skip
            if len(routes) == 1:
                axes.fill_between(times, values, color=COLORS[number], alpha=0.10, linewidth=0)
        _mark(axes, marks, (seconds[-1] - seconds[0]) * (0.05 if narrow else 0.02))
        axes.set_ylim(bottom=0)
        axes.set_ylabel("messages a second")
        locator = mdates.AutoDateLocator(minticks=2, maxticks=4 if narrow else 8)
        axes.xaxis_date(UTC)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator))
        return _svg(figure)


def _day(second: float) -> float:
    return float(mdates.date2num(datetime.fromtimestamp(second, UTC)))


@dataclass(frozen=True, slots=True)
class _Stroke:
    line: Any
    dot: float


def _strokes(series: Sequence[Sequence[float]]) -> list[_Stroke]:
    """How lines are drawn. Those that lie on each other are broken in turn, so that each shows in
    the gaps of the others; their dots are rings around each other."""
    near = NEAR * max(max(values) for values in series)
    groups: list[list[int]] = []
    for at, values in enumerate(series):
        there = next((g for g in groups if _covers(values, series[g[0]], near)), None)
        if there is None:
            groups.append([at])
        else:
            there.append(at)
    made = [_Stroke(_LINES[at % len(_LINES)], DOT) for at in range(len(series))]
    for group in groups:
        size = len(group)
        for turn, at in enumerate(group if size > 1 else ()):
            line = (DASH * (size - turn), (DASH, DASH * (size - 1))) if turn else "-"
            made[at] = _Stroke(line, DOT + 1.8 * (size - 1 - turn))
    return made


def _covers(one: Sequence[float], other: Sequence[float], near: float) -> bool:
    """Whether two lines lie on each other where either of them is more than nothing."""
    some = [abs(a - b) <= near for a, b in zip(one, other, strict=True) if a or b]
    return sum(some) * 2 > len(some)


def _mark(axes: Any, marks: Sequence[Mark], gap_s: float) -> None:
    """An upright line for each start, and above it the name; one text for those closer than a
    text is wide."""
    named: list[tuple[float, list[str]]] = []
    for mark in marks:
        color, line = (_SOFT, (0, (3, 3))) if mark.orderly is not False else (_AFTER, "-")
        axes.axvline(_day(mark.second), color=color, linewidth=0.9, linestyle=line, zorder=1)
        if named and mark.second - named[-1][0] < gap_s:
            named[-1][1].append(mark.name)
        else:
            named.append((mark.second, [mark.name]))
    for second, names in named:
        different = list(dict.fromkeys(names))
        more = "" if len(different) <= NAMES_MAX else f", {len(different) - NAMES_MAX} more"
        axes.annotate(
            _short(", ".join(different[:NAMES_MAX]), NAME_CHARS) + more, (_day(second), 1.0),
            xycoords=("data", "axes fraction"), xytext=(0, 3), textcoords="offset points",
            rotation=90, ha="center", va="bottom", fontsize=8, parse_math=False,
        )  # fmt: skip


def latency(rows: Sequence[Mapping[str, Any]], *, narrow: bool) -> str:
    """Percentiles of latencies by route, as SVG; "" if there are none.

    Args:
        narrow: For a narrow screen: the same text on less room.
    """
    shown = list(rows)[:LATENCIES_MAX]
    if not shown:
        return ""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.2 if narrow else 10.4, 0.9 + 0.5 * len(shown)))
        axes = figure.add_subplot()
        least = 0.001
        for at, row in enumerate(reversed(shown)):
            color = COLORS[0] if row["from"] == "commit" else COLORS[2]
            values = [max(row[name], least) for name in ("p50_s", "p90_s", "p99_s", "max_s")]
            axes.plot([values[0], values[3]], [at, at], color=color, linewidth=2, alpha=0.45)
            axes.plot(values[:3], [at] * 3, linestyle="", marker="o", markersize=7, color=color)
            axes.plot(values[3:], [at], linestyle="", marker="|", markersize=13, color=color)
            axes.annotate(
                _short(row["route"], NARROW_CHARS if narrow else WIDE_CHARS), (0.0, at + 0.26),
                xycoords=("axes fraction", "data"), xytext=(3, 0), textcoords="offset points",
                va="bottom", fontsize=8, parse_math=False,
            )  # fmt: skip
        axes.set_yticks(range(len(shown)), [str(len(shown) - at) for at in range(len(shown))])
        axes.set_ylim(-0.6, len(shown) - 0.2)
        axes.set_xscale("log")
        seconds = ticker.FuncFormatter(_seconds)
        axes.xaxis.set_major_formatter(seconds)
        low, high = axes.get_xlim()
        # Within one power of ten there is hardly any other number at the axis.
        axes.xaxis.set_minor_formatter(seconds if high < 10 * low else ticker.NullFormatter())
        axes.set_xlabel("50, 90, 99 % and the longest")
        axes.set_ylabel("row of the table")
        return _svg(figure)


def _short(value: str, most: int) -> str:
    """The beginning and the end: names of one kind differ at either."""
    if len(value) <= most:
        return value
    return f"{value[: most - most // 2 - 1]}…{value[-(most // 2) :]}"


def _seconds(value: float, _: object = None) -> str:
    if value < 1:
        return f"{value * 1000:g} ms"
    if value < 120:
        return f"{value:g} s"
    return f"{value / 60:g} min" if value < 7200 else f"{value / 3600:g} h"


def _svg(figure: Figure) -> str:
    """Without a size of its own: the page gives the width, the picture keeps its form."""
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, bbox_inches="tight",
                   metadata={"Date": None, "Creator": None})  # fmt: skip
    text = re.sub(r"<metadata>.*?</metadata>", "", out.getvalue(), flags=re.S)
    return text[text.index("<svg") :]
