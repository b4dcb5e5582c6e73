"""A simulated database that takes part in external transactions: what a good one promises, no more.

What is prepared survives its crashes, and can be ended from elsewhere; what is not prepared is gone
with the connection, which a server may notice late. Some of them, like MariaDB, let nobody else end
a branch while the connection that has prepared it seems to live. A database crashes, and is out of
reach for a while; either way a call may have happened although its answer never comes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from onceq.errors import OnceqError, PartnerLost, PartnerRefused, UnknownBranch
from onceq.model.branches import Vote, Xid
from proof.sim.apps.apps import Sleep
from proof.sim.base import marks
from proof.sim.base.kernel import Kernel
from proof.sim.base.options import MINUTE, MS, SECOND

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Connection:
    """One connection, with the work that is not prepared.

    Attributes:
        usable: From the application's side.
        alive: As far as the server knows.
    """

    usable: bool = True
    alive: bool = True
    rows: set[int] = field(default_factory=set)


class Database:
    """See the module. A row is a number that is there or is not.

    Attributes:
        rows: What is committed.
        prepared: What is promised, and the connection that still holds it.
        clinging: A branch belongs to its connection while that lives.
    """

    def __init__(self, kernel: Kernel, index: int) -> None:
        self.kernel = kernel
        self.name = f"sim:D{index}"
        self.rng = kernel.stream("databases")
        self.clinging = self.rng.random() < 0.4
        self.rows: set[int] = set()
        self.prepared: dict[Xid, tuple[set[int], Connection]] = {}
        self._connections: list[Connection] = []
        self._life = 0
        self._away_until_us = 0
        self._doomed = False

    # ---- what happens to it -------------------------------------------------------------

    def fault(self) -> None:
        """It crashes, now or when it next has promised, or cannot be reached for a while."""
        if self.rng.random() < 0.4:
            self._doomed = True
            return
        self._fail(crash=self.rng.random() < 0.5)

    def _fail(self, *, crash: bool) -> None:
        self._doomed = False
        away_us = self.rng.choice([SECOND, MINUTE, 60 * MINUTE])
        self._away_until_us = max(self._away_until_us, self.kernel.now + away_us)
        if not crash:
            self.kernel.note("unreachable", self.name, away_us)
            return
        self.kernel.note("database crash", self.name, away_us, len(self.prepared))
        if self.prepared:
            self.kernel.marks[marks.DATABASE_CRASHED] += 1
        self._life += 1
        for connection in self._connections:
            connection.usable = connection.alive = False
            connection.rows = set()
        self._connections.clear()

    def calm(self) -> None:
        """It can be reached from now on."""
        self._away_until_us = 0
        self._doomed = False

    # ---- connections --------------------------------------------------------------------

    def connect(self) -> Connection:
        """Connect; raises PartnerLost."""
        if not self.reachable:
            raise PartnerLost(f"{self.name} cannot be reached")
        connection = Connection()
        self._connections.append(connection)
        return connection

    @property
    def reachable(self) -> bool:
        """Whether it answers now."""
        return self.kernel.now >= self._away_until_us

    def abandon(self, connection: Connection) -> None:
        """Its application is gone, or has given it up; the server notices now or later."""
        connection.usable = False

        def noticed() -> None:
            if connection.alive:
                connection.alive = False
                connection.rows = set()
                self._connections.remove(connection)

        late = self.kernel.faulty and self.rng.random() < 0.5
        self.kernel.at(
            self.kernel.now + (self.rng.choice([SECOND, MINUTE]) if late else 0), noticed
        )

    def call(
        self, work: Callable[[], T], connection: Connection | None = None
    ) -> Generator[Sleep, Any, T]:
        """Ask for something and wait for the answer; raises PartnerLost if none comes."""
        yield Sleep(self._passing_us())
        if not self.reachable or (connection is not None and not connection.usable):
            self._lost(connection)
        life, answer, error = self._life, None, None
        try:
            answer = work()
        except OnceqError as refusal:
            error = refusal
        yield Sleep(self._passing_us())
        if not self.reachable or self._life != life:
            self._lost(connection)
        if error is not None:
            raise error
        return answer  # type: ignore[return-value]

    def _passing_us(self) -> int:
        return self.rng.choice([MS, 20 * MS, SECOND])

    def _lost(self, connection: Connection | None) -> None:
        if connection is not None:
            self.abandon(connection)
        raise PartnerLost(f"{self.name} gives no answer")

    # ---- verbs --------------------------------------------------------------------------

    def prepare(self, xid: Xid, connection: Connection) -> Vote:
        """Promise both outcomes."""
        if not connection.rows:
            return Vote.READ_ONLY
        if self.rng.random() < 0.05:
            connection.rows = set()
            raise PartnerRefused(f"{self.name} votes against it")
        self.prepared[xid] = connection.rows, connection
        connection.rows = set()
        if self._doomed:
            self._fail(crash=True)
        return Vote.PREPARED

    def commit_one_phase(self, connection: Connection) -> None:
        """Commit what is not prepared."""
        if self.rng.random() < 0.1:
            connection.rows = set()
            raise PartnerRefused(f"{self.name} cannot commit it")
        self.rows |= connection.rows
        connection.rows = set()

    def undo(self, connection: Connection) -> None:
        """Roll back what is not prepared."""
        connection.rows = set()

    def commit(self, xid: Xid, connection: Connection | None = None) -> None:
        """Commit what is prepared."""
        self.rows |= self._taken(xid, connection)

    def rollback(self, xid: Xid, connection: Connection | None = None) -> None:
        """Roll back what is prepared."""
        self._taken(xid, connection)

    def _taken(self, xid: Xid, connection: Connection | None) -> set[int]:
        if xid not in self.prepared:
            raise UnknownBranch(f"{self.name} knows no branch {xid}")
        rows, holder = self.prepared[xid]
        if self.clinging and holder.alive and holder is not connection:
            raise PartnerLost(f"the connection that has prepared {xid} still holds it")
        del self.prepared[xid]
        return rows
