"""The generated page about the command line: every command, from its definition."""

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
"""An option of at least this many commands, with the same text, stands only at the top."""
REPEATED: Final = 2
"""One of at least this many stands at the top, and is named at each command."""
TOP = """# Command line

{note}`onceq` works on one queue manager: `--qm WHERE` (or `-q`), before or behind the command; else
`ONCEQ_QM`, `ONCEQ_CONTEXT`, the current directory if a queue manager lives there, or the
[context](#onceq-context-add-name-where) in use. If `name` is a context and a file, `./name` is the
file.

Queue names are printed with `/` and accepted with `/` or `\\`. Quote a name that has a `;`:
`'SYSTEM$;DEADXACT'`. In JSON, names have `\\`.

An error is one line on stderr, `onceq: error (code): what happened, what to do`, with an
[exit code](exit-codes.md); with `--json` it is JSON. Tables in a pipe are plain and never cut; on a
terminal they fit its width, and names stay whole. Times in JSON are seconds since 1970.

A command that destroys something asks first. Without a terminal, say `--yes`.

`onceq --install-completion` adds completion to bash, zsh or fish. `python -m onceq` is the same
command.

## Options of most commands

{common}

## Options and arguments of several commands

At the commands they are only named.

{repeated}

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
    said = getattr(parameter, "said", parameter).help or ""
    value = parameter.default
    if parameter.required or not value or not documented(value):
        return said
    return f"{said.removesuffix('.')} [`{value}`]."


def _rows(command: Any) -> Iterator[tuple[str, str]]:
    """The name of each argument and option of a command, and its line."""
    for parameter in command.params:
        if "--help" in parameter.opts or getattr(parameter, "hidden", False):
            continue
        if parameter.param_type_name == "argument":
            name = (parameter.metavar or parameter.name).strip("[].")
            yield name, f"* `{name}`: {_explain(parameter)}"
            continue
        names = [f"`{opt}`" for opt in sorted(parameter.opts, key=len)]
        said = ", ".join(names)
        if not getattr(parameter, "is_flag", False):
            assert parameter.metavar, f"{command.name} {said}: give it a metavar"
            said += f" {parameter.metavar}"
        yield names[-1], f"* {said}: {_explain(parameter)}"


def columns(listing: Listing[Any], before: set[str]) -> str:
    """A line for each column of a list: its head and what it means; without those that are
    explained before."""
    fields = {one.title: name for name, one in view.columns(listing.view).items()}
    meaning = view.meanings(listing.view)
    said: list[str] = []
    known: list[str] = []
    for title, (_, cell) in listing.columns().items():
        name = fields.get(title, "")
        by = getattr(listing.view, name) if name else cell
        text = (meaning.get(name) or inspect.getdoc(by) or "").replace("``", "`")
        text = text.replace(" (seconds since 1970)", "")
        line = f"* `{title}`: {text.replace(chr(92) * 2, chr(92))}"
        (known if line in before else said).append(f"`{title}`" if line in before else line)
        before.add(line)
    also = [f"* {', '.join(known)}: as above."] if known else []
    return "Columns:\n\n" + "\n".join([*also, *said]) + "\n\n"


def frequent(times: Counter[tuple[str, str]]) -> dict[str, str]:
    """The line of each option that several commands have; of a name, the most frequent line."""
    found: dict[str, str] = {}
    for (name, line), number in times.most_common():
        if number >= REPEATED:
            found.setdefault(name, line)
    return found


def _heading(path: str, command: Any) -> str:
    """A command with its arguments."""
    arguments = " ".join(
        (one.metavar or one.name).strip("[].") + ("" if one.required else "?")
        for one in command.params
        if one.param_type_name == "argument"
    )
    return f"## {path} {arguments}".rstrip()


def page() -> str:
    """docs/reference/cli.md."""
    known = [(path, command, list(_rows(command))) for path, command in commands(app(), "onceq")]
    times = Counter(row for _, _, rows in known for row in rows)
    common = [line for (_, line), number in times.items() if number >= COMMON]
    repeated = {name: line for name, line in frequent(times).items() if line not in common}
    top = TOP.format(
        note=NOTE, common="\n".join(common), repeated="\n".join(sorted(repeated.values()))
    )
    parts, before = [top], set[str]()
    for path, command, rows in known:
        parts.append(f"{_heading(path, command)}\n\n{inspect.cleandoc(command.help or '')}\n\n")
        also = [name for name, line in rows if line == repeated.get(name) and name[0] == "`"]
        own = [f"* {', '.join(also)}"] if also else []
        own += [line for name, line in rows if line not in (*common, repeated.get(name))]
        if own:
            parts.append("\n".join(own) + "\n\n")
        if (listing := LISTS.get(path.removeprefix("onceq "))) is not None:
            parts.append(columns(listing, before))
    return "".join(parts).rstrip() + "\n"
