"""Pictures of a report as SVG, drawn by matplotlib; text stays text, colours suit both themes."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
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
_LINES: Final = ("-", (0, (5, 2)), (0, (1, 1.5)))
"""Equal lines lie on each other; where they are broken differently each can be seen."""
_STYLE: Final = {
    "svg.fonttype": "none", "svg.hashsalt": "onceq", "font.family": "sans-serif", "font.size": 10,
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#8a93a0",
    "axes.labelcolor": "#5b6573", "xtick.color": "#5b6573", "ytick.color": "#5b6573",
    "text.color": "#5b6573", "axes.grid": True, "grid.color": "#8a93a0", "grid.alpha": 0.22,
    "axes.axisbelow": True,
}  # fmt: skip


def traffic(points: Sequence[Mapping[str, Any]], event: str, *, narrow: bool) -> str:
    """Messages by time, a line a route, as SVG; "" if there were none.

    Args:
        narrow: For a narrow screen: the same text on less room.
    """
    total: dict[str, int] = {}
    for point in points:
        if point["event"] == event:
            total[point["route"]] = total.get(point["route"], 0) + point["messages"]
    routes = sorted(total, key=lambda route: (-total[route], route))[:ROUTES_MAX]
    if not routes:
        return ""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.2, 2.8) if narrow else (10.4, 3.2))
        axes = figure.add_subplot()
        seconds = sorted({point["second"] for point in points})
        step = min((b - a for a, b in pairwise(seconds)), default=1)
        grid = range(seconds[0], seconds[-1] + step, step)
        for number, route in enumerate(routes):
            by_time = {p["second"]: p["messages"] for p in points
                       if p["event"] == event and p["route"] == route}  # fmt: skip
            times = [mdates.date2num(datetime.fromtimestamp(at, UTC)) for at in grid]
            values = [by_time.get(at, 0) / step for at in grid]
            axes.plot(times, values, color=COLORS[number], linewidth=1.8, label=route,
                      linestyle=_LINES[number % len(_LINES)], marker="o",
                      markersize=3.5 if len(times) < 20 else 0)  # fmt: skip
            if len(routes) == 1:
                axes.fill_between(times, values, color=COLORS[number], alpha=0.10, linewidth=0)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("messages a second")
        locator = mdates.AutoDateLocator(minticks=2, maxticks=4 if narrow else 8)
        axes.xaxis_date(UTC)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator))
        return _svg(figure)


def latency(rows: Sequence[Mapping[str, Any]], *, narrow: bool) -> str:
    """Percentiles of latencies by route, as SVG; "" if there are none."""
    shown = list(rows)[:LATENCIES_MAX]
    if not shown:
        return ""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.2 if narrow else 10.4, 0.9 + 0.34 * len(shown)))
        axes = figure.add_subplot()
        least = 0.001
        for at, row in enumerate(reversed(shown)):
            color = COLORS[0] if row["from"] == "commit" else COLORS[2]
            values = [max(row[name], least) for name in ("p50_s", "p90_s", "p99_s", "max_s")]
            axes.plot([values[0], values[3]], [at, at], color=color, linewidth=2, alpha=0.45)
            axes.plot(values[:3], [at] * 3, linestyle="", marker="o", markersize=7, color=color)
            axes.plot(values[3:], [at], linestyle="", marker="|", markersize=13, color=color)
        axes.set_yticks(range(len(shown)), [str(len(shown) - at) for at in range(len(shown))])
        axes.set_ylim(-0.6, len(shown) - 0.4)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(_seconds))
        axes.set_xlabel("50, 90, 99 % and the longest")
        axes.set_ylabel("row of the table")
        return _svg(figure)


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
