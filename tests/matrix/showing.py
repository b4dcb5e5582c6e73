"""The table of who an application is, by what it shows and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ACCOUNT: Final = "account:NAME"
TOKEN: Final = "token:NAME"
CERTIFICATE: Final = "certificate:NAME"
PEER: Final = "peer:GUID"
REFUSED: Final = "refused"
CUT: Final = "cut"

MEANING: Final[Mapping[str, str]] = {
    REFUSED: "`access-denied` in the same words for each fault, before the hello is answered, "
    "and the connection is cut. Who shows nothing is `nobody` instead, where anything was "
    "granted to `nobody`",
    CUT: "the connection is cut, and no byte of a request is read",
}
"""What the cells say that are not names."""

INTRODUCTION: Final = """\
A token goes before a certificate, and an account is known at the Unix socket alone: over TCP the
system does not say for certain whose a connection is. Doors that cannot carry
what is shown have no cell.
"""

DOORS: Final = (
    "Unix socket", "TCP, same computer", "TLS, same computer", "TLS, another computer",
)  # fmt: skip
NONE: Final = ""


def _everywhere(cell: str) -> tuple[str, ...]:
    return (cell,) * len(DOORS)


def _in_tls(here: str, elsewhere: str) -> tuple[str, ...]:
    return (NONE, NONE, here, elsewhere)


SHOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "nothing": (ACCOUNT, REFUSED, REFUSED, REFUSED),
    "nothing, by an account with `administer`": (ACCOUNT, REFUSED, REFUSED, REFUSED),
    "a token": _everywhere(TOKEN),
    "a token that was never made": _everywhere(REFUSED),
    "a token that was revoked": _everywhere(REFUSED),
    "a token that has expired": _everywhere(REFUSED),
    "a certificate": _in_tls(CERTIFICATE, CERTIFICATE),
    "a certificate and a token": _in_tls(TOKEN, TOKEN),
    "a certificate and a wrong token": _in_tls(REFUSED, REFUSED),
    "the certificate of a queue manager": _in_tls(PEER, PEER),
    "the certificate of a removed queue manager": _in_tls(CUT, CUT),
    "the certificate of a removed queue manager, and a token": _in_tls(CUT, CUT),
    "a certificate for a name that is none, such as *": _in_tls(REFUSED, REFUSED),
    "a certificate of a foreign authority": _in_tls(CUT, CUT),
    "a self-signed certificate": _in_tls(CUT, CUT),
    "an expired certificate": _in_tls(CUT, CUT),
    "a certificate of the future": _in_tls(CUT, CUT),
    "another protocol in TLS": _in_tls(CUT, CUT),
    "no TLS where it is spoken": _in_tls(CUT, CUT),
}
"""What is shown, and who that is at each door."""
