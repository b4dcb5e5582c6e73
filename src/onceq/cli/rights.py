"""Who may do what: ``onceq grant``, ``revoke`` and ``rights``; and ``onceq token``, by which
applications prove over a network who they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from onceq.cli import out
from onceq.cli.common import (
    Argument,
    DryRun,
    Json,
    Option,
    Where,
    Yes,
    age,
    agreed,
    dumped,
    manager,
)
from onceq.errors import AccessDenied, InvalidParameter
from onceq.model.wording import plural

if TYPE_CHECKING:
    from onceq.client.threads.manager import QueueManager
    from onceq.model.views.managers import GrantView

Who = Annotated[
    str,
    Argument(
        metavar="NAME",
        help="An account, token:NAME, certificate:NAME or peer:GUID; '*' stands for any "
        "characters, alone for everybody with a name.",
    ),
]
Rights = Annotated[
    str, Argument(metavar="RIGHTS", help="One, or several with commas: 'rights list'.")
]
Place = Annotated[
    str,
    Argument(
        metavar="[QUEUE]",
        help="Name or pattern, such as 'private$\\orders*'; none for rights over the whole queue "
        "manager.",
        show_default=False,
    ),
]

Everywhere = Annotated[
    bool,
    Option(
        "--everywhere",
        help="For all queue managers of the directory; only for certificates, peers and '*'.",
    ),
]


def grant(
    who: Who, rights: Rights, queue: Place = "", qm: Where = None, everywhere: Everywhere = False
) -> None:
    """Grant rights to a user, token, certificate or peer."""
    with manager(qm) as connection:
        connection.rights.grant(who, rights, queue, everywhere=everywhere)
        known = _is_known(connection, who, rights, queue)
    out.line(f"{who} may {rights}{_at(queue)}{_where(everywhere)}")
    if not known:
        out.note(f"nobody has come here as {who} yet: if that is no slip, it holds from the first "
                 "time; 'onceq revoke' takes it back")  # fmt: skip


def revoke(
    who: Who, rights: Rights, queue: Place = "", qm: Where = None, everywhere: Everywhere = False
) -> None:
    """Revoke a grant; repeat the arguments of `onceq grant`.

    Waiting receives that need it end; an open transaction is judged when it commits.
    """
    with manager(qm) as connection:
        before = _read_grants(connection, queue)
        connection.rights.revoke(who, rights, queue, everywhere=everywhere)
        after = _read_grants(connection, queue)
    if before == after is not None:
        out.note(f"{who} was not granted {rights}{_at(queue)}{_where(everywhere)}: nothing has "
                 "changed; 'onceq rights show' lists the grants, and those in the "
                 "directory are taken away with --everywhere")  # fmt: skip
        return
    out.line(f"{rights}{_at(queue)} is taken away from {who}{_where(everywhere)}")


def explain(
    who: Who,
    right: Annotated[str, Argument(metavar="RIGHT", help="One of 'rights list'.")],
    queue: Place = "",
    qm: Where = None,
    json: Json = False,
) -> None:
    """Say in one sentence why somebody may do something, or may not."""
    with manager(qm) as connection:
        found = connection.rights.explain(right, queue, who=who)
    if dumped(found, json):
        return
    out.line(f"{'yes' if found.allowed else 'no'}: {found.because}")


def list_rights(json: Json = False) -> None:
    """List the rights that there are, and what each allows."""
    from onceq.model.rights import MEANING

    if dumped([{"right": r.value, "allows": text} for r, text in MEANING.items()], json):
        return
    out.table(("right", "allows"), [(r.value, text) for r, text in MEANING.items()])


def _is_known(connection: QueueManager, who: str, rights: str, queue: str) -> bool:
    """Whether somebody of this name was ever there; patterns match anybody."""
    if "*" in who:
        return True
    try:
        return connection.rights.explain(rights.partition(",")[0], queue, who=who).known
    except (AccessDenied, InvalidParameter):
        return True  # who asks may not know, or a word stands for several rights


def _read_grants(connection: QueueManager, queue: str) -> list[GrantView] | None:
    """The grants that are about a queue; None: the caller may not see them."""
    try:
        return sorted(connection.rights.list(queue), key=repr)
    except AccessDenied:
        return None


def _where(everywhere: bool) -> str:
    return " everywhere" if everywhere else ""


def _at(queue: str) -> str:
    return f" at {queue}" if queue else ""


TokenName = Annotated[
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
        "may be repeated.",
    ),
]  # fmt: skip


def create_token(
    name: TokenName,
    expires: Expires = "",
    grant: Grants = None,
    qm: Where = None,
    json: Json = False,
) -> None:
    """Make a token, and print it, only this once.

    Put it into a file that only its application can read, and name that in ONCEQ_TOKEN_FILE.
    """
    seconds = age(expires) if expires else None
    grants = _grants(grant or [])
    with manager(qm) as connection:
        made = connection.tokens.create(name, expires=seconds, grants=grants)
    if dumped(made, json):
        return
    out.line(made.token)
    until = f"until {out.when(made.expires_s)}" if made.expires_s else "until it is revoked"
    out.note(f"good {until}; nobody can be shown it again" + ("" if grants else "; it has no "
             f"rights yet: onceq grant token:{name} RIGHTS QUEUE"))  # fmt: skip


def revoke_token(
    name: TokenName, yes: Yes = False, dry_run: DryRun = False, qm: Where = None
) -> None:
    """Remove a token and its grants. It asks first.

    Its connections are cut at once, and their open transactions undone.
    """
    with manager(qm) as connection:
        found = next((one for one in connection.tokens.list() if one.name == name), None)
        if found is not None:
            users = plural(found.connections, "connection")
            if dry_run:
                out.line(f"would revoke the token {name} and cut {users}; nothing was changed")
                return
            agreed(f"revoke the token {name} for good, and cut {users}?", yes=yes)
        cut = connection.tokens.revoke(name)
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
