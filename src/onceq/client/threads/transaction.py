# Made from client/tasks/transaction.py by tools/faces.py: edit that, and run `make format`.
"""Transactions: blocks, the connection that they belong to, and their partners."""

from __future__ import annotations

from types import TracebackType
from typing import Self, TypeVar

from onceq.client import enlisting
from onceq.client.binding import threads
from onceq.client.current import Chain, entered, innermost, left
from onceq.client.enlisting import Partners
from onceq.client.owners import StaysHere, after_call
from onceq.client.plans import transaction
from onceq.client.plans.plan import DONE, Plan
from onceq.client.plans.unit_of_work import Unit
from onceq.client.results import MessageIds
from onceq.client.threads.running import Home, Pinned
from onceq.client.threads.tracked import following
from onceq.partners.driving import drive, in_threads

T = TypeVar("T")


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
        self._around: Chain = None
        self._partners: Partners | None = None
        self.pending: list[str] = []

    def __enter__(self) -> Self:
        self._around = innermost()
        entered((self, self._manager, self._state, self._around))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left(self._around)
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
        """See the class."""
        return str(self._state.id) if self._state.id is not None else ""

    @property
    def sent(self) -> MessageIds | None:
        """See the class."""
        return self._state.sent

    def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out, always on the connection that the transaction was begun on (for the
        classes of this package). Until it is begun a plan that asks nothing needs none."""
        unit, on = self._state, self._on
        if unit.begun and not on.look():
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
