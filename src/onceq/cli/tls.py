"""``onceq tls``: identities of queue managers, and how two of them come to know each other."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from onceq.cli import out
from onceq.cli.common import Argument, Json, Option, dumped, manager
from onceq.errors import ConfigurationError, ServiceNotAvailable, UsageError
from onceq.model.identity import read_number

if TYPE_CHECKING:
    from onceq.embedded.results import Joined, ShownIdentity

UNITS = {"m": 60, "h": 3_600, "d": 86_400}
RELOAD = "if this queue manager runs: onceq qm reload; else it is used from its next start on"

Directory = Annotated[
    str,
    Option("--directory", "-d", metavar="DIR", help="Data directory of the queue manager."),
]
Host = Annotated[
    list[str] | None,
    Option(
        "--host", metavar="NAME", show_default=False,
        help="Further name or address of this computer for applications over TCP; may be repeated.",
    ),
]  # fmt: skip


def init(directory: Directory = ".", host: Host = None, json: Json = False) -> None:
    """Give a queue manager an identity: an authority of its own, and a certificate for its GUID.

    It then speaks TLS with all other queue managers, and may listen at addresses that others reach.
    Others join it ('tls invite'), or have certificates of an authority in tls/authorities.pem.
    """
    from onceq.embedded import trusting

    found = trusting.init(directory, hosts=host or [])
    if dumped(found, json):
        return
    _print(found)
    out.note(RELOAD)


def invite(
    name: Annotated[
        str,
        Argument(metavar="NAME", help="Whom: its computer name, which its certificate is for."),
    ],
    guid: Annotated[
        str,
        Option(
            "--guid", metavar="GUID", show_default=False,
            help="The only queue manager that may use it; needed for a GUID that is known here "
            "already.",
        ),
    ] = "",
    address: Annotated[
        str,
        Option(
            metavar="HOST:PORT", show_default=False,
            help="Where it reaches this queue manager [its listen address].",
        ),
    ] = "",
    host: Annotated[
        list[str] | None,
        Option(
            "--host", metavar="NAME", show_default=False,
            help="Further name or address in its certificate, of it alone; may be repeated.",
        ),
    ] = None,
    good: Annotated[
        str,
        Option("--for", metavar="TIME", help="Its lifetime: 30m, 2h, 1d."),
    ] = "1h",
    directory: Directory = ".",
    json: Json = False,
) -> None:  # fmt: skip
    """Print a code by which one other queue manager gets a certificate, once.

    Bring it there by a way that nobody else reads, and run there: onceq tls join CODE. This queue
    manager must run meanwhile.
    """
    from onceq.embedded import trusting

    found = trusting.invite(
        directory, name, guid=guid, address=address, hosts=host or [], seconds=_seconds(good)
    )
    if dumped(found, json):
        return
    out.line(found.code)
    out.note(
        f"for {found.name}, once, until {out.when(found.expires)}; there: onceq tls join "
        f"CODE (it connects to {found.address})"
    )


def join(
    code: Annotated[
        str,
        Argument(
            metavar="CODE",
            help="What 'tls invite' has printed; - reads it from standard input.",
        ),
    ],
    directory: Directory = ".",
    host: Host = None,
    json: Json = False,
) -> None:
    """Give a queue manager an identity by the invitation of another one.

    It then knows that one and all its members.
    """
    from onceq.embedded import trusting

    found = trusting.join(
        directory, sys.stdin.readline() if code == "-" else code, hosts=host or []
    )
    if dumped(found, json):
        return
    _print(found)
    for missing in sorted(set(host or []) - set(found.hosts)):
        out.note(
            f"{missing} is not in the certificate: the invitation does not name it "
            f"(tls invite --host {missing})"
        )
    out.note(RELOAD)


def show(directory: Directory = ".", json: Json = False) -> None:
    """Show the identity of a queue manager, until when it is good, and who has joined it."""
    from onceq.embedded import trusting

    found = trusting.show(directory)
    if not dumped(found, json):
        _print(found)
    sys.stdout.flush()
    if found.problem:
        raise ConfigurationError(f"{found.problem}; onceq tls renew")


def renew(directory: Directory = ".", host: Host = None, json: Json = False) -> None:
    """Get a new certificate in place of the present one.

    From its own authority, or from the queue manager that it has joined, which must run.
    Connections go on.
    """
    from onceq.embedded import trusting

    found = trusting.renew(directory, hosts=host or [])
    if dumped(found, json):
        return
    _print(found)
    out.note(RELOAD)


def remove(
    member: Annotated[
        str,
        Argument(metavar="MEMBER", help="Its name, or its GUID, as 'tls show' lists it."),
    ],
    directory: Directory = ".",
    json: Json = False,
) -> None:
    """Remove a member: none of its certificates counts any more.

    Its connections end. Other members learn it within a minute. It cannot be undone: invite it
    again to bring it back. Messages that wait for it stay.
    """
    from onceq.embedded import trusting

    found = trusting.remove(directory, member)
    holds = _reloaded(directory)
    if dumped(found, json):
        return
    out.line(f"removed {found.name or found.id}: no certificate made until now counts")
    out.note("it holds here at once" if holds else "this queue manager does not run")
    if not found.told:
        out.note("at this queue manager alone: it has no authority, so nobody else is told")


def rotate(
    anyway: Annotated[
        bool,
        Option("--anyway", help="Also if members are behind; they have to join again."),
    ] = False,
    directory: Directory = ".",
    json: Json = False,
) -> None:
    """Replace this authority by another one, in three steps: run it three times.

    First members learn to believe both; then the new one signs, and members get its certificates
    when they renew; then the old one is forgotten. A step that waits for members names them.
    """
    from onceq.embedded import data_directory

    found = data_directory.rotate(directory, anyway=anyway)
    holds = _reloaded(directory)
    if dumped(found, json):
        return
    out.line(_ROTATION[found.rotation])
    if not holds:
        out.note("this queue manager does not run: members are told once it does")


_ROTATION = {
    "begun": "the next authority is made; once all members believe it: onceq tls rotate",
    "signing": "the next authority signs; once all members have renewed: onceq tls rotate",
    "": "the old authority is forgotten",
}
"""What is said of each step."""


def _reloaded(directory: str) -> bool:
    """Let the queue manager of a directory, if it runs, look at its files; whether it does."""
    try:
        with manager(directory) as qm:
            qm.admin.reload()
    except ServiceNotAvailable:
        return False
    return True


def _print(found: ShownIdentity) -> None:
    if not found.identity:
        out.facts([("queue manager", f"{found.name}  {found.id}"), ("identity", "none")])
        out.note("onceq tls init gives it one, or onceq tls join on the invitation of another one")
        return
    signed = {"itself": "its own authority", "others": "an authority of others"}
    out.facts(
        [
            ("queue manager", f"{found.name}  {found.id}"),
            ("certificate", found.certificate),
            ("good until", out.when(found.ends) if found.ends else found.problem),
            ("hosts", ", ".join(found.hosts)),
            ("signed by", signed.get(found.signed_by, found.signed_by)),
            ("trusts", found.authorities),
            *([("fingerprint", found.fingerprint)] if found.fingerprint else []),
            *([("rotation", found.rotation)] if found.rotation else []),
            *(("invitation open until", out.when(at)) for at in found.invitations),
            *([("plain peers", ", ".join(found.plain_peers))] if found.plain_peers else []),
        ]
    )
    if found.joined:
        print()
        out.table(
            ("member", "id", "hosts", "good until", "asked last", "serial", "state"),
            [
                (
                    one.name or "-", one.id, ", ".join(one.hosts),
                    out.when(one.ends_s) if one.ends_s else "-",
                    out.when(one.seen_s) if one.seen_s else "never", one.serial or "-",
                    _state(one),
                )
                for one in found.joined
            ],
        )  # fmt: skip


def _state(one: Joined) -> str:
    """What is to be said of a member beside its facts."""
    if one.removed_s:
        return f"removed {out.when(one.removed_s)}"
    return "the rotation waits for it" if one.behind else ""


def _seconds(text: str) -> int:
    """A length of time such as 30m; raises UsageError."""
    number, unit = read_number(text[:-1], 999_999), UNITS.get(text[-1:])
    if unit is None or number is None:
        raise UsageError(f"--for {text!r}: write a number and m, h or d, such as 30m, 2h or 1d")
    return number * unit
