"""The report of an audit as one HTML file: ``report.html.j2``, with pictures.

Nothing is fetched; it is made for wide and narrow screens, light and dark, and can be read aloud
(headings, captions, descriptions of pictures). Every text of a history is escaped, and its hidden
characters are shown.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from onceq.audit import measure, plots
from onceq.audit.plots import Mark
from onceq.hidden import show_hidden

INVARIANTS: Final = {
    "I1": "Nothing that was committed is lost",
    "I2": "All or none of a transaction",
    "I3": "Nothing that was not committed, and as it was committed",
    "I4": "At most once",
    "I5": "In the order of commits",
    "I6": "No silent hole",
    "I7": "Numbers are for ever",
    "I10": "Forgotten only when it has arrived",
    "I11": "One end",
    "I12": "One dead letter where one is due",
    "I13": "Acknowledgments are true",
    "I14": "Journals are true",
    "I18": "Places in a queue are for ever",
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
        finalize=_shown, trim_blocks=False, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {
        "route": _route, "moment": moment, "filter_of": _filter, "starts_of": _starts_of,
    }  # fmt: skip
    word, _, rest = str(found["verdict"]).partition(": ")
    starts, starts_told = _starts(found["managers"])
    return environment.get_template("report.html.j2").render(
        found={"landed": (), **found},
        invariants=INVARIANTS,
        unseen=UNSEEN,
        span=_span(found),
        verdict=(word.capitalize(), rest),
        tiles=_tiles(found),
        starts=starts,
        starts_told=starts_told,
        traffic=_traffic(traffic, found["managers"]),
        latencies=_latencies(found["latencies"]),
        story_of={
            fault["fault"]: number
            for number, story in reversed([*enumerate(found["stories"])])
            for fault in story["faults"]
        },
        size=f"{found['events']:,} events of {found['messages']:,} messages in "
        f"{found['transactions']:,} transactions and {found['streams']:,} streams",
    )


def _shown(value: object) -> object:
    return show_hidden(value) if type(value) is str else value


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
    """Which time is told of."""
    first = min((m["from_s"] for m in found["managers"] if m["from_s"]), default=0)
    last = max((m["up_to_us"] // 1_000_000 for m in found["managers"]), default=0)
    if not first or last < first:
        return ""
    hours, rest = divmod(last - first, 3_600)
    minutes = f"{rest // 60} min " if rest >= 60 else ""
    took = f"{hours:,} h {rest // 60} min" if hours else f"{minutes}{rest % 60} s"
    return f"; {moment(first)} to {moment(last)}, {took}"


def _tiles(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    states, managers = found["states"], found["managers"]
    # Older files do not tell starts: then there may have been more.
    more = "+" if any(m["files_without_starts"] for m in managers) else ""
    restarts = sum(start["again"] for m in managers for start in m["starts"])
    return [
        ("messages", f"{found['messages']:,}"),
        ("received", f"{states.get(measure.NAMES['received'], 0):,}"),
        ("waiting in their queues", f"{states.get(measure.NAMES['waiting'], 0):,}"),
        ("on their way", f"{states.get(measure.NAMES['in flight'], 0):,}"),
        ("in doubt", f"{states.get(measure.NAMES['in doubt'], 0):,}"),
        ("restarts", f"{restarts:,}{more}"),
        ("violations", f"{found['violations']:,}"),
    ]


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
    return [_picture(svg, kind, said) for svg, kind in zip(drawn, ("wide", "narrow"), strict=True)]


def _picture(svg: str, kind: str, said: str) -> Markup:
    """Identifiers inside are made its own, and its size is left to the page."""
    own = hashlib.sha256(f"{said} {kind} {svg}".encode()).hexdigest()[:8]
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{own}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{own}-\1)", svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{own}-\1"', svg)
    for _ in range(2):
        svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
    label = Markup.escape(said)
    drawn = svg.replace("<svg", f'<svg class="{kind}" role="img" aria-label="{label}"', 1)
    return Markup(drawn)


def _traffic(
    points: Sequence[Mapping[str, Any]], managers: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Messages by time and route, with the starts of managers."""
    marks, earlier = _marks(points, managers)
    made = []
    for event, title in PICTURES.items():
        drawn = [plots.traffic(points, event, narrow=narrow, marks=marks)
                 for narrow in (False, True)]  # fmt: skip
        if drawn[0]:
            said = f"{title}: messages a second by route over time"
            said += "; an upright line where a queue manager was started" if marks else ""
            made.append({"title": title, "said": said, "drawn": _figure(drawn, said),
                         "routes": _routes(points, event),
                         "marks": _kinds(marks, earlier)})  # fmt: skip
    return made


def _marks(
    points: Sequence[Mapping[str, Any]], managers: Sequence[Mapping[str, Any]]
) -> tuple[list[Mark], int]:
    """The starts in the time of the pictures: the last ones, and how many more there are."""
    grid = plots.grid(points)
    if not grid:
        return [], 0
    every = [
        Mark(start["at_us"] / 1_000_000, show_hidden(one["manager"]), start["orderly"])
        for one in managers for start in one["starts"]
    ]  # fmt: skip
    inside = [mark for mark in every if grid[0] <= mark.second <= grid[-1]]
    inside.sort(key=lambda mark: (mark.second, mark.name))
    return inside[-plots.MARKS_MAX :], max(len(inside) - plots.MARKS_MAX, 0)


def _routes(points: Sequence[Mapping[str, Any]], event: str) -> list[tuple[str, str]]:
    """Colour and text of each route of a picture."""
    total = plots.totals(points, event)
    items = [
        (plots.COLORS[at], f"{name} ({count:,})")
        for at, (name, count) in enumerate(list(total.items())[: plots.ROUTES_MAX])
    ]
    more = len(total) - plots.ROUTES_MAX
    return [*items, ("", f"and {more} more routes")] if more > 0 else items


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
    shown = min(len(listed), plots.LATENCIES_MAX)
    which = "each row" if shown == len(listed) else f"the first {shown} rows"
    said = (
        f"Latency of {which} of the table below, on a logarithmic scale: dots at 50, 90 and 99 %, "
        "a stroke at the longest; blue from commit to acceptance, green from acceptance to "
        "reception"
    )
    drawn = [plots.latency(named, narrow=narrow) for narrow in (False, True)]
    return {"drawn": _figure(drawn, said), "said": said}
