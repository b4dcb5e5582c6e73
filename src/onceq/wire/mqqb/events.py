"""What a session tells the queue manager: opened, messages, what the peer has, closed."""

from __future__ import annotations

from dataclasses import dataclass

from onceq.errors import PeerError
from onceq.packet.arrived import ArrivedRun
from onceq.wire.mqqb.internal import UNTOLD, Life


@dataclass(frozen=True, slots=True)
class Opened:
    """Set-up is done; both sides may send. ``extended``: both understand packet/settle.py;
    ``http``: each message is answered by itself. ``life``: what the peer tells of its
    process. ``delays``: it knows of messages that are delayed. ``publics``: it can be asked about
    queues that are named by their GUID. ``called``: what it is called, if this side looked for a
    name; that name, if it has it; "": it does not say."""

    peer_id: bytes
    extended: bool = False
    http: bool = False
    life: Life = UNTOLD
    delays: bool = False
    publics: bool = False
    called: str = ""


@dataclass(frozen=True, slots=True)
class Arrived:
    """User packets, checked and put together into runs, in order."""

    runs: list[ArrivedRun]
    messages: int
    recoverable: int


@dataclass(frozen=True, slots=True)
class Acked:
    """Of all user packets sent, so many have arrived; of the recoverable ones so many, from the
    first on without a gap, are durable at the peer. ``refused``: the last of them is not, for
    good."""

    messages: int
    recoverable: int
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Closed:
    """The session is over; close the connection after writing what is still to be written."""

    reason: str
    error: PeerError | None = None


Event = Opened | Arrived | Acked | Closed
