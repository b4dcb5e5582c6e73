"""What callers see of branches of external transactions, and the words of XA for them.

A branch is what this manager does in a transaction that somebody else decides (XTX-3). Its
identifier is an ``Xid`` (``model/xid.py``).
"""

from __future__ import annotations

from enum import Enum, IntEnum


class Vote(Enum):
    """What a partner answers to prepare."""

    PREPARED = "prepared"
    """It can commit and roll back, through any crash (I20)."""
    READ_ONLY = "read-only"
    """It has nothing to decide, and is out of it (XA_RDONLY)."""


class Phase(Enum):
    """Where a branch is."""

    __hash__ = object.__hash__  # that of Enum is a call of Python, for each table that is read

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
