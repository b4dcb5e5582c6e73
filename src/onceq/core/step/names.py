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
        self, identity: Identity, addresses: frozenset[str], routes: Mapping[bytes, str]
    ) -> None:
        self.own_names = {".", "localhost", identity.name.casefold()} | {
            address.casefold() for address in addresses
        }
        """Names and addresses under which this computer is known, folded."""
        self.addresses = tuple(sorted(addresses))
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
