"""What callers see of branches of external transactions, and the words of XA for them.

A branch is what this manager does in a transaction that somebody else decides (XTX-3). Its
identifier is an ``Xid`` (``model/xid.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum


class Vote(Enum):
    """What a partner answers to prepare."""

    PREPARED = "prepared"
    """It can commit and roll back, through any crash (I20)."""
    READ_ONLY = "read-only"
    """It has nothing to decide, and is out of it (XA_RDONLY)."""


class Phase(Enum):
    """Where a branch is."""

    ACTIVE = "active"
    """Work is added to it."""
    SUSPENDED = "suspended"
    """Its work goes on later (TMSUSPEND)."""
    ENDED = "ended"
    """All its work is done; it waits to be prepared."""
    PREPARED = "prepared"
    """It waits for its outcome, in doubt, through any crash (XTX-4)."""
    COMMITTED = "committed by hand"
    """An operator has committed it before its outcome was known (XTX-8)."""
    ROLLED_BACK = "rolled back by hand"


class Join(IntEnum):
    """How work is associated with a branch (xa_start)."""

    NEW = 0
    JOIN = 1
    RESUME = 2


class Leave(IntEnum):
    """How it is dissociated (xa_end)."""

    SUCCESS = 0
    FAIL = 1
    SUSPEND = 2


class Decision(Enum):
    """What a manager that decides for a transaction knows of it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """There is no record of a commit, and there will be none (presumed abort)."""
    OPEN = "open"
    """Its application is at work: it is not decided yet, or its partners are being told."""


@dataclass(frozen=True, slots=True)
class BranchView:
    """One branch, for operators and coordinators.

    Attributes:
        xid: Its identifier in text form.
        phase: Where it is: a value of ``Phase``.
        since: Second since 1970 in which it was prepared, or begun.
        messages: How many it sends.
        bytes: Of their bodies.
        received: How many it has received and holds.
        queues: Those from which it has received.
        destinations: Names to which it sends.
    """

    xid: str
    phase: str
    since: int
    messages: int
    bytes: int
    received: int
    queues: tuple[str, ...]
    destinations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DecisionView:
    """A transaction that this manager has decided to commit, and that has partners to be told.

    Attributes:
        gtrid: Its global identifier, as text.
        partners: Their names, as they were enlisted.
        since: Second since 1970 of the decision.
    """

    gtrid: str
    partners: tuple[str, ...]
    since: int


@dataclass(frozen=True, slots=True)
class GroupView:
    """The last group of branches that an application has committed.

    Attributes:
        app: Its name.
        query: Which life of it that was; empty: it did not say.
        version: Number of the batch.
        since: Second since 1970 of that commit.
        left: Branches of later attempts at the same batch that are still prepared.
    """

    app: str
    query: str
    version: int
    since: int
    left: int
