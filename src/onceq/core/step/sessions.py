"""Sessions with other managers, and what is watched to notice that an identity is used twice.

Running tables, written by the rooms ``transfer`` and ``peers``. What must outlive a restart, such
as which manager answers under which name, is durable instead (``core/state/peer_bindings.py``). The
rules of the watch are in ``core/peers/duplicate_identity.py`` and ``wrong_names.py``: two managers,
or another and this one, have one identity, or a name leads to another computer than it says.

Upholds: I24 (bounded), I25.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from onceq.core.state.peer_table import Accepted, Peer
from onceq.core.step.connect_attempts import ConnectAttempts
from onceq.core.step.early_runs import EarlyRuns
from onceq.model.limits import PEERS_REMEMBERED_MAX


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


class Sessions:
    """See the module."""

    def __init__(self) -> None:
        self.peers: dict[int, Peer] = {}
        """By number of the session."""
        self.of: dict[bytes, set[int]] = {}
        """Numbers of the sessions with a manager."""
        self.full_windows: set[int] = set()
        """Numbers of the outgoing queues of which more waits than may be under way."""
        self.computer_names: dict[bytes, str] = {}
        """Computer names of other managers, as far as a session has shown them."""
        self.return_to: dict[bytes, str] = {}
        """Address of the session with a manager whose messages came under direct names."""
        self.passed_on: dict[tuple[bytes, int, int], tuple[int, int]] = {}
        """By source, message number and second of sending: outgoing queue and counter of what came
        over HTTP and waits here for another host."""
        self.disbelieved: Counter[str] = Counter()
        """What peers said that does not count, and how often (``core/peers/trust.py``)."""
        self.contacts = ConnectAttempts()
        """Addresses that are connected to."""
        self.served: dict[int, None] = {}
        """Numbers of the outgoing queues that have got a session which was there before."""
        self.watch = Watch()
        self.settling: set[int] = set()
        """Streams of which a receiver has said what it accepted, and that takes several steps."""
        self.early = EarlyRuns()
        """What came before something that is missing."""

    def called(self, guid: bytes, name: str) -> None:
        """A session has shown the computer name of a manager."""
        _remember(self.computer_names, guid, name)

    def came_from(self, source: bytes, address: str) -> None:
        """Note where acknowledgments to a manager go: an address, or "" for its identity only."""
        known = self.return_to
        if known.get(source, "") == address:
            return
        if address:
            _remember(known, source, address)
        else:
            del known[source]


def _remember(known: dict[bytes, str], guid: bytes, text: str) -> None:
    """Note something of a manager; of too many the oldest goes (I24)."""
    if guid not in known and len(known) >= PEERS_REMEMBERED_MAX:
        del known[next(iter(known))]
    known[guid] = text
