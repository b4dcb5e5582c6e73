# Made from client/tasks/branches.py by tools/faces.py: edit that, and run `make format`.
"""Branches of external transactions: the verbs of XA, and work in a branch.

    with qm.branch(xid) as work:            # xa_start ... xa_end
        work.send(r"private$\\orders", b"17")
    qm.xa.prepare(xid)
    qm.xa.commit(xid)

The verbs may be called on any connection, and after any restart. The return codes of XA are the
``xa`` of the errors that they raise (``docs/reference/errors.md``), and ``Vote.READ_ONLY``.

Many branches are committed as one, once, in a group; the sink of Spark is made of this:

    attempt = qm.groups.attempt("nightly", 17)          # in each task
    with qm.branch(attempt.branch("0")) as work:
        work.send_many(r"private$\\orders", bodies)
        work.prepare()

    qm.groups.commit("nightly", 17, xids)   # where it is known that all are done
"""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

from onceq.client.binding import threads
from onceq.client.current import left
from onceq.client.plans import batch_commit, xa
from onceq.client.plans.plan import Plan
from onceq.client.plans.xa import BranchUnit
from onceq.client.results import MessageIds
from onceq.client.threads.running import Home, Pinned, Runner, opening
from onceq.client.threads.transaction import Transaction
from onceq.model.branch import Vote
from onceq.model.xid import Xid

T = TypeVar("T")


class Branch(Transaction):
    """Work in a branch. Made by ``QueueManager.branch``.

    As a block it ends at the end of the block, and rolls back on an exception; it is then prepared
    and decided by its coordinator, through ``QueueManager.xa`` or here.

    Attributes:
        xid: Its identifier.
    """

    _state: BranchUnit

    def __init__(self, manager: Home, on: Pinned, unit: BranchUnit) -> None:
        super().__init__(manager, unit)
        self._on = on
        self.xid = unit.xid

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left(self._around)
        if kind is None and not self._state.over:
            self.end()
        else:
            self._leave()

    end = threads(xa.end)
    prepare = threads(BranchUnit.prepare)

    def commit(self, *, retaining: bool = False) -> MessageIds:
        """Commit it: in one phase, or, once it was prepared, as was decided."""
        if self._state.vote is not Vote.PREPARED:
            return super().commit(retaining=retaining)
        self._manager._run(self._state.decide())
        return MessageIds(self._manager._state.source)

    def abort(self, why: str = "") -> None:
        """Roll it back, prepared or not.

        Args:
            why: Not kept: a branch ends by its coordinator's decision, which has no words.
        """
        self._manager._run(self._state.abort())


branch = opening(xa.branch, Branch)


class Xa:
    """The verbs of XA on branches of one queue manager, by their identifiers."""

    def __init__(self, manager: Home) -> None:
        self._manager = manager
        self._state = manager._state

    def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out (for the classes of this package)."""
        return self._manager._run(plan)

    def start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> Branch:
        """Begin to work in a branch; see ``QueueManager.branch``."""
        return branch(self._manager, xid, join=join, resume=resume)

    prepare = threads(xa.prepare)
    commit = threads(xa.commit)
    rollback = threads(xa.rollback)
    recover = threads(xa.recover)
    forget = threads(xa.forget)


class Groups:
    """Groups of one queue manager: many branches committed as one, once for each version. Made by
    ``QueueManager.groups``."""

    def __init__(self, manager: Runner) -> None:
        self._manager = manager
        self._state = manager._state

    def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out (for the classes of this package)."""
        return self._manager._run(plan)

    attempt = threads(batch_commit.attempt)
    commit = threads(batch_commit.commit)
    rollback = threads(batch_commit.rollback)
    list = threads(batch_commit.applications)
    forget = threads(batch_commit.forget)
