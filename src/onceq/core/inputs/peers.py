"""What an operator's requests about other managers are answered with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamReset:
    """A stream that was set back: from where, and to where (0: to nothing)."""

    queue: str
    source: str
    from_stream: int
    from_number: int
    stream: int
    number: int
    reason: str
    dry_run: bool


@dataclass(frozen=True, slots=True)
class PeerView:
    """Who answers under a name that was connected to, and since when."""

    name: str
    id: str
    since: int
    connected: bool


@dataclass(frozen=True, slots=True)
class ClockAccepted:
    """A manager whose streams from the future are taken.

    ``begun`` is the second in which the latest one that was refused claims to begin; ``until`` the
    last second in which one of them may.
    """

    id: str
    name: str
    begun: int
    until: int
    reason: str
    dry_run: bool
