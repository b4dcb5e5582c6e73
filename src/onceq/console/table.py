"""Everything that can be asked of a queue manager through the console, in one table.

The HTTP interface is made of it, its OpenAPI page and the reference of the documentation as well,
and the pages call the same functions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from onceq.console import letters, reading
from onceq.console.guard import (
    FIELD_CHARS_MAX,
    HEX_BYTES_MAX,
    ROWS_LIMIT,
    ROWS_MAX,
    SHOWN_BYTES_MAX,
)
from onceq.console.reading import Read
from onceq.hidden import show_hidden
from onceq.model.letters import in_words
from onceq.model.limits import VIEWS_AT_ONCE
from onceq.model.marks import NEVER_S
from onceq.model.record import defaults
from onceq.model.settings import as_written
from onceq.model.views.view import Column, View, columns
from onceq.model.wording import plural
from onceq.version import __version__

# ---- table ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that a request may give.

    Attributes:
        kind: ``string``, ``integer`` or ``boolean``, as OpenAPI has it.
    """

    name: str
    kind: str
    text: str
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A page for collectors of metrics, which is text and no JSON.

    Attributes:
        path: Behind ``/api/managers/{manager}``: what the queue manager's own listener calls it.
        text: What it tells, one sentence or two.
        right: The right over the queue manager that it takes.
    """

    path: str
    text: str
    right: str

    @property
    def name(self) -> str:
        """One word, for OpenAPI."""
        return word_of(self.path)


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that can be asked.

    Attributes:
        path: Behind ``/api/managers/{manager}``.
        changes: Whether it changes something: a POST, or else a GET.
        text: What it does, one sentence or two.
        right: The right over the queue manager, or at a queue, that it takes.
    """

    path: str
    run: Read
    text: str
    right: str
    parameters: tuple[Parameter, ...] = ()
    changes: bool = False

    @property
    def name(self) -> str:
        """One word, for OpenAPI: ``dead_return``."""
        return word_of(self.path)

    @property
    def method(self) -> str:
        """Of HTTP."""
        return "POST" if self.changes else "GET"

    @property
    def names(self) -> frozenset[str]:
        """Of its parameters."""
        return frozenset(parameter.name for parameter in self.parameters)


def word_of(path: str) -> str:
    """A path as one word."""
    return path.strip("/").replace("/", "_").replace("-", "_")


def _p(name: str, kind: str, text: str, *, needed: bool = False) -> Parameter:
    return Parameter(name, kind, text, needed)


LIMIT: Final = _p("limit", "integer", f"Number of rows at most; {ROWS_MAX} by default, "
                  f"{ROWS_LIMIT} at most.")  # fmt: skip
PAGED: Final = (
    _p("name", "string", "A part of the name."),
    _p("sort", "string", "`number`, `name`, `messages`, `bytes` or `oldest`."),
    _p("after", "string", "`next` of the page before."),
    _p("limit", "integer", f"Number of rows at most; {ROWS_MAX} by default, "
       f"{VIEWS_AT_ONCE} at most."),
)  # fmt: skip
QUEUE: Final = _p("queue", "string", "Name of a queue, such as `private$\\orders`.", needed=True)
BRANCH: Final = _p("branch", "string", "As the list shows it.", needed=True)
DRY_RUN: Final = _p("dry_run", "boolean", "Say what would happen; change nothing.")
DESTINATION: Final = _p("destination", "string", "As the list of outgoing queues shows it.",
                        needed=True)  # fmt: skip
SEND: Final = (
    QUEUE,
    _p("body", "string", f"One line of at most {FIELD_CHARS_MAX} characters."),
    _p("form", "string", "`text` or `json`: the latter is checked, and told by the body type."),
    _p("label", "string", "For people."),
    _p("delay", "string", "A time such as `30s` or `5m` before which it is not received."),
    DRY_RUN,
)
LETTERS: Final = (
    _p("queue", "string", "A dead-letter queue of one's own; else both of the system's."),
    _p("reason", "string", "A word such as `expired`, or a class such as `0x8003`."),
    _p("destination", "string", "A part of the name."),
    _p("label", "string", "Substring of the label."),
    _p("origin", "string", "GUID of the queue manager that has sent it."),
    _p("older_than", "string", "An age such as `30s`, `5m`, `2h` or `1d`."),
    _p("younger_than", "string", "Likewise."),
    _p("id", "string", "Identifier of one message."),
)
RETURN: Final = (
    *LETTERS,
    _p("to", "string", "Another destination for all of them."),
    _p("limit", "integer", "Number of letters at most."),
    _p("max_returns", "integer", "None that was returned so often."),
    _p("in_doubt", "boolean", "Also those that may have been received: they may be received twice "
       "then."),
    _p("second", "boolean", "Also those of which their sender has another dead letter."),
    DRY_RUN,
)  # fmt: skip
AS_NEW: Final = tuple(one for one in RETURN if one.name not in ("max_returns", "second"))
NUMBER: Final = _p("number", "integer", "Of the job.", needed=True)

OPERATIONS: Final = (
    Operation("/settings", reading.settings, "What the queue manager says of itself.", "monitor"),
    Operation(
        "/queues", reading.queues, "A page of the queues, the one with the oldest message first.",
        "get-properties", PAGED,
    ),
    Operation(
        "/queue", reading.queue, "One queue, who works on it, and a page of the headers of its "
        "messages.", "peek",
        (QUEUE, _p("after", "integer", "Behind this lookup identifier."), LIMIT,
         _p("label", "string", "Substring of the label."), _p("id", "string", "Of one message."),
         _p("older_than", "string", "An age such as `30s`, `5m`, `2h` or `1d`.")),
    ),
    Operation(
        "/queue/pause", reading.pause_queue,
        "Let nobody receive the next message of a queue.", "operate", (QUEUE,), changes=True,
    ),
    Operation(
        "/queue/resume", reading.resume_queue,
        "Let messages of a queue be received again.", "operate", (QUEUE,), changes=True,
    ),
    Operation(
        "/queue/release", reading.release_queue,
        "End the holds of those who have opened a queue so that nobody else receives from it. They "
        "may open it again.", "operate", (QUEUE,), changes=True,
    ),
    Operation(
        "/queue/send", reading.send,
        "Send one message to a queue of the queue manager, to try what receives from it.", "send",
        SEND, changes=True,
    ),
    Operation(
        "/message", reading.message, "One message: its properties, its body, its story.",
        "peek-body, without it no body",
        (QUEUE, _p("lookup_id", "integer", "Its place in the queue.", needed=True)),
    ),
    Operation(
        "/dead", letters.dead, "Dead letters by reason, and a page of them, the oldest first.",
        "monitor", (*LETTERS, LIMIT),
    ),
    Operation(
        "/dead/return", letters.return_home,
        "Send dead letters to their destinations again, as a job. Each is sent and removed in one "
        "step. `state` says whether the job is over.",
        "operate", RETURN, changes=True,
    ),
    Operation(
        "/dead/send-as-new", letters.send_as_new,
        "Send messages like dead letters to their destinations, as a job; the letters stay.",
        "operate", AS_NEW, changes=True,
    ),
    Operation(
        "/dead/purge", letters.purge,
        "Remove dead letters for good, as a job.", "operate",
        (*LETTERS, DRY_RUN), changes=True,
    ),
    Operation("/jobs", letters.list_jobs, "Jobs that run, and the last that are over.", "monitor"),
    Operation(
        "/job", letters.show_job, "One job, with the first messages that failed.", "monitor",
        (NUMBER,),
    ),
    Operation(
        "/jobs/cancel", letters.cancel_job, "End a job: what is done stays done.", "operate",
        (NUMBER,),
        changes=True,
    ),
    Operation(
        "/transactions", reading.transactions,
        "Transactions that are open, branches with what can be done, and decisions.", "monitor",
    ),
    Operation(
        "/transactions/decide", reading.decide,
        "Decide a prepared branch by hand. Nobody asks its coordinator: if that decides otherwise, "
        "the partners differ permanently.", "operate",
        (BRANCH, _p("outcome", "string", "`commit` or `abort`.", needed=True), DRY_RUN),
        changes=True,
    ),
    Operation(
        "/transactions/forget", reading.forget,
        "Drop the memory of a branch that was decided by hand.", "operate", (BRANCH,),
        changes=True,
    ),
    Operation(
        "/outgoing", reading.outgoing, "A page of the outgoing queues, those in which most waits "
        "first, and why each moves or not.", "monitor", PAGED,
    ),
    Operation(
        "/outgoing/pause", reading.pause_outgoing,
        "Transmit nothing more to a destination; messages gather, and may expire.", "operate",
        (DESTINATION,), changes=True,
    ),
    Operation(
        "/outgoing/resume", reading.resume_outgoing, "Transmit again to a destination.",
        "operate", (DESTINATION,), changes=True,
    ),
    Operation("/streams", reading.streams, "Incoming message streams.", "monitor"),
    Operation("/peers", reading.peers, "Names that were connected to, and who answers.", "monitor"),
    Operation(
        "/trail", reading.trail, "The audit trail: who did what, the newest first.", "monitor",
        (_p("after", "integer", "Only acts behind this number."), LIMIT),
    ),
    Operation(
        "/rights", reading.rights, "Who may do what, and what the console may.", "get-rights",
        (_p("queue", "string", "Only what is about this queue."),),
    ),
)  # fmt: skip

METRICS: Final = (
    Text(
        "/metrics",
        "What the queue manager has counted and how it is: what it shows at its own `/metrics`, as "
        "text for Prometheus, or for OpenMetrics if `Accept` says so. It is made at most once a "
        "second. The console needs `onceq[metrics]` for it.",
        "monitor",
    ),
    Text(
        "/metrics/queues",
        "Likewise each of its queues; of too many those with the oldest messages.",
        "monitor",
    ),
)
"""What is asked for by collectors of metrics, with GET and without values."""

BY_PATH: Final[Mapping[str, Operation]] = {one.path: one for one in OPERATIONS}


# ---- show ----------------------------------------------------------------------------------------
#
# How values look on a page: templates with everything escaped, sizes, times, bodies, pictures.


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
VIEWS = ("text", "json", "hex")


def environment(now_s: Callable[[], int]) -> Environment:
    """Templates: everything that they show is escaped, and a name that is not there is an error.

    Args:
        now_s: Seconds since 1970, for the age of what has a moment.
    """
    made = Environment(
        loader=PackageLoader("onceq.console", "templates"), autoescape=True,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_show_hidden,
    )  # fmt: skip
    made.filters.update(
        size=size,
        age=age,
        when=when,
        number=number,
        named=named,
        shown=show_value,
        plural=plural,
        without=without,
        setting=as_written,
        cell=lambda value, column: render_cell(value, column, now_s()),
        heads=heads,
    )
    made.globals.update(link=link, version=__version__)
    return made


def _show_hidden(value: object) -> object:
    """Return a value with its hidden characters made visible, for a page (finding K16)."""
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


class ColumnHead(NamedTuple):
    """The head of a column of a table of views.

    Attributes:
        name: Of the field.
        numeric: Its values are set to the right.
    """

    name: str
    title: str
    column: Column
    numeric: bool


def heads(rows: Sequence[View]) -> list[ColumnHead]:
    """The columns of a table of views, as their class says them."""
    kind = type(rows[0])
    plain = defaults(kind)
    found = []
    for name, one in columns(kind).items():
        numeric = one.unit in ("bytes", "age", "count")
        numeric = numeric or (not one.unit and type(plain.get(name)) is int)
        found.append(ColumnHead(name, one.title[:1].upper() + one.title[1:], one, numeric))
    return found


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


def show_value(value: object, name: str) -> str:
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
        lines, some = [], body[:HEX_BYTES_MAX]
        for at in range(0, len(some), 16):
            part = some[at : at + 16]
            shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
            lines.append(f"{at:06x}  {part.hex(' '):<47}  {shown}")
        return "\n".join(lines), len(body) > HEX_BYTES_MAX
    if view == "json" and len(body) <= SHOWN_BYTES_MAX:
        try:
            text = json.dumps(json.loads(body), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            return "this is no JSON", False
        return text[:SHOWN_BYTES_MAX], len(text) > SHOWN_BYTES_MAX
    text = body[:SHOWN_BYTES_MAX].decode("utf-8", "replace")
    return text, len(body) > SHOWN_BYTES_MAX


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
