"""Other settings for a running manager, and how others come in to it, as inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onceq.model.settings import Settings


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Settings, and which manager passes messages on to which (GUID to computer name)."""

    settings: Settings
    routes: Mapping[bytes, str]


@dataclass(frozen=True, slots=True)
class TellDoors:
    """How other queue managers come in, for the status.

    Attributes:
        identity: Whether this one has an identity, and TLS with it.
        ends_s: Until when its certificate is good; 0: it is not, or there is none.
        problem: Why nobody believes the certificate; "": it is good, or there is none.
        plain_peers: Addresses that may speak without proving who they are.
    """

    identity: bool = False
    ends_s: int = 0
    problem: str = ""
    plain_peers: tuple[str, ...] = ()
