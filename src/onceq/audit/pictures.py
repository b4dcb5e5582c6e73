"""Sections of the report of an audit that are pictures: traffic over time, and latencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from onceq.audit import plots
from onceq.audit.pieces import figure, route, table, text
from onceq.audit.plots import Mark
from onceq.hidden import show_hidden

SECOND_US: Final = 1_000_000
PICTURES: Final = {
    "committed": "Committed", "accepted": "Accepted by another manager", "received": "Received",
    "transmitted again": "Transmitted again, as far as observed",
}  # fmt: skip
"""What is drawn over time, and under which heading."""


def traffic(points: Sequence[Mapping[str, Any]], managers: Sequence[Mapping[str, Any]]) -> str:
    """Messages by time and route, with the starts of managers.

    Args:
        points: With ``route``, ``event``, ``second`` and ``messages``.
        managers: As the findings have them.
    """
    marks, earlier = _marks(points, managers)
    made = []
    for event, title in PICTURES.items():
        drawn = [plots.traffic(points, event, narrow=narrow, marks=marks)
                 for narrow in (False, True)]  # fmt: skip
        if drawn[0]:
            said = f"{title}: messages a second by route over time"
            said += "; an upright line where a queue manager was started" if marks else ""
            items = [*_routes(points, event), *_kinds(marks, earlier)]
            made.append(f"<h3>{title}</h3>{figure(drawn, said)}"
                        f"<ul class='legend'>{''.join(items)}</ul>")  # fmt: skip
    return f"<section><h2>Traffic by route</h2>{''.join(made) or '<p>None.</p>'}</section>"


def _marks(
    points: Sequence[Mapping[str, Any]], managers: Sequence[Mapping[str, Any]]
) -> tuple[list[Mark], int]:
    """The starts in the time of the pictures: the last ones, and how many more there are."""
    grid = plots.grid(points)
    if not grid:
        return [], 0
    every = [
        Mark(start["at_us"] / SECOND_US, show_hidden(one["manager"]), start["orderly"])
        for one in managers for start in one["starts"]
    ]  # fmt: skip
    inside = [mark for mark in every if grid[0] <= mark.second <= grid[-1]]
    inside.sort(key=lambda mark: (mark.second, mark.name))
    return inside[-plots.MARKS_MAX :], max(len(inside) - plots.MARKS_MAX, 0)


def _routes(points: Sequence[Mapping[str, Any]], event: str) -> list[str]:
    total = plots.totals(points, event)
    items = [
        f'<li><i style="background:{plots.COLORS[at]}"></i>{text(name)} ({count:,})</li>'
        for at, (name, count) in enumerate(list(total.items())[: plots.ROUTES_MAX])
    ]
    more = len(total) - plots.ROUTES_MAX
    return [*items, f"<li>and {more} more routes</li>"] if more > 0 else items


def _kinds(marks: Sequence[Mark], earlier: int) -> list[str]:
    """What the lines of starts mean, of the kinds that there are."""
    items = []
    if any(mark.orderly is not False for mark in marks):
        items.append('<li><i class="start"></i>a queue manager was started</li>')
    if any(mark.orderly is False for mark in marks):
        items.append(
            '<li><i class="start after"></i>started after it was killed, or had failed</li>'
        )
    return [*items, f"<li>and {earlier:,} earlier starts</li>"] if earlier else items


def latencies(found: Mapping[str, Any]) -> str:
    """How long messages took, as a picture and as a table."""
    listed = found["latencies"]
    if not listed:
        return ""
    rows = [
        f'<tr><td class="n">{at}</td><td class="route">{route(r["route"])}'
        f'<span class="soft narrow">{_way(r)}, {r["messages"]:,} messages</span></td>'
        f'<td class="wide">{_way(r)}</td><td class="n wide">{r["messages"]:,}</td>'
        f'<td class="n">{r["p50_s"]:,.3f}</td><td class="n wide">{r["p90_s"]:,.3f}</td>'
        f'<td class="n">{r["p99_s"]:,.3f}</td><td class="n wide">{r["max_s"]:,.3f}</td></tr>'
        for at, r in enumerate(listed, 1)
    ]
    head = ("#:n", "route", "from → to:wide", "messages:n wide", "50 %:n", "90 %:n wide",
            "99 %:n", "most:n wide")  # fmt: skip
    named = [{**row, "route": show_hidden(row["route"])} for row in listed]
    drawn = [plots.latency(named, narrow=narrow) for narrow in (False, True)]
    shown = min(len(listed), plots.LATENCIES_MAX)
    which = "each row" if shown == len(listed) else f"the first {shown} rows"
    said = (
        f"Latency of {which} of the table below, on a logarithmic scale: dots at 50, 90 and 99 %, "
        "a stroke at the longest; blue from commit to acceptance, green from acceptance to "
        "reception"
    )
    return (
        "<section><h2>Latencies</h2>"
        + figure(drawn, said)
        + table(head, rows, "Seconds; between two managers as far as their clocks agree")
        + "</section>"
    )


def _way(row: Mapping[str, Any]) -> str:
    return f"{text(row['from'])} → {text(row['to'])}"
