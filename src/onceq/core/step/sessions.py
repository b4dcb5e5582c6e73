"""Sessions with other managers, and what they have shown of those.

Running tables, written by the rooms ``transfer`` and ``peers``. What must outlive a restart, such
as who answers under which name, is durable instead (``core/state/name_bindings.py``).
"""

from __future__ import annotations

from collections import Counter

from onceq.core.state.queues import Peer
from onceq.core.step.contacts import Contacts
from onceq.core.step.early_runs import EarlyRuns
from onceq.core.step.identity_watch import Watch
from onceq.model.limits import PEERS_REMEMBERED_MAX


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
        self.contacts = Contacts()
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
