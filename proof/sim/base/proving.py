"""What the computers of a simulated world show each other, and who they are by that.

In some worlds every queue manager has an identity. What it makes of the other end of a connection
is the product's own: the judges of certificates and of addresses of
``service/peer_transports.py``, which see what a transport would show them. Bytes of TLS there are
none: here the certificates are those that a handshake has checked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from onceq.core.inputs import TellDoors
from onceq.model.identification import House, Identification, by_address
from onceq.model.identity import guid_text
from onceq.service.peer_transports import Doors
from onceq.tls.contexts import PEERS
from onceq.tls.identity import urn_of
from onceq.tls.members import Removal

AUTHORITY: Final = b"the authority of this world"
NO_CERTIFICATE: Final = "it speaks TLS, and shows no certificate"
PORT: Final = 1801


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate of a queue manager, signed by the one authority of a world.

    Attributes:
        begins_s: From when it is good, seconds since 1970.
    """

    guid: bytes
    name: str
    ip: str
    begins_s: int

    def as_dict(self) -> dict[str, Any]:
        """As ``getpeercert()`` returns it."""
        begins = time.strftime("%b %d %H:%M:%S %Y GMT", time.gmtime(self.begins_s))
        return {
            "subject": ((("commonName", self.name),),),
            "subjectAltName": (
                ("URI", urn_of(self.guid)), ("DNS", self.name), ("IP Address", self.ip),
            ),
            "notBefore": begins,
        }  # fmt: skip


class Computer(Protocol):
    """One that connects, or is connected to."""

    ip: str
    certificate: Certificate | None


class _Handshake:
    """A TLS connection whose handshake is over, as far as the doors look at it."""

    def __init__(self, certificate: Certificate) -> None:
        self._shown = certificate.as_dict()

    def getpeercert(self) -> dict[str, Any]:
        """What was shown at the other side."""
        return self._shown

    def selected_alpn_protocol(self) -> str:
        """What is spoken in it."""
        return PEERS

    def get_verified_chain(self) -> list[bytes]:
        """By whom that was signed."""
        return [AUTHORITY]


class _Transport(asyncio.BaseTransport):
    """A connection, as far as the doors look at it."""

    def __init__(self, ip: str, tls: _Handshake | None) -> None:
        super().__init__({"peername": (ip, PORT), "ssl_object": tls})


class Door:
    """The doors of one queue manager with an identity."""

    def __init__(
        self, guid: bytes, plain: Mapping[str, frozenset[bytes]], issued: frozenset[bytes]
    ) -> None:
        """Open it.

        Args:
            plain: Addresses that are believed without proof, each with the GUIDs that the
                configuration gives it.
            issued: Queue managers that were given a certificate here.
        """
        self._doors = Doors("", guid)
        self._doors.house = House(identity=True, plain=plain)
        self._issued = issued - {guid}

    def describe(self) -> TellDoors:
        """Return the facts by which the core judges connections."""
        house = self._doors.house
        return TellDoors(identity=True, plain_peers=tuple(sorted(house.plain)), issued=self._issued)

    def remove(self, guid: bytes, name: str, at_s: int) -> None:
        """The authority tells that a member was removed."""
        removal = Removal(guid_text(guid), name, at_s)
        self._doors.standing.removed.learn({removal.id: removal})

    def who(self, other: Computer) -> Identification | str:
        """Who is at the other side of a connection, or why it cannot stay."""
        tls = None
        if by_address(other.ip, self._doors.house) is None:
            if other.certificate is None:
                return NO_CERTIFICATE
            tls = _Handshake(other.certificate)
        transport = _Transport(other.ip, tls)
        return self._doors.disbelieved(transport) or self._doors.who(transport)
