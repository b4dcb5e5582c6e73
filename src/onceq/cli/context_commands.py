"""``onceq context``: short names of queue managers, for people who work on several."""

from __future__ import annotations

import os
from typing import Annotated

from onceq.cli import contexts, out
from onceq.cli.common import Argument, DryRun, Json, Option, Yes, agreed, complete_where, dumped
from onceq.cli.contexts import CONTEXTS_MAX, Context
from onceq.errors import ServiceNotAvailable, UsageError

New = Annotated[str, Argument(metavar="NAME", help="Letters, digits, '.', '_' and '-'.")]
Name = Annotated[
    str, Argument(metavar="NAME", help="As the list shows it.", autocompletion=complete_where)
]
Place = Annotated[
    str,
    Argument(
        metavar="WHERE",
        help="Its data directory, its socket, onceq://host:port or tls://host:port.",
    ),
]
Token = Annotated[
    str,
    Option("--token-file", metavar="FILE", show_default=False,
           help="File with your token there; its name is kept."),
]  # fmt: skip
Use = Annotated[bool, Option("--use", help="Take it from now on where nothing else is said.")]
Replace = Annotated[bool, Option("--replace", help="There may be one of that name already.")]
Nothing = Annotated[bool, Option("--none", help="Take none from now on.")]
Which = Annotated[
    str,
    Argument(metavar="[NAME]", help="As the list shows it.", autocompletion=complete_where,
             show_default=False),
]  # fmt: skip


def add(
    name: New, where: Place, token_file: Token = "", use: Use = False, replace: Replace = False
) -> None:
    """Keep where a queue manager is under a short name; -q takes the name from then on."""
    from onceq.client.address import SCHEMES, parse

    contexts.check_name(name)
    known = contexts.read()
    if name in known.known and not replace:
        raise UsageError(
            f"there is a context {name} already, for {known.known[name].where}: say --replace"
        )
    if len(known.known) >= CONTEXTS_MAX:
        raise UsageError(f"there are {CONTEXTS_MAX} contexts already: remove some")
    # A path is kept as it can be found from everywhere.
    if where.startswith(SCHEMES):
        parse(where)
    else:
        try:
            folder = parse(where).path
        except ServiceNotAvailable:  # it does not run now, and may later
            folder = where
        where = os.path.abspath(where) if folder else where
    token_file = os.path.abspath(token_file) if token_file else ""
    known.known[name] = made = Context(where, token_file)
    if use:
        known.used = name
    path = contexts.write(known)
    out.line(f"{name} is {made.where}" + ("; it is in use" if use else "") + f" (kept in {path})")


def list_(json: Json = False) -> None:
    """List the contexts, and which one is in use."""
    known = contexts.read()
    rows = [(name, one.where, one.token_file, name == known.used)
            for name, one in sorted(known.known.items())]  # fmt: skip
    if dumped(
        [{"name": name, "where": where, "token_file": token, "used": used}
         for name, where, token, used in rows], json,
    ):  # fmt: skip
        return
    if not rows:
        out.line("there are no contexts; 'onceq context add NAME WHERE' makes one")
        return
    out.table(
        ("context", "where", "token file", "in use"),
        [(name, where, token or "-", used) for name, where, token, used in rows],
        give=("token file",),
    )


def use(name: Which = "", none: Nothing = False) -> None:
    """Use a context where nothing else names the queue manager.

    -q, ONCEQ_QM, ONCEQ_CONTEXT and a queue manager in the current directory go before it.
    """
    if bool(name) is none:
        raise UsageError("say the name of a context, or --none")
    known = contexts.read()
    if name:
        known.get(name)
    known.used = name
    contexts.write(known)
    out.line(f"{name} is in use: {known.known[name].where}" if name else "no context is in use")


def remove(name: Name, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Forget a context; the queue manager stays unchanged. It asks first."""
    known = contexts.read()
    gone = known.get(name)
    if dry_run:
        out.line(f"would forget {name}, which is {gone.where}; nothing was changed")
        return
    agreed(f"forget {name}, which is {gone.where}?", yes=yes)
    del known.known[name]
    if known.used == name:
        known.used = ""
    contexts.write(known)
    out.line(f"forgot {name}")
