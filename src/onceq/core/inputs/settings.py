"""Other settings for a running manager, and how others come in to it, as inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onceq.model.settings import Settings


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Settings, which manager passes messages on to which (GUID to computer name), and where the
    address book says that managers are."""

    settings: Settings
    routes: Mapping[bytes, str]
    peers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TellTrail:
    """How acts of administration are told outside the store, for the status.

    Attributes:
        trouble: Why acts wait that are to be told; "": none does.
        lost: Acts that went before they were told, since the start.
    """

    trouble: str = ""
    lost: int = 0


@dataclass(frozen=True, slots=True)
class TellDoors:
    """How other queue managers come in, for the status.

    Attributes:
        identity: Whether this one has an identity, and TLS with it.
        ends_s: Until when its certificate is good; 0: it is not, or there is none.
        problem: Why nobody believes the certificate; "": it is good, or there is none.
        plain_peers: Addresses that may speak without proving who they are.
        issued: Queue managers that were given a certificate here.
    """

    identity: bool = False
    ends_s: int = 0
    problem: str = ""
    plain_peers: tuple[str, ...] = ()
    issued: frozenset[bytes] = frozenset()
