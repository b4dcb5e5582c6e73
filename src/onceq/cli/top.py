"""``onceq top``: what moves, live; and the same as plain lines where there is no terminal.

Rates come of two looks. A place is given to each message that arrives and never again, so the last
place of a queue says how many have come, and what is missing then has left. Of a queue that is
empty at both looks nothing is known ("-"): messages may have come and gone; how much the log grows
says whether anything moves at all. What another life of the queue manager counted is not compared.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from onceq.cli import out
from onceq.cli.common import Json, Option, Where, as_json, connected
from onceq.cli.lists import read_sorted
from onceq.cli.out import TextTable
from onceq.client.attention import OFFLINE, notes_of_outgoing, notes_of_queue
from onceq.client.stopping import pause
from onceq.errors import AccessDenied, ServiceNotAvailable, UsageError
from onceq.model.limits import PLACES_AHEAD_MIN
from onceq.model.queue import TRACKING_QUEUE
from onceq.model.wording import duration, plural

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager
    from onceq.model.views.managers import StatusView
    from onceq.model.views.queues import OutgoingView, QueueView

ROWS_MAX: Final = 20
"""Of each table where nothing says how high the terminal is."""
QUEUES_MAX: Final = 500
"""Queues, and outgoing queues, that are looked at each time, those with the most messages first;
with --all every one is."""
ONCE_S_MAX: Final = 60
"""Nobody waits longer for a single answer."""
_LANE_BITS: Final = 56
"""Below them a lookup identifier has the place in its lane; above, its priority."""

Every = Annotated[
    float, Option("--every", metavar="SECONDS", min=0.1, max=3600.0, help="Between two looks.")
]
Once = Annotated[
    bool, Option("--once", help="Look twice, one interval apart, print once, and end.")
]
Everything = Annotated[bool, Option("--all", help="Queues in which nothing is and moves, too.")]


@dataclass(frozen=True, slots=True)
class TopMoment:
    """What there was at one moment.

    Attributes:
        at_s: By the clock of this process that only goes on.
        now_s: By the clock of the day.
        in_doubt: Prepared branches; None: this account may not look at them.
        left_out: How many queues and outgoing queues with messages were not looked at.
    """

    at_s: float
    now_s: int
    status: StatusView
    queues: list[QueueView]
    outgoing: list[OutgoingView]
    in_doubt: int | None
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class QueueLine:
    """One queue.

    Attributes:
        came_s, left_s: Messages a second; None: not known.
        age_s: How long the oldest message has been there; None: not known, or there is none.
        note: What an operator should know of it.
    """

    name: str
    messages: int
    bytes: int
    came_s: float | None
    left_s: float | None
    age_s: int | None
    note: str

    @property
    def moves(self) -> bool:
        """Whether anything is in it, or has come or gone."""
        return bool(self.messages or self.came_s or self.left_s or self.note)


def top(
    every: Every = 2.0, once: Once = False, everything: Everything = False, qm: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Show what moves, again and again: rates of each queue, what waits and why, what is in doubt.

    On a terminal it is one screen until Ctrl-C; elsewhere blocks of lines; with --json one line for
    each look.
    """
    if once and every > ONCE_S_MAX:
        raise UsageError(f"--once waits for one interval: say --every with {ONCE_S_MAX} at most")
    screen = _Screen(everything, out.terminal() and not once and not as_json(json), as_json(json))
    before: TopMoment | None = None
    try:
        while True:
            try:
                with connected(qm) as connection:
                    while True:
                        seen = _read_moment(connection, everything=everything)
                        if before is not None or not once:
                            screen.show(before, seen)
                            if once:
                                return
                        before = seen
                        pause(every)
            except ServiceNotAvailable as error:
                if before is None or once:
                    raise
                out.note(f"away: {error.text}")
                pause(every)
    except KeyboardInterrupt:
        if screen.live:
            print()


def _read_moment(connection: QueueManager, *, everything: bool) -> TopMoment:
    at_s, now_s, status = time.monotonic(), int(time.time()), connection.admin.status()
    sort, limit = ("", 0) if everything else ("messages", QUEUES_MAX)
    queues, of = read_sorted(
        connection.queues, connection.queue_page, sort=sort, only="" if everything else "busy",
        part="", limit=limit,
    )  # fmt: skip
    outgoing, of_outgoing = read_sorted(
        connection.admin.outgoing, connection.admin.outgoing_page, sort=sort,
        only="" if everything else "noted", part="", limit=limit,
    )  # fmt: skip
    try:
        in_doubt = sum(branch.phase == "prepared" for branch in connection.admin.branches())
    except AccessDenied:
        in_doubt = None
    # Both are counted: by number, where nobody counts, they are never sorted here.
    left_out = (of or 0) - len(queues) + (of_outgoing or 0) - len(outgoing)
    return TopMoment(at_s, now_s, status, queues, outgoing, in_doubt, left_out)


def lines_of(before: TopMoment | None, now: TopMoment) -> tuple[list[QueueLine], list[QueueLine]]:
    """Queues and outgoing queues, those where most moves first.

    Args:
        before: The look before; None: there was none.
    """
    if before is not None and before.status.life != now.status.life:
        before = None
    span = now.at_s - before.at_s if before is not None else 0.0
    old = {one.path: one for one in before.queues} if before is not None else {}
    # Those that were empty at a look at all others were not told of.
    complete = before is not None and not before.left_out
    queues = [
        _queue(old.get(one.path, _empty(one) if complete else None), one, span, now.now_s)
        for one in now.queues
    ]
    sent = {one.destination: one for one in before.outgoing} if before is not None else {}
    outgoing = [_outgoing(sent.get(one.destination), one, span, now.now_s) for one in now.outgoing]
    if before is not None and not now.left_out:
        # What was there, and is not told of any more, is empty now.
        there = {one.path for one in now.queues}
        queues += [
            QueueLine(path, 0, 0, None, one.messages / span if span > 0 else None, None, "")
            for path, one in old.items()
            if path not in there and one.messages
        ]
    for lines in (queues, outgoing):
        lines.sort(key=_order)
    return queues, outgoing


def _order(one: QueueLine) -> tuple[float, int, str]:
    return -(one.came_s or 0.0) - (one.left_s or 0.0), -one.messages, one.name


def log_rate(before: TopMoment | None, now: TopMoment) -> float | None:
    """Bytes a second by which the log has grown; None: not known."""
    if before is None or before.status.life != now.status.life or now.at_s <= before.at_s:
        return None
    return (now.status.log_position - before.status.log_position) / (now.at_s - before.at_s)


def _empty(one: QueueView) -> QueueView:
    """A queue as it was before the first of its messages came."""
    return replace(one, messages=0, bytes=0, locked=0, last_lookup=0)


def _age(oldest: int, now_s: int) -> int | None:
    return max(now_s - oldest, 0) if oldest else None


def _queue(old: QueueView | None, now: QueueView, span: float, now_s: int) -> QueueLine:
    came = left = None
    if old is not None and old.instance != now.instance:
        old = None  # it was deleted, and made again
    if old is not None and span > 0 and (old.messages or now.messages):
        new = _new(old, now)
        came, left = new / span, (old.messages + new - now.messages) / span
    notes = notes_of_queue(now)
    if now.locked:
        notes.append(f"{now.locked} in transactions")
    delayed = bool(now.parent) and now.path.casefold().endswith(";delayed")
    taken = now.readers_waiting or now.locked or left
    if now.path == f"private$\\{TRACKING_QUEUE}":
        notes.append("what became of tracked messages")
    elif old is not None and now.messages and not (taken or now.paused_since or delayed):
        notes.append("nobody takes them")
    age_s = _age(now.oldest, now_s)
    return QueueLine(now.path, now.messages, now.bytes, came, left, age_s, ", ".join(notes))


def _new(old: QueueView, now: QueueView) -> int:
    """Messages that have come between two looks, at least."""
    more = max(now.messages - old.messages, 0)
    if not (old.last_lookup and now.last_lookup):
        return more
    if old.last_lookup >> _LANE_BITS != now.last_lookup >> _LANE_BITS:
        return more  # other priorities: places of different lanes do not tell
    came = now.last_lookup - old.last_lookup
    # What stood there before the last start has places of another life, far before those of now.
    return max(came, more) if came < PLACES_AHEAD_MIN else more


def _outgoing(old: OutgoingView | None, now: OutgoingView, span: float, now_s: int) -> QueueLine:
    left = None
    if old is not None and span > 0:
        left = max(now.transmitted - old.transmitted, 0) / span
    notes = [
        f"{text} (for {duration(max(now_s - now.trouble_since, 0))})"
        if text == now.trouble
        else text
        for text in notes_of_outgoing(now)
    ]
    age_s = _age(now.oldest, now_s)
    return QueueLine(now.destination, now.messages, now.bytes, None, left, age_s, "; ".join(notes))


@dataclass(frozen=True, slots=True)
class _Screen:
    """How it is shown.

    Attributes:
        everything: Queues in which nothing is and moves, too.
        live: In the place of what was shown before.
    """

    everything: bool
    live: bool
    json: bool

    def show(self, before: TopMoment | None, seen: TopMoment) -> None:
        """Show one look, beside the one before."""
        queues, outgoing = (
            [one for one in some if self.everything or one.moves]
            for some in lines_of(before, seen)
        )  # fmt: skip
        if self.json:
            print(out.render_json(_as_map(queues, outgoing, seen)), flush=True)
            return
        if self.live:
            sys.stdout.write("\x1b[H\x1b[2J")
        out.line(summary(seen, log_rate(before, seen)))
        room = _rows() if self.live else None
        _table("queue", "in/s", queues, room)
        if outgoing:
            _table("outgoing to", "", outgoing, room)
        if seen.left_out:
            out.line(
                f"... {plural(seen.left_out, 'other')} with messages; --all looks at every one"
            )
        sys.stdout.flush()


def summary(seen: TopMoment, grows: float | None) -> str:
    """All of it in a line.

    Args:
        grows: Bytes a second by which the log grows; None: not known.
    """
    status = seen.status
    dead = status.dead_letters + status.transactional_dead_letters + status.poison_messages
    parts = [
        f"{status.name}  {time.strftime('%H:%M:%S')}  {plural(status.messages, 'message')}",
        f"{status.outgoing_messages} outgoing",
        plural(status.transactions, "open transaction"),
        f"{'?' if seen.in_doubt is None else seen.in_doubt} in doubt",
        plural(dead, "dead letter"),
    ]
    if grows is not None:
        parts.append(f"log {out.size(round(grows))}/s")
    if status.offline_since:
        parts.append(OFFLINE)
    if status.space_low:
        parts.append("the disk is nearly full")
    return ", ".join(parts)


def _table(title: str, came: str, lines: list[QueueLine], room: int | None) -> None:
    shown = lines if room is None else lines[:room]
    rows = [
        (out.name(one.name), str(one.messages), *((_rate(one.came_s),) if came else ()),
         _rate(one.left_s), "-" if one.age_s is None else duration(one.age_s),
         out.size(one.bytes), out.cell(out.sentence(one.note)))
        for one in shown
    ]  # fmt: skip
    columns = (title, "messages", *((came,) if came else ()), "out/s", "oldest", "bytes", "note")
    print()
    made = TextTable(columns, rows, right=range(1, len(columns) - 1), texts=("note",),
                 give=("bytes", "note", "oldest"))  # fmt: skip
    # What has no room is not said: it would be said again every moment.
    for line in made.lines(None if out.SHAPE.wide else out.width())[0]:
        print(line)
    if len(shown) < len(lines):
        out.line(f"... {len(lines) - len(shown)} more")


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _rows() -> int:
    """Rows of each table on this terminal."""
    import shutil

    return max((shutil.get_terminal_size((80, 2 * ROWS_MAX + 9)).lines - 9) // 2, 3)


def _as_map(queues: list[QueueLine], outgoing: list[QueueLine], seen: TopMoment) -> dict[str, Any]:
    return {
        "at": round(time.time(), 3),
        "queue_manager": seen.status.name,
        "messages": seen.status.messages,
        "outgoing_messages": seen.status.outgoing_messages,
        "transactions": seen.status.transactions,
        "in_doubt": seen.in_doubt,
        "dead_letters": seen.status.dead_letters + seen.status.transactional_dead_letters,
        "queues": [
            {"queue": one.name, "messages": one.messages, "bytes": one.bytes,
             "in_s": one.came_s, "out_s": one.left_s, "oldest_s": one.age_s, "note": one.note}
            for one in queues
        ],
        "outgoing": [
            {"destination": one.name, "messages": one.messages, "bytes": one.bytes,
             "out_s": one.left_s, "oldest_s": one.age_s, "note": one.note} for one in outgoing
        ],
    }  # fmt: skip
