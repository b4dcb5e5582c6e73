"""A database that decides, without one: only what the queue manager and its client do counts."""

from __future__ import annotations

import pytest

from onceq.client.recovering import RecoveryThread
from onceq.model.branches import Xid
from onceq.partners.contract import Row


def without_recovery(patch: pytest.MonkeyPatch) -> None:
    """Its thread would ask in the middle of what is counted."""
    patch.setattr(RecoveryThread, "_run", lambda self, recovery: None)


class Decides:
    """A last agent and its Agent in one; see there."""

    name = "postgresql:1/shop"
    address = "host=one"
    connection = None

    def check(self) -> None:
        """See LastAgent."""

    def is_new(self, manager: str) -> bool:
        """See LastAgent."""
        return False

    def begin(self, xid: Xid) -> None:
        """See LastAgent."""

    def record(self, row: Row) -> None:
        """See LastAgent."""

    def commit_one_phase(self, xid: Xid) -> None:
        """See LastAgent."""

    def rollback(self, xid: Xid) -> None:
        """See LastAgent."""

    def abandon(self) -> None:
        """See LastAgent."""

    def agent(self) -> Decides:
        """See LastAgent."""
        return self

    def close(self) -> None:
        """See Agent."""
