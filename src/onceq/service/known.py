"""Managers with which messages were exchanged: they go before strangers.

They are kept by GUID, and by the address they had then. The least recent ones are forgotten; the
ones in the durable state are loaded again at each start.

Upholds: I24.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from onceq.model.limits import KNOWN_PEERS_MAX


class KnownPeers:
    """The known managers, by GUID and address."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes | str, None] = OrderedDict()

    def __contains__(self, who: bytes | str) -> bool:
        return who in self._known

    def exchanged(self, *who: bytes | str) -> None:
        """Note that messages went to, or came from, this GUID or address."""
        for one in who:
            self._known[one] = None
            # The least recent ones are at the front, where they are forgotten.
            self._known.move_to_end(one)
        while len(self._known) > KNOWN_PEERS_MAX:
            self._known.popitem(last=False)

    def remember(self, guids: Iterable[bytes]) -> None:
        """Add the managers that are known from an earlier life."""
        for guid in guids:
            self.exchanged(guid)
