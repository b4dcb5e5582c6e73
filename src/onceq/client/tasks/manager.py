"""Queue managers: embedded in this process, or connected to a daemon.

Queues that they hold open, and cursors, are here too.

Every method may be called from any thread. In ``onceq.aio`` an object belongs to the event loop
that made it, and any number of its tasks may use it at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable
from typing import Self, TypeVar, Unpack

from onceq.client import retry
from onceq.client.binding import current_transaction, tasks
from onceq.client.link import ForTasks
from onceq.client.plans import branches as verbs
from onceq.client.plans import handles, unit_of_work
from onceq.client.plans import queues as admin
from onceq.client.plans import receive as receiving
from onceq.client.plans import send as sending
from onceq.client.plans.handles import Handle
from onceq.client.plans.plan import Plan
from onceq.client.plans.receive import CursorPlace
from onceq.client.plans.send import MessageTrail, given, send
from onceq.client.properties import NOTHING, Body, Nothing, SendProperties
from onceq.client.tasks.administration import AsyncManagerConnection
from onceq.client.tasks.consuming import AsyncConsuming
from onceq.client.tasks.running import Pinned, Runner, opening
from onceq.client.tasks.transaction import (
    AsyncGroups,
    AsyncTracked,
    AsyncTransaction,
    AsyncXa,
    following,
)
from onceq.client.tasks.transaction import branch as work_in
from onceq.errors import HandleLost, InvalidHandle, WrongProcess
from onceq.model.identity import MessageId
from onceq.model.message import Message

# ---- open queue ----------------------------------------------------------------------------------
#
# Open queues and cursors.


T = TypeVar("T")


class AsyncOpenQueue(ForTasks):
    """A queue held open. Made by ``AsyncQueueManager.open_queue``.

    Attributes:
        name: As it was opened.
        local: Whether all its queues are of this manager.
        transactional: Whether those of this manager are; None: it has none here.
        places: Opened to send: which queues the name leads to; order is kept between names that
            have one in common. Numbers of the queue manager's.
        turn: How many have opened it so that others cannot receive, this one included.
    """

    def __init__(self, manager: Runner, on: Pinned, handle: Handle) -> None:
        self._manager = manager
        self._on = on
        self._state = handle
        self.name = handle.name
        self.local = handle.local
        self.transactional = handle.transactional
        self.places = handle.places
        self.turn = handle.turn

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def handle(self) -> int:
        """Its number; 0 once it was closed."""
        return self._state.number

    @property
    def is_open(self) -> bool:
        """Whether its connection still lives, as far as that can be known without asking."""
        return bool(self.handle) and self._on.alive  # tasks
        # threads: return bool(self.handle) and self._on.check_alive()

    async def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out on the connection of the handle (for the classes of this package)."""
        self._state.check(alive=await self._on.check_alive())
        return await self._manager._run(plan, self._on)

    receive = tasks(handles.receive)
    receive_many = tasks(handles.receive_many)
    peek = tasks(handles.peek)
    peek_many = tasks(handles.peek_many)

    async def send(
        self, body: Body | Nothing = NOTHING, *, json: object = NOTHING,
        transactional: bool | None = None, **properties: Unpack[SendProperties],
    ) -> MessageId:  # fmt: skip
        """Send one message now; see ``QueueManager.send``."""
        self._state.check_process()
        session = self._state.session
        plan = send(session, self.name, body, json=json, transactional=transactional, **properties)
        return await self._manager._run(plan)

    async def cursor(self, *, alone: bool = False) -> AsyncCursor:
        """A place in the queue that moves from message to message; see ``onceq.Cursor``.

        Args:
            alone: Close the queue with the cursor.
        """
        return AsyncCursor(self, await self._run(receiving.of_handle(self._state)), alone=alone)

    # threads: @after_call
    async def close(self) -> None:
        """Give the handle back; receives that wait through it end with OperationCancelled."""
        if self._on.alive:
            await self._manager._run(handles.close(self._state), self._on)
        self._state.number = 0


class AsyncCursor(ForTasks):
    """A place in a queue. Made by ``AsyncOpenQueue.cursor``; ends with the open queue.

    ``IllegalCursorAction``: it has looked at no message yet. ``MessageAlreadyReceived``: the
    message that it stands at is gone; ``peek_next`` goes on.
    """

    def __init__(self, queue: AsyncOpenQueue, place: CursorPlace, *, alone: bool) -> None:
        self._queue = queue
        self._manager = queue._manager
        self._state = place
        self._alone = alone

    @classmethod
    def opened(cls, manager: Runner, on: Pinned, place: CursorPlace) -> Self:
        """One that has its queue for itself (for ``QueueManager.cursor``)."""
        return cls(AsyncOpenQueue(manager, on, place.handle), place, alone=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out (for the classes of this package)."""
        return await self._queue._run(plan)

    peek_current = tasks(receiving.peek_current)
    peek_next = tasks(receiving.peek_next)
    peek_previous = tasks(receiving.peek_previous)
    peek_first = tasks(receiving.peek_first)
    peek_last = tasks(receiving.peek_last)

    async def receive_current(
        self, *, timeout: float | None = None, transaction: AsyncTransaction | None = None
    ) -> Message:
        """Take the message that it stands at; the next call is about the one behind it.

        Args:
            transaction: An AsyncTransaction of the same queue manager; None: at once and for good.
        """
        if transaction is not None:
            return await transaction._run(self._state.taking(transaction._state, timeout))
        return await self._run(self._state.looking("current", timeout, peek=False))

    # threads: @after_call
    async def close(self) -> None:
        """Give it back."""
        with contextlib.suppress(InvalidHandle, HandleLost, WrongProcess):
            await self._run(self._state.closing())
        if self._alone:
            await self._queue.close()


# ---- manager -------------------------------------------------------------------------------------


class AsyncQueueManager(AsyncConsuming, AsyncManagerConnection):
    """A queue manager. Made by ``onceq.aio.open`` and ``onceq.aio.connect``; close it,
    or use ``async with``."""

    # ---- queues ---------------------------------------------------------------------------

    create_queue = tasks(admin.create_queue)
    set_queue = tasks(admin.set_queue)
    set_poison_policy = tasks(admin.set_poison_policy)
    delete_queue = tasks(admin.delete_queue)
    purge = tasks(admin.purge)
    open_queue = opening(handles.open_queue, AsyncOpenQueue)
    cursor = opening(receiving.cursor, AsyncCursor.opened)

    # ---- messages -------------------------------------------------------------------------

    send = tasks(sending.send)
    send_many = tasks(sending.send_many)
    send_tracked = following(sending.send_tracked)
    request = tasks(retry.request)
    reply = tasks(retry.reply)
    receive = tasks(receiving.receive)
    receive_many = tasks(receiving.receive_many)
    peek = tasks(receiving.peek)
    peek_many = tasks(receiving.peek_many)
    peek_headers = tasks(receiving.peek_headers)
    peek_tops = tasks(receiving.peek_tops)
    remove = tasks(receiving.remove)
    move = tasks(receiving.move)
    outcome = tasks(unit_of_work.outcome)
    tracking_queue = tasks(sending.tracking_queue)

    def send_current(
        self, destination: str, body: Body | Nothing = NOTHING, *, json: object = NOTHING,
        **properties: Unpack[SendProperties],
    ) -> Awaitable[MessageId | None]:  # fmt: skip
        """Send with the transaction whose ``with`` block this is (MQ_MTS_TRANSACTION).

        Where there is none the message is sent now, as ``send`` does.

        Returns:
            Its identifier; None if it goes with the transaction's commit.
        """
        tx = current_transaction(self)
        if tx is None:
            return self.send(destination, body, json=json, **properties)
        # In a task the commit is refused as long as nobody has awaited this: see `counted`.
        return tx.send(destination, body, json=json, **properties)  # type: ignore[no-any-return]

    def track(self, message: MessageId | str) -> AsyncTracked:
        """Follow a message by its identifier, also one that another program has sent.

        What can be told depends on what it asked for when it was sent: by ``send_tracked``
        everything, else what its outgoing queue and the dead-letter queues say.
        """
        return AsyncTracked(self, MessageTrail(self._state, given(message)))

    # ---- branches -------------------------------------------------------------------------

    branch = work_in
    decision = tasks(verbs.decision)

    _xa = AsyncXa

    @property
    def xa(self) -> AsyncXa:
        """The verbs of XA."""
        return self._xa(self)

    @property
    def groups(self) -> AsyncGroups:
        """Many branches committed as one, once for each version."""
        return AsyncGroups(self)
