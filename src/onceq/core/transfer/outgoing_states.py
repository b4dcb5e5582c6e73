"""The state of an outgoing queue as MSMQ names it, and what a queue in it may do.

MSMQ has one word for what is several things here: what operators have said, what the directory
knows, and how far the link is (``core/state/transition_tables.py``). The word is derived in one
place, by precedence: what always keeps a queue from moving comes first.

==================  ==========================================================================
``LOCKED``          this manager is hardened, and the destination not reached over HTTP (Q-7)
``ONHOLD``          an operator has paused the queue
``DISCONNECTING``,  as the link is, whatever follows: a session that an operator has had closed
``CONNECTED``       goes on until it is
``NEED VALIDATION`` a public name of which nobody says yet where it leads (DL-14)
``DISCONNECTED``    an operator has disconnected this manager; or the next attempt is put off
``WAITING``         a session was asked for
``INACTIVE``        nothing has to be sent, so no link is made
==================  ==========================================================================

Upholds: I26.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onceq.core.names.resolve import lead_of
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.transition_tables import Link
from onceq.core.step.step import Step
from onceq.model.names import Kind

LOCAL_CONNECTION = "LOCAL CONNECTION"
STATES: Final[Mapping[str, int]] = {
    LOCAL_CONNECTION: 0,
    "DISCONNECTED": 1,
    "WAITING": 2,
    "NEED VALIDATION": 3,
    "ONHOLD": 4,
    "INACTIVE": 5,
    "CONNECTED": 6,
    "DISCONNECTING": 7,
    "LOCKED": 8,
}
"""Strings of PROPID_MGMT_QUEUE_STATE with their numbers (Q-40)."""

OF_LINK: Final[Mapping[Link, str]] = {
    Link.NONE: "INACTIVE",
    Link.CONNECTING: "WAITING",
    Link.CONNECTED: "CONNECTED",
    Link.CLOSING: "DISCONNECTING",
    Link.PUT_OFF: "DISCONNECTED",
}
"""What a link is called if nothing else has a say."""


def state_of(step: Step, outgoing: OutgoingQueue) -> str:
    """The state of an outgoing queue, in the words of Q-40."""
    if locked(step, outgoing):
        return "LOCKED"
    if outgoing.paused_s:
        return "ONHOLD"
    if outgoing.session:
        return OF_LINK[outgoing.link]
    if outgoing.name.kind is Kind.PUBLIC and lead_of(step, outgoing) is None:
        return "NEED VALIDATION"
    return "DISCONNECTED" if step.state.offline_s else OF_LINK[outgoing.link]


def held(step: Step, outgoing: OutgoingQueue) -> bool:
    """Whether nothing may leave, and no link be made: paused, disconnected by an operator, being
    purged, or locked."""
    return bool(
        outgoing.paused_s or step.state.offline_s or outgoing.purging
        or (step.settings.hardened and locked(step, outgoing))
    )  # fmt: skip


def locked(step: Step, outgoing: OutgoingQueue) -> bool:
    """Whether this manager is hardened and the destination not reached over HTTP (Q-7)."""
    return step.settings.hardened and outgoing.name.protocol not in ("HTTP", "HTTPS")
