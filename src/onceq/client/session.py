"""What outlives a connection: the numbering of commits, names known to be good, late messages.

Commits are numbered under a session identifier that the client makes up, so that their outcome
can be asked for on another connection, and after a restart of the queue manager (I3a). The
identifier begins with the second of its making by the manager's clock; that is how the manager
tells a session that it has forgotten from one that never committed. So a session that has not
committed for half of the time for which outcomes are kept makes up a new one before its next
commit: what is asked within that time after a commit has a true answer.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final

from onceq.client.link import Greeting, of_parent
from onceq.errors import InvalidParameter, ServiceNotAvailable
from onceq.model.identity import GUID_BYTES, TransactionId

if TYPE_CHECKING:
    from onceq.packet.arrived import Batch

DESTINATIONS_MAX = 4_096
"""Names remembered; a session that has seen more forgets them all."""
RECONNECT_S: Final = (0.05, 0.2, 0.5, 1.0, 2.0)
"""Waits between attempts to connect again."""
REPEATS_MAX: Final = 3
"""How often a request that may be repeated is, when connections break under it."""


class Session:
    """One application's dealings with one queue manager. Any thread may use it.

    Attributes:
        source: GUID of the queue manager.
        name: Its computer name.
        destinations: Names that were found good to send to before, and whether the queues of this
            manager among theirs are transactional; None: none of them is of this manager.
        foreign: Managers (by GUID) and computers of which a queue was found to be another
            manager's.
        used: When a commit was last answered (by ``clock``): from then on the manager knows the
            present identifier. Before the first one: when that was made up.
        connections: How many there were until now; what is open belongs to one of them.
        life: What is begun belongs to it; a forked child has another one (finding K4).
    """

    def __init__(
        self,
        greeting: Greeting,
        *,
        random: Callable[[int], bytes] = os.urandom,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.source = greeting.id
        self.name = greeting.name
        self.destinations: dict[str, bool | None] = {}
        self.foreign: set[str | bytes] = set()
        self.tracking = ""
        """Name of the queue for acknowledgments of tracked messages, once it is known."""
        self.replies = ("", 0.0)
        """Name of the queue for replies that all share, and when it was last tidied."""
        self.clock = clock
        self._random = random
        self._lock = threading.Lock()
        self.late: dict[str, deque[Batch]] = {}
        """By queue: messages that came when nobody waited any more."""
        self.owed: dict[str, int] = {}
        """By queue: receives on this connection that were given up and may still be answered."""
        self.connections = 0
        self._transactions = count(1)
        self._globals = count(1)
        self.life = object()
        self._parents: set[bytes] = set()
        """Identifiers under which the processes have committed that this one was forked from."""
        self.heard(greeting)
        self._begin()

    def heard(self, greeting: Greeting) -> None:
        """A connection was made again; raises ServiceNotAvailable if to another manager."""
        if greeting.id != self.source:
            raise ServiceNotAvailable(
                f"another queue manager ({greeting.name}) now answers where {self.name} did; "
                "connect again to talk to it"
            )
        self.owed = {}
        self.connections += 1
        self._ahead = greeting.now_s - self.clock()
        self._outcome_age_s = greeting.outcome_age_s

    def _begin(self) -> None:
        self.used = self.clock()
        began = max(int(self.used + self._ahead), 0) & 0xFFFF_FFFF
        self._id = began.to_bytes(4, "little") + self._random(GUID_BYTES - 4)
        self._commits = 0

    def forked(self) -> None:
        """This is a child now: commit under another identifier, and leave to the parent what came
        for it. A thread that is not here any more may have held the lock."""
        self._lock = threading.Lock()
        self._parents.add(self._id)
        self.life = object()
        self.late = {}
        self._begin()

    def next_global(self) -> int:
        """A number for an external transaction that nobody else uses: 96 bits."""
        return int.from_bytes(self._random(8), "big") << 32 | next(self._globals)

    def now_s(self) -> int:
        """Seconds since 1970 by the manager's clock, about."""
        return int(self.clock() + self._ahead)

    def next_commit(self) -> TransactionId:
        """Under which the outcome of the next commit can be asked for."""
        with self._lock:
            # Half: the other half is for asking after the commit.
            if self.clock() - self.used > self._outcome_age_s / 2:
                self._begin()
            self._commits += 1
            return TransactionId(self._id, self._commits)

    def renumber(self, id: TransactionId) -> None:
        """Take another session identifier: a commit was refused, maybe since this one is barred."""
        with self._lock:
            if id.session == self._id:
                self._begin()

    def next_transaction(self) -> int:
        """Number of the next unit of work."""
        return next(self._transactions)

    def check(self, id: TransactionId) -> None:
        """Refuse to ask for commits of this session that were never begun.

        To be told "aborted" would bar every commit up to that number (see ``AskOutcome``), also of
        the parent of a forked process, which may be at it.

        Raises:
            InvalidParameter, WrongProcess.
        """
        if id.session in self._parents:
            raise of_parent(f"commit {id}")
        if id.session == self._id and id.number > self._commits:
            raise InvalidParameter(f"{id} has not been committed yet")

    def add_destination(self, destination: str, kind: bool | None) -> None:
        """Remember that a name can be sent to, and of which kind its queues here are."""
        if len(self.destinations) >= DESTINATIONS_MAX:
            self.destinations.clear()
        self.destinations[destination] = kind

    def note_foreign_manager(self, place: str | bytes) -> None:
        """Remember that this place belongs to another queue manager."""
        if len(self.foreign) >= DESTINATIONS_MAX:
            self.foreign.clear()
        self.foreign.add(place)

    # ---- messages that came when nobody waited any more -------------------------------------

    def owe(self, queue: str) -> None:
        """A receive was given up."""
        with self._lock:
            self.owed[queue] = self.owed.get(queue, 0) + 1

    def keep(self, queue: str, batch: Batch | None) -> None:
        """Received for a call that had been given up: the next receive gets them. None: nothing
        was, or it was refused."""
        with self._lock:
            if self.owed.get(queue):
                self.owed[queue] -= 1
            if batch is None:
                return
            self.late.setdefault(queue, deque()).append(batch)

    def take(self, queue: str, count: int) -> Batch | None:
        """Up to that number of those messages, if there are any."""
        with self._lock:
            waiting = self.late.get(queue)
            if waiting is None:
                return None
            batch = waiting.popleft()
            if len(batch) > count:
                waiting.appendleft(batch.part(count, len(batch) - count))
                batch = batch.part(0, count)
            if not waiting:
                del self.late[queue]
            return batch
