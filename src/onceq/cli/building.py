"""Commands of click, made of typed functions when they are called.

``parameters`` says what a function can say of its parameters; their types say the rest: a bool is
a flag, a list may be given several times, ``| None`` may be left out. Click does what a command
line library does; typer did the same before, and loads a library for data models with it.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from os import PathLike
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import click
from click.shell_completion import CompletionItem

from onceq.cli import commands, out
from onceq.cli.common import TOP
from onceq.cli.parameters import Argument, Complete, Option, documented

HELP = {"help_option_names": ["-h", "--help"]}
SUGGESTIONS_MAX = 3


def function_of(path: str) -> Callable[..., Any]:
    """The function of a command of the table; loads its module."""
    module, _, name = commands.COMMANDS[path].partition(":")
    found = getattr(import_module(module), name)
    made: Callable[..., Any] = found[path].command() if name == "LISTS" else found
    return made


class Commands(click.Group):
    """A group whose commands are made when they are called.

    Args:
        group: Its name in the table; "" is the top.
    """

    def __init__(self, group: str, **more: Any) -> None:
        super().__init__(name=group or "onceq", no_args_is_help=True, **more)
        self._group = group

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All of them, in the order of the table."""
        return commands.below(self._group)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each with its summary, whole; click would load them all, and cut what they say."""
        with formatter.section("Commands"):
            formatter.write_dl(commands.summaries(self._group))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands, and options of the group; what groups of click do loads them all."""
        named = [
            CompletionItem(word, help=said)
            for word, said in commands.summaries(self._group)
            if word.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One; None if there is no such."""
        path = f"{self._group} {cmd_name}".strip()
        if path in commands.COMMANDS and cmd_name in commands.below(self._group):
            return command(path, function_of(path))
        if not self._group and cmd_name in commands.GROUPS:
            return Commands(cmd_name, help=commands.GROUPS[cmd_name], context_settings=HELP)
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that was typed; an error says which are like it."""
        name = args[0]
        more = " ".join(args[:2])
        if len(args) > 1 and not self._group and name not in commands.GROUPS:
            # One that stands alone may have others behind it: onceq trail, onceq trail verify.
            found = self.get_command(ctx, more)
            if found is not None:
                return more, found, args[2:]
        if (found := self.get_command(ctx, name)) is not None:
            return name, found, args[1:]
        if ctx.resilient_parsing or name.startswith("-"):
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        near = get_close_matches(name, self.list_commands(ctx), SUGGESTIONS_MAX)
        hint = f". Did you mean {', '.join(repr(one) for one in near)}?" if near else "."
        raise click.UsageError(f"No such command {name!r}{hint}", ctx)


class _Command(click.Command):
    """One that tells of its arguments, too, and takes no value for another one in silence."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse an option that is given twice and takes one value: click takes the last, and who
        has named three messages would find two of them untouched."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        for one, count in Counter(order).items():
            if count > 1 and isinstance(one, click.Option) and not (one.multiple or one.is_flag):
                raise click.UsageError(
                    f"{one.opts[0]} was given {count} times, and takes one value", ctx
                )
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Arguments first."""
        rows = [one.record() for one in self.get_params(ctx) if isinstance(one, _Argument)]
        if rows:
            with formatter.section("Arguments"):
                formatter.write_dl(rows)
        super().format_options(ctx, formatter)


class _Argument(click.Argument):
    """With a help of its own, and a default that is what the function has."""

    said: Argument

    def make_metavar(self, ctx: click.Context) -> str:
        """As it stands behind "Usage:"."""
        name = self.metavar or str(self.name)
        shown = f"{{{name}}}" if self.required else f"[{name}]"
        return shown + ("..." if self.nargs != 1 else "")

    def record(self) -> tuple[str, str]:
        """Its line in the help."""
        more = [_limits(self.said.min, self.said.max)]
        shown = self.said.show_default and not (self.required or self.nargs != 1)
        if shown and documented(self.default):
            more.insert(0, f"default: {self.default}")
        if self.required:
            more.append("required")
        extra = "; ".join(filter(None, more))
        return self.metavar or str(self.name), f"{self.said.help}{f'  [{extra}]' if extra else ''}"


def _limits(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return ""
    if high is None:
        return f"x>={low}"
    return f"x<={high}" if low is None else f"{low}<=x<={high}"


def command(path: str, function: Callable[..., Any]) -> click.Command:
    """A command that calls a function; its docstring is the help.

    Args:
        path: What is typed for it.
    """
    hints = get_type_hints(function, include_extras=True)
    own = inspect.signature(function).parameters
    made = {one.name: parameter(one, hints[one.name]) for one in own.values()}
    many = {one.name: one.default for one in own.values() if made[one.name][1]}

    def call(**values: Any) -> Any:
        for key, default in many.items():
            # What was not given is what the function says of that, and not an empty tuple.
            values[key] = list(values[key]) or default
        return function(**values)

    params = [one for one, _ in made.values()]
    if path in commands.TABLES:
        params += [_shape("wide", "Show all columns, whole, however wide the terminal is."),
                   _shape("exact", "Show sizes as numbers of bytes.")]  # fmt: skip
    return _Command(
        path.rpartition(" ")[2],
        params=params,
        callback=call,
        help=inspect.cleandoc(function.__doc__ or ""),
        context_settings=HELP,
    )


def parameter(one: inspect.Parameter, hint: Any) -> tuple[click.Parameter, bool]:
    """A parameter of click, and whether it may be given several times."""
    kind, said = get_args(hint)[:2]
    if get_origin(kind) is UnionType:
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    many = get_origin(kind) is list
    if many:
        (kind,) = get_args(kind)
    required = one.default is inspect.Parameter.empty
    common: dict[str, Any] = {
        "metavar": said.metavar or None, "required": required,
        "shell_complete": said.autocompletion and _completing(said.autocompletion),
    }  # fmt: skip
    if not (required or many):
        common["default"] = one.default
    if isinstance(said, Argument):
        made = _Argument([one.name], type=_type(kind, said), nargs=-1 if many else 1, **common)
        made.said = said
        return made, many
    assert isinstance(said, Option)
    names = said.names or (f"--{one.name.replace('_', '-')}",)
    flag = kind is bool
    shown = not flag and said.show_default and documented(one.default)
    # That an option is no flag is not said: click takes that for one whose value may be missing.
    how: dict[str, Any] = {"is_flag": True} if flag else {"type": _type(kind, said)}
    option = click.Option(
        [*names, one.name], multiple=many, help=said.help, hidden=said.hidden, show_default=shown,
        **how, **common,
    )  # fmt: skip
    return option, many


def _shape(name: str, help: str) -> click.Option:
    """An option about how things are shown."""

    def note(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
        if wanted:
            setattr(out.SHAPE, name, True)

    return click.Option([f"--{name}"], is_flag=True, expose_value=False, callback=note, help=help)


def _type(kind: Any, said: Argument | Option) -> Any:
    if get_origin(kind) is tuple:
        return tuple(_type(each, said) for each in get_args(kind))
    if isinstance(kind, type) and issubclass(kind, PathLike):
        return click.Path(path_type=kind)
    limited = said.min is not None or said.max is not None
    if kind is int and limited:
        return click.IntRange(_whole(said.min), _whole(said.max))
    if kind is float and limited:
        return click.FloatRange(said.min, said.max)
    return kind


def _whole(limit: float | None) -> int | None:
    return None if limit is None else int(limit)


def _completing(
    complete: Complete,
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def call(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        # What was said of the queue manager so far: nobody has called the commands.
        each: click.Context | None = ctx
        while each is not None:
            TOP.qm = TOP.qm or each.params.get("qm")
            TOP.token_file = TOP.token_file or each.params.get("token_file")
            each = each.parent
        return [CompletionItem(word) for word in complete(incomplete)]

    return call


def everything(group: str = "") -> Sequence[tuple[str, click.Command]]:
    """All commands below a group, each with what must be typed for it; loads them all."""
    return [
        (path, command(path, function_of(path)))
        for path in commands.COMMANDS
        if path.startswith(group)
    ]
