"""What names mean: the directory, routes, and what was found for names before.

Running tables, written by the rooms ``names`` and ``management``. What was found for a name holds
until queues, routes or the directory change: whoever changes one of them calls ``changed``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from onceq.core.state.queues import OutgoingQueue, Queue
from onceq.core.step.batches import Route, Target
from onceq.model.directory import Snapshot
from onceq.model.hosts import HERE, AddressBook, means_itself, name_for_others
from onceq.model.manager_identity import Identity

ROUTES_MAX = 1_024
"""Routes of sends that are remembered; when there are more, all are found anew."""


class Mode(IntEnum):
    """What there is of a directory (DL-14)."""

    WORKGROUP = 0
    """None was configured."""
    OFFLINE = 1
    """It cannot be read now."""
    ONLINE = 2


class Names:
    """See the module."""

    def __init__(
        self, identity: Identity, addresses: frozenset[str], routes: Mapping[bytes, str],
        peers: Mapping[str, str],
    ) -> None:  # fmt: skip
        self.own_names = HERE | {name.casefold() for name in (identity.name, *addresses)}
        """Names and addresses under which this computer is known, folded."""
        self.called = name_for_others(identity.name, addresses)
        """How this computer is named where others read it."""
        self.everybody = HERE | (
            {identity.name.casefold()} if means_itself(identity.name) else set()
        )
        """Names of this computer that mean another one where others read them."""
        self.addresses = tuple(sorted(addresses))
        self.book = AddressBook.of(peers, {})
        """Where other managers are, to say it: connections are made by whoever has a network."""
        self.routes_to = routes
        """GUID of a manager to the computer name of the one that passes messages on to it."""
        self.mode = Mode.WORKGROUP
        self.directory: Snapshot | None = None
        """What the directory said when it was last read."""
        self.directory_trouble = ""
        """Why it cannot be read now."""
        self.rights_trouble = ""
        """Why what the directory says of rights is not followed."""
        self.computer_guids: frozenset[bytes] = frozenset()
        """Managers that stand in the directory."""
        self.places: dict[str, OutgoingQueue] = {}
        """The outgoing queue of each place: all names that lead there share it (EOD-3)."""
        self.by_guid: dict[bytes, list[OutgoingQueue]] = {}
        """Outgoing queues whose manager is known by GUID: any session with it serves them."""
        self.ending: set[int] = set()
        """Outgoing queues of which messages are ended, because their queues have left the
        directory."""
        self.targets: dict[str, tuple[Target, ...]] = {}
        """What was found for a name to send to."""
        self.sources: dict[str, Queue] = {}
        """What was found for a name to receive from."""
        self.routes: dict[object, Route] = {}
        """What was found for sends with the same properties."""

    def changed(self) -> None:
        """Queues, routes or the directory have changed: look for every name anew."""
        self.targets.clear()
        self.sources.clear()
        self.routes.clear()

    def keep_route(self, key: object, route: Route) -> None:
        """Remember where sends with the same properties go."""
        if len(self.routes) >= ROUTES_MAX:
            self.routes.clear()
        self.routes[key] = route
