"""The table of docs/reference/endings.md: what is kept of a message that ends, and who is told.

It is made from ``core/ending/table.py`` and stands between two marks of a page that people write.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from onceq.core.ending.table import Ending, Fate, When, rows

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "endings.md"
BEGIN: Final = "<!-- Written by `make docs` from the code; a test compares them. -->\n\n"
END: Final = "\n\n<!-- The end of what is written by `make docs`. -->\n"


def _kept(fate: Fate, ending: Ending) -> str:
    stays = ending.name.startswith(("SETTLED", "NEVER"))
    said = []
    if fate.awaits:
        said.append("the message, until its end is told, if asked for that")
    if fate.dead_letter is not When.NEVER:
        how = {
            When.ASKED: "if asked for",
            When.SETTING: "if asked for, or as `xact_dead_letter` says",
            When.ALWAYS: "always",
        }[fate.dead_letter]
        said.append(f"dead letter stays, {how}" if stays else f"dead letter {how}")
    if ending is Ending.SETTLED_RECEIVED:
        said.append("the dead letter goes")
    if fate.hidden:
        said.append("else the message, out of sight, if acknowledgments or a copy were asked for")
    if fate.kept:
        said.append("dead letter of this manager always")
    if fate.journal:
        said.append("copy in the computer's journal if asked for")
    if fate.queue_journal:
        said.append("copy in the queue's journal if it has one")
    return "; ".join(said)


def _told(fate: Fate) -> str:
    said = []
    if fate.final is not When.NEVER:
        said.append(f"its source is told, {fate.final.value}")
    if fate.told is When.NEVER:
        said.append("*silent*")
    return "; ".join(said)


def page() -> str:
    """docs/reference/endings.md with the table as the code has it."""
    head, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has lost the marks of its table")
    lines: list[str] = []
    last = None
    for ending, transactional, sides, fate in rows():
        if ending is not last:
            lines.append(f"* {ending.value}:")
            last = ending
        what = "; ".join(filter(None, (_kept(fate, ending), _told(fate)))) or "nothing"
        at = " or ".join(side.value for side in sides)
        lines.append(f"  * {'transactional, ' if transactional else ''}{at}: {what}")
    return head + begin + "\n".join(lines) + end + tail
