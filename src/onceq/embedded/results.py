"""Results of operations on a data directory: a new queue manager, and its identity."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MadeManager:
    """A queue manager that was made.

    Attributes:
        name, id: Its computer name and its GUID.
        path: Its data directory.
        listen: Where other queue managers will reach it, "host:port"; "" if none may.
        configuration: Path of its ``onceq.toml``.
    """

    name: str
    id: str
    path: str
    listen: str
    configuration: str


@dataclass(frozen=True, slots=True)
class Invitation:
    """What another queue manager needs to join.

    Attributes:
        code: Shown once, and kept nowhere.
        name: Whom it is for.
        address: Where it asks, "host:port".
        expires: Until when it is good, in seconds since 1970.
    """

    code: str
    name: str
    address: str
    expires: int


@dataclass(frozen=True, slots=True)
class Joined:
    """A queue manager that an authority has signed for.

    Attributes:
        id, name: Its GUID, and the name that it was invited by.
        hosts: Names and addresses in its certificate.
        at_s: When it was signed last, in seconds since 1970.
        serial: The number of that certificate, in hexadecimal; "": an earlier version has signed.
        ends_s: Until when it is good, in seconds since 1970; 0: an earlier version has signed.
        seen_s: When it asked its authority last, to ten minutes; 0: it has not yet.
        removed_s: When it was removed, in seconds since 1970; 0: it was not, or is back.
        behind: Whether the next step of a rotation waits for it.
    """

    id: str
    name: str
    hosts: tuple[str, ...]
    at_s: int
    serial: str = ""
    ends_s: int = 0
    seen_s: int = 0
    removed_s: int = 0
    behind: bool = False


@dataclass(frozen=True, slots=True)
class RemovedMember:
    """A member was removed.

    Attributes:
        id, name: Its GUID, and its name; "": it had none here.
        at_s: Certificates made before do not count any more, in seconds since 1970.
        told: Whether other members hear of it; else it holds at this queue manager alone.
    """

    id: str
    name: str
    at_s: int
    told: bool


@dataclass(frozen=True, slots=True)
class ShownIdentity:
    """How a queue manager proves its identity.

    Attributes:
        name, id: Its computer name and its GUID.
        identity: There is one; if not, only ``plain_peers`` says more.
        plain_peers: Addresses that are trusted without proof.
        certificate, authorities: Paths of its certificate and of the trusted ones.
        minimum: The lowest version of TLS that it speaks.
        ends: Until when the certificate is good, in seconds since 1970; 0 if it cannot be read.
        hosts: Names and addresses in the certificate.
        problem: Why it proves nothing; "" if it does.
        signed_by: "itself", "others", or the "host:port" of the signer.
        fingerprint: Of its own authority (SHA-256); "" if it has none.
        joined: The members of that authority, besides itself, also those that were removed.
        invitations: Until when each open one is good, in seconds since 1970.
        rotation: How far another authority has taken the place of the one here: "begun", it is
            trusted; "signing", it signs, and the old one is still trusted; "", there is one only.
    """

    name: str
    id: str
    identity: bool
    plain_peers: tuple[str, ...] = ()
    certificate: str = ""
    authorities: str = ""
    minimum: str = ""
    ends: int = 0
    hosts: tuple[str, ...] = ()
    problem: str = ""
    signed_by: str = ""
    fingerprint: str = ""
    joined: tuple[Joined, ...] = ()
    invitations: tuple[int, ...] = ()
    rotation: str = ""
