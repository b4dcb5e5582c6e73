"""The table of what is posted over HTTPS to a queue manager with an identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CUT: Final = "cut"
TAKEN: Final = "200, taken"
IGNORED: Final = "200, does not count"
DENIED: Final = "400, access denied"
UNREAD: Final = "400, not read"

MEANING: Final[Mapping[str, str]] = {
    CUT: "the handshake fails, or the connection is cut behind it: no byte of a request is read",
    TAKEN: "it has its effect",
    IGNORED: "it has no effect: over HTTP nobody is believed about what went over a session",
    DENIED: "it has no effect; an onceq that has sent it has a dead letter of class 0x8004, if it "
    "asked for that and the message is transactional",
    UNREAD: "nothing of it was looked at, and it ends as one for which a right is missing: nobody "
    "whose name is not known has a right here",
}
"""What the cells say."""

RECOVERABLE = "message"
TRANSACTIONAL = "message, transactional"
FOR_OTHERS = "message for another host"
RECEIPT = "receipt for what went over a session"
POSTS: Final = (RECOVERABLE, TRANSACTIONAL, FOR_OTHERS, RECEIPT)
"""The rows."""


def _row(messages: str, others: str) -> dict[str, str]:
    return {
        RECOVERABLE: messages, TRANSACTIONAL: messages, FOR_OTHERS: others, RECEIPT: IGNORED,
    }  # fmt: skip


_CUT: Final = dict.fromkeys(POSTS, CUT)
_UNREAD: Final = dict.fromkeys(POSTS, UNREAD)

WHO: Final[Mapping[str, dict[str, str]]] = {
    "TLS, self-signed certificate": _CUT,
    "TLS, certificate of a foreign authority": _CUT,
    "TLS, expired certificate": _CUT,
    "TLS, certificate of the future": _CUT,
    "TLS, certificate of a removed member": _CUT,
    "TLS, no certificate": _UNREAD,
    "TLS, certificate of an application": _UNREAD,
    "peer without a right": _row(DENIED, DENIED),
    "peer with `send`": _row(TAKEN, DENIED),
    "router with `forward`": _row(DENIED, TAKEN),
    "plain peer without a right": _row(DENIED, DENIED),
    "plain peer with `send`": _row(TAKEN, DENIED),
    "same computer": _UNREAD,
}
"""Who posts, under the names of ``peers.py``, and what is answered."""
