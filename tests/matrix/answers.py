"""The table of who answers where a queue manager connects: by a name that nobody has answered under
yet, by one that its queue manager has answered under, and by a GUID.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GIVEN: Final = "given what waits"
NOTHING: Final = "no byte is sent"
ENDED: Final = "session ended at once"

MEANING: Final[Mapping[str, str]] = {
    GIVEN: "the session counts, and the message that waits is sent on it",
    NOTHING: "the connection is cut before anything of the protocol is sent; the message waits on",
    ENDED: "the session is set up, and ended before anything is sent on it; the message waits on",
}
"""What the cells say."""

FIRST: Final = "name, nobody has answered"
BOUND: Final = "name, its queue manager has answered"
GUID: Final = "GUID"
ASKED: Final = (FIRST, BOUND, GUID)
"""The columns: ``DIRECT=OS:NAME``, twice, and ``PRIVATE=GUID``."""

RIGHT: Final = "its queue manager"
OTHER: Final = "another member"
TWIN: Final = "another member, with the name in its certificate"
REMOVED: Final = "the member of that name, which was removed"
FOREIGN: Final = "a certificate of a foreign authority, for that name and GUID"
SELF_SIGNED: Final = "a self-signed certificate"
EXPIRED: Final = "the certificate of that member, expired"
APPLICATION: Final = "the certificate of an application of that name"
CLAIMING: Final = "a member that says the other one's GUID"
PROTOCOL: Final = "that member, with another protocol in TLS"
PLAINLY: Final = "without TLS"
PLAIN: Final = "plain host"
PLAIN_CLAIMING: Final = "plain host that says the member's GUID"

Cell = tuple[str, str]
"""What becomes of it, and why; "": nothing is wrong."""


def _all(cell: str, why: str = "") -> dict[str, Cell]:
    return dict.fromkeys(ASKED, (cell, why))


WHO: Final[Mapping[str, dict[str, Cell]]] = {
    RIGHT: _all(GIVEN),
    OTHER: {
        FIRST: (ENDED, "is not for"),
        BOUND: (ENDED, "than before"),
        GUID: (ENDED, "answers at this address than"),
    },
    TWIN: {
        FIRST: (GIVEN, ""),
        BOUND: (ENDED, "than before"),
        GUID: (ENDED, "answers at this address than"),
    },
    CLAIMING: _all(ENDED, "its certificate is for"),
    REMOVED: _all(NOTHING, "was removed (onceq tls remove)"),
    FOREIGN: _all(NOTHING, "unable to get local issuer certificate"),
    SELF_SIGNED: _all(NOTHING, "self-signed certificate"),
    EXPIRED: _all(NOTHING, "certificate has expired"),
    APPLICATION: _all(NOTHING, "it has shown no certificate of a queue manager"),
    PROTOCOL: _all(NOTHING, "it speaks TLS, but not onceq/1 in it"),
    PLAINLY: _all(NOTHING, "in the handshake of TLS"),
    PLAIN: {
        FIRST: (GIVEN, ""),
        BOUND: (ENDED, "than before"),
        GUID: (ENDED, "answers at this address than"),
    },
    PLAIN_CLAIMING: _all(ENDED, "is believed over TLS alone"),
}
"""Who answers, and what becomes of the message that waits."""
