"""Every command that the documentation tells people to type exists, with those options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from onceq.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)


def lines() -> list[str]:
    found = []
    for page in PAGES:
        for block in BLOCK.findall(page.read_text()):
            joined = block.replace("\\\n", " ")
            for line in joined.splitlines():
                found += [part.strip() for part in line.split("|") if part.strip()]
    return sorted({line for line in found if line.startswith("onceq ")})


def check(line: str) -> None:
    """Parse a command line as the command would; nothing is carried out."""
    words = shlex.split(line, comments=True)
    for stop in ("&", ">", "<", "&&", ";"):
        if stop in words:
            words = words[: words.index(stop)]
    command: Any = app()
    context = command.make_context("onceq", words[1:])
    while isinstance(command, click.Group):
        name, command, rest = command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        context = command.make_context(name, rest, parent=context)


def test_there_are_some() -> None:
    assert len(lines()) > 10


@pytest.mark.parametrize("line", lines())
def test_it_can_be_typed(line: str) -> None:
    check(line)


@pytest.mark.parametrize("line", ["onceq queue lst", "onceq queue list --sytem", "onceq outcome"])
def test_what_cannot_is_noticed(line: str) -> None:
    with pytest.raises(Exception, match=r"No such|Missing|Invalid"):
        check(line)
