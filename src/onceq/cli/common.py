"""What every command shares: parameters, which queue manager, form of output, hints for typos.

A command is a typed function; ``Annotated[int, Option("--limit", metavar="N", help=...)]`` says of
a parameter what its type does not. ``commands`` makes commands of click of these functions. This
module is loaded with each of them, so it loads little.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

from onceq.cli import out
from onceq.errors import ConfigurationError, InvalidParameter, OnceqError, QueueNotFound, UsageError

if TYPE_CHECKING:
    from onceq.client.threads.administration import ManagerConnection
    from onceq.client.threads.manager import QueueManager

Complete = Callable[[str], list[str]]
"""Words that begin with what was typed so far, for the shell."""


def documented(default: object) -> bool:
    """Whether the help names a default; others stand for "not said"."""
    return isinstance(default, str | int | float) and default is not False and default != ""


class Exit(Exception):
    """The command has said what there is to say, and ends with this exit code."""

    def __init__(self, code: int = 0) -> None:
        super().__init__(code)
        self.exit_code = code


class _Parameter:
    def __init__(
        self,
        *names: str,
        metavar: str = "",
        help: str = "",
        show_default: bool = True,
        min: float | None = None,
        max: float | None = None,
        autocompletion: Complete | None = None,
        hidden: bool = False,
    ) -> None:
        """Note what a parameter is.

        Args:
            names: Of an option, such as --yes and -y.
            metavar: What stands for its value in the help.
            show_default: Whether the help names the default.
            min, max: Limits of a number, both allowed.
            autocompletion: What the shell offers.
            hidden: It is not in the help.
        """
        self.names, self.metavar, self.help = names, metavar, help
        self.show_default, self.min, self.max = show_default, min, max
        self.autocompletion, self.hidden = autocompletion, hidden


class Option(_Parameter):
    """Said by its name: a flag if it is a bool, else with a value."""


class Argument(_Parameter):
    """Said by its place."""


QM_VARIABLE = "ONCEQ_QM"
TOKEN, TOKEN_FILE = "ONCEQ_TOKEN", "ONCEQ_TOKEN_FILE"
CONNECT_S_MAX = 10.0
COMPLETION_S_MAX = 0.5
"""A shell waits no longer for names."""
SUGGESTIONS_MAX = 3
SUGGESTED_FROM_MAX = 1_000
"""Queues and outgoing queues that are all looked at to find a name like another one."""


def complete_where(incomplete: str) -> list[str]:
    """Names of contexts for the shell's completion; it offers directories itself."""
    from onceq.cli import contexts

    try:
        return [name for name in contexts.read().known if name.startswith(incomplete)]
    except OnceqError:
        return []


Where = Annotated[
    str | None,
    Option(
        "--qm",
        "-q",
        metavar="WHERE",
        help="Queue manager: data directory, socket, onceq://host:port, tls://host:port or context "
        f"[else {QM_VARIABLE}, ONCEQ_CONTEXT, this directory, or the context in use].",
        show_default=False,
        autocompletion=complete_where,
    ),
]
Json = Annotated[bool, Option("--json", help="Print JSON.", show_default=False)]
TokenFile = Annotated[
    str | None,
    Option(
        "--token-file",
        metavar="FILE",
        help="Say by the token in this file who you are, or by the line in it that is for the "
        "queue manager (ADDRESS TOKEN); no other account may read it "
        f"[else {TOKEN} or {TOKEN_FILE}].",
        show_default=False,
    ),
]
DryRun = Annotated[bool, Option("--dry-run", help="Say what would happen; change nothing.")]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask.")]


class GlobalOptions:
    """What was said before the name of the command."""

    # No dataclass: every command would spend a millisecond or more on making the class.
    __slots__ = ("json", "qm", "token_file")
    qm: str | None
    json: bool
    token_file: str | None

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Nothing was said."""
        self.qm, self.json, self.token_file = None, False, None
        out.SHAPE.forget()


TOP = GlobalOptions()


def as_json(option: bool) -> bool:
    """Whether JSON was asked for, before or behind the command."""
    return option or TOP.json


def dumped(value: object, option: bool) -> bool:
    """Print a value as JSON if that was asked for; whether it was."""
    if as_json(option):
        out.dump(value)
    return as_json(option)


def where(option: str | None) -> str:
    """The queue manager to talk to.

    A context that is meant also says which token is shown, if the command line does not.

    Raises:
        ConfigurationError: Nothing says which.
        UsageError: It is a context that there is not.
    """
    from onceq.cli import contexts
    from onceq.client.address import check_whose, is_data_directory

    named = option or TOP.qm or os.environ.get(QM_VARIABLE)
    if named:
        chosen = contexts.meant(named)
    elif name := os.environ.get(contexts.VARIABLE):
        chosen = contexts.read().get(name)
    elif is_data_directory("."):
        check_whose(".", "--qm .")
        return "."
    elif (used := contexts.in_use()) is not None:
        chosen = used
    else:
        raise ConfigurationError(
            "which queue manager? Say --qm with its data directory, its socket, onceq://host:port "
            f"or tls://host:port, set {QM_VARIABLE}, or name it: 'onceq context add'"
        )
    TOP.token_file = TOP.token_file or chosen.token_file or None
    return chosen.where


def connected(option: str | None) -> QueueManager:
    """A connection to the queue manager that the options name, as whom they say."""
    from onceq.client.opening import connect

    place = where(option)
    return connect(place, timeout=CONNECT_S_MAX, token_file=TOP.token_file)


@contextmanager
def manager(option: str | None, *, name: str = "") -> Iterator[QueueManager]:
    """Talk to the queue manager that the options name.

    Args:
        name: A queue or destination that the command is about; if it turns out that there is
            none of that name, the error says which names are like it.
    """
    with connected(option) as qm, hinting(qm, name):
        yield qm


@contextmanager
def asking(
    option: str | None, *, name: str = "", timeout: float = CONNECT_S_MAX
) -> Iterator[ManagerConnection]:
    """The same for a command that only looks; it loads less, and is quick."""
    from onceq.client.address import parse
    from onceq.client.credentials import Credentials
    from onceq.client.socket_link import SocketLink
    from onceq.client.threads.administration import ManagerConnection

    address, shown = parse(where(option)), Credentials(token_file=TOP.token_file)
    connect = partial(SocketLink, address, timeout, timeout, credentials=shown)
    with ManagerConnection(connect, again=True) as qm, hinting(qm, name):
        yield qm


@contextmanager
def hinting(qm: ManagerConnection, name: str) -> Iterator[None]:
    """Say beside "there is no such queue" which names are like it."""
    try:
        yield
    except QueueNotFound as error:
        near = suggestions(qm, name) if name else []
        if not near:
            raise
        raise QueueNotFound(f"{error.text}; did you mean {' or '.join(near)}?") from error


def core_of(name: str) -> str:
    """The part of a name that people mistype: without place and prefix, folded."""
    folded = name.replace("/", "\\").casefold()
    return folded.rpartition("\\")[2]


def suggestions(qm: ManagerConnection, name: str) -> list[str]:
    """Names of queues and destinations like a name that does not exist, in a form for shells."""
    try:
        view = qm.admin.status()
        # Of very many only those that begin alike somewhere: a slip of the fingers is not worth
        # more.
        part = core_of(name)[:3] if view.queues + view.outgoing > SUGGESTED_FROM_MAX else ""
        known = [queue.path for queue in qm.queues(part=part)]
        known += [outgoing.destination for outgoing in qm.admin.outgoing(part=part)]
    except OnceqError:
        return []
    from difflib import get_close_matches

    by_core: dict[str, list[str]] = {}
    for path in known:
        by_core.setdefault(core_of(path), []).append(out.name(path))
    near = get_close_matches(core_of(name), list(by_core), SUGGESTIONS_MAX)
    return [path for core in near for path in by_core[core]][:SUGGESTIONS_MAX]


def complete_queue(incomplete: str) -> list[str]:
    """Names of queues for the shell's completion; nothing if no manager answers."""
    return _complete(incomplete, lambda qm: [one.path for one in qm.queues(part=incomplete)])


def complete_destination(incomplete: str) -> list[str]:
    """Destinations that have an outgoing queue, for the shell's completion."""
    return _complete(
        incomplete, lambda qm: [one.destination for one in qm.admin.outgoing(part=incomplete)]
    )


def complete_branch(incomplete: str) -> list[str]:
    """Branches of external transactions, for the shell's completion."""
    return _complete(incomplete, lambda qm: [one.xid for one in qm.admin.branches()])


def _complete(incomplete: str, look: Callable[[ManagerConnection], list[str]]) -> list[str]:
    begun = out.name(incomplete).casefold()
    try:
        with asking(None, timeout=COMPLETION_S_MAX) as qm:
            names = [out.name(name) for name in look(qm)]
    except (OnceqError, OSError):
        return []
    return [name for name in names if name.casefold().startswith(begun)]


UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def age(text: str) -> int:
    """Seconds of an age such as 90, 30s, 5m, 2h or 1d; raises InvalidParameter."""
    found = re.fullmatch(r"([0-9]{1,9})([smhd]?)", text.strip() or "0")
    if found is None:
        raise InvalidParameter(f"{text!r} is not an age such as 30s, 5m, 2h or 1d")
    return int(found[1]) * UNITS[found[2]]


QueueName = Annotated[
    str,
    Argument(
        metavar="QUEUE",
        help="Such as private$/orders; / is taken for \\, which shells eat.",
        autocompletion=complete_queue,
    ),
]
Destination = Annotated[
    str,
    Argument(
        metavar="DEST",
        help="Destination of an outgoing queue, such as DIRECT=OS:BETA/private$/stock.",
        autocompletion=complete_destination,
    ),
]


def agreed(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed; who is not there to answer has not agreed.

    Raises:
        UsageError: It was not agreed to; nothing has changed.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "not a terminal: confirm with --yes, or use --dry-run to see what would happen; "
            "nothing was changed"
        )
    import click

    try:
        if click.confirm(out.sentence(question), default=False, err=True):
            return
    except click.Abort:
        pass
    raise UsageError("nothing was changed: it was not agreed to")
