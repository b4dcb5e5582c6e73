"""How values look on a page: templates with everything escaped, sizes, times, bodies, pictures.

Columns of tables are those of the views in their rows. Pictures of numbers over time are SVG inside
a page, with no script and no colour of their own; all that show the same kind of number share one
scale.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from onceq.console.limits import HEX_BYTES_MAX, SHOWN_BYTES_MAX
from onceq.hidden import show_hidden
from onceq.model.message_words import in_words
from onceq.model.record import defaults
from onceq.model.settings import as_written
from onceq.model.time import NEVER_S
from onceq.model.views.view import Column, View, columns
from onceq.model.wording import plural
from onceq.version import __version__

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
VIEWS = ("text", "json", "hex")


def environment(now_s: Callable[[], int]) -> Environment:
    """Templates: everything that they show is escaped, and a name that is not there is an error.

    Args:
        now_s: Seconds since 1970, for the age of what has a moment.
    """
    made = Environment(
        loader=PackageLoader("onceq.console", "templates"), autoescape=True,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_seen,
    )  # fmt: skip
    made.filters.update(
        size=size,
        age=age,
        when=when,
        number=number,
        named=named,
        shown=shown,
        plural=plural,
        without=without,
        setting=as_written,
        cell=lambda value, column: render_cell(value, column, now_s()),
        heads=heads,
    )
    made.globals.update(link=link, version=__version__)
    return made


def _seen(value: object) -> object:
    """What a page shows of a value: nothing of a text is hidden (finding K16)."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return show_hidden(value)
    return value


def link(path: str, values: Mapping[str, Any] | None = None, **more: Any) -> str:
    """An address with a query: what is empty is left out, all else is encoded."""
    given = {**(values or {}), **more}
    kept = {name: value for name, value in given.items() if value not in ("", None)}
    return f"{path}?{urlencode(kept)}" if kept else path


def size(count: int) -> str:
    """Bytes for people."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value /= 1024
        unit += 1
    return f"{count} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def age(seconds: float | None) -> str:
    """A length of time for people: the two largest units that say something."""
    if seconds is None:
        return "–"
    whole = max(int(seconds), 0)
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{left} s"


def when(seconds: int) -> str:
    """A moment, in UTC; 0 is never."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds)) if seconds else "–"


def number(value: int) -> str:
    """With separators."""
    return f"{value:,}"


def named(name: str) -> str:
    """The name of a field for people."""
    return name.replace("_", " ")


class Head(NamedTuple):
    """The head of a column of a table of views.

    Attributes:
        name: Of the field.
        numeric: Its values are set to the right.
    """

    name: str
    title: str
    column: Column
    numeric: bool


def heads(rows: Sequence[View]) -> list[Head]:
    """The columns of a table of views, as their class says them."""
    kind = type(rows[0])
    plain = defaults(kind)
    return [
        Head(name, one.title[:1].upper() + one.title[1:], one, _is_numeric(one, plain.get(name)))
        for name, one in columns(kind).items()
    ]


def _is_numeric(column: Column, default: object) -> bool:
    return column.unit in ("bytes", "age", "count") or (not column.unit and type(default) is int)


def render_cell(value: Any, column: Column, now_s: int) -> str:
    """Render the value of a field of a view as its column has it on a page."""
    empty = column.empty if len(column.empty) > 1 else "–"
    match column.unit:
        case "bytes":
            return size(value)
        case "moment":
            return when(value)
        case "since":
            return age(now_s - value) if value else empty
        case "age":
            return age(value)
        case "count":
            return number(sum(value.values()) if isinstance(value, dict) else len(value))
        case "hex":
            return f"{value:#x}"
        case "setting":
            return as_written(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value) if column.unit == "place" else number(value)
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or empty
    return str(value) or empty


_MOMENTS = ("created", "modified", "certificate_ends", "expires_next")


def without(sentence: str, name: str) -> str:
    """A sentence about something whose name stands beside it already."""
    rest = sentence.removeprefix(f"{name}: ")
    return rest[:1].upper() + rest[1:]


def shown(value: object, name: str) -> str:
    """The value of a field for people, by the field's name."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        if name.startswith("time_to_"):
            return "no limit" if value >= NEVER_S - 1 else age(value)
        if name.endswith(("_time", "_since", "_at")) or name in _MOMENTS:
            return when(value)
        if name == "bytes":
            return size(value)
        if (said := in_words(name, value)) is not None:
            return said
        return number(value) if name != "number" else str(value)
    if value in ("", None) or value in ([], {}):
        return "–"
    return str(value)


def body_view(body: bytes, view: str) -> tuple[str, bool]:
    """A body in one of the views.

    Returns:
        The text, and whether something of the body is left out.
    """
    if view == "hex":
        return _hex(body[:HEX_BYTES_MAX]), len(body) > HEX_BYTES_MAX
    if view == "json" and len(body) <= SHOWN_BYTES_MAX:
        try:
            text = json.dumps(json.loads(body), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            return "this is no JSON", False
        return text[:SHOWN_BYTES_MAX], len(text) > SHOWN_BYTES_MAX
    text = body[:SHOWN_BYTES_MAX].decode("utf-8", "replace")
    return text, len(body) > SHOWN_BYTES_MAX


def _hex(body: bytes) -> str:
    lines = []
    for at in range(0, len(body), 16):
        part = body[at : at + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:06x}  {part.hex(' '):<47}  {shown}")
    return "\n".join(lines)


def fitting(body: bytes) -> str:
    """The view that a body is shown in if nobody has chosen one."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return "hex"
    if body.lstrip()[:1] in (b"{", b"[") and body_view(body, "json")[0] != "this is no JSON":
        return "json"
    return "text"


WIDTH, HEIGHT = 160, 32


def sparkline(values: Sequence[float], *, top: float, label: str) -> Markup:
    """A line of values, evenly spaced, the last at the right.

    Args:
        top: Value at the upper edge; what is 0 or less is drawn at the lower one.
        label: What a reader that cannot see it is told.
    """
    scale = top if top > 0 else 1.0
    step = WIDTH / max(len(values) - 1, 1)
    points = " ".join(
        f"{at * step:.1f},{HEIGHT - 2 - min(max(value / scale, 0.0), 1.0) * (HEIGHT - 4):.1f}"
        for at, value in enumerate(values)
    )
    line = Markup('<polyline points="{}"/>').format(points) if len(values) > 1 else Markup("")
    return Markup(
        '<svg class="line" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
        'aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, label, line)
