"""Zope's ``transaction`` with queues in it (XTX-11): ``onceq.foreign.zope.join(qm)``.

    import transaction
    queues = join(qm)
    queues.send(r"private$\\orders", "17")
    transaction.commit()

The manager votes by preparing, so that a database without a real vote (which sorts behind it) can
still refuse. Its part is then committed with ``tpc_finish``, which must not fail and does not: what
cannot be reached is committed when it can, by ``onceq tx`` or another ``tpc_finish``.
"""

from __future__ import annotations

import uuid
from typing import Any

import transaction

from onceq.client.threads.manager import QueueManager
from onceq.client.threads.transaction import Branch
from onceq.model.branches import Vote, Xid

FORMAT = 0x7A6F7065
"""Format of branch identifiers made here: the letters ``zope``."""


def join(qm: QueueManager, manager: Any = None) -> Branch:
    """Return the branch of the current transaction, which its first call makes.

    Args:
        manager: A ``transaction.TransactionManager``; None: the one of this thread.
    """
    current = (manager or transaction.manager).get()
    for resource in current._resources:
        if isinstance(resource, DataManager) and resource.queue_manager is qm:
            return resource.branch
    made = DataManager(qm, manager or transaction.manager)
    current.join(made)
    return made.branch


class DataManager:
    """A branch of a queue manager as a data manager of Zope's."""

    def __init__(self, qm: QueueManager, manager: Any) -> None:
        """Begin a branch.

        Args:
            manager: The transaction manager, which the contract wants as an attribute.
        """
        self.transaction_manager = manager
        self.queue_manager = qm
        self.xid = Xid(FORMAT, f"zope-{uuid.uuid4().hex}".encode(), qm.id.encode())
        self.branch = qm.branch(self.xid)
        self._vote: Vote | None = None

    def sortKey(self) -> str:
        """Before databases without a vote, which call themselves ``~...``."""
        return f"onceq:{self.queue_manager.id}"

    def abort(self, txn: Any) -> None:
        """The transaction was aborted before its commit."""
        self.branch.abort()

    def tpc_begin(self, txn: Any) -> None:
        """The commit begins: nothing to do."""

    def commit(self, txn: Any) -> None:
        """Changes are flushed: nothing to do, they are where they belong."""

    def tpc_vote(self, txn: Any) -> None:
        """Promise both outcomes; raises RolledBack, which is a vote against."""
        self._vote = self.branch.prepare()

    def tpc_finish(self, txn: Any) -> None:
        """All have voted for it."""
        if self._vote is Vote.PREPARED:
            self.queue_manager.xa.commit(self.xid)

    def tpc_abort(self, txn: Any) -> None:
        """Somebody has voted against it."""
        if self._vote is not Vote.READ_ONLY:
            self.branch.abort()
