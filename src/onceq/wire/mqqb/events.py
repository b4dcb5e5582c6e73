"""Events that a session reports to the queue manager: opened, messages, acknowledged, closed."""

from __future__ import annotations

from dataclasses import dataclass

from onceq.errors import PeerError
from onceq.packet.arrived import ArrivedRun
from onceq.wire.mqqb.internal import UNTOLD, Life


@dataclass(frozen=True, slots=True)
class Opened:
    """Set-up is done; both sides may send. ``extended``: both understand packet/settle.py;
    ``http``: each message gets its own answer. ``life``: what the peer announces of its process.
    ``delays``: it knows delayed messages. ``publics``: it can be asked about queues named by their
    GUID. ``called``: its name, if this side looked for a name; that name, if it has it; "": it
    sends none."""

    peer_id: bytes
    extended: bool = False
    http: bool = False
    life: Life = UNTOLD
    delays: bool = False
    publics: bool = False
    called: str = ""


@dataclass(frozen=True, slots=True)
class Arrived:
    """User packets, checked and combined into runs, in order."""

    runs: list[ArrivedRun]
    messages: int
    recoverable: int


@dataclass(frozen=True, slots=True)
class Acked:
    """Counts of the peer: of all user packets sent, those that have arrived; of the recoverable
    ones, those that are durable there, from the first on without a gap. ``refused``: the last of
    them is permanently refused."""

    messages: int
    recoverable: int
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Closed:
    """The session is over; close the connection after writing the remaining bytes."""

    reason: str
    error: PeerError | None = None


Event = Opened | Arrived | Acked | Closed
