"""A directory in memory, shared by the queue managers of one process; for tests, and for programs
that have their own way of knowing who is where."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from onceq.directory.book import registered, relisted, same
from onceq.directory.contract import Seen
from onceq.errors import DirectoryError
from onceq.model.directory import Computer, DistributionList, PublicQueue, Snapshot


class MemoryDirectory:
    """See ``Directory``. Every method may be called from any thread."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self.snapshot = snapshot if snapshot is not None else Snapshot()
        """What it says."""
        self._seen = Seen(self.snapshot)
        self._lock = threading.Lock()

    @property
    def where(self) -> str:
        """In memory."""
        return "in memory"

    def online(self, reachable: bool) -> None:
        """Let it be out of reach, or within it again."""
        with self._lock:
            self._seen = Seen(self.snapshot) if reachable else Seen(None, "out of reach")

    def look(self) -> Seen:
        """See Directory."""
        return self._seen

    def register(self, computer: Computer, queues: Sequence[PublicQueue]) -> None:
        """See Directory."""
        with self._lock:
            self._put(registered(self._known(), computer, queues))

    def put_list(self, after: DistributionList | None, before: DistributionList | None) -> None:
        """See Directory."""
        with self._lock:
            self._put(relisted(self._known(), after, before))

    def _known(self) -> Snapshot:
        if self._seen.trouble:
            raise DirectoryError(f"the directory is {self._seen.trouble}")
        return self.snapshot

    def _put(self, snapshot: Snapshot) -> None:
        if not same(snapshot, self.snapshot):
            self.snapshot = snapshot
            self._seen = Seen(snapshot)
