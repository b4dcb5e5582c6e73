"""The report of an audit as one HTML file.

Nothing is fetched; it is made for wide and narrow screens, light and dark, and can be read aloud
(headings, captions, descriptions of pictures).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from onceq.audit import measure, pictures
from onceq.audit.pieces import STYLE, moment, route, table, text

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
        _head(found), _tiles(found), _states(found), _violations(found),
        pictures.traffic(traffic, found["managers"]), _landed(found), pictures.latencies(found),
        _trouble(found), _acts(found), _checked(found), _managers(found),
    ]  # fmt: skip
    made = text(str(found["made"]))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<link rel="icon" href="data:,">'
        f"<title>onceq audit: {text(_word(found))}</title><style>{STYLE}</style></head><body>"
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
        f"<header><h1>Audit of {text(names)}</h1><p>Every committed message, and the one end that "
        f'it met{_span(found)}</p></header><section class="verdict{bad}" aria-label="Verdict">'
        f"<strong>{text(word.capitalize())}</strong>{text(rest)}</section>"
    )


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


def _tiles(found: Mapping[str, Any]) -> str:
    states, managers = found["states"], found["managers"]
    # Older files do not tell starts: then there may have been more.
    more = "+" if any(m["files_without_starts"] for m in managers) else ""
    values = (
        ("messages", found["messages"]),
        ("received", states.get(measure.NAMES["received"], 0)),
        ("waiting in their queues", states.get(measure.NAMES["waiting"], 0)),
        ("on their way", states.get(measure.NAMES["in flight"], 0)),
        ("in doubt", states.get(measure.NAMES["in doubt"], 0)),
        ("restarts", sum(map(_restarts, managers))),
        ("violations", found["violations"]),
    )
    tiles = (
        f'<div class="tile"><b>{n:,}{more if name == "restarts" else ""}</b>'
        f"<span>{text(name)}</span></div>"
        for name, n in values
    )
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _restarts(manager: Mapping[str, Any]) -> int:
    return sum(start["again"] for start in manager["starts"])


def _states(found: Mapping[str, Any]) -> str:
    total = max(sum(found["states"].values()), 1)
    rows = [
        f'<tr><td>{text(name)}</td><td class="n">{count:,}</td>'
        f'<td class="share" aria-hidden="true"><div class="bar" '
        f'style="width:{100 * count / total:.1f}%"></div></td></tr>'
        for name, count in found["states"].items()
    ]
    return (
        "<section><h2>What became of them</h2>"
        + table(("what", "messages:n", ""), rows, "Each message at each of its destinations")
        + "</section>"
    )


def _violations(found: Mapping[str, Any]) -> str:
    if not found["violations"]:
        return ""
    at = {fault["fault"]: number for number, story in reversed([*enumerate(found["stories"])])
          for fault in story["faults"]}  # fmt: skip
    rows = [
        f"<tr><td>{text(one['invariant'])} {text(INVARIANTS[one['invariant']])}</td>"
        f"<td>{_to_story(one['fault'], at.get(one['fault']))}</td>"
        f'<td class="n">{one["violations"]:,}</td></tr>'
        for one in found["checked"]
        if one["violations"]
    ]
    stories = "".join(_story(one, number) for number, one in enumerate(found["stories"]))
    if stories:
        stories = f"<h3>Stories of the messages that they are about</h3>{stories}"
    more = found["messages_violated"] - len(found["stories"])
    rest = f"<p>And {more:,} more messages; <code>--out</code> writes all.</p>" if more > 0 else ""
    return (
        "<section><h2>Violations</h2>"
        + table(("invariant", "fault", "violations:n"), rows, "By invariant and fault")
        + f"{stories}{rest}</section>"
    )


def _to_story(fault: str, number: int | None) -> str:
    """The fault, and a link to the first story that has it."""
    return text(fault) if number is None else f'<a href="#story-{number}">{text(fault)}</a>'


def _story(story: Mapping[str, Any], number: int) -> str:
    tags = "".join(
        f'<span class="tag">{text(one["invariant"])} {text(one["fault"])}</span>'
        for one in story["faults"]
    )
    said = "; ".join(dict.fromkeys(one["said"] for one in story["faults"]))
    return (
        f'<details id="story-{number}"{" open" if not number else ""}><summary>{tags}'
        f"{text(story['title'])}: {text(said)}</summary>"
        f'<pre>{text(chr(10).join(story["rows"]))}</pre><p class="find">Its rows, in the tables '
        f"of <code>--out</code> and in the histories: <code>{text(_filter(story['key']))}</code>"
        "</p></details>"
    )


def _filter(key: Mapping[str, Any]) -> str:
    """What finds the rows of a message, as SQL; histories and tables have the same columns."""
    names = ("stream", "number") if key["stream"] is not None else ("message",)
    numbers = [f"{name} = {key[name]}" for name in names if key[name] is not None]
    return " AND ".join((f"source = '{key['source']}'", *numbers))


def _landed(found: Mapping[str, Any]) -> str:
    """Landed tables beside what their landings have received."""
    if not found.get("landed"):
        return ""
    rows = [
        f"<tr><td>{text(one['table'])}<span class=\"soft\">{text(one['sentence'])}</span></td>"
        + "".join(f'<td class="n">{one[name]:,}</td>'
                  for name in ("received", "rows", "bad", "waiting", "received_by_others"))
        + "</tr>"
        for one in found["landed"]
    ]  # fmt: skip
    heads = ("table", "received:n", "rows:n", "bad rows:n", "still in queues:n", "by others:n")
    return "<section><h2>Landed tables</h2>" + table(heads, rows, "Read back") + "</section>"


def _acts(found: Mapping[str, Any]) -> str:
    """Who did what: how often, and the last acts one by one."""
    acts = found["acts"]
    wrong = [(word, one) for word in ("missing", "added") for one in acts[word]]
    if not acts["count"] and not wrong:
        return ""
    rows = [
        f"<tr><td>{text(one['actor'])}</td><td>{text(one['action'])}</td>"
        f'<td>{text(one["manager"])}</td><td class="n">{one["done"]:,}</td>'
        f'<td class="n">{one["refused"]:,}</td></tr>'
        for one in acts["by"]
    ]
    heads = ("who", "what", "manager", "done:n", "refused:n")
    parts = [table(heads, rows, "Acts of administration; purges and reloads count when they begin")]
    if wrong:
        items = "".join(f"<li>{text(_wrong(word, one))}</li>" for word, one in wrong)
        parts.append(f'<h3>Acts that are not as they were</h3><ul class="notes">{items}</ul>')
    for name, title in (("last", "The last acts"), ("last_refused", "The last that were refused")):
        if acts[name]:
            parts.append(f"<h3>{title}</h3>" + _acts_in_time(acts[name]))
    return f"<section><h2>Who did what</h2>{''.join(parts)}</section>"


def _wrong(word: str, one: Mapping[str, Any]) -> str:
    numbers = f"{one['first']:,}" if one["first"] == one["last"] else (
        f"{one['first']:,} to {one['last']:,}"
    )  # fmt: skip
    said = {
        "missing": "are not told, though the history around them is whole: they were removed",
        "added": "are told a second time, or out of their turn: they were added",
    }
    return f"{one['manager']}: acts {numbers} {said[word]}"


def _acts_in_time(acts: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        f"<tr><td>{moment(one['at_us'] // 1_000_000)}</td><td>{text(one['manager'])}</td>"
        f'<td class="n">{one["act"]:,}</td><td>{text(one["actor"])}'
        f'<span class="soft">{text(one["address"])}</span></td><td>{text(one["action"])}'
        f'<span class="soft wide">{text(one["about"])}</span></td>'
        f"<td>{text(one['result'] or 'done')}</td></tr>"
        for one in reversed(acts)
    ]
    heads = ("when", "manager", "act:n", "who, from where", "what", "result")
    return table(heads, rows, "The latest first")


def _checked(found: Mapping[str, Any]) -> str:
    """What "proven" stands on: each rule, what it looked at, and what no rule can see."""
    rows, before = [], ""
    for one in found["checked"]:
        name, before = ("", before) if one["invariant"] == before else (one["invariant"],) * 2
        said = f'<span class="soft wide">{text(INVARIANTS[name])}</span>' if name else ""
        rows.append(
            f"<tr><td>{text(name)}{said}</td>"
            f'<td>{text(one["looks_at"])}<span class="soft">{text(one["fault"])}</span></td>'
            f'<td class="n">{one["looked_at"]:,}</td><td class="n">{one["violations"]:,}</td></tr>'
        )
    unseen = "".join(f"<li>{text(one)}</li>" for one in UNSEEN)
    size = (
        f"{found['events']:,} events of {found['messages']:,} messages in "
        f"{found['transactions']:,} transactions and {found['streams']:,} streams"
    )
    return (
        "<section><h2>What was compared</h2>"
        + table(("", "compared", "looked at:n", "wrong:n"), rows, size)
        + f'<h3>What an audit cannot see</h3><ul class="notes">{unseen}</ul></section>'
    )


def _trouble(found: Mapping[str, Any]) -> str:
    parts = []
    if found["stuck"]:
        rows = [
            f'<tr><td class="route">{route(s["route"])}</td><td class="n">{s["messages"]:,}</td>'
            f'<td class="n">{s["first_number"]:,}</td><td class="n">{s["waits_s"]:,.0f}</td></tr>'
            for s in found["stuck"]
        ]
        head = ("route", "messages:n", "first number:n", "waits s:n")
        parts.append("<h3>Stuck streams</h3>"
                     + table(head, rows, "Sent, and not acknowledged for long"))  # fmt: skip
    if found["resends"]:
        rows = [
            f'<tr><td class="route">{route(r["route"])}</td><td class="n">{r["messages"]:,}</td>'
            f'<td class="n">{r["times"]:,}</td><td class="n">{r["came_again"]:,}</td></tr>'
            for r in found["resends"]
        ]
        head = ("route", "messages:n", "sent again:n", "came again:n")
        parts.append("<h3>Sent again</h3>" + table(head, rows, "As far as it was observed"))
    if found["notes"]:
        items = "".join(f"<li>{text(note)}</li>" for note in found["notes"])
        parts.append(f'<h3>What could not be known</h3><ul class="notes">{items}</ul>')
    if not parts:
        return ""
    return f"<section><h2>Worth a look</h2>{''.join(parts)}</section>"


def _managers(found: Mapping[str, Any]) -> str:
    rows = [
        f"<tr><td>{text(m['manager'])}</td><td class='wide'>{text(m['id'])}</td>"
        f'<td class="n">{m["files"]:,}</td><td class="n">{_starts_of(m)}</td>'
        f"<td>{moment(m['from_s'])}</td><td>{moment(m['up_to_us'] // 1_000_000)}</td>"
        f"<td>{text('; '.join(m['limits']) or 'whole')}</td></tr>"
        for m in found["managers"]
    ]
    head = ("manager", "GUID:wide", "files:n", "starts:n", "from", "up to", "its history")
    return (
        "<section><h2>Histories</h2>"
        + table(head, rows, "What this audit has read")
        + _starts(found["managers"])
        + "</section>"
    )


def _starts_of(manager: Mapping[str, Any]) -> str:
    if not manager["files_without_starts"]:
        return f"{len(manager['starts']):,}"
    return f"{len(manager['starts']):,}+" if manager["starts"] else "not told"


def _starts(managers: Sequence[Mapping[str, Any]]) -> str:
    """When managers were started, the last ones of all."""
    every = [(start["at_us"], m["manager"], start) for m in managers for start in m["starts"]]
    every.sort(key=lambda one: one[:2])
    if not any(start["again"] for *_, start in every):
        return ""
    rows = [
        f"<tr><td>{text(name)}</td><td>{moment(at_us // 1_000_000)}</td>"
        f"<td>{_before(start)}</td></tr>"
        for at_us, name, start in every[-STARTS_MAX:]
    ]
    more = len(every) - len(rows)
    which = (
        f"The last {len(rows)} of {len(every):,}; --json has all" if more else "In order of time"
    )
    return "<h3>Starts</h3>" + table(("manager", "started", "its process before"), rows, which)


def _before(start: Mapping[str, Any]) -> str:
    if start["orderly"] is None:
        return "not known" if start["again"] else "none"
    return "ended in order" if start["orderly"] else "killed, or failed"
