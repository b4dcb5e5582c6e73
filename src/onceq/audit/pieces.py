"""Pieces of the report of an audit: its style, tables, pictures, and text that is safe in HTML."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from onceq.hidden import show_hidden

STYLE: Final = """
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
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:16px 0}
.tile{flex:1 1 108px;background:var(--card);border:1px solid var(--line);border-radius:14px;
padding:12px 16px}
.tile b{display:block;font-size:1.5rem;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:.85rem}
a{color:var(--accent)}
p.find{color:var(--soft);font-size:.85rem;margin:.2rem 0 .6rem;overflow-wrap:anywhere}
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
.legend i.start{width:0;border-radius:0;border-left:2px dashed var(--soft)}
.legend i.start.after{border-left-style:solid;border-left-color:var(--bad)}
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


def table(head: Sequence[str], rows: Iterable[str], caption: str) -> str:
    """A table that can be scrolled alone.

    Args:
        head: Title of each column, with ``:`` and classes behind it.
        rows: As HTML.
    """
    cells = []
    for name in head:
        title, _, kind = name.partition(":")
        cells.append(f'<th scope="col" class="{kind}">{text(title)}</th>')
    return (
        f'<p class="caption">{text(caption)}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}"><table>'
        f"<thead><tr>{''.join(cells)}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def figure(drawn: Sequence[str], said: str) -> str:
    """A picture for wide and one for narrow screens, of which one is shown; and what it shows."""
    shown = "".join(
        _picture(svg, kind, said) for svg, kind in zip(drawn, ("wide", "narrow"), strict=True)
    )
    return f"<figure>{shown}<figcaption>{text(said)}</figcaption></figure>"


def _picture(svg: str, kind: str, said: str) -> str:
    """Identifiers inside are made its own, and its size is left to the page."""
    own = hashlib.sha256(f"{said} {kind} {svg}".encode()).hexdigest()[:8]
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{own}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{own}-\1)", svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{own}-\1"', svg)
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg", f'<svg class="{kind}" role="img" aria-label="{text(said)}"', 1)


def moment(seconds: int) -> str:
    """A second, as people read it; "-" for none."""
    if not seconds:
        return "-"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def route(value: str) -> str:
    """May break behind an arrow or a backslash, and not inside a word."""
    return text(value).replace("→ ", "→ <wbr>").replace("\\", "\\<wbr>").replace(".", ".<wbr>")


def text(value: str) -> str:
    """Safe inside HTML; hidden characters are shown."""
    return html.escape(show_hidden(value))
