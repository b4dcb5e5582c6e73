"""Branches of external transactions: the verbs of XA, and work in a branch.

    async with await qm.branch(xid) as work:            # xa_start ... xa_end
        await work.send(r"private$\\orders", b"17")
    await qm.xa.prepare(xid)
    await qm.xa.commit(xid)

The verbs may be called on any connection, and after any restart. The return codes of XA are the
``xa`` of the errors that they raise (``docs/reference/errors.md``), and ``Vote.READ_ONLY``.

Many branches are committed as one, once, in a group; the sink of Spark is made of this:

    attempt = await qm.groups.attempt("nightly", 17)          # in each task
    async with await qm.branch(attempt.branch("0")) as work:
        await work.send_many(r"private$\\orders", bodies)
        await work.prepare()

    await qm.groups.commit("nightly", 17, xids)   # where it is known that all are done
"""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

from onceq.client.binding import tasks
from onceq.client.current import left
from onceq.client.plans import batch_commit, xa
from onceq.client.plans.plan import Plan
from onceq.client.plans.xa import BranchUnit
from onceq.client.results import MessageIds
from onceq.client.tasks.running import Home, Pinned, Runner, opening
from onceq.client.tasks.transaction import AsyncTransaction
from onceq.model.branch import Vote
from onceq.model.xid import Xid

T = TypeVar("T")


class AsyncBranch(AsyncTransaction):
    """Work in a branch. Made by ``AsyncQueueManager.branch``.

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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left(self._around)
        if kind is None and not self._state.over:
            await self.end()
        else:
            await self._leave()

    end = tasks(xa.end)
    prepare = tasks(BranchUnit.prepare)

    async def commit(self, *, retaining: bool = False) -> MessageIds:
        """Commit it: in one phase, or, once it was prepared, as was decided."""
        if self._state.vote is not Vote.PREPARED:
            return await super().commit(retaining=retaining)
        await self._manager._run(self._state.decide())
        return MessageIds(self._manager._state.source)

    async def abort(self, why: str = "") -> None:
        """Roll it back, prepared or not.

        Args:
            why: Not kept: a branch ends by its coordinator's decision, which has no words.
        """
        await self._manager._run(self._state.abort())


branch = opening(xa.branch, AsyncBranch)


class AsyncXa:
    """The verbs of XA on branches of one queue manager, by their identifiers."""

    def __init__(self, manager: Home) -> None:
        self._manager = manager
        self._state = manager._state

    async def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out (for the classes of this package)."""
        return await self._manager._run(plan)

    async def start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> AsyncBranch:
        """Begin to work in a branch; see ``QueueManager.branch``."""
        return await branch(self._manager, xid, join=join, resume=resume)

    prepare = tasks(xa.prepare)
    commit = tasks(xa.commit)
    rollback = tasks(xa.rollback)
    recover = tasks(xa.recover)
    forget = tasks(xa.forget)


class AsyncGroups:
    """Groups of one queue manager: many branches committed as one, once for each version. Made by
    ``AsyncQueueManager.groups``."""

    def __init__(self, manager: Runner) -> None:
        self._manager = manager
        self._state = manager._state

    async def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out (for the classes of this package)."""
        return await self._manager._run(plan)

    attempt = tasks(batch_commit.attempt)
    commit = tasks(batch_commit.commit)
    rollback = tasks(batch_commit.rollback)
    list = tasks(batch_commit.applications)
    forget = tasks(batch_commit.forget)
