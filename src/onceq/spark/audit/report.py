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

from onceq.spark.audit import plots

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
table{border-collapse:collapse;width:100%;font-size:.9rem}
caption{text-align:left;color:var(--soft);padding-bottom:.4rem;font-size:.85rem}
th,td{text-align:left;padding:.42rem .7rem .42rem 0;border-bottom:1px solid var(--line);
vertical-align:top}
th{color:var(--soft);font-weight:600;white-space:nowrap}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.route{overflow-wrap:anywhere;min-width:11rem}
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
figure svg.narrow{display:block}}
@media print{body{background:#fff}section{break-inside:avoid}}
"""


def page(found: Mapping[str, Any], traffic: Sequence[Mapping[str, Any]]) -> str:
    """The report as a whole HTML page.

    Args:
        found: The findings.
        traffic: Points with ``route``, ``event``, ``second`` and ``messages``.
    """
    parts = [
        _head(found), _tiles(found), _states(found), _violations(found), _traffic(traffic),
        _latencies(found), _trouble(found), _managers(found),
    ]  # fmt: skip
    made = _text(str(found["made"]))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<link rel="icon" href="data:,">'
        f"<title>onceq audit: {_text(_word(found))}</title><style>{_STYLE}</style></head><body>"
        f"<main>{''.join(parts)}<footer>Made by <code>onceq spark audit</code> at {made}. "
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
        ("received", states.get("received by an application", 0)),
        ("on their way", states.get("on its way", 0) + states.get("waiting in its queue", 0)),
        ("in doubt", states.get("in doubt", 0)),
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
        return (
            "<section><h2>Violations</h2><p>None: no message was accepted or received twice, none "
            "out of order, none is missing between two that arrived, none has two ends, and each "
            "dead letter, journal copy and acknowledgment tells what happened.</p></section>"
        )
    rows = [
        f"<tr><td>{_text(r['invariant'])}</td><td>{_text(r['fault'])}</td>"
        f'<td class="n">{r["count"]:,}</td></tr>'
        for r in found["by_invariant"]
    ]
    stories = "".join(
        f'<details{" open" if at == 0 else ""}><summary><span class="tag">'
        f"{_text(s['invariant'])} {_text(s['fault'])}</span>{_text(s['title'])}: {_text(s['said'])}"
        f"</summary><pre>{_text(chr(10).join(s['rows']))}</pre></details>"
        for at, s in enumerate(found["stories"])
    )
    return (
        "<section><h2>Violations</h2>"
        + _table(("invariant", "fault", "messages:n"), rows, "By invariant and fault")
        + f"<h3>Their stories</h3>{stories}</section>"
    )


def _traffic(points: Sequence[Mapping[str, Any]]) -> str:
    made = []
    for event, title in (("committed", "Committed"), ("received", "Received")):
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
        said = f"{title} messages a second by route over time"
        made.append(f"<h3>{title}</h3>{_figure(drawn, said)}<ul class='legend'>{legend}{rest}</ul>")
    return f"<section><h2>Traffic by route</h2>{''.join(made) or '<p>None.</p>'}</section>"


def _latencies(found: Mapping[str, Any]) -> str:
    listed = found["latencies"]
    if not listed:
        return ""
    rows = [
        f'<tr><td class="n">{at}</td><td class="route">{_text(r["route"])}</td>'
        f"<td>{_text(r['from'])} → {_text(r['to'])}</td>"
        f'<td class="n wide">{r["messages"]:,}</td>'
        + "".join(f'<td class="n">{r[name]:,.3f}</td>' for name in ("p50_s", "p90_s", "p99_s"))
        + f'<td class="n wide">{r["max_s"]:,.3f}</td></tr>'
        for at, r in enumerate(listed, 1)
    ]
    head = ("#:n", "route", "from → to", "messages:n wide", "50 %:n", "90 %:n", "99 %:n",
            "most:n wide")  # fmt: skip
    drawn = [plots.latency(listed, narrow=narrow) for narrow in (False, True)]
    return (
        "<section><h2>Latencies</h2>"
        + _figure(
            drawn, "Latency percentiles of each row of the table below, on a logarithmic scale"
        )
        + _table(head, rows, "Seconds; between two managers as far as their clocks agree")
        + "</section>"
    )


def _trouble(found: Mapping[str, Any]) -> str:
    parts = []
    if found["stuck"]:
        rows = [
            f'<tr><td class="route">{_text(s["route"])}</td><td class="n">{s["messages"]:,}</td>'
            f'<td class="n">{s["first_number"]:,}</td><td class="n">{s["waits_s"]:,.0f}</td></tr>'
            for s in found["stuck"]
        ]
        head = ("route", "messages:n", "first number:n", "waits s:n")
        parts.append("<h3>Stuck streams</h3>"
                     + _table(head, rows, "Sent, and not acknowledged for long"))  # fmt: skip
    if found["resends"]:
        rows = [
            f'<tr><td class="route">{_text(r["route"])}</td><td class="n">{r["messages"]:,}</td>'
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
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(caption)}"><table>'
        f"<caption>{_text(caption)}</caption><thead><tr>{''.join(cells)}</tr></thead>"
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


def _text(value: str) -> str:
    """Safe inside HTML; control characters are shown, not sent."""
    shown = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda m: f"\\x{ord(m.group()):02x}", value)
    return html.escape(shown)
