"""The generated page about the command line: every command, as it is defined."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import click

from onceq.cli.common import documented
from onceq.cli.lists import LISTS, Listing
from onceq.cli.main import app
from onceq.model.views import view

NOTE = "<!-- Written by `make docs` from the code; a test compares them. -->\n\n"
COMMON: Final = 12
"""An option that as many commands have, with the same text, stands at the top of the page."""
TOP = """# Command line

{note}`onceq` works on one queue manager. `--qm WHERE` (or `-q`), before or behind the name of the
command, says which one; then the variables `ONCEQ_QM` and `ONCEQ_CONTEXT` count, then the current
directory if a queue manager lives there, then the [context](#onceq-context-add-name-where) in use.
If a name is both a context and a file here, write `./name` for the file.

Queue names are printed with `/` and accepted with `/` or `\\`. Quote a name that has a `;`:
`'SYSTEM$;DEADXACT'`. In JSON, names have `\\`, as in the client library.

An error is one line on stderr, `onceq: error (code): what happened, what to do`, with an
[exit code](exit-codes.md); with `--json` it is JSON. Tables in a pipe are plain and never cut; on a
terminal they fit its width, and names stay whole.

A command that destroys something asks first. Without a terminal, say `--yes`.

`onceq --install-completion` adds completion to bash, zsh or fish. `python -m onceq` is the same
command.

## Options of most commands

The tables below leave these out.

| option | meaning |
|---|---|
{common}

"""


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """All commands below one, each with what must be typed for it."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), f"{path} {name}")


def _explain(parameter: Any) -> str:
    """The help text of a parameter, with its default."""
    said = (getattr(parameter, "said", parameter).help or "").replace("|", "\\|")
    value = parameter.default
    if parameter.required or not value or not documented(value):
        return said
    return f"{said} Default: `{value}`."


def _rows(command: Any) -> Iterator[str]:
    """A line for each argument and option of a command."""
    for parameter in command.params:
        if "--help" in parameter.opts or getattr(parameter, "hidden", False):
            continue
        if parameter.param_type_name == "argument":
            name = (parameter.metavar or parameter.name).strip("[].")
            yield f"| `{name}` | {_explain(parameter)} |"
            continue
        name = ", ".join(f"`{opt}`" for opt in sorted(parameter.opts, key=len))
        if not getattr(parameter, "is_flag", False):
            assert parameter.metavar, f"{command.name} {name}: give it a metavar"
            name += f" {parameter.metavar}"
        yield f"| {name} | {_explain(parameter)} |"


def columns(listing: Listing[Any]) -> str:
    """A sentence for each column of a list: its head and what it means."""
    fields = {one.title: name for name, one in view.columns(listing.view).items()}
    meaning = view.meanings(listing.view)
    said = []
    for title, (_, cell) in listing.columns().items():
        name = fields.get(title, "")
        by = getattr(listing.view, name) if name else cell
        text = (meaning.get(name) or inspect.getdoc(by) or "").replace("``", "`")
        said.append(f"* `{title}`: {text.replace(chr(92) * 2, chr(92))}")
    return "Columns:\n\n" + "\n".join(said) + "\n\n"


def page() -> str:
    """docs/reference/cli.md."""
    known = [(path, command, list(_rows(command))) for path, command in commands(app(), "onceq")]
    times = Counter(row for _, _, rows in known for row in rows)
    common = [row for row, number in times.items() if number >= COMMON]
    parts = [TOP.format(note=NOTE, common="\n".join(common))]
    for path, command, rows in known:
        said = inspect.cleandoc(command.help or "")
        arguments = " ".join(
            (p.metavar or p.name).strip("[].") + ("" if p.required else "?")
            for p in command.params
            if p.param_type_name == "argument"
        )
        parts.append(f"## {path} {arguments}".rstrip() + f"\n\n{said}\n\n")
        own = [row for row in rows if row not in common]
        if own:
            parts.append("| option | meaning |\n|---|---|\n" + "\n".join(own) + "\n\n")
        if (listing := LISTS.get(path.removeprefix("onceq "))) is not None:
            parts.append(columns(listing))
    return "".join(parts).rstrip() + "\n"
