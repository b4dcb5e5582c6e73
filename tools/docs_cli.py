"""The generated page about the command line: every command, as it is defined."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import click

from onceq.cli.main import app
from onceq.cli.parameters import documented

NOTE = "<!-- Written by `make docs` from the code; a test compares them. -->\n\n"
TOP = """# Command line

{note}`onceq` works on one queue manager. Which one is said by `--qm WHERE` (or `-q`), before or
behind the name of the command: a data directory, a socket (`unix:///path/onceq.sock`),
`onceq://host:port`, `tls://host:port`, or the name of a [context](#onceq-context-add-name-where).
Without it the variable `ONCEQ_QM` counts, then `ONCEQ_CONTEXT`, then the current directory if
a queue manager lives there, and then the context in use. A name that is a context, and a file in
the current directory too, is refused: `./name` is the file.

Names of queues are printed with `/`, and accepted with `/` or `\\`, because shells eat backslashes:
`private$/orders` needs no quotes; a name with `;` does, as in `'SYSTEM$;DEADXACT'`. A mistyped name
or command is answered with those that are like it. JSON has names as the client library does, with
`\\`.

Every command but `qm run` knows `--json`; errors are then JSON too, on stderr. A user's mistake
gives one line, `onceq: error (code): what happened, what to do`, and an
[exit code](exit-codes.md). Tables that go into a pipe have no decoration and are never cut. On
a terminal a table is no wider than that: texts become shorter, columns leave, the least important
first, and names are whole; `--wide` shows everything. Numbers have no separators, and `--exact`
shows sizes as numbers of bytes. `python -m onceq` is the same command.

What destroys something asks first; `--yes` answers, and `--dry-run` says what would happen. Who is
not at a terminal has not agreed.

`onceq --install-completion` makes the shell (bash, zsh or fish) complete commands, options,
contexts and names of queues; where no queue manager answers within half a second it offers none.

"""


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """All commands below one, each with what must be typed for it."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), f"{path} {name}")


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required or not value or not documented(value):
        return ""
    return f"`{value}`"


def _rows(command: Any) -> Iterator[str]:
    for parameter in command.params:
        said = (getattr(parameter, "said", parameter).help or "").replace("|", "\\|")
        if "--help" in parameter.opts or getattr(parameter, "hidden", False):
            continue
        if parameter.param_type_name == "argument":
            name = (parameter.metavar or parameter.name).strip("[].")
            needed = "required" if parameter.required else _default(parameter)
            yield f"| `{name}` | {needed} | {said} |"
            continue
        name = ", ".join(f"`{opt}`" for opt in sorted(parameter.opts, key=len))
        if not getattr(parameter, "is_flag", False):
            assert parameter.metavar, f"{command.name} {name}: give it a metavar"
            name += f" {parameter.metavar}"
        yield f"| {name} | {_default(parameter)} | {said} |"


def page() -> str:
    """docs/reference/cli.md."""
    parts = [TOP.format(note=NOTE)]
    for path, command in commands(app(), "onceq"):
        said = inspect.cleandoc(command.help or "")
        arguments = " ".join(
            (p.metavar or p.name).strip("[].") + ("" if p.required else "?")
            for p in command.params
            if p.param_type_name == "argument"
        )
        parts.append(f"## {path} {arguments}".rstrip() + f"\n\n{said}\n\n")
        parts.append("| | default | |\n|---|---|---|\n" + "\n".join(_rows(command)) + "\n\n")
    return "".join(parts).rstrip() + "\n"
