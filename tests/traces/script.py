"""Trace files: comments and commands stand at the margin, what follows from them is indented."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.traces.arguments import UnknownCommand
from tests.traces.commands import perform
from tests.traces.world import World

FOLDER: Final = Path(__file__).parent
INDENT: Final = "    "
REWRITE: Final = "make traces"
"""The command that writes all files again."""


def files() -> list[Path]:
    """All traces."""
    return sorted(FOLDER.glob("*.txt"))


def heading(text: str) -> str:
    """The comment at the top, in one line."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(lines)


def run(text: str) -> str:
    """A trace as it comes out now.

    Raises:
        UnknownCommand: A line at the margin is neither a command nor a comment.
    """
    world, made = World(), list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(INDENT):
            continue
        made.append(line.rstrip())
        if line.strip() and not line.startswith("#"):
            try:
                said = perform(world, line)
            except UnknownCommand as error:
                raise UnknownCommand(f"line {number}: {error}") from error
            made += [INDENT + one for one in said]
    return "\n".join(made).rstrip() + "\n"
