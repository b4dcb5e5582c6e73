"""The table of all commands, and how they become commands of click when they are called.

A function's module is loaded when its command is called, or when its help is wanted. So a command
that asks a daemon something does not wait for the libraries of another one that works on Spark. The
help and the reference list the commands in the order of the table.

Types of parameters say the rest: a bool is a flag, a list may be given several times, ``| None``
may be left out. The shell asks for completions at each key, so an answer may take no longer than a
person waits, and a daemon that is away means that there are no names.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from os import PathLike
from os.path import dirname, join
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin, get_type_hints

import click
from click import shell_completion
from click.shell_completion import CompletionItem

from onceq.cli import out
from onceq.cli.common import TOP, Argument, Complete, Exit, Option, documented
from onceq.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

GROUPS: Final = {
    "qm": "Queue managers: make, run, status, check, scrub, backup, restore.",
    "queue": "Queues of this manager.",
    "outgoing": "Outgoing queues: what waits for others, and why.",
    "stream": "Incoming message streams: one for each sender and queue.",
    "peer": "Other queue managers: who answers under which name.",
    "rights": "Who may do what.",
    "token": "Who applications are over a network.",
    "tls": "Identities of queue managers, and TLS between them.",
    "tx": "Transactions: open, prepared, in doubt; here and in databases.",
    "dead": "Dead letters: list, show, send home or as new, remove.",
    "job": "Jobs: what the queue manager does to many messages.",
    "journal": "Journals: list, show, remove.",
    "mapping": "Mapping files: names of queues over HTTP outside and inside.",
    "damage": "Damaged messages: what was set aside because its stored bytes have changed.",
    "context": "Contexts: short names of queue managers, for -q.",
    "names": "Names: what they mean, and why.",
    "list": "Distribution lists: one name that stands for many queues.",
    "directory": "The directory: public queues, distribution lists, computers.",
    "spark": "Jobs on Apache Spark: queues into files and back, audits of histories.",
}
"""What stands before a verb, and what it is about."""
COMMANDS: Final = {
    "send": "onceq.cli.sending:send",
    "receive": "onceq.cli.receiving:receive",
    "peek": "onceq.cli.receiving:peek",
    "outcome": "onceq.cli.streams:outcome",
    "grant": "onceq.cli.rights:grant",
    "revoke": "onceq.cli.rights:revoke",
    "trail": "onceq.cli.lists:list_acts",
    "trail verify": "onceq.cli.events:verify",
    "trail heads": "onceq.cli.lists:LISTS",
    "bench": "onceq.cli.bench:bench",
    "audit": "onceq.cli.audit:audit",
    "console": "onceq.cli.console:console",
    "top": "onceq.cli.top:top",
    "events": "onceq.cli.events:events",
    "qm backup": "onceq.cli.storage:backup_command",
    "qm restore": "onceq.cli.storage:restore_command",
    "qm scrub": "onceq.cli.storage:scrub_command",
    "qm metrics": "onceq.cli.status:metrics",
    "qm init": "onceq.cli.qm:init",
    "qm run": "onceq.cli.qm:run",
    "qm status": "onceq.cli.status:status",
    "qm settings": "onceq.cli.lists:list_settings",
    "qm reload": "onceq.cli.status:reload",
    "qm disconnect": "onceq.cli.status:disconnect",
    "qm connect": "onceq.cli.status:connect",
    "qm tidy": "onceq.cli.status:tidy",
    "qm check": "onceq.cli.qm:check",
    "queue create": "onceq.cli.queues:create_queue",
    "queue list": "onceq.cli.lists:list_queues",
    "queue set": "onceq.cli.queues:set_queue",
    "queue poison": "onceq.cli.queues:set_poison_policy",
    "queue show": "onceq.cli.queues:show_queue",
    "queue delete": "onceq.cli.queues:delete_queue",
    "queue purge": "onceq.cli.queues:purge_queue",
    "queue pause": "onceq.cli.queues:pause_queue",
    "queue resume": "onceq.cli.queues:resume_queue",
    "queue release": "onceq.cli.queues:release_queue",
    "outgoing list": "onceq.cli.lists:list_outgoing",
    "outgoing show": "onceq.cli.outgoing:show",
    "outgoing why": "onceq.cli.outgoing:why_",
    "outgoing pause": "onceq.cli.outgoing:pause",
    "outgoing resume": "onceq.cli.outgoing:resume",
    "outgoing resend": "onceq.cli.outgoing:resend",
    "outgoing remove": "onceq.cli.outgoing:remove",
    "stream list": "onceq.cli.lists:list_streams",
    "stream show": "onceq.cli.streams:show_stream",
    "stream reset": "onceq.cli.streams:reset_stream",
    "peer list": "onceq.cli.lists:LISTS",
    "peer forget": "onceq.cli.streams:forget_peer",
    "peer accept": "onceq.cli.streams:accept_clock",
    "rights show": "onceq.cli.lists:list_grants",
    "rights explain": "onceq.cli.rights:explain",
    "rights list": "onceq.cli.rights:list_rights",
    "token create": "onceq.cli.rights:create_token",
    "token list": "onceq.cli.lists:LISTS",
    "token revoke": "onceq.cli.rights:revoke_token",
    "tls init": "onceq.cli.tls:init",
    "tls invite": "onceq.cli.tls:invite",
    "tls join": "onceq.cli.tls:join",
    "tls show": "onceq.cli.tls:show",
    "tls renew": "onceq.cli.tls:renew",
    "tls remove": "onceq.cli.tls:remove",
    "tls rotate": "onceq.cli.tls:rotate",
    "tx list": "onceq.cli.transactions:list_transactions",
    "tx show": "onceq.cli.transactions:show_transaction",
    "tx commit": "onceq.cli.transactions:commit_branch",
    "tx abort": "onceq.cli.transactions:abort_branch",
    "tx forget": "onceq.cli.transactions:forget_branch",
    "tx recover": "onceq.cli.transactions:recover",
    "tx accept-database": "onceq.cli.transactions:accept_database",
    "tx groups": "onceq.cli.lists:LISTS",
    "tx forget-group": "onceq.cli.spark:forget_group",
    "dead list": "onceq.cli.letters:list_dead",
    "dead show": "onceq.cli.letters:show_dead",
    "dead return": "onceq.cli.letters:return_dead",
    "dead send-as-new": "onceq.cli.letters:send_dead_as_new",
    "dead purge": "onceq.cli.letters:purge_dead",
    "job list": "onceq.cli.lists:LISTS",
    "job show": "onceq.cli.jobs:show_job",
    "job start": "onceq.cli.jobs:start",
    "job follow": "onceq.cli.jobs:follow_job",
    "job cancel": "onceq.cli.jobs:cancel_job",
    "journal list": "onceq.cli.letters:list_journal",
    "journal show": "onceq.cli.letters:show_journal",
    "journal purge": "onceq.cli.letters:purge_journal",
    "mapping check": "onceq.cli.directories:check_mapping",
    "mapping explain": "onceq.cli.directories:explain_mapping",
    "damage list": "onceq.cli.lists:LISTS",
    "damage drop": "onceq.cli.storage:drop_damaged",
    "context add": "onceq.cli.context_commands:add",
    "context list": "onceq.cli.context_commands:list_",
    "context use": "onceq.cli.context_commands:use",
    "context remove": "onceq.cli.context_commands:remove",
    "names explain": "onceq.cli.directories:explain_name",
    "list create": "onceq.cli.directories:create_list",
    "list add": "onceq.cli.directories:add_members",
    "list remove": "onceq.cli.directories:remove_members",
    "list drop": "onceq.cli.directories:drop_list",
    "list show": "onceq.cli.lists:list_members",
    "directory init": "onceq.cli.directories:init_directory",
    "directory show": "onceq.cli.directories:show_directory",
    "spark land": "onceq.cli.spark:land",
    "spark replay": "onceq.cli.spark:replay",
    "spark audit": "onceq.cli.audit:audit_on_spark",
    "spark readers": "onceq.cli.lists:list_readers",
    "spark forget": "onceq.cli.spark:forget",
}
"""What is typed, and the function: ``module:name``; or the table with a row for it: ``LISTS``."""

TABLES: Final = frozenset(
    (
        "audit", "bench", "context list", "damage list", "dead list", "directory show",
        "job list", "job show", "journal list", "list show", "mapping check", "outcome",
        "outgoing list", "outgoing show",
        "peek", "peer list", "qm check", "qm status", "queue list", "queue show", "rights list",
        "rights show", "spark audit", "spark readers", "stream list", "stream show", "tls show",
        "token list", "top", "trail", "trail heads", "tx groups", "tx list", "tx show",
    )
)  # fmt: skip
"""Those that print tables or facts: it can be said how."""


def below(group: str) -> list[str]:
    """The words that may follow a group; of "" those that stand first, groups at the end."""
    if group:
        return [path.partition(" ")[2] for path in COMMANDS if path.startswith(f"{group} ")]
    return [*(path for path in COMMANDS if path.partition(" ")[0] not in GROUPS), *GROUPS]


def summaries(group: str) -> list[tuple[str, str]]:
    """The words that may follow a group, "" for the top, each with what it is about."""
    paths = [(word, f"{group} {word}".strip()) for word in below(group)]
    return [(word, GROUPS.get(path) or _first_sentence(path)) for word, path in paths]


def _first_sentence(path: str) -> str:
    """The first sentence of the help of a command, from the source of its module.

    A page that lists commands, or a shell that completes their names, would load every module there
    is to read one line of it. A search in the text takes some 50 us.
    """
    module, _, name = COMMANDS[path].partition(":")
    loader: Any = sys.modules[__name__].__loader__
    file = join(dirname(__file__), f"{module.rpartition('.')[2]}.py")
    source = loader.get_data(file).decode()
    begins = f'    "{path}": ' if name == "LISTS" else f"\ndef {name}("
    doc = source.partition(begins)[2].split('"""', 2)[1]
    words = doc.split()
    end = next(at for at, word in enumerate(words, 1) if word.endswith("."))
    return " ".join(words[:end])


HELP = {"help_option_names": ["-h", "--help"]}
SUGGESTIONS_MAX = 3


def function_of(path: str) -> Callable[..., Any]:
    """The function of a command of the table; loads its module."""
    module, _, name = COMMANDS[path].partition(":")
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
        return below(self._group)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each with its summary, whole; click would load them all, and cut what they say."""
        with formatter.section("Commands"):
            formatter.write_dl(summaries(self._group))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands, and options of the group; what groups of click do loads them all."""
        named = [
            CompletionItem(word, help=said)
            for word, said in summaries(self._group)
            if word.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One; None if there is no such."""
        path = f"{self._group} {cmd_name}".strip()
        if path in COMMANDS and cmd_name in below(self._group):
            return command(path, function_of(path))
        if not self._group and cmd_name in GROUPS:
            return Commands(cmd_name, help=GROUPS[cmd_name], context_settings=HELP)
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that was typed; an error says which are like it."""
        name = args[0]
        more = " ".join(args[:2])
        if len(args) > 1 and not self._group and name not in GROUPS:
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
        more: list[str] = []
        shown = self.said.show_default and not (self.required or self.nargs != 1)
        if shown and documented(self.default):
            more.append(f"default: {self.default}")
        low, high = self.said.min, self.said.max
        if low is not None and high is not None:
            more.append(f"{low}<=x<={high}")
        elif low is not None:
            more.append(f"x>={low}")
        elif high is not None:
            more.append(f"x<={high}")
        if self.required:
            more.append("required")
        extra = "; ".join(more)
        return self.metavar or str(self.name), f"{self.said.help}{f'  [{extra}]' if extra else ''}"


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
    if path in TABLES:
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
    return [(path, command(path, function_of(path))) for path in COMMANDS if path.startswith(group)]


VARIABLE: Final = "_ONCEQ_COMPLETE"
"""Of the environment: the shell asks by it."""
SHELLS: Final = ("bash", "zsh", "fish")
_HOW: Final = {
    "bash": "bash reads it in a new shell (package bash-completion); without that package add to "
    "~/.bashrc: source {path}",
    "zsh": "a new shell reads it if ~/.zshrc has, before compinit: fpath+=({folder})",
    "fish": "fish reads it in a new shell",
}


def options() -> list[click.Option]:
    """The options by which a shell is taught."""
    return [
        click.Option(
            ["--install-completion"], is_flag=True, is_eager=True, expose_value=False,
            callback=_install, help="Install completion for the current shell.",
        ),
        click.Option(
            ["--show-completion"], is_flag=True, is_eager=True, expose_value=False,
            callback=_show,
            help="Show completion for the current shell, to copy it or customize the installation.",
        ),
    ]  # fmt: skip


def answer(app: click.Group, instruction: str) -> None:
    """What the shell has asked for; nothing if anything goes wrong."""
    try:
        shell_completion.shell_complete(app, {}, "onceq", VARIABLE, instruction)
        sys.stdout.flush()
    except Exception:  # noqa: BLE001 - any error would be printed into a command line
        return


def shell_of(environment: Mapping[str, str]) -> str:
    """The shell that is in use; raises ConfigurationError if it is none that can be taught."""
    name = os.path.basename(environment.get("SHELL", ""))
    if name not in SHELLS:
        raise ConfigurationError(
            f"the shell {name or '(SHELL is not set)'} cannot be taught; there are "
            f"{', '.join(SHELLS)}: set SHELL to one of them"
        )
    return name


def script(shell: str) -> str:
    """What the shell has to read."""
    kind = shell_completion.get_completion_class(shell)
    assert kind is not None
    return kind(click.Group("onceq"), {}, "onceq", VARIABLE).source()


def place(shell: str, environment: Mapping[str, str]) -> Path:
    """Where the shell looks for it."""
    from pathlib import Path

    home = Path(environment.get("HOME", "~")).expanduser()
    if shell == "bash":
        data = Path(environment.get("XDG_DATA_HOME") or home / ".local/share")
        return data / "bash-completion/completions/onceq"
    if shell == "zsh":
        return home / ".zfunc/_onceq"
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    return config / "fish/completions/onceq.fish"


def _show(context: click.Context, parameter: click.Parameter, wanted: Any) -> None:
    if wanted:
        print(script(shell_of(os.environ)))
        raise Exit


def _install(context: click.Context, parameter: click.Parameter, wanted: Any) -> None:
    if not wanted:
        return
    shell = shell_of(os.environ)
    path = place(shell, os.environ)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script(shell))
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written: {error.strerror}; --show-completion prints it"
        ) from None
    out.line(f"wrote {path}; {_HOW[shell].format(path=path, folder=path.parent)}")
    raise Exit
