"""Groups of branches for threads and for tasks: many branches committed as one, once.

    attempt = qm.groups.attempt("nightly", 17)          # in each task
    with qm.branch(attempt.branch("0")) as work:
        work.send_many(r"private$\\orders", bodies)
        work.prepare()

    qm.groups.commit("nightly", 17, xids)               # in the one who knows that all are done

A group that was committed is not committed again: ``already`` says so. The sink of Spark is made of
this (``onceq/spark/writer.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from onceq.client import group_unit, plans
from onceq.client.session import Session
from onceq.model.views import looks
from onceq.model.views.branches import GroupResult, GroupView
from onceq.model.xid import Xid

if TYPE_CHECKING:
    from onceq.client.branches import Branching
    from onceq.client.task_branches import AsyncBranching


class Attempt:
    """One attempt at a batch, or at a part of it, with branches that nobody else has."""

    def __init__(self, session: Session, app: str, version: int) -> None:
        self._made = group_unit.attempt(session, app, version)

    def branch(self, name: str) -> Xid:
        """The identifier of one of its branches, for ``QueueManager.branch``."""
        return group_unit.branch(self._made, name)


class Groups:
    """Groups of one queue manager. Made by ``QueueManager.groups``."""

    def __init__(self, manager: Branching, session: Session) -> None:
        self._manager = manager
        self._session = session

    def attempt(self, app: str, version: int) -> Attempt:
        """Begin an attempt.

        Args:
            app: Who commits batches one after another; up to 200 printable characters.
            version: Number of the batch, higher than any before.
        """
        return Attempt(self._session, app, version)

    def commit(
        self, app: str, version: int, branches: Sequence[Xid], *, query: str = ""
    ) -> GroupResult:
        """Commit prepared branches as one, in this order, or find that this was done before.

        May be asked again, with any branches: a version takes effect once.

        Args:
            query: Which life of the application asks. Another one than before is refused.

        Raises:
            GroupIncomplete: A branch is not prepared (any more); none was committed.
            GroupOfAnotherQuery: The application was at work for another query.
        """
        plan = group_unit.commit(self._session, app, query, version, branches)
        return cast(GroupResult, self._manager.run(plan))

    def rollback(self, app: str, version: int, *, final: bool = False) -> int:
        """Roll back what is prepared of a batch, by anybody; returns how many branches.

        Args:
            final: No attempt at it will follow: branches that are still at work are refused when
                they prepare, as long as the queue manager runs.
        """
        plan = group_unit.rollback(self._session, app, version, final=final)
        return cast(int, self._manager.run(plan))

    def list(self) -> list[GroupView]:
        """Applications with their last version, those that have committed last first."""
        found: list[GroupView] = self._manager.run(plans.look(looks.GROUPS))
        return found

    def forget(self, app: str) -> None:
        """Forget an application: its next batch is committed whatever its version.

        Raises:
            UsageError: Nothing is remembered of it.
        """
        self._manager.run(group_unit.forget(app))


class AsyncGroups:
    """See ``Groups``. Made by ``AsyncQueueManager.groups``."""

    def __init__(self, manager: AsyncBranching, session: Session) -> None:
        self._manager = manager
        self._session = session

    def attempt(self, app: str, version: int) -> Attempt:
        """Begin an attempt."""
        return Attempt(self._session, app, version)

    async def commit(
        self, app: str, version: int, branches: Sequence[Xid], *, query: str = ""
    ) -> GroupResult:
        """Commit prepared branches as one, in this order, or find that this was done before."""
        plan = group_unit.commit(self._session, app, query, version, branches)
        return cast(GroupResult, await self._manager.run(plan))

    async def rollback(self, app: str, version: int, *, final: bool = False) -> int:
        """Roll back what is prepared of a batch, by anybody; returns how many branches."""
        plan = group_unit.rollback(self._session, app, version, final=final)
        return cast(int, await self._manager.run(plan))

    async def list(self) -> list[GroupView]:
        """Applications with their last version, those that have committed last first."""
        found: list[GroupView] = await self._manager.run(plans.look(looks.GROUPS))
        return found

    async def forget(self, app: str) -> None:
        """Forget an application: its next batch is committed whatever its version."""
        await self._manager.run(group_unit.forget(app))
