"""``onceq events``: what happens to messages, as the queue manager's history tells it.

A history is a folder of files that only this computer reads. Of a queue manager without one, or of
one that is elsewhere, there are the acts of its audit trail, and it is said that there is no more.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

from onceq.cli import out
from onceq.cli.common import Json, Option, Where, as_json, asking, dumped, where
from onceq.client.stopping import pause
from onceq.errors import ServiceNotAvailable, TrailBroken, UsageError
from onceq.file_access import TRAIL_FOLDER
from onceq.hidden import show_hidden
from onceq.model.audit_trail import TrailCheck

if TYPE_CHECKING:
    from onceq.model.views.managers import ActView


# ---- events --------------------------------------------------------------------------------------


POLL_S: Final = 1.0
"""Between two looks for what is new."""
FOLDER: Final = "history"
Row = dict[str, Any]

Follow = Annotated[bool, Option("--follow", "-F", help="Go on with what comes, until Ctrl-C.")]
Last = Annotated[int, Option("--last", "-n", metavar="N", min=0, help="Begin with the last N.")]
Queue = Annotated[
    str,
    Option(
        "--queue", metavar="TEXT", show_default=False, help="Of queues with this in their name."
    ),
]
Events = Annotated[
    list[str] | None,
    Option("--event", metavar="EVENT", show_default=False,
           help="Only these, such as received or act; may be repeated."),
]  # fmt: skip


def events(
    follow: Follow = False, last: Last = 20, queue: Queue = "", event: Events = None,
    qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Print what happened to messages, and acts of administration: a line for each, as they come.

    Events of messages need a queue manager on this computer with the setting history = true, and
    come after history_roll_s seconds at the latest. Of another one there are only acts (onceq
    trail).
    """
    wanted = _wanted(queue, event or [])
    tell = _json if as_json(json) else _line
    place = where(qm)
    folder = os.path.join(place, FOLDER)
    try:
        if os.path.isdir(folder):
            from onceq.cli.spark_loading import Missing

            with Missing("onceq[history]"):
                history = import_module("onceq.history.following").Following(
                    folder, wanted, lambda name: out.note(f"{name} was removed before it was read")
                )
            for row in history.last(last):
                tell(row)
            while follow:
                pause(POLL_S)
                for row in history.new():
                    tell(row)
        else:
            out.note(
                f"{place} has no history here: acts of administration are told, and no messages "
                "(setting history = true)"
            )
            _of_trail(place, last, wanted, tell, follow=follow)
    except KeyboardInterrupt:
        return


def _wanted(queue: str, kinds: list[str]) -> Callable[[Row], bool]:
    from onceq.history.columns import EVENTS

    unknown = sorted(set(kinds) - set(EVENTS))
    if unknown:
        raise UsageError(f"there is no event {unknown[0]!r}; there are {', '.join(EVENTS)}")
    part = out.name(queue).casefold()

    def wanted(row: Row) -> bool:
        if kinds and row["event"] not in kinds:
            return False
        about = f"{row.get('queue') or ''} {row.get('about') or ''}"
        return not part or part in out.name(about).casefold()

    return wanted


def _of_trail(
    place: str, last: int, wanted: Callable[[Row], bool], tell: Callable[[Row], None], *,
    follow: bool,
) -> None:  # fmt: skip
    after, away = 0, ""
    begun = False
    while True:
        try:
            with asking(place) as connection:
                while True:
                    acts = connection.admin.trail(after)
                    after = acts[-1].number if acts else after
                    rows = list(filter(wanted, map(_row, acts)))
                    for row in rows if begun else rows[len(rows) - min(last, len(rows)) :]:
                        tell(row)
                    begun, away = True, ""
                    if not follow:
                        return
                    pause(POLL_S)
        except ServiceNotAvailable as error:
            if not begun:
                raise
            if error.text != away:
                out.note(f"away: {error.text}")
            away = error.text
            pause(POLL_S)


def _row(act: ActView) -> Row:
    """An act as a history has it."""
    return {
        "event": "act", "eventTime": datetime.datetime.fromtimestamp(act.at, datetime.UTC),
        "act": act.number, "actor": act.who, "address": act.where, "action": act.what,
        "about": act.about, "result": act.result,
    }  # fmt: skip


def _json(row: Row) -> None:
    said = {
        name: value.isoformat() if isinstance(value, datetime.datetime) else value
        for name, value in row.items() if value is not None
    }  # fmt: skip
    print(out.render_json(said), flush=True)


def _line(row: Row) -> None:
    print(show_hidden("  ".join(_parts(row))), flush=True)


def _parts(row: Row) -> Iterator[str]:
    yield row["eventTime"].astimezone().strftime("%Y-%m-%d %H:%M:%S")
    if row["event"] == "act":
        yield f"act {row['act']}"
        yield f"{row['actor']} {row['action']} {out.name(row['about'] or '')}".rstrip()
        if row["result"]:
            yield f"refused: {row['result']}"
        return
    yield f"{row['event']:<12}"
    yield out.name(row["queue"] or "-")
    if row.get("source") and row.get("message") is not None:
        yield f"{{{row['source']}}}/{row['message']}"
    if row.get("stream") is not None:
        yield f"number {row['number']}"
    if row.get("className"):
        yield str(row["className"])


# ---- trails --------------------------------------------------------------------------------------
#
# `onceq trail`: who did what, and whether the trail is whole.


def verify(
    peer: Annotated[
        list[str] | None,
        Option(
            "--peer",
            metavar="WHERE",
            help="Another queue manager (as for -q) to compare with; may be repeated.",
        ),
    ] = None,
    files: Annotated[
        str,
        Option(
            "--files",
            metavar="FOLDER",
            help="Files of the trail [else the folder 'trail' of the data directory of -q].",
            show_default=False,
        ),
    ] = "",
    qm: Where = None,
    json: Json = False,
) -> None:
    """Say whether acts of administration were removed, changed or put in.

    Follows the chain of digests through the store and the files of the trail, and compares it with
    what other queue managers hold of it. Exit code 1: something is wrong.
    """
    check = TrailCheck()
    with asking(qm) as connection:
        # First the end: what is done meanwhile is behind it.
        end = connection.admin.trail_end()
        acts = [act for act in connection.admin.trail() if act.number <= end.number]
    check.store(end, acts)
    place = where(qm)
    folder = files or (os.path.join(place, TRAIL_FOLDER) if os.path.isdir(place) else "")
    check.files(_contents(folder))
    for other in peer or []:
        with asking(other) as connection:
            held = connection.admin.trail_end()
        check.heads([head for head in held.heads if head.peer == end.id], other)
    report = check.report
    if not dumped(report, json):
        out.facts(
            [
                ("acts", f"{report.acts} compared, the last one is {end.number}"),
                ("digests of others", report.heads),
                ("result", "not whole" if report.wrong else "whole"),
            ]
        )
        for note in report.notes:
            out.line(f"note: {note}")
        for wrong in report.wrong:
            out.line(f"wrong: {wrong}")
    if report.wrong:
        raise TrailBroken(f"{report.wrong[0]}: onceq trail verify names every place")


def _contents(folder: str) -> list[tuple[str, bytes]]:
    """The files of a trail, in order."""
    names = sorted(os.listdir(folder)) if folder and os.path.isdir(folder) else []
    found = []
    for name in names:
        if name.startswith("acts-") and name.endswith(".jsonl"):
            with open(os.path.join(folder, name), "rb") as file:
                found.append((name, file.read()))
    return found
