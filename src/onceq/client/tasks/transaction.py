r"""Transactions: blocks, their connection and their partners; messages that are followed to their
ends; branches of external transactions: the verbs of XA, and work in a branch.

    async with await qm.branch(xid) as work:            # xa_start ... xa_end
        await work.send(r"private$\orders", b"17")
    await qm.xa.prepare(xid)
    await qm.xa.commit(xid)

The verbs may be called on any connection, and after any restart. The return codes of XA are the
``xa`` of the errors that they raise (``docs/reference/errors.md``), and ``Vote.READ_ONLY``.

Many branches are committed as one, once, in a group; the sink of Spark is made of this:

    attempt = await qm.groups.attempt("nightly", 17)          # in each task
    async with await qm.branch(attempt.branch("0")) as work:
        await work.send_many(r"private$\orders", bodies)
        await work.prepare()

    await qm.groups.commit("nightly", 17, xids)   # where it is known that all are done
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

from onceq.client import enlisting
from onceq.client.binding import Ambient, TasksFace, counted, get_ambient, set_ambient, tasks
from onceq.client.enlisting import Partners
from onceq.client.link import ForTasks
from onceq.client.plans import batch_commit, branches, transaction
from onceq.client.plans import send as tracking
from onceq.client.plans.branches import BranchUnit
from onceq.client.plans.plan import DONE, Plan
from onceq.client.plans.send import MessageTrail
from onceq.client.plans.unit_of_work import Unit
from onceq.client.results import MessageIds
from onceq.client.tasks.running import AsyncManagerPart, Home, Pinned, Runner, opening
from onceq.model.branches import Vote, Xid
from onceq.model.identity import MessageId
from onceq.partners.procedures import describe, drive_in_task, in_tasks

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
State = TypeVar("State", covariant=True)


class AsyncTracked:
    """A message that is followed to its ends. Made by ``send_tracked`` and
    ``AsyncQueueManager.track``; costs nothing when it is forgotten."""

    def __init__(self, runner: Runner, trail: MessageTrail) -> None:
        self._runner = runner
        self._state = trail

    async def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out (for the classes of this package)."""
        return await self._runner._run(plan)

    @property
    def id(self) -> MessageId:
        """Of the message; raises TransactionOver before its commit, and after an abort."""
        return self._state.id

    @property
    def destinations(self) -> tuple[str, ...]:
        """Where its copies go; () if that was not known when this was made."""
        return self._state.destinations

    outcomes = tasks(tracking.outcomes)
    wait = tasks(tracking.wait)


class Following(TasksFace[State], Protocol[State]):
    """What can send tracked messages."""

    @property
    def _manager(self) -> Runner:
        """Asks for their ends, also when this is over."""


def following(
    operation: Callable[Concatenate[S, P], Plan[MessageTrail]],
) -> Callable[Concatenate[Following[S], P], Coroutine[Any, Any, AsyncTracked]]:
    """A send that returns an ``AsyncTracked``."""

    async def call(self: Following[S], /, *args: P.args, **kwargs: P.kwargs) -> AsyncTracked:
        return AsyncTracked(self._manager, await self._run(operation(self._state, *args, **kwargs)))

    describe(call, operation, AsyncTracked.__name__)
    return call


class AsyncTransaction(ForTasks):
    """A unit of work. Made by ``AsyncQueueManager.transaction``.

    Attributes:
        id: Under which the outcome of its commit can be asked for; "" before the commit.
        sent: Identifiers of the messages sent, after the commit.
        pending: After the commit: partners that have not carried it out yet, because they could
            not be reached; recovery will see to that.
    """

    _state: Unit

    def __init__(self, manager: Home, unit: Unit | None = None) -> None:
        self._manager = manager
        self._state = unit if unit is not None else Unit(manager._state)
        self._on = Pinned()
        self._around: Ambient = None
        self._partners: Partners | None = None
        self.pending: list[str] = []

    async def __aenter__(self) -> Self:
        self._around = get_ambient()
        set_ambient((self, self._manager, self._state, self._around))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        set_ambient(self._around)
        if kind is not None or self._state.over:
            await self._leave(error)
            return
        try:
            await self.commit()
        except BaseException as failed:
            await self._leave(failed)
            raise

    @property
    def id(self) -> str:
        """Identifier for questions about the outcome of its commit; "" before the commit."""
        return str(self._state.id) if self._state.id is not None else ""

    @property
    def sent(self) -> MessageIds | None:
        """Identifiers of the messages sent, after the commit."""
        return self._state.sent

    async def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out, always on the connection that the transaction was begun on (for the
        classes of this package). Until it is begun a plan that asks nothing needs none."""
        unit, on = self._state, self._on
        if unit.begun and not await on.check_alive():
            unit.check_open()
            raise unit.lost()
        if plan is DONE:
            return None  # type: ignore[return-value]  # what it returns
        if not unit.begun:
            on.link = None
        return await self._manager._run(plan, on)

    send = counted(tasks(transaction.send))
    send_many = counted(tasks(transaction.send_many))
    send_tracked = counted(following(transaction.send_tracked))
    reply = counted(tasks(transaction.reply))
    receive = tasks(transaction.receive)
    receive_many = tasks(transaction.receive_many)
    receive_transaction = tasks(transaction.receive_transaction)
    remove = counted(tasks(transaction.remove))
    reject = counted(tasks(transaction.reject))
    move = counted(tasks(transaction.move))
    peek = tasks(transaction.peek)
    _hold = tasks(transaction.hold)

    enlist = counted(in_tasks(enlisting.enlist))

    async def commit(self, *, retaining: bool = False) -> MessageIds:
        """Make all of it happen, here and at every partner.

        Raises:
            InDoubt: The answer was lost; ask ``outcome`` with ``error.transaction``. Partners stay
                prepared; recovery tells them the outcome.
            RolledBack: A partner could not commit, and everything was undone.
            TransactionOver: It was committed or aborted before.
        """
        if self._partners:
            return await drive_in_task(enlisting.commit(self, self._partners))
        return await self._run(self._state.commit(retaining=retaining))

    abort = in_tasks(enlisting.abort)
    _leave = in_tasks(enlisting.leave)  # tasks
    # threads: _leave = after_call(in_threads(enlisting.leave))


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
        set_ambient(self._around)
        if kind is None and not self._state.over:
            await self.end()
        else:
            await self._leave()

    end = tasks(branches.end)
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


branch = opening(branches.branch, AsyncBranch)


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

    prepare = tasks(branches.prepare)
    commit = tasks(branches.commit_branch)
    rollback = tasks(branches.rollback_branch)
    recover = tasks(branches.recover)
    forget = tasks(branches.forget_branch)


class AsyncGroups(AsyncManagerPart):
    """Groups of one queue manager: many branches committed as one, once for each version. Made by
    ``AsyncQueueManager.groups``."""

    attempt = tasks(batch_commit.attempt)
    commit = tasks(batch_commit.commit_group)
    rollback = tasks(batch_commit.rollback_group)
    list = tasks(batch_commit.applications)
    forget = tasks(batch_commit.forget_group)
