"""The report of an audit as one HTML file: ``report.html.j2``, with pictures.

The pictures are SVG, drawn by matplotlib.

Nothing is fetched; it is made for wide and narrow screens, light and dark, and can be read aloud
(headings, captions, descriptions of pictures). Every text of a history is escaped, and its hidden
characters are shown.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import matplotlib as mpl
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import dates as mdates
from matplotlib import ticker
from matplotlib.figure import Figure

from onceq.audit import measure
from onceq.hidden import show_hidden

# ---- plots ---------------------------------------------------------------------------------------
#
# Pictures of a report as SVG, drawn by matplotlib; text stays text, colours suit both themes.


mpl.use("svg")


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


def draw_grid(points: Sequence[Mapping[str, Any]]) -> range:
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
    seconds = draw_grid(points)
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


# ---- report --------------------------------------------------------------------------------------


INVARIANTS: Final = {
    "I1": "Nothing that was committed is lost",
    "I2": "All or none of a transaction",
    "I3": "Nothing that was not committed, and as it was committed",
    "I4": "At most once",
    "I5": "In the order of commits",
    "I6": "No silent hole",
    "I7": "Numbers never change",
    "I10": "Forgotten only when it has arrived",
    "I11": "One end",
    "I12": "One dead letter where one is due",
    "I13": "Acknowledgments are true",
    "I14": "Journals are true",
    "I18": "Places in a queue never change",
    "I28": "Who did something is known",
}
"""What each invariant says, in short."""
STARTS_MAX: Final = 40
"""Starts in one table."""
PICTURES: Final = {
    "committed": "Committed", "accepted": "Accepted by another manager", "received": "Received",
    "transmitted again": "Transmitted again, as far as observed",
}  # fmt: skip
"""What is drawn over time, and under which heading."""
UNSEEN: Final = (
    "Bodies, labels and properties themselves: a history has the size of a packet and a CRC-32 of "
    "its body, which tells damage and not the work of an enemy. Large bodies are summed at the "
    "commit and the acceptance only; histories of earlier versions have no sums.",
    "Messages outside transactions: less is promised of them, and they are not judged.",
    "What neither sender nor receiver tells, because both histories are missing or cut off.",
    "A history that was forged without a contradiction: it is evidence of its manager, not proof "
    "against it.",
)


def page(found: Mapping[str, Any], traffic: Sequence[Mapping[str, Any]]) -> str:
    """The report as a whole HTML page.

    Args:
        found: The findings.
        traffic: Points with ``route``, ``event``, ``second`` and ``messages``.
    """
    environment = Environment(
        loader=PackageLoader("onceq.audit", ""), autoescape=True, undefined=StrictUndefined,
        finalize=lambda value: show_hidden(value) if type(value) is str else value,
        trim_blocks=False, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {
        "route": _route, "moment": moment, "filter_of": _filter, "starts_of": _starts_of,
    }  # fmt: skip
    word, _, rest = str(found["verdict"]).partition(": ")
    states, managers = found["states"], found["managers"]
    starts, starts_told = _starts(managers)
    restarts = sum(start["again"] for m in managers for start in m["starts"])
    # Older files do not tell starts: then there may have been more.
    more = "+" if any(m["files_without_starts"] for m in managers) else ""
    return environment.get_template("report.html.j2").render(
        found={"landed": (), **found},
        invariants=INVARIANTS,
        unseen=UNSEEN,
        span=_span(found),
        verdict=(word.capitalize(), rest),
        tiles=[
            ("messages", f"{found['messages']:,}"),
            ("received", f"{states.get(measure.NAMES['received'], 0):,}"),
            ("waiting in their queues", f"{states.get(measure.NAMES['waiting'], 0):,}"),
            ("on their way", f"{states.get(measure.NAMES['in flight'], 0):,}"),
            ("in doubt", f"{states.get(measure.NAMES['in doubt'], 0):,}"),
            ("restarts", f"{restarts:,}{more}"),
            ("violations", f"{found['violations']:,}"),
        ],
        starts=starts,
        starts_told=starts_told,
        traffic=_traffic(traffic, managers),
        latencies=_latencies(found["latencies"]),
        story_of={
            fault["fault"]: number
            for number, story in reversed([*enumerate(found["stories"])])
            for fault in story["faults"]
        },
        size=f"{found['events']:,} events of {found['messages']:,} messages in "
        f"{found['transactions']:,} transactions and {found['streams']:,} streams",
    )


def moment(seconds: int) -> str:
    """A second, as people read it; "-" for none."""
    if not seconds:
        return "-"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _route(value: str) -> Markup:
    """May break behind an arrow or a backslash, and not inside a word."""
    text = str(Markup.escape(show_hidden(value)))
    return Markup(text.replace("→ ", "→ <wbr>").replace("\\", "\\<wbr>").replace(".", ".<wbr>"))


def _span(found: Mapping[str, Any]) -> str:
    """Return the time that the histories cover, as text."""
    first = min((m["from_s"] for m in found["managers"] if m["from_s"]), default=0)
    last = max((m["up_to_us"] // 1_000_000 for m in found["managers"]), default=0)
    if not first or last < first:
        return ""
    hours, rest = divmod(last - first, 3_600)
    minutes = f"{rest // 60} min " if rest >= 60 else ""
    took = f"{hours:,} h {rest // 60} min" if hours else f"{minutes}{rest % 60} s"
    return f"; {moment(first)} to {moment(last)}, {took}"


def _filter(key: Mapping[str, Any]) -> str:
    """What finds the rows of a message, as SQL; histories and tables have the same columns."""
    names = ("stream", "number") if key["stream"] is not None else ("message",)
    numbers = [f"{name} = {key[name]}" for name in names if key[name] is not None]
    return " AND ".join((f"source = '{key['source']}'", *numbers))


def _starts_of(manager: Mapping[str, Any]) -> str:
    if not manager["files_without_starts"]:
        return f"{len(manager['starts']):,}"
    return f"{len(manager['starts']):,}+" if manager["starts"] else "not told"


def _starts(managers: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """When managers were started, the last ones of all, and which these are."""
    every = [{**start, "manager": m["manager"]} for m in managers for start in m["starts"]]
    every.sort(key=lambda one: (one["at_us"], one["manager"]))
    if not any(start["again"] for start in every):
        return [], ""
    last = every[-STARTS_MAX:]
    if len(last) == len(every):
        return last, "In order of time"
    return last, f"The last {len(last)} of {len(every):,}; --json has all"


# ---- pictures ------------------------------------------------------------------------------------


def _figure(drawn: Sequence[str], said: str) -> list[Markup]:
    """A picture for wide and one for narrow screens, of which one is shown."""
    label = Markup.escape(said)
    made = []
    for svg, kind in zip(drawn, ("wide", "narrow"), strict=True):
        # Identifiers inside are made its own, and its size is left to the page.
        own = hashlib.sha256(f"{said} {kind} {svg}".encode()).hexdigest()[:8]
        svg = re.sub(r'\bid="([^"]+)"', rf'id="{own}-\1"', svg)
        svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{own}-\1)", svg)
        svg = re.sub(r'href="#([^"]+)"', rf'href="#{own}-\1"', svg)
        for _ in range(2):
            svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
        head = f'<svg class="{kind}" role="img" aria-label="{label}"'
        made.append(Markup(svg.replace("<svg", head, 1)))
    return made


def _traffic(
    points: Sequence[Mapping[str, Any]], managers: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Messages by time and route, with the starts of managers."""
    marks, earlier = _marks(points, managers)
    made = []
    for event, title in PICTURES.items():
        drawn = [traffic(points, event, narrow=narrow, marks=marks)
                 for narrow in (False, True)]  # fmt: skip
        if drawn[0]:
            said = f"{title}: messages a second by route over time"
            said += "; an upright line where a queue manager was started" if marks else ""
            counts = list(totals(points, event).items())
            routes = [
                (COLORS[at], f"{name} ({count:,})")
                for at, (name, count) in enumerate(counts[:ROUTES_MAX])
            ]
            if len(counts) > ROUTES_MAX:
                routes.append(("", f"and {len(counts) - ROUTES_MAX} more routes"))
            made.append({"title": title, "said": said, "drawn": _figure(drawn, said),
                         "routes": routes, "marks": _kinds(marks, earlier)})  # fmt: skip
    return made


def _marks(
    points: Sequence[Mapping[str, Any]], managers: Sequence[Mapping[str, Any]]
) -> tuple[list[Mark], int]:
    """The starts in the time of the pictures: the last ones, and how many more there are."""
    grid = draw_grid(points)
    if not grid:
        return [], 0
    every = [
        Mark(start["at_us"] / 1_000_000, show_hidden(one["manager"]), start["orderly"])
        for one in managers for start in one["starts"]
    ]  # fmt: skip
    inside = [mark for mark in every if grid[0] <= mark.second <= grid[-1]]
    inside.sort(key=lambda mark: (mark.second, mark.name))
    return inside[-MARKS_MAX:], max(len(inside) - MARKS_MAX, 0)


def _kinds(marks: Sequence[Mark], earlier: int) -> list[tuple[str, str]]:
    """What the lines of starts mean, of the kinds that there are."""
    items = []
    if any(mark.orderly is not False for mark in marks):
        items.append(("start", "a queue manager was started"))
    if any(mark.orderly is False for mark in marks):
        items.append(("start after", "started after it was killed, or had failed"))
    return [*items, ("", f"and {earlier:,} earlier starts")] if earlier else items


def _latencies(listed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How long messages took, as a picture."""
    if not listed:
        return {}
    named = [{**row, "route": show_hidden(row["route"])} for row in listed]
    shown = min(len(listed), LATENCIES_MAX)
    which = "each row" if shown == len(listed) else f"the first {shown} rows"
    said = (
        f"Latency of {which} of the table below, on a logarithmic scale: dots at 50, 90 and 99 %, "
        "a stroke at the longest; blue from commit to acceptance, green from acceptance to "
        "reception"
    )
    drawn = [latency(named, narrow=narrow) for narrow in (False, True)]
    return {"drawn": _figure(drawn, said), "said": said}
