"""What an operator says about other managers: inputs, and what they are answered with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResetStream:
    """Set back what is known of one sender's messages to one queue. Answer: StreamReset.

    Attributes:
        queue: Name of a local queue, or of the stream's destination as ``stream list`` shows it.
        source: The sender: its name, or the beginning of its GUID.
        reason: Why; it is recorded.
        whole: Forget everything, also what is known of the stream before.
        dry_run: Only say what would happen.
    """

    owner: int
    request: int
    queue: str
    source: str
    reason: str
    whole: bool = False
    dry_run: bool = False


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
class ForgetPeer:
    """Whoever answers next under a name is bound to it. Answer: PeerView as it was.

    Attributes:
        name: As ``peer list`` shows it, such as ``os:beta``, or the name of a computer.
    """

    owner: int
    request: int
    name: str
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PeerView:
    """Who answers under a name that was connected to, and since when."""

    name: str
    id: str
    since: int
    connected: bool


@dataclass(frozen=True, slots=True)
class AcceptClock:
    """Take the streams of a manager whose clock was ahead when it started. Answer: ClockAccepted.

    Attributes:
        source: The manager: its name, or the beginning of its GUID.
        reason: Why; it is recorded.
        dry_run: Only say what would happen.
    """

    owner: int
    request: int
    source: str
    reason: str
    dry_run: bool = False


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
