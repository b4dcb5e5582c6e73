"""Branches of external transactions for ``async`` code; see ``client/branches.py``."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from onceq.client import branch_unit, plans
from onceq.client.branch_unit import BranchUnit
from onceq.client.current import entered, left
from onceq.client.groups import AsyncGroups
from onceq.client.session import Session
from onceq.client.task_unit import AsyncTransaction
from onceq.errors import OnceqError
from onceq.model.branch import Decision, Join, Leave, Vote
from onceq.model.views import looks
from onceq.model.views.branches import BranchView, DecisionView
from onceq.model.xid import Xid

if TYPE_CHECKING:
    from onceq.client.tasks import AsyncQueueManager


class AsyncBranch(AsyncTransaction):
    """Work in a branch; see ``Branch``. Made by ``await AsyncQueueManager.branch``."""

    _unit: BranchUnit

    def __init__(self, manager: AsyncQueueManager, session: Session, xid: Xid) -> None:
        super().__init__(manager, session)
        self.xid = xid
        self._unit = BranchUnit(session, xid)

    async def start(self, how: Join) -> None:
        """Associate it with this work (for ``AsyncQueueManager.branch``)."""
        self._link = await self._manager.live()
        await self._manager.run(self._unit.start(how), self._link)

    async def __aenter__(self) -> AsyncBranch:
        self._around = entered(self, self._manager, self._unit)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left(self._around)
        if self._unit.over:
            return
        if kind is None:
            await self.end()
            return
        with contextlib.suppress(OnceqError):  # The exception of the block is the news.
            await self.abort()

    async def end(self, *, suspend: bool = False, fail: bool = False) -> None:
        """Dissociate it from this work (xa_end)."""
        how = Leave.FAIL if fail else Leave.SUSPEND if suspend else Leave.SUCCESS
        await self._run(self._unit.end(how))

    async def prepare(self) -> Vote:
        """End it, and promise that it can be committed and rolled back; raises RolledBack."""
        return cast(Vote, await self._run(self._unit.prepare()))

    async def commit(self, *, retaining: bool = False) -> Any:
        """Commit it: in one phase, or, once it was prepared, as was decided."""
        if self._unit.vote is Vote.PREPARED:
            await self._manager.xa.commit(self.xid)
            return None
        return await super().commit(retaining=retaining)

    async def abort(self) -> None:
        """Roll it back, prepared or not."""
        await self._manager.run(self._unit.abort())


class AsyncXa:
    """The verbs of XA on branches of one queue manager; see ``Xa``."""

    def __init__(self, manager: AsyncQueueManager) -> None:
        self._manager = manager

    async def start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> AsyncBranch:
        """Begin to work in a branch."""
        return await self._manager.branch(xid, join=join, resume=resume)

    async def prepare(self, xid: Xid) -> Vote:
        """Prepare a branch whose work has ended."""
        return cast(Vote, await self._manager.run(branch_unit.prepare_ended(xid)))

    async def commit(self, xid: Xid, *, one_phase: bool = False, by_hand: bool = False) -> None:
        """Commit a prepared branch, or (``one_phase``) one that has ended."""
        await self._manager.run(branch_unit.commit(xid, one_phase=one_phase, by_hand=by_hand))

    async def rollback(self, xid: Xid, *, by_hand: bool = False) -> None:
        """Roll a branch back."""
        await self._manager.run(branch_unit.verb("rollback", xid, by_hand=by_hand))

    async def recover(self) -> list[Xid]:
        """Branches that are prepared, or were decided by hand."""
        return branch_unit.recovered(await self._manager.branches())

    async def forget(self, xid: Xid) -> None:
        """Drop the memory of a branch that was decided by hand."""
        await self._manager.run(branch_unit.verb("forget", xid))


class AsyncBranching:
    """Of ``AsyncQueueManager``."""

    _session: Session

    async def branch(self, xid: Xid, *, join: bool = False, resume: bool = False) -> AsyncBranch:
        """Work in a branch of an external transaction; see ``QueueManager.branch``."""
        how = Join.JOIN if join else Join.RESUME if resume else Join.NEW
        made = AsyncBranch(cast("AsyncQueueManager", self), self._session, xid)
        await made.start(how)
        return made

    @property
    def xa(self) -> AsyncXa:
        """The verbs of XA."""
        return AsyncXa(cast("AsyncQueueManager", self))

    @property
    def groups(self) -> AsyncGroups:
        """Many branches committed as one, once for each version."""
        return AsyncGroups(self, self._session)

    async def run(self, plan: plans.Plan) -> Any:
        """Carry a plan out."""
        raise NotImplementedError

    async def branches(self) -> list[BranchView]:
        """Every branch: at work, ended, prepared, or decided by hand."""
        found: list[BranchView] = await self.run(plans.look(looks.BRANCHES))
        return found

    async def decisions(self) -> list[DecisionView]:
        """Commits that partners may not have carried out yet."""
        found: list[DecisionView] = await self.run(plans.look(looks.DECISIONS))
        return found

    async def decision(self, gtrid: bytes) -> Decision:
        """What this manager has decided for an external transaction (presumed abort)."""
        return cast(Decision, await self.run(branch_unit.decision(gtrid)))
