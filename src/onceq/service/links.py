"""One session with another queue manager, and the connection that carries it, as both are used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from onceq.model.identification import Identification
from onceq.model.identity import NO_GUID
from onceq.model.run import Buffer
from onceq.wire.mqqb import session as protocol

if TYPE_CHECKING:
    from onceq.wire.srmp.session import Posting
    from onceq.wire.srmp.stranger import Stranger
    from onceq.wire.srmp.taking import Taking

    AnySession = protocol.Session | Posting | Taking | Stranger


class Connection(Protocol):
    """A connection, as the engine uses it."""

    def write(self, pieces: Sequence[Buffer]) -> None:
        """Send bytes; never blocks."""

    def close(self) -> None:
        """Send the bytes that were written, then close."""

    @property
    def writable(self) -> bool:
        """Return True if there is room for more output."""


class Network(Protocol):
    """Makes connections."""

    def connect(
        self, outgoing: int, protocol: str, host: str, peer: bytes,
        homes: tuple[str, ...] | None = None,
    ) -> None:  # fmt: skip
        """Begin to connect; ``Sessions.connected`` or ``connect_failed`` follows.

        Args:
            homes: As in ``core/decision.Connect``.
        """


@dataclass(slots=True)
class Link:
    """One session and what carries it.

    Attributes:
        who: The identity of the other side, and what that rests on.
        told: Whether the core knows of the session.
        wants: Whether the core has something to transmit on it.
        armed: When its timer was last set to ring; 0: not at all.
        peer: The GUID of the other side, once it is open.
        exchanged: Whether messages went across it.
    """

    number: int
    session: AnySession
    connection: Connection
    address: str
    outgoing: int
    who: Identification
    told: bool = False
    wants: bool = False
    armed: int = 0
    peer: bytes = NO_GUID
    exchanged: bool = False
