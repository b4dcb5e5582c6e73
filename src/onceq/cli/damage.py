"""``onceq damage``: messages whose stored bytes are damaged; and ``onceq qm scrub``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from onceq.cli import out
from onceq.cli.common import DryRun, Json, Where, Yes, agreed, dumped, manager
from onceq.cli.parameters import Argument, Option
from onceq.client.pause import pause
from onceq.errors import DamagedRecord, InvalidParameter
from onceq.model.wording import plural

if TYPE_CHECKING:
    from onceq.model.views.managers import ScrubView

POLL_S = 0.2
"""How often a scrub is asked how far it has come."""

Number = Annotated[int | None, Argument(metavar="NUMBER", help="Of the entry.", show_default=False)]
All = Annotated[bool, Option("--all", help="All entries.")]
Rate = Annotated[
    int, Option("--rate", metavar="MIB", help="Mebibytes a second [8].", show_default=False)
]
Stop = Annotated[bool, Option("--stop", help="Stop the one that runs.")]
NoWait = Annotated[bool, Option("--no-wait", help="Begin it, and do not wait for its end.")]


def drop(
    number: Number = None, every: All = False, yes: Yes = False, dry_run: DryRun = False,
    qm: Where = None, json: Json = False,
) -> None:  # fmt: skip
    """Forget an entry, or all; its messages are gone for good then. It asks first."""
    if (number is None) is not every:
        raise InvalidParameter("say the number of an entry, or --all")
    with manager(qm) as connection:
        found = [d for d in connection.damages() if every or d.number == number]
        count = sum(d.count for d in found)
        if count and not dry_run:
            agreed(f"forget {plural(count, 'damaged message')} for good?", yes=yes)
        if not dry_run:
            count = connection.drop_damaged(number)
    if dumped({"dropped": count, "dry_run": dry_run}, json):
        return
    would = "would be forgotten" if dry_run else "forgotten"
    out.line(f"{plural(count, 'damaged message')} {would}")


def scrub_command(
    rate: Rate = 0, stop: Stop = False, no_wait: NoWait = False, qm: Where = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Look at every stored byte of a running queue manager, slowly, and name what is damaged.

    Damaged messages are set aside ('onceq damage list'); everything else goes on. Ends with exit
    code 7 if anything damaged was found. Ctrl-C leaves it running; --stop stops it.
    """
    with manager(qm) as connection:
        if stop:
            connection.scrub_stop()
        else:
            connection.scrub(rate << 20)
        view = connection.scrub_status()
        while view.running and not (no_wait or stop):
            out.note(f"{out.size(view.bytes)} of {out.size(view.total)}")
            pause(POLL_S)
            view = connection.scrub_status()
        found = connection.damages()
    if not dumped({**view.as_dict(), "damages": found}, json):
        out.line(_said(view))
    if view.damaged:
        raise DamagedRecord(
            f"{plural(view.damaged, 'place')} of the log are damaged; 'onceq damage list' "
            "names the messages that lay there"
        )


def _said(view: ScrubView) -> str:
    how = "looking at" if view.running else "stopped after" if view.stopped else "looked at"
    return (
        f"{how} {out.size(view.bytes)} of {out.size(view.total)}: "
        f"{plural(view.damaged, 'damaged place')}"
    )
