"""The report of an audit as one HTML file.

Nothing is fetched; it is made for wide and narrow screens, light and dark, and can be read aloud
(headings, captions, descriptions of pictures).
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from onceq.audit import measure, plots

_STYLE: Final = """
:root{--bg:#f5f7fa;--card:#fff;--ink:#18202b;--soft:#5b6573;--line:#dfe4ea;--good:#17794a;
--good-bg:#e3f5ea;--bad:#b3261e;--bad-bg:#fdeceb;--accent:#2f6fde;--bar:#2f6fde}
@media (prefers-color-scheme:dark){:root{--bg:#12161c;--card:#1a2029;--ink:#e7ebf0;--soft:#9aa5b3;
--line:#2c3542;--good:#6fd39b;--good-bg:#15311f;--bad:#ff8f86;--bad-bg:#3a1a18;--accent:#7aa7ff;
--bar:#5b8ff0}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.5 system-ui,-apple-system,
"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;-webkit-text-size-adjust:100%}
main{max-width:1080px;margin:0 auto;padding:28px 20px 56px}
header h1{margin:0;font-size:1.55rem;letter-spacing:-.01em}
header p{margin:.2rem 0 1.2rem;color:var(--soft)}
section{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:18px 20px;
margin:16px 0;min-width:0}
h2{margin:0 0 .6rem;font-size:1.1rem}
h3{margin:1.1rem 0 .3rem;font-size:.95rem}
.verdict{border-left:6px solid var(--good);background:var(--good-bg)}
.verdict.bad{border-left-color:var(--bad);background:var(--bad-bg)}
.verdict strong{display:block;font-size:1.35rem;color:var(--good)}
.verdict.bad strong{color:var(--bad)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:12px;margin:16px 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:12px 16px}
.tile b{display:block;font-size:1.5rem;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:.85rem}
.scroll{overflow-x:auto;max-width:100%}
.scroll:focus-visible{outline:2px solid var(--accent)}
p.caption{color:var(--soft);margin:.2rem 0 .4rem;font-size:.85rem}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.42rem .7rem .42rem 0;border-bottom:1px solid var(--line);
vertical-align:top}
th{color:var(--soft);font-weight:600;white-space:nowrap}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.route{overflow-wrap:break-word;min-width:8rem}
td .soft{display:block;color:var(--soft);font-size:.85em}
td .narrow{display:none}
.bar{height:8px;border-radius:4px;background:var(--bar);min-width:3px}
td.share{width:34%;min-width:70px;vertical-align:middle}
figure{margin:.2rem 0 0}
figure svg{display:block;width:100%;height:auto}
figure svg.narrow{display:none}
figure svg text{fill:var(--soft)!important}
figcaption{color:var(--soft);font-size:.85rem}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin:.5rem 0 0;padding:0;
font-size:.85rem}
.legend li{overflow-wrap:anywhere}
.legend i{display:inline-block;width:.8rem;height:.8rem;border-radius:3px;margin-right:.4rem;
vertical-align:-.05rem}
details{border-top:1px solid var(--line);padding:.5rem 0}
summary{cursor:pointer;overflow-wrap:anywhere}
summary .tag{display:inline-block;background:var(--bad-bg);color:var(--bad);border-radius:6px;
padding:0 .45rem;font-weight:600;margin-right:.4rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font:12.5px/1.55 ui-monospace,"SF Mono",Menlo,
Consolas,monospace;background:var(--bg);border-radius:10px;padding:.7rem .8rem;margin:.5rem 0}
ul.notes{margin:.2rem 0;padding-left:1.1rem;overflow-wrap:anywhere}
footer{color:var(--soft);font-size:.85rem;margin-top:1.4rem}
@media (max-width:560px){main{padding:18px 12px 40px}section{padding:14px}
header h1{font-size:1.3rem}table{font-size:.84rem}.wide,figure svg.wide{display:none}
figure svg.narrow{display:block}td .narrow{display:block}td.route{min-width:0}}
@media print{body{background:#fff}section{break-inside:avoid}}
"""


INVARIANTS: Final = {
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
}
"""What each invariant says, in short."""
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
    parts = [
        _head(found), _tiles(found), _states(found), _violations(found), _traffic(traffic),
        _landed(found), _latencies(found), _trouble(found), _checked(found), _managers(found),
    ]  # fmt: skip
    made = _text(str(found["made"]))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<link rel="icon" href="data:,">'
        f"<title>onceq audit: {_text(_word(found))}</title><style>{_STYLE}</style></head><body>"
        f"<main>{''.join(parts)}<footer>Made by <code>onceq audit</code> at {made}. "
        "Times are UTC, by each manager's own clock.</footer></main></body></html>\n"
    )


def _word(found: Mapping[str, Any]) -> str:
    return "violated" if found["violations"] else "proven"


def _head(found: Mapping[str, Any]) -> str:
    names = ", ".join(m["manager"] for m in found["managers"])
    bad = " bad" if found["violations"] else ""
    word, _, rest = str(found["verdict"]).partition(": ")
    return (
        f"<header><h1>Audit of {_text(names)}</h1><p>Every committed message, and the one end that "
        f'it met</p></header><section class="verdict{bad}" aria-label="Verdict">'
        f"<strong>{_text(word.capitalize())}</strong>{_text(rest)}</section>"
    )


def _tiles(found: Mapping[str, Any]) -> str:
    states = found["states"]
    values = (
        ("messages", found["messages"]),
        ("received", states.get(measure.NAMES["received"], 0)),
        ("waiting in their queues", states.get(measure.NAMES["waiting"], 0)),
        ("on their way", states.get(measure.NAMES["in flight"], 0)),
        ("in doubt", states.get(measure.NAMES["in doubt"], 0)),
        ("violations", found["violations"]),
    )
    tiles = (
        f'<div class="tile"><b>{n:,}</b><span>{_text(name)}</span></div>' for name, n in values
    )
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _states(found: Mapping[str, Any]) -> str:
    total = max(sum(found["states"].values()), 1)
    rows = [
        f'<tr><td>{_text(name)}</td><td class="n">{count:,}</td>'
        f'<td class="share" aria-hidden="true"><div class="bar" '
        f'style="width:{100 * count / total:.1f}%"></div></td></tr>'
        for name, count in found["states"].items()
    ]
    return (
        "<section><h2>What became of them</h2>"
        + _table(("what", "messages:n", ""), rows, "Each message at each of its destinations")
        + "</section>"
    )


def _violations(found: Mapping[str, Any]) -> str:
    if not found["violations"]:
        return ""
    rows = [
        f"<tr><td>{_text(one['invariant'])} {_text(INVARIANTS[one['invariant']])}</td>"
        f"<td>{_text(one['fault'])}</td>"
        f'<td class="n">{one["violations"]:,}</td></tr>'
        for one in found["checked"]
        if one["violations"]
    ]
    stories = "".join(_story(one, first=at == 0) for at, one in enumerate(found["stories"]))
    more = found["messages_violated"] - len(found["stories"])
    rest = f"<p>And {more:,} more messages; <code>--out</code> writes all.</p>" if more > 0 else ""
    return (
        "<section><h2>Violations</h2>"
        + _table(("invariant", "fault", "violations:n"), rows, "By invariant and fault")
        + f"<h3>Stories of the messages that they are about</h3>{stories}{rest}</section>"
    )


def _story(story: Mapping[str, Any], *, first: bool) -> str:
    tags = "".join(
        f'<span class="tag">{_text(one["invariant"])} {_text(one["fault"])}</span>'
        for one in story["faults"]
    )
    said = "; ".join(dict.fromkeys(one["said"] for one in story["faults"]))
    return (
        f"<details{' open' if first else ''}><summary>{tags}{_text(story['title'])}: {_text(said)}"
        f"</summary><pre>{_text(chr(10).join(story['rows']))}</pre></details>"
    )


def _landed(found: Mapping[str, Any]) -> str:
    """Landed tables beside what their landings have received."""
    if not found.get("landed"):
        return ""
    rows = [
        f"<tr><td>{_text(one['table'])}<span class=\"soft\">{_text(one['sentence'])}</span></td>"
        + "".join(f'<td class="n">{one[name]:,}</td>'
                  for name in ("received", "rows", "bad", "waiting", "received_by_others"))
        + "</tr>"
        for one in found["landed"]
    ]  # fmt: skip
    heads = ("table", "received:n", "rows:n", "bad rows:n", "still in queues:n", "by others:n")
    return "<section><h2>Landed tables</h2>" + _table(heads, rows, "Read back") + "</section>"


def _checked(found: Mapping[str, Any]) -> str:
    """What "proven" stands on: each rule, what it looked at, and what no rule can see."""
    rows, before = [], ""
    for one in found["checked"]:
        name, before = ("", before) if one["invariant"] == before else (one["invariant"],) * 2
        said = f'<span class="soft wide">{_text(INVARIANTS[name])}</span>' if name else ""
        rows.append(
            f"<tr><td>{_text(name)}{said}</td>"
            f'<td>{_text(one["looks_at"])}<span class="soft">{_text(one["fault"])}</span></td>'
            f'<td class="n">{one["looked_at"]:,}</td><td class="n">{one["violations"]:,}</td></tr>'
        )
    unseen = "".join(f"<li>{_text(one)}</li>" for one in UNSEEN)
    size = (
        f"{found['events']:,} events of {found['messages']:,} messages in "
        f"{found['transactions']:,} transactions and {found['streams']:,} streams"
    )
    return (
        "<section><h2>What was compared</h2>"
        + _table(("", "compared", "looked at:n", "wrong:n"), rows, size)
        + f'<h3>What an audit cannot see</h3><ul class="notes">{unseen}</ul></section>'
    )


def _traffic(points: Sequence[Mapping[str, Any]]) -> str:
    made = []
    for event, title in (
        ("committed", "Committed"), ("accepted", "Accepted by another manager"),
        ("received", "Received"), ("transmitted again", "Transmitted again, as far as observed"),
    ):  # fmt: skip
        drawn = [plots.traffic(points, event, narrow=narrow) for narrow in (False, True)]
        if not drawn[0]:
            continue
        total: dict[str, int] = {}
        for point in points:
            if point["event"] == event:
                total[point["route"]] = total.get(point["route"], 0) + point["messages"]
        routes = sorted(total, key=lambda route: (-total[route], route))
        legend = "".join(
            f'<li><i style="background:{plots.COLORS[at]}"></i>{_text(route)} '
            f"({total[route]:,})</li>"
            for at, route in enumerate(routes[: plots.ROUTES_MAX])
        )
        more = len(routes) - plots.ROUTES_MAX
        rest = f"<li>and {more} more routes</li>" if more > 0 else ""
        said = f"{title}: messages a second by route over time"
        made.append(f"<h3>{title}</h3>{_figure(drawn, said)}<ul class='legend'>{legend}{rest}</ul>")
    return f"<section><h2>Traffic by route</h2>{''.join(made) or '<p>None.</p>'}</section>"


def _latencies(found: Mapping[str, Any]) -> str:
    listed = found["latencies"]
    if not listed:
        return ""
    rows = [
        f'<tr><td class="n">{at}</td><td class="route">{_route(r["route"])}'
        f'<span class="soft narrow">{_way(r)}, {r["messages"]:,} messages</span></td>'
        f'<td class="wide">{_way(r)}</td><td class="n wide">{r["messages"]:,}</td>'
        f'<td class="n">{r["p50_s"]:,.3f}</td><td class="n wide">{r["p90_s"]:,.3f}</td>'
        f'<td class="n">{r["p99_s"]:,.3f}</td><td class="n wide">{r["max_s"]:,.3f}</td></tr>'
        for at, r in enumerate(listed, 1)
    ]
    head = ("#:n", "route", "from → to:wide", "messages:n wide", "50 %:n", "90 %:n wide",
            "99 %:n", "most:n wide")  # fmt: skip
    drawn = [plots.latency(listed, narrow=narrow) for narrow in (False, True)]
    shown = min(len(listed), plots.LATENCIES_MAX)
    which = "each row" if shown == len(listed) else f"the first {shown} rows"
    said = (
        f"Latency of {which} of the table below, on a logarithmic scale: dots at 50, 90 and 99 %, "
        "a stroke at the longest; blue from commit to acceptance, green from acceptance to "
        "reception"
    )
    return (
        "<section><h2>Latencies</h2>"
        + _figure(drawn, said)
        + _table(head, rows, "Seconds; between two managers as far as their clocks agree")
        + "</section>"
    )


def _way(row: Mapping[str, Any]) -> str:
    return f"{_text(row['from'])} → {_text(row['to'])}"


def _trouble(found: Mapping[str, Any]) -> str:
    parts = []
    if found["stuck"]:
        rows = [
            f'<tr><td class="route">{_route(s["route"])}</td><td class="n">{s["messages"]:,}</td>'
            f'<td class="n">{s["first_number"]:,}</td><td class="n">{s["waits_s"]:,.0f}</td></tr>'
            for s in found["stuck"]
        ]
        head = ("route", "messages:n", "first number:n", "waits s:n")
        parts.append("<h3>Stuck streams</h3>"
                     + _table(head, rows, "Sent, and not acknowledged for long"))  # fmt: skip
    if found["resends"]:
        rows = [
            f'<tr><td class="route">{_route(r["route"])}</td><td class="n">{r["messages"]:,}</td>'
            f'<td class="n">{r["times"]:,}</td><td class="n">{r["came_again"]:,}</td></tr>'
            for r in found["resends"]
        ]
        head = ("route", "messages:n", "sent again:n", "came again:n")
        parts.append("<h3>Sent again</h3>" + _table(head, rows, "As far as it was observed"))
    if found["notes"]:
        items = "".join(f"<li>{_text(note)}</li>" for note in found["notes"])
        parts.append(f'<h3>What could not be known</h3><ul class="notes">{items}</ul>')
    if not parts:
        return ""
    return f"<section><h2>Worth a look</h2>{''.join(parts)}</section>"


def _managers(found: Mapping[str, Any]) -> str:
    rows = [
        f"<tr><td>{_text(m['manager'])}</td><td class='wide'>{_text(m['id'])}</td>"
        f'<td class="n">{m["files"]:,}</td><td>{_time(m["from_s"])}</td>'
        f"<td>{_time(m['up_to_us'] // 1_000_000)}</td>"
        f"<td>{_text('; '.join(m['limits']) or 'whole')}</td></tr>"
        for m in found["managers"]
    ]
    head = ("manager", "GUID:wide", "files:n", "from", "up to", "its history")
    return (
        "<section><h2>Histories</h2>"
        + _table(head, rows, "What this audit has read")
        + "</section>"
    )


# ---- pieces --------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Iterable[str], caption: str) -> str:
    cells = []
    for name in head:
        text, _, kind = name.partition(":")
        cells.append(f'<th scope="col" class="{kind}">{_text(text)}</th>')
    return (
        f'<p class="caption">{_text(caption)}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(caption)}"><table>'
        f"<thead><tr>{''.join(cells)}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _figure(drawn: Sequence[str], said: str) -> str:
    """A picture for wide and one for narrow screens, of which one is shown; and what it shows."""
    shown = "".join(
        _picture(svg, kind, said) for svg, kind in zip(drawn, ("wide", "narrow"), strict=True)
    )
    return f"<figure>{shown}<figcaption>{_text(said)}</figcaption></figure>"


def _picture(svg: str, kind: str, said: str) -> str:
    """Identifiers inside are made its own, and its size is left to the page."""
    own = hashlib.sha256(f"{said} {kind} {svg}".encode()).hexdigest()[:8]
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{own}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{own}-\1)", svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{own}-\1"', svg)
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg", f'<svg class="{kind}" role="img" aria-label="{_text(said)}"', 1)


def _time(seconds: int) -> str:
    if not seconds:
        return "-"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _route(value: str) -> str:
    """May break behind an arrow or a backslash, and not inside a word."""
    return _text(value).replace("→ ", "→ <wbr>").replace("\\", "\\<wbr>").replace(".", ".<wbr>")


def _text(value: str) -> str:
    """Safe inside HTML; control characters are shown, not sent."""
    shown = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda m: f"\\x{ord(m.group()):02x}", value)
    return html.escape(shown)
