"""A directory in memory, shared by the queue managers of one process; for tests, and for
programs that have their own way of knowing where each manager is."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from onceq.directory.book import registered, relisted, same
from onceq.directory.contract import Seen, SeenRights
from onceq.errors import DirectoryError
from onceq.model.directory import Computer, DistributionList, PublicQueue, Snapshot
from onceq.model.rights import NO_RIGHTS
from onceq.model.shared_rights import Regrant, regranted


class MemoryDirectory:
    """A ``Directory`` in memory. Every method may be called from any thread."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self.snapshot = snapshot if snapshot is not None else Snapshot()
        """Its content."""
        self._seen = Seen(self.snapshot)
        self._rights = SeenRights(None)
        self._lock = threading.Lock()

    @property
    def where(self) -> str:
        """Return a name that says: in memory."""
        return "in memory"

    def online(self, reachable: bool) -> None:
        """Make it unreachable, or reachable again."""
        with self._lock:
            trouble = "" if reachable else "out of reach"
            self._seen = Seen(None, trouble) if trouble else Seen(self.snapshot)
            self._rights = SeenRights(self._rights.book, trouble)

    def look(self) -> Seen:
        """Return its current content."""
        return self._seen

    def register(self, computer: Computer, queues: Sequence[PublicQueue]) -> None:
        """Replace the entries of a computer."""
        with self._lock:
            self._put(registered(self._known(), computer, queues))

    def put_list(self, after: DistributionList | None, before: DistributionList | None) -> None:
        """Replace a list."""
        with self._lock:
            self._put(relisted(self._known(), after, before))

    def look_rights(self) -> SeenRights:
        """Return its current rights."""
        return self._rights

    def put_rights(self, change: Regrant) -> None:
        """Grant or revoke rights."""
        with self._lock:
            self._known()
            self._rights = SeenRights(regranted(self._rights.book or NO_RIGHTS, change))

    def _known(self) -> Snapshot:
        if self._seen.trouble:
            raise DirectoryError(f"the directory is {self._seen.trouble}")
        return self.snapshot

    def _put(self, snapshot: Snapshot) -> None:
        if not same(snapshot, self.snapshot):
            self.snapshot = snapshot
            self._seen = Seen(snapshot)
