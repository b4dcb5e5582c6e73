"""The table of what comes to the port for other queue managers (1801): every packet, from whomever.

Who comes is one of three: somebody of whose bytes none is parsed, somebody whose session is refused
before it counts, or somebody with a session. For these each kind of packet has its cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NOT_PARSED: Final = "no byte is parsed"
NO_SESSION: Final = "no session"
NOT_BELIEVED: Final = "session ended at once"
TAKEN: Final = "taken"
DENIED: Final = "refused, 0x8004"
NOWHERE: Final = "refused, 0x8000"
DROPPED: Final = "refused"
ENDED: Final = "session ended"
IGNORED: Final = "does not count"

MEANING: Final[Mapping[str, str]] = {
    NOT_PARSED: "the connection is cut before anything of it comes to the parser, and nothing is "
    "answered",
    NO_SESSION: "`EstablishConnection` is read, and the connection is cut without an answer",
    NOT_BELIEVED: "the session is set up, and ended before anything of it counts; nothing is sent "
    "on it",
    TAKEN: "it has its effect",
    DENIED: "it ends there, with class 0x8004 (access denied) for those that asked to be told, and "
    "its sender is told that it ended",
    NOWHERE: "the same, with class 0x8000 (bad destination queue), which only who may send to a "
    "queue of that name hears",
    DROPPED: "it ends there, and nobody is told: of acknowledgment messages there are none",
    ENDED: "it has no effect, and the session ends; the sender keeps it, and comes again",
    IGNORED: "it has no effect; the log has it as *does not count*",
}
"""What the cells say."""

ESTABLISH = "EstablishConnection"
PARAMETERS = "ConnectionParameters"
SESSION_ACK = "session acknowledgment"
EXPRESS = "message, express"
RECOVERABLE = "message, recoverable"
TRANSACTIONAL = "message, transactional"
NO_QUEUE = "message for a queue that is not there"
ADMINISTRATION = "acknowledgment message (administration queue)"
OF_OTHERS = "message that another one has sent"
FOR_OTHERS = "message for another one"
ORDER_ACK = "order acknowledgment of what it was sent"
FINAL_ACK = "final acknowledgment of what it was sent"
ORDER_ACK_OTHER = "order acknowledgment of what another one was sent"
FINAL_ACK_OTHER = "final acknowledgment of what another one was sent"

PACKETS: Final = (
    ESTABLISH, PARAMETERS, SESSION_ACK, EXPRESS, RECOVERABLE, TRANSACTIONAL, NO_QUEUE,
    ADMINISTRATION, OF_OTHERS, FOR_OTHERS, ORDER_ACK, FINAL_ACK, ORDER_ACK_OTHER, FINAL_ACK_OTHER,
)  # fmt: skip
"""The rows."""

REMOVED: Final = "TLS, certificate of a removed member"
"""Of one that has rights: what it was granted stays."""
STRANGERS: Final[Mapping[str, str]] = {
    "without TLS": "it does not speak TLS",
    "TLS, no certificate": "it has shown no certificate",
    "TLS, self-signed certificate": "self-signed certificate",
    "TLS, certificate of a foreign authority": "unable to get local issuer certificate",
    "TLS, expired certificate": "certificate has expired",
    "TLS, certificate of the future": "certificate is not yet valid",
    "TLS, certificate of an application": "it has shown no certificate of a queue manager",
    REMOVED: "was removed (onceq tls remove)",
    "TLS, another protocol in it": "it speaks TLS, but not onceq/1 in it",
    "plainly, from another computer": "its address is not among plain_peers",
}
"""Who comes, and what the log says of why he is turned away."""
LOCAL: Final = "on this computer, where there is no identity"
IMPOSTOR: Final = "right certificate, another one's GUID"
PLAIN_IMPOSTOR: Final = "plain peer, the GUID of one with a certificate"
PLAIN_OTHER: Final = "plain peer, another GUID than its address has"
IMPOSTORS: Final[Mapping[str, tuple[str, str]]] = {
    IMPOSTOR: (NO_SESSION, "its certificate is for"),
    PLAIN_IMPOSTOR: (NOT_BELIEVED, "is believed over TLS alone"),
    PLAIN_OTHER: (NOT_BELIEVED, "is the address of"),
}
"""Who says to be somebody else, what becomes of it, and what the log says of why."""

_MESSAGES: Final = (EXPRESS, RECOVERABLE, TRANSACTIONAL)
_OWN: Final = dict.fromkeys((ESTABLISH, PARAMETERS, SESSION_ACK, ORDER_ACK, FINAL_ACK), TAKEN)
_OTHERS: Final = {
    NO_QUEUE: DENIED, OF_OTHERS: ENDED, FOR_OTHERS: ENDED, ORDER_ACK_OTHER: IGNORED,
    FINAL_ACK_OTHER: IGNORED,
}  # fmt: skip


def _known(messages: str, **more: str) -> dict[str, str]:
    acknowledgments = {ADMINISTRATION: TAKEN if messages == TAKEN else DROPPED}
    return _OWN | dict.fromkeys(_MESSAGES, messages) | acknowledgments | _OTHERS | more


KNOWN: Final[Mapping[str, dict[str, str]]] = {
    "peer without a right": _known(DENIED),
    "peer with `send` at another queue": _known(DENIED),
    "peer with `send`": _known(TAKEN),
    "router without `forward`": _known(DENIED),
    "router with `forward`": _known(DENIED) | {OF_OTHERS: TAKEN, FOR_OTHERS: TAKEN},
    "plain peer without a right": _known(DENIED),
    "plain peer with `send`": _known(TAKEN) | {NO_QUEUE: NOWHERE},
    LOCAL: _known(TAKEN) | {NO_QUEUE: NOWHERE, FOR_OTHERS: TAKEN},
}
"""Who has a session, and what becomes of each packet. A router is named in ``[routes]``, and what
it brings is judged as its sender's, who here has ``send``."""


def cell(who: str, packet: str) -> str:
    """What becomes of a packet."""
    if who in STRANGERS:
        return NOT_PARSED
    if who in IMPOSTORS:
        return IMPOSTORS[who][0] if packet == ESTABLISH else "-"
    return KNOWN[who][packet]
