"""``onceq tls``: identities of queue managers, and how two of them come to know each other."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from onceq.cli import out
from onceq.cli.common import Json, dumped
from onceq.cli.parameters import Argument, Option
from onceq.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from onceq.embedded.results import ShownIdentity

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
        help="A further name or address of this computer, by which applications reach it over "
        "TCP; may be repeated.",
    ),
]  # fmt: skip


def init(directory: Directory = ".", host: Host = None, json: Json = False) -> None:
    """Give a queue manager an identity: an authority of its own, and a certificate for its GUID.

    From then on it speaks TLS with all other queue managers, and may listen at addresses that
    others reach. The others join it ('tls invite'), or bring certificates of an authority whose
    own stands in tls/authorities.pem.
    """
    from onceq.embedded import trusting

    found = trusting.init(directory, hosts=host or [])
    if dumped(found, json):
        return
    _print(found)
    out.note(RELOAD)


def invite(
    name: Annotated[
        str, Argument(metavar="NAME", help="Whom, as 'tls show' lists him later.")
    ],
    address: Annotated[
        str,
        Option(
            metavar="HOST:PORT", show_default=False,
            help="Where he reaches this queue manager [its listen address].",
        ),
    ] = "",
    host: Annotated[
        list[str] | None,
        Option(
            "--host", metavar="NAME", show_default=False,
            help="A further name or address that may stand in his certificate, for applications; "
            "may be repeated. NAME and the address that he comes from always may.",
        ),
    ] = None,
    good: Annotated[
        str,
        Option("--for", metavar="TIME", help="How long it is good, such as 30m, 2h or 1d."),
    ] = "1h",
    directory: Directory = ".",
    json: Json = False,
) -> None:  # fmt: skip
    """Print a code by which one other queue manager gets a certificate, once.

    Bring it to that computer by a way that nobody else reads, and say there: onceq tls join CODE.
    This queue manager must run meanwhile.
    """
    from onceq.embedded import trusting

    found = trusting.invite(
        directory, name, address=address, hosts=host or [], seconds=_seconds(good)
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
            help="What 'tls invite' has printed; - reads it from standard input, which no list of "
            "processes shows.",
        ),
    ],
    directory: Directory = ".",
    host: Host = None,
    json: Json = False,
) -> None:
    """Give a queue manager an identity by the invitation of another one.

    Both know each other then, and all others that have joined the same one.
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
            f"{missing} does not stand in the certificate: the invitation does not name it "
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
    """Have another certificate made in the place of the one that is there.

    By its own authority, or by the queue manager that it has joined, which must run. Connections
    that are there go on.
    """
    from onceq.embedded import trusting

    found = trusting.renew(directory, hosts=host or [])
    if dumped(found, json):
        return
    _print(found)
    out.note(RELOAD)


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
            *(("invitation open until", out.when(at)) for at in found.invitations),
            *([("plain peers", ", ".join(found.plain_peers))] if found.plain_peers else []),
        ]
    )
    if found.joined:
        print()
        out.table(
            ("joined", "id", "hosts", "signed"),
            [(one.name, one.id, ", ".join(one.hosts), out.when(one.at_s)) for one in found.joined],
        )


def _seconds(text: str) -> int:
    """A length of time such as 30m; raises UsageError."""
    number, unit = text[:-1], UNITS.get(text[-1:])
    if unit is None or not number.isdecimal() or len(number) > 6:
        raise UsageError(f"--for {text!r}: write a number and m, h or d, such as 30m, 2h or 1d")
    return int(number) * unit
