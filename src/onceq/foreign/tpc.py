"""PEP 249's two-phase calls on a queue manager (XTX-9).

    connection = onceq.foreign.tpc.Connection(qm)
    connection.tpc_begin(connection.xid(7, "transfer 17", "queues"))
    connection.work.send(r"private$\\orders", "17")
    connection.tpc_prepare()
    connection.tpc_commit()

Outside a transaction of that kind ``commit`` and ``rollback`` do nothing: each send and receive is
then for good by itself.
"""

from __future__ import annotations

from onceq.client.threads.manager import QueueManager
from onceq.client.threads.transaction import Branch
from onceq.errors import BranchState
from onceq.model.branch import Vote
from onceq.model.xid import Xid


class Connection:
    """A queue manager for coordinators that speak PEP 249. For one thread at a time."""

    def __init__(self, manager: QueueManager) -> None:
        """Take a queue manager, which stays its owner's."""
        self.manager = manager
        self._branch: Branch | None = None
        self._vote: Vote | None = None

    @property
    def work(self) -> Branch:
        """Where to send and receive between ``tpc_begin`` and the end; raises BranchState."""
        if self._branch is None:
            raise BranchState("tpc_begin comes first")
        return self._branch

    def xid(self, format_id: int, global_transaction_id: str, branch_qualifier: str) -> Xid:
        """An identifier; texts are taken as UTF-8, 64 bytes at most."""
        return Xid(format_id, global_transaction_id.encode(), branch_qualifier.encode())

    def tpc_begin(self, xid: Xid) -> None:
        """Begin a branch; raises BranchState inside one, DuplicateBranch if it exists."""
        if self._branch is not None:
            raise BranchState("tpc_begin inside a two-phase transaction")
        self._branch = self.manager.branch(xid)
        self._vote = None

    def tpc_prepare(self) -> None:
        """Promise both outcomes.

        Raises:
            RolledBack: It cannot, and was rolled back.
            BranchState: There is no branch, or it was prepared.
        """
        self._vote = self.work.prepare()

    def tpc_commit(self, xid: Xid | None = None) -> None:
        """Commit what was prepared, or in one phase what was not; with ``xid`` one of
        ``tpc_recover``."""
        if xid is not None:
            self._outside("tpc_commit")
            self.manager.xa.commit(xid)
            return
        branch, vote = self.work, self._vote
        if vote is not Vote.READ_ONLY:
            branch.commit()
        self._branch = None

    def tpc_rollback(self, xid: Xid | None = None) -> None:
        """Undo the branch, prepared or not; with ``xid`` one of ``tpc_recover``."""
        if xid is not None:
            self._outside("tpc_rollback")
            self.manager.xa.rollback(xid)
            return
        branch, vote, self._branch = self.work, self._vote, None
        if vote is not Vote.READ_ONLY:
            branch.abort()

    def tpc_recover(self) -> list[Xid]:
        """Branches that are prepared, for ``tpc_commit(xid)`` and ``tpc_rollback(xid)``."""
        return self.manager.xa.recover()

    def commit(self) -> None:
        """Nothing, outside a two-phase transaction; raises BranchState inside one."""
        self._outside("commit")

    def rollback(self) -> None:
        """Nothing, outside a two-phase transaction; raises BranchState inside one."""
        self._outside("rollback")

    def _outside(self, call: str) -> None:
        if self._branch is not None:
            raise BranchState(f"{call} inside a two-phase transaction: use tpc_commit")

    def close(self) -> None:
        """Roll back what was not prepared; the queue manager stays open."""
        if self._branch is not None and self._vote is None:
            self.tpc_rollback()
        self._branch = None
