"""``onceq trail``: who did what, and whether the trail is whole."""

from __future__ import annotations

import os
from typing import Annotated

from onceq.cli import out
from onceq.cli.common import Json, Option, Where, asking, dumped, where
from onceq.errors import TrailBroken
from onceq.model.data_directory import TRAIL_FOLDER
from onceq.model.trail_check import TrailCheck


def verify(
    peer: Annotated[
        list[str] | None,
        Option(
            "--peer",
            metavar="WHERE",
            help="Another queue manager, as for -q: what it holds of "
            "this trail is compared. May be given several times.",
        ),
    ] = None,
    files: Annotated[
        str,
        Option(
            "--files",
            metavar="FOLDER",
            help="The files of the trail [else the folder 'trail' of "
            "the data directory, where -q names one].",
            show_default=False,
        ),
    ] = "",
    qm: Where = None,
    json: Json = False,
) -> None:
    """Say whether acts of administration were removed, changed or put in.

    The chain of digests is followed through the store and the files of the trail, and compared with
    what other queue managers hold of it. The exit status is 1 if something is wrong.
    """
    check = TrailCheck()
    with asking(qm) as connection:
        # First the end: what is done meanwhile is behind it.
        end = connection.trail_end()
        acts = [act for act in connection.trail() if act.number <= end.number]
    check.store(end, acts)
    place = where(qm)
    folder = files or (os.path.join(place, TRAIL_FOLDER) if os.path.isdir(place) else "")
    check.files(_contents(folder))
    for other in peer or []:
        with asking(other) as connection:
            held = connection.trail_end()
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
