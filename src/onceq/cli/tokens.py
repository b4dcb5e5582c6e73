"""``onceq token``: by what applications prove over a network who they are."""

from __future__ import annotations

from typing import Annotated

from onceq.cli import out
from onceq.cli.common import DryRun, Json, Where, Yes, age, agreed, dumped, manager
from onceq.cli.parameters import Argument, Option
from onceq.errors import InvalidParameter
from onceq.model.wording import plural

Name = Annotated[
    str,
    Argument(
        metavar="NAME", help="Rights are granted to token:NAME; letters, digits, '.', '_', '-'."
    ),
]
Expires = Annotated[
    str,
    Option(
        "--expires", metavar="AGE", show_default=False,
        help="After which it is no longer good: 12h, 30d [never].",
    ),
]  # fmt: skip
Grants = Annotated[
    list[str] | None,
    Option(
        "--grant", metavar="RIGHTS@QUEUE", show_default=False,
        help="Such as 'send,peek@private$\\orders*', or RIGHTS alone for the whole queue manager; "
        "may be given several times.",
    ),
]  # fmt: skip


def create(
    name: Name, expires: Expires = "", grant: Grants = None, qm: Where = None, json: Json = False
) -> None:
    """Make a token, and print it: this once, and never again.

    Put it into a file that only its application can read, and name that in ONCEQ_TOKEN_FILE.
    """
    seconds = age(expires) if expires else None
    grants = _grants(grant or [])
    with manager(qm) as connection:
        made = connection.create_token(name, expires=seconds, grants=grants)
    if dumped(made, json):
        return
    out.line(made.token)
    until = f"until {out.when(made.expires_s)}" if made.expires_s else "until it is revoked"
    out.note(f"good {until}; nobody can be shown it again" + ("" if grants else "; it has no "
             f"rights yet: onceq grant token:{name} RIGHTS QUEUE"))  # fmt: skip


def revoke(name: Name, yes: Yes = False, dry_run: DryRun = False, qm: Where = None) -> None:
    """Take a token back, with what was granted to it by its name. It asks first.

    Connections that came with it are cut at once; what was open on them is undone.
    """
    with manager(qm) as connection:
        found = next((one for one in connection.tokens() if one.name == name), None)
        if found is not None:
            users = plural(found.connections, "connection")
            if dry_run:
                out.line(f"would revoke the token {name} and cut {users}; nothing was changed")
                return
            agreed(f"revoke the token {name} for good, and cut {users}?", yes=yes)
        cut = connection.revoke_token(name)
    what = f"; {plural(cut, 'connection')} that came with it {'is' if cut == 1 else 'are'} cut"
    out.line(f"the token {name} is revoked{what if cut else ''}")


def _grants(given: list[str]) -> dict[str, str]:
    """By queue its rights; raises InvalidParameter."""
    found: dict[str, str] = {}
    for text in given:
        # Queues can have an @ in their names, rights cannot.
        rights, _, queue = text.partition("@")
        if not rights:
            raise InvalidParameter(f"{text!r} is no grant such as send,peek@private$\\orders")
        found[queue] = f"{found[queue]},{rights}" if queue in found else rights
    return found
