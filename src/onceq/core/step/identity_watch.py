"""What a manager watches to notice that two others, or another and itself, have one identity, and
that a name leads to another computer than it says.

Running tables; the rules are in ``core/peers/duplicate_identity.py`` and ``wrong_names.py``.

Upholds: I24 (bounded), I25.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from onceq.core.state.last_accepted import Accepted


@dataclass(frozen=True, slots=True)
class Met:
    """The latest life that another manager has told of itself, and the first session with it."""

    life: bytes
    stamp: int
    session: int
    firsts: tuple[tuple[bytes, int], ...] = ()
    """The lives of it that were met last, and the first session with each."""
    copies: tuple[bytes, ...] = ()
    """Those of them that were met when two were found at work."""


@dataclass(slots=True)
class Clash:
    """One identity is used by two queue managers (``core/peers/duplicate_identity.py``)."""

    since_s: int
    last_s: int = 0
    count: int = 0
    what: str = ""


@dataclass(slots=True)
class WrongName:
    """A name that leads to another computer than it says (``core/peers/wrong_names.py``)."""

    text: str
    count: int = 0


@dataclass(slots=True)
class Watch:
    """See the module."""

    accepted: Accepted = field(default_factory=Accepted)
    """Message numbers of what was accepted last, by stream."""
    met: dict[bytes, Met] = field(default_factory=dict)
    """By GUID: the latest life of another manager."""
    told_of: dict[bytes, None] = field(default_factory=dict)
    """Other lives with our identity that others have told of."""
    clashes: dict[bytes, Clash] = field(default_factory=dict)
    """By GUID: identities that two managers use."""
    wrong_names: dict[tuple[str, str], WrongName] = field(default_factory=dict)
    """What is known to be wrong with names of computers, by what and the name."""
    heard: set[str] = field(default_factory=set)
    """Computers of destinations in packets that are this one, or none: to ask once."""
    refused_ahead: dict[bytes, int] = field(default_factory=dict)
    """By GUID: its latest stream that was refused for being from the future
    (``core/peers/trust.py``)."""

    def taken(self, guid: bytes) -> None:
        """Streams of a manager are not refused for being from the future any more."""
        del self.refused_ahead[guid]
