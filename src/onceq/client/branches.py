"""Branches of external transactions for threads: the verbs of XA, and work in a branch.

    with qm.branch(xid) as work:            # xa_start ... xa_end
        work.send(r"private$\\orders", b"17")
    qm.xa.prepare(xid)
    qm.xa.commit(xid)

The verbs may be called on any connection, and after any restart. The return codes of XA are the
``xa`` of the errors that they raise (``docs/reference/errors.md``), and ``Vote.READ_ONLY``.
"""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from onceq.client import branch_unit, plans
from onceq.client.branch_unit import BranchUnit
from onceq.client.current import entered, left
from onceq.client.groups import Groups
from onceq.client.session import Session
from onceq.client.sync_unit import Transaction
from onceq.errors import OnceqError
from onceq.model.branch import Decision, Join, Leave, Vote
from onceq.model.views import looks
from onceq.model.views.branches import BranchView, DecisionView
from onceq.model.xid import Xid

if TYPE_CHECKING:
    from onceq.client.sync import QueueManager


class Branch(Transaction):
    """Work in a branch. Made by ``QueueManager.branch``.

    As a block it ends at the end of the block, and rolls back on an exception; it is then prepared
    and decided by whoever coordinates, through ``QueueManager.xa`` or here.

    Attributes:
        xid: Its identifier.
    """

    _unit: BranchUnit

    def __init__(self, manager: QueueManager, session: Session, xid: Xid, how: Join) -> None:
        super().__init__(manager, session)
        self.xid = xid
        self._unit = BranchUnit(session, xid)
        self._link = manager.live()
        manager.run(self._unit.start(how), self._link)

    def __enter__(self) -> Branch:
        self._around = entered(self, self._manager, self._unit)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left(self._around)
        if self._unit.over:
            return
        if kind is None:
            self.end()
            return
        with contextlib.suppress(OnceqError):  # The exception of the block is the news.
            self.abort()

    def end(self, *, suspend: bool = False, fail: bool = False) -> None:
        """Dissociate it from this work (xa_end).

        Args:
            suspend: It will be resumed.
            fail: It can only be rolled back.
        """
        how = Leave.FAIL if fail else Leave.SUSPEND if suspend else Leave.SUCCESS
        self._run(self._unit.end(how))

    def prepare(self) -> Vote:
        """End it, and promise that it can be committed and rolled back, through any crash.

        Raises:
            RolledBack: It cannot, and was rolled back.
        """
        return cast(Vote, self._run(self._unit.prepare()))

    def commit(self, *, retaining: bool = False) -> Any:
        """Commit it: in one phase, or, once it was prepared, as was decided."""
        if self._unit.vote is Vote.PREPARED:
            self._manager.xa.commit(self.xid)
            return None
        return super().commit(retaining=retaining)

    def abort(self) -> None:
        """Roll it back, prepared or not."""
        self._manager.run(self._unit.abort())


class Xa:
    """The verbs of XA on branches of one queue manager, by their identifiers."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager

    def start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> Branch:
        """Begin to work in a branch; see ``QueueManager.branch``."""
        return self._manager.branch(xid, join=join, resume=resume)

    def prepare(self, xid: Xid) -> Vote:
        """Prepare a branch whose work has ended.

        Raises:
            RolledBack: It cannot be promised, and was rolled back.
            UnknownBranch, BranchState: There is none, or its work has not ended.
        """
        return cast(Vote, self._manager.run(branch_unit.prepare_ended(xid)))

    def commit(self, xid: Xid, *, one_phase: bool = False, by_hand: bool = False) -> None:
        """Commit a prepared branch, or (``one_phase``) one that has ended.

        Args:
            by_hand: An operator decides in place of the coordinator: recorded until ``forget``.

        Raises:
            InDoubt: The answer was lost. Commit again.
            UnknownBranch: There is none (any more).
            DecidedByHand: An operator was first.
        """
        self._manager.run(branch_unit.commit(xid, one_phase=one_phase, by_hand=by_hand))

    def rollback(self, xid: Xid, *, by_hand: bool = False) -> None:
        """Roll a branch back; see ``commit``."""
        self._manager.run(branch_unit.verb("rollback", xid, by_hand=by_hand))

    def recover(self) -> list[Xid]:
        """Branches that are prepared, or were decided by hand."""
        return branch_unit.recovered(self._manager.branches())

    def forget(self, xid: Xid) -> None:
        """Drop the memory of a branch that was decided by hand."""
        self._manager.run(branch_unit.verb("forget", xid))


class Branching:
    """Of ``QueueManager``."""

    _session: Session

    def branch(self, xid: Xid, *, join: bool = False, resume: bool = False) -> Branch:
        """Work in a branch of an external transaction.

        Args:
            join: It exists, and its work has ended; there is more to do in it.
            resume: It was suspended.

        Raises:
            DuplicateBranch: It exists.
            NoCoordinator: This manager takes no part in external transactions.
        """
        how = Join.JOIN if join else Join.RESUME if resume else Join.NEW
        return Branch(cast("QueueManager", self), self._session, xid, how)

    @property
    def xa(self) -> Xa:
        """The verbs of XA."""
        return Xa(cast("QueueManager", self))

    @property
    def groups(self) -> Groups:
        """Many branches committed as one, once for each version."""
        return Groups(self, self._session)

    def run(self, plan: plans.Plan) -> Any:
        """Carry a plan out."""
        raise NotImplementedError

    def branches(self) -> list[BranchView]:
        """Every branch: at work, ended, prepared, or decided by hand."""
        found: list[BranchView] = self.run(plans.look(looks.BRANCHES))
        return found

    def decisions(self) -> list[DecisionView]:
        """Commits that partners may not have carried out yet."""
        found: list[DecisionView] = self.run(plans.look(looks.DECISIONS))
        return found

    def decision(self, gtrid: bytes) -> Decision:
        """What this manager has decided for an external transaction (presumed abort)."""
        return cast(Decision, self.run(branch_unit.decision(gtrid)))
