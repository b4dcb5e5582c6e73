"""``onceq qm settings``: what a queue manager is set to."""

from __future__ import annotations

from typing import Annotated

from onceq.cli import out
from onceq.cli.common import Json, Where, asking, dumped
from onceq.cli.parameters import Option
from onceq.model.settings import as_written


def settings(
    changed: Annotated[
        bool, Option("--changed", help="Only those that are not at their defaults.")
    ] = False,
    qm: Where = None,
    json: Json = False,
) -> None:
    """What a queue manager goes by now, and what the defaults are.

    They are set in the table [settings] of its onceq.toml, and read by a start or by
    'onceq qm reload'; those marked "at a start" by a start alone.
    """
    with asking(qm) as connection:
        found = connection.settings()
    if changed:
        found = [one for one in found if one.value != one.default]
    if dumped(found, json):
        return
    if not found:
        out.line("every setting is at its default")
        return
    out.table(
        ("setting", "value", "default", "read"),
        [
            (
                one.name,
                as_written(one.value),
                as_written(one.default),
                "at a start" if one.at_start else "",
            )
            for one in found
        ],
    )
