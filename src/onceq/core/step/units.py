"""Units of work that are not over: of clients, and branches of external transactions.

Running tables, written by the room ``transaction``: a crash loses them, and what was prepared is
made anew from the durable branches. A client does not wait for the answer to its begin. Why a unit
of work was not begun, or was ended by this manager, is therefore remembered for a while, and said
to whatever is asked of it next.

Upholds: I17.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from onceq.core.state.client_memory import Fences, Read
from onceq.core.state.queues import Queue
from onceq.core.state.records import RangeChange
from onceq.core.step.connections import CheckedBatch
from onceq.errors import OnceqError, TransactionOver
from onceq.model.branches import Phase, Xid
from onceq.model.marks import Now
from onceq.model.shares import OwnerCounts

KEY_BYTES: Final = 32
"""Of the key of a life."""
REFUSED_MAX = 1_024
"""Transactions not begun, or over, of which it is remembered why; the oldest go first."""


@dataclass(slots=True)
class HeldRange(RangeChange):
    """A range that a transaction holds, and what its commit does with it.

    ``to``: move it there; ``reason``: end it so; neither: it is received.

    Attributes:
        keep: Put what ends into the dead-letter queue of this computer, too.
    """

    keep: bool = False


class CopiedRange(HeldRange):
    """One that is received, and of which the journal of its queue keeps copies in any case. Never
    promised to a coordinator."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class GroupOver:
    """No further branch of this group is to be prepared.

    Attributes:
        by: Who has said so, of his own branches; empty: whoever runs the manager, of all.
    """

    prefix: bytes
    by: str


@dataclass(slots=True)
class Transaction:
    """A unit of work that is not decided yet; it does not survive (SND-8), unless it is a branch
    of an external transaction and prepared.

    Attributes:
        targets: Numbers of the queues to which it moves messages.
        reads: Who has read what it removes.
        xid: The branch that it is; None: it is this manager's own.
        failed: It can only be rolled back.
        doomed: Why its commit does nothing and says so: a send that was refused, or messages that
            it has taken and nobody has seen.
        branch: Number of the durable branch, once it is prepared.
        gtrid: Of the external transaction that its commit decides; empty: it decides for itself.
        partners: Who is to be told of that decision.
        used_us: When (monotonic us) something happened in it last.
        idle_us: How long nothing may happen in it; 0: without end; None: as the settings say.
        by: Whose it is while it is counted as open (``Step.known_by``); None: it is not counted.
    """

    owner: int
    number: int
    began_s: int
    sends: list[CheckedBatch] = field(default_factory=list)
    receives: list[HeldRange] = field(default_factory=list)
    targets: set[int] = field(default_factory=set)
    reads: list[Read] = field(default_factory=list)
    gtrid: bytes = b""
    bytes: int = 0
    messages: int = 0
    lifetimes: tuple[int, int] | None = None
    xid: Xid | None = None
    phase: Phase = Phase.ACTIVE
    failed: bool = False
    doomed: OnceqError | None = None
    branch: int = 0
    partners: tuple[str, ...] = ()
    used_us: int = 0
    idle_us: int | None = None
    by: str | None = None


class Units:
    """See the module."""

    def __init__(self) -> None:
        self.transactions: dict[tuple[int, int], Transaction] = {}
        """By owner and number: those at which somebody is at work."""
        self.open_by = OwnerCounts()
        """Whose those are that were begun, and are neither over nor prepared."""
        self.branches: dict[Xid, Transaction] = {}
        """Transactions that are branches: at work, suspended, ended or prepared."""
        self.deciding: dict[bytes, Transaction] = {}
        """Open transactions that will decide for partners, by global identifier."""
        self.telling: dict[bytes, int] = {}
        """Decisions that an application is telling to its partners, and its owner number."""
        self.refused: dict[tuple[int, int] | Xid | GroupOver, OnceqError] = {}
        """Why transactions could not be begun, or they or groups are over, for whatever is asked
        of them next."""
        self.idle_look_us = 0
        """When (monotonic us) it is looked for forgotten ones next; 0: it is not."""
        self.open_bytes = 0
        """Bytes of what open transactions will send."""
        self.promised: dict[int, int] = {}
        """Bytes that open transactions will put into queues of this manager: they count towards
        the quota at send, so that a commit never fails for it (Q-21)."""
        self.key = b""
        """With which attempts are marked (``model/branches.py``); never told, nor in a record."""
        self.fences = Fences()
        """Commits whose outcome was told as aborted."""

    def closed(self, tx: Transaction) -> None:
        """It is over, or prepared."""
        if tx.by is not None:
            self.open_by.drop(tx.by)
            tx.by = None

    def all(self) -> Iterator[Transaction]:
        """Every unit of work that is not over, whether anybody is at work in it or not."""
        yield from self.transactions.values()
        for tx in self.branches.values():
            if tx.phase is not Phase.ACTIVE:
                yield tx

    def find(self, owner: int, number: int, now: Now) -> Transaction:
        """An open transaction; raises TransactionOver, or why it could not be begun."""
        tx = self.transactions.get((owner, number))
        if tx is None:
            refused = self.refused.get((owner, number))
            if refused is not None:
                raise refused
            raise TransactionOver("this transaction is over, or was never begun")
        tx.used_us = now.mono_us
        return tx

    def group_over(self, prefix: bytes, by: str) -> OnceqError | None:
        """Why somebody's branches of a group are not to be prepared; None: they may be."""
        all_of_it = self.refused.get(GroupOver(prefix, ""))
        return all_of_it or self.refused.get(GroupOver(prefix, by))

    def refuse_from_now_on(self, what: tuple[int, int] | Xid | GroupOver, why: OnceqError) -> None:
        """Say why to whatever is asked next of a transaction or branch that is not there."""
        self.refused[what] = why
        if len(self.refused) > REFUSED_MAX:
            del self.refused[next(iter(self.refused))]

    def stored(self, tx: Transaction) -> None:
        """What a transaction will send is in the log, and not in memory any more."""
        self.open_bytes -= tx.bytes
        tx.bytes = 0

    def promise(self, sends: Sequence[CheckedBatch], sign: int) -> None:
        """Count sends to local queues as promised (1), or not any more (-1)."""
        for batch in sends:
            for index, target in enumerate(batch.targets):
                if isinstance(target.queue, Queue):
                    number = target.queue.number
                    left = self.promised.get(number, 0) + sign * batch.size_at(index)
                    if left:
                        self.promised[number] = left
                    else:
                        self.promised.pop(number, None)
