"""Sessions with other managers, and what they have shown of those.

Running tables, written by the rooms ``transfer`` and ``peers``. What must outlive a restart, such
as who answers under which name, is durable instead (``core/state/name_bindings.py``).
"""

from __future__ import annotations

from collections import Counter

from onceq.core.state.queues import Peer
from onceq.core.step.identity_watch import Watch
from onceq.model.limits import RETURN_ADDRESSES_MAX


class Sessions:
    """See the module."""

    def __init__(self) -> None:
        self.peers: dict[int, Peer] = {}
        """By number of the session."""
        self.of: dict[bytes, set[int]] = {}
        """Numbers of the sessions with a manager."""
        self.computer_names: dict[bytes, str] = {}
        """Computer names of other managers, as far as a session has shown them."""
        self.return_to: dict[bytes, str] = {}
        """Address of the session with a manager whose messages came under direct names."""
        self.passed_on: dict[tuple[bytes, int, int], tuple[int, int]] = {}
        """By source, message number and second of sending: outgoing queue and counter of what came
        over HTTP and waits here for another host."""
        self.disbelieved: Counter[str] = Counter()
        """What peers said that does not count, and how often (``core/peers/trust.py``)."""
        self.watch = Watch()

    def came_from(self, source: bytes, address: str) -> None:
        """Note where acknowledgments to a manager go: an address, or "" for its identity only."""
        known = self.return_to
        if known.get(source, "") == address:
            return
        if not address:
            del known[source]
            return
        if len(known) >= RETURN_ADDRESSES_MAX:
            del known[next(iter(known))]
        known[source] = address
