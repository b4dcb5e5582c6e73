# Made from client/tasks/transaction.py by tools/faces.py: edit that, and run `make format`.
r"""Transactions: blocks, their connection and their partners; messages that are followed to their
ends; branches of external transactions: the verbs of XA, and work in a branch.

    with qm.branch(xid) as work:            # xa_start ... xa_end
        work.send(r"private$\orders", b"17")
    qm.xa.prepare(xid)
    qm.xa.commit(xid)

The verbs may be called on any connection, and after any restart. The return codes of XA are the
``xa`` of the errors that they raise (``docs/reference/errors.md``), and ``Vote.READ_ONLY``.

Many branches are committed as one, once, in a group; the sink of Spark is made of this:

    attempt = qm.groups.attempt("nightly", 17)          # in each task
    with qm.branch(attempt.branch("0")) as work:
        work.send_many(r"private$\orders", bodies)
        work.prepare()

    qm.groups.commit("nightly", 17, xids)   # where it is known that all are done
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, Self, TypeVar

from onceq.client import enlisting
from onceq.client.binding import Ambient, ThreadsFace, get_ambient, set_ambient, threads
from onceq.client.enlisting import Partners
from onceq.client.link import StaysHere, after_call
from onceq.client.plans import batch_commit, branches, transaction
from onceq.client.plans import send as tracking
from onceq.client.plans.branches import BranchUnit
from onceq.client.plans.plan import DONE, Plan
from onceq.client.plans.send import MessageTrail
from onceq.client.plans.unit_of_work import Unit
from onceq.client.results import MessageIds
from onceq.client.threads.running import Home, ManagerPart, Pinned, Runner, opening
from onceq.model.branches import Vote, Xid
from onceq.model.identity import MessageId
from onceq.partners.procedures import describe, drive, in_threads

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
State = TypeVar("State", covariant=True)


class Tracked:
    """A message that is followed to its ends. Made by ``send_tracked`` and
    ``QueueManager.track``; costs nothing when it is forgotten."""

    def __init__(self, runner: Runner, trail: MessageTrail) -> None:
        self._runner = runner
        self._state = trail

    def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out (for the classes of this package)."""
        return self._runner._run(plan)

    @property
    def id(self) -> MessageId:
        """Of the message; raises TransactionOver before its commit, and after an abort."""
        return self._state.id

    @property
    def destinations(self) -> tuple[str, ...]:
        """Where its copies go; () if that was not known when this was made."""
        return self._state.destinations

    outcomes = threads(tracking.outcomes)
    wait = threads(tracking.wait)


class Following(ThreadsFace[State], Protocol[State]):
    """What can send tracked messages."""

    @property
    def _manager(self) -> Runner:
        """Asks for their ends, also when this is over."""


def following(
    operation: Callable[Concatenate[S, P], Plan[MessageTrail]],
) -> Callable[Concatenate[Following[S], P], Tracked]:
    """A send that returns a ``Tracked``."""

    def call(self: Following[S], /, *args: P.args, **kwargs: P.kwargs) -> Tracked:
        return Tracked(self._manager, self._run(operation(self._state, *args, **kwargs)))

    describe(call, operation, Tracked.__name__)
    return call


class Transaction(StaysHere):
    """A unit of work. Made by ``QueueManager.transaction``.

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

    def __enter__(self) -> Self:
        self._around = get_ambient()
        set_ambient((self, self._manager, self._state, self._around))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        set_ambient(self._around)
        if kind is not None or self._state.over:
            self._leave(error)
            return
        try:
            self.commit()
        except BaseException as failed:
            self._leave(failed)
            raise

    @property
    def id(self) -> str:
        """Identifier for questions about the outcome of its commit; "" before the commit."""
        return str(self._state.id) if self._state.id is not None else ""

    @property
    def sent(self) -> MessageIds | None:
        """Identifiers of the messages sent, after the commit."""
        return self._state.sent

    def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out, always on the connection that the transaction was begun on (for the
        classes of this package). Until it is begun a plan that asks nothing needs none."""
        unit, on = self._state, self._on
        if unit.begun and not on.check_alive():
            unit.check_open()
            raise unit.lost()
        if plan is DONE:
            return None  # type: ignore[return-value]  # what it returns
        if not unit.begun:
            on.link = None
        return self._manager._run(plan, on)

    send = threads(transaction.send)
    send_many = threads(transaction.send_many)
    send_tracked = following(transaction.send_tracked)
    reply = threads(transaction.reply)
    receive = threads(transaction.receive)
    receive_many = threads(transaction.receive_many)
    receive_transaction = threads(transaction.receive_transaction)
    remove = threads(transaction.remove)
    reject = threads(transaction.reject)
    move = threads(transaction.move)
    peek = threads(transaction.peek)
    _hold = threads(transaction.hold)

    enlist = in_threads(enlisting.enlist)

    def commit(self, *, retaining: bool = False) -> MessageIds:
        """Make all of it happen, here and at every partner.

        Raises:
            InDoubt: The answer was lost; ask ``outcome`` with ``error.transaction``. Partners stay
                prepared; recovery tells them the outcome.
            RolledBack: A partner could not commit, and everything was undone.
            TransactionOver: It was committed or aborted before.
        """
        if self._partners:
            return drive(enlisting.commit(self, self._partners))
        return self._run(self._state.commit(retaining=retaining))

    abort = in_threads(enlisting.abort)
    _leave = after_call(in_threads(enlisting.leave))


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
        set_ambient(self._around)
        if kind is None and not self._state.over:
            self.end()
        else:
            self._leave()

    end = threads(branches.end)
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


branch = opening(branches.branch, Branch)


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

    prepare = threads(branches.prepare)
    commit = threads(branches.commit_branch)
    rollback = threads(branches.rollback_branch)
    recover = threads(branches.recover)
    forget = threads(branches.forget_branch)


class Groups(ManagerPart):
    """Groups of one queue manager: many branches committed as one, once for each version. Made by
    ``QueueManager.groups``."""

    attempt = threads(batch_commit.attempt)
    commit = threads(batch_commit.commit_group)
    rollback = threads(batch_commit.rollback_group)
    list = threads(batch_commit.applications)
    forget = threads(batch_commit.forget_group)
