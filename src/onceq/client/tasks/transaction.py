"""Transactions for tasks: blocks, the connection that they belong to, and their partners."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, Self, TypeVar

from onceq.client.binding import tasks
from onceq.client.current import Chain, entered, left
from onceq.client.enlisting import Partners, carry_out_async, settled
from onceq.client.plans import transaction
from onceq.client.plans.plan import DONE, Plan
from onceq.client.plans.unit_of_work import Unit
from onceq.client.plans.xa import Deciding
from onceq.client.results import MessageIds
from onceq.client.tasks.running import Home, Pinned
from onceq.client.tasks.tracked import following
from onceq.errors import OnceqError, RolledBack
from onceq.partners.deciding import What, committing

T = TypeVar("T")


class AsyncTransaction:
    """A unit of work. Made by ``AsyncQueueManager.transaction``.

    Attributes:
        id: Under which the outcome of its commit can be asked for; "" before the commit.
        sent: Identifiers of the messages sent, after the commit.
        pending: After the commit: partners that have not carried it out yet, because they could
            not be reached; recovery will see to that.
    """

    _state: Unit
    _deciding: Deciding
    """With partners."""

    def __init__(self, manager: Home, unit: Unit | None = None) -> None:
        self._manager = manager
        self._state = unit if unit is not None else Unit(manager._state)
        self._on = Pinned(manager)
        self._around: Chain = None
        self._partners: Partners | None = None
        self.pending: list[str] = []

    async def __aenter__(self) -> Self:
        self._around = entered(self, self._manager, self._state)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left(self._around)
        if self._state.over:
            if self._partners and not self._state.decided:
                await self._partners.rollback_async()
            return
        if kind is not None:
            with contextlib.suppress(OnceqError):  # The exception of the block is the news.
                await self.abort()
            return
        try:
            await self.commit()
        except BaseException:
            if not self._state.over:
                with contextlib.suppress(OnceqError):
                    await self.abort()
            raise

    @property
    def id(self) -> str:
        """See the class."""
        return str(self._state.id) if self._state.id is not None else ""

    @property
    def sent(self) -> MessageIds | None:
        """See the class."""
        return self._state.sent

    async def run(self, plan: Plan[T]) -> T:
        """Carry a plan out, always on the connection that the transaction was begun on (for the
        classes of this package). Until it is begun a plan that asks nothing needs none."""
        unit, on = self._state, self._on
        if unit.begun and not await on.look():
            unit.check_open()
            raise unit.lost()
        if plan is DONE:
            return None  # type: ignore[return-value]  # what it returns
        if not unit.begun:
            on.link = None
        return await self._manager.run(plan, on)

    send = tasks(transaction.send)
    send_many = tasks(transaction.send_many)
    send_tracked = following(transaction.send_tracked)
    receive = tasks(transaction.receive)
    receive_many = tasks(transaction.receive_many)
    receive_transaction = tasks(transaction.receive_transaction)
    remove = tasks(transaction.remove)
    reject = tasks(transaction.reject)
    move = tasks(transaction.move)
    peek = tasks(transaction.peek)
    _hold = tasks(transaction.hold)

    async def enlist(self, connection: Any) -> Any:
        """Let a database, or another queue manager, commit with this transaction or not at all.

        What is done on the connection from now on belongs to the transaction; do not commit or
        roll back there.

        Args:
            connection: Of psycopg 3 (asynchronous); an ``AsyncQueueManager``; or a partner of your
                own (docs/reference/partners.md).

        Returns:
            For another queue manager: an ``AsyncBranch``, in which to send and receive there. Else
            the connection.

        Raises:
            TwoPhaseForbidden: The server does not allow it; the text says which line to change.
            EnlistRefused: It cannot take part; the text says why.
            NoCoordinator: This manager takes no part in external transactions.
        """
        partner = self._manager.partner_for(connection)
        self._state.check_open()
        await settled(partner.check())
        if self._partners is None:
            self._partners, self._deciding = Partners(), Deciding(self._state)
        xid = await self.run(self._deciding.enlist(partner.name))
        await settled(partner.begin(xid))
        self._partners.add(partner, xid)
        self._manager.look_after(partner)
        return getattr(partner, "work", connection)

    async def commit(self, *, retaining: bool = False) -> MessageIds:
        """Make all of it happen, here and at every partner.

        Raises:
            InDoubt: The answer was lost; ask ``outcome`` with ``error.transaction``. Partners stay
                prepared; recovery tells them the outcome.
            RolledBack: A partner could not commit, and everything was undone.
            TransactionOver: It was committed or aborted before.
        """
        if not self._partners:
            return await self.run(self._state.commit(retaining=retaining))
        self._state.check_open()
        if self._state.doomed is not None:
            await self._partners.rollback_async()
            return await self.run(self._state.commit())
        steps = committing(len(self._partners), idle=self._state.idle)
        try:
            made = await carry_out_async(steps, self._partners, self._home)
        except RolledBack:
            self._partners.open = False
            if not self._state.over:
                await self.abort()
            raise
        except BaseException:
            if self._state.decided or self._state.idle:
                self._partners.open = False
                self._partners.abandon()
            raise
        self._partners.open = False
        if made.result is None:
            await self.abort()
            return MessageIds(self._state.session.source)
        self.pending = self._partners.names(made.pending)
        if self.pending:
            self._partners.abandon(index for index, _ in made.pending)
            self._manager.recover_soon()
        ids: MessageIds = made.result
        return ids

    async def _home(self, what: What) -> MessageIds | None:
        if what is What.DECIDE:
            return await self.run(self._state.commit())
        with contextlib.suppress(OnceqError):  # It is decided; recovery finds out.
            await self._manager.run(self._deciding.told(what.value))
        return None

    async def abort(self) -> None:
        """Undo all of it: nothing is sent, what was received goes back, partners roll back."""
        if self._partners:
            await self._partners.rollback_async()
        if self._state.begun and self._on.alive:
            await self._manager.run(self._state.abort(), self._on)
        else:
            self._state.drop()
