"""``onceq console``: queue managers in a browser."""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated

from onceq.cli import out
from onceq.cli.common import TOP, Option, where
from onceq.errors import ConfigurationError, OnceqError

TOKEN = "ONCEQ_CONSOLE_TOKEN"
PORT = 8181

Places = Annotated[
    list[str] | None,
    Option(
        "--qm", "-q", metavar="WHERE", show_default=False,
        help="Queue manager: context, data directory, socket, onceq://host:port or "
        "tls://host:port. "
        "May be repeated; each gets the token of its own line.",
    ),
]  # fmt: skip
Port = Annotated[
    int, Option("--port", metavar="N", min=0, max=65535, help="On this computer; 0: any.")
]
Hosts = Annotated[
    list[str] | None,
    Option(
        "--host", metavar="NAME", show_default=False,
        help="Name of a proxy before it, with its port if that is not the usual one; may be "
        "repeated.",
    ),
]  # fmt: skip
Https = Annotated[
    bool, Option("--https", help="Browsers reach it only by a proxy that speaks HTTPS.")
]

OpenId = Annotated[
    str | None,
    Option(
        "--openid", metavar="FILE", show_default=False,
        help="Sign in by OpenID Connect; the file says where, and which token each group has.",
    ),
]  # fmt: skip


def console(
    places: Places = None, port: Port = PORT, host: Hosts = None, https: Https = False,
    openid: OpenId = None,
) -> None:  # fmt: skip
    """Show queue managers in a browser: queues, messages, dead letters, transactions.

    It listens on this computer only, and prints a link that signs one browser in, once, and a token
    for scripts (or takes the one in ONCEQ_CONSOLE_TOKEN). It has the rights of its own account or
    token at each queue manager. With --openid there is no link: people sign in at a provider, and
    have the rights of their group's token. Ctrl-C ends it.
    """
    try:
        from onceq.console.app import Console
        from onceq.console.people import read
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the console needs {error.name}: pip install 'onceq[console]'"
        ) from None
    token = os.environ.get(TOKEN, "")
    if token and (len(token) < 20 or not token.isascii() or not token.isprintable()):
        raise ConfigurationError(f"{TOKEN} must have 20 characters or more, all printable")
    watched, faults = _watched(places) if places else ([where(None)], {})
    made = Console(
        watched, port=port, monotonic=time.monotonic, wall=time.time, token=token,
        token_file=TOP.token_file, names=host or (), secure=https, faults=faults,
        people=read(openid) if openid else None,
    )  # fmt: skip
    for place, text in made.problems.items():
        out.note(f"{place} is shown as away: {text}")

    def announce() -> None:
        out.line(f"console: {made.address}")
        if openid:
            out.line(f"sign in at {made.title}: {made.front}")
        else:
            out.line(f"sign in, once: {made.link()}")
        if not token:
            out.line(f"token for scripts: {made.keys.token}")
        sys.stdout.flush()  # also into a pipe or a file, where somebody looks for the link

    made.run(announce)


def _watched(places: list[str]) -> tuple[list[str], dict[str, str]]:
    """Addresses, and why some of them are none: one mistyped name must not keep the others from
    being watched. Raises OnceqError if all of them are wrong."""
    found, faults = [], {}
    first: OnceqError | None = None
    for place in places:
        try:
            found.append(where(place))
        except OnceqError as error:
            first = first or error
            found.append(place)
            faults[place] = error.text
    if first is not None and len(faults) == len(set(places)):
        raise first
    return found, faults
