# Made from client/tasks/manager.py by tools/faces.py: edit that, and run `make format`.
"""Queue managers: embedded in this process, or connected to a daemon.

Queues that they hold open, and cursors, are here too.

Every method may be called from any thread. In ``onceq.aio`` an object belongs to the event loop
that made it, and any number of its tasks may use it at once.
"""

from __future__ import annotations

import contextlib
from typing import Self, TypeVar, Unpack

from onceq.client import retry
from onceq.client.binding import current_transaction, threads
from onceq.client.link import StaysHere, after_call
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
from onceq.client.threads.administration import ManagerConnection
from onceq.client.threads.consuming import Consuming
from onceq.client.threads.running import Pinned, Runner, opening
from onceq.client.threads.transaction import Groups, Tracked, Transaction, Xa, following
from onceq.client.threads.transaction import branch as work_in
from onceq.errors import HandleLost, InvalidHandle, WrongProcess
from onceq.model.identity import MessageId
from onceq.model.message import Message

# ---- open queue ----------------------------------------------------------------------------------
#
# Open queues and cursors.


T = TypeVar("T")


class OpenQueue(StaysHere):
    """A queue held open. Made by ``QueueManager.open_queue``.

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def handle(self) -> int:
        """Its number; 0 once it was closed."""
        return self._state.number

    @property
    def is_open(self) -> bool:
        """Whether its connection still lives, as far as that can be known without asking."""
        return bool(self.handle) and self._on.check_alive()

    def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out on the connection of the handle (for the classes of this package)."""
        self._state.check(alive=self._on.check_alive())
        return self._manager._run(plan, self._on)

    receive = threads(handles.receive)
    receive_many = threads(handles.receive_many)
    peek = threads(handles.peek)
    peek_many = threads(handles.peek_many)

    def send(
        self, body: Body | Nothing = NOTHING, *, json: object = NOTHING,
        transactional: bool | None = None, **properties: Unpack[SendProperties],
    ) -> MessageId:  # fmt: skip
        """Send one message now; see ``QueueManager.send``."""
        self._state.check_process()
        session = self._state.session
        plan = send(session, self.name, body, json=json, transactional=transactional, **properties)
        return self._manager._run(plan)

    def cursor(self, *, alone: bool = False) -> Cursor:
        """A place in the queue that moves from message to message; see ``onceq.Cursor``.

        Args:
            alone: Close the queue with the cursor.
        """
        return Cursor(self, self._run(receiving.of_handle(self._state)), alone=alone)

    @after_call
    def close(self) -> None:
        """Give the handle back; receives that wait through it end with OperationCancelled."""
        if self._on.alive:
            self._manager._run(handles.close(self._state), self._on)
        self._state.number = 0


class Cursor(StaysHere):
    """A place in a queue. Made by ``OpenQueue.cursor``; ends with the open queue.

    ``IllegalCursorAction``: it has looked at no message yet. ``MessageAlreadyReceived``: the
    message that it stands at is gone; ``peek_next`` goes on.
    """

    def __init__(self, queue: OpenQueue, place: CursorPlace, *, alone: bool) -> None:
        self._queue = queue
        self._manager = queue._manager
        self._state = place
        self._alone = alone

    @classmethod
    def opened(cls, manager: Runner, on: Pinned, place: CursorPlace) -> Self:
        """One that has its queue for itself (for ``QueueManager.cursor``)."""
        return cls(OpenQueue(manager, on, place.handle), place, alone=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out (for the classes of this package)."""
        return self._queue._run(plan)

    peek_current = threads(receiving.peek_current)
    peek_next = threads(receiving.peek_next)
    peek_previous = threads(receiving.peek_previous)
    peek_first = threads(receiving.peek_first)
    peek_last = threads(receiving.peek_last)

    def receive_current(
        self, *, timeout: float | None = None, transaction: Transaction | None = None
    ) -> Message:
        """Take the message that it stands at; the next call is about the one behind it.

        Args:
            transaction: A Transaction of the same queue manager; None: at once and for good.
        """
        if transaction is not None:
            return transaction._run(self._state.taking(transaction._state, timeout))
        return self._run(self._state.looking("current", timeout, peek=False))

    @after_call
    def close(self) -> None:
        """Give it back."""
        with contextlib.suppress(InvalidHandle, HandleLost, WrongProcess):
            self._run(self._state.closing())
        if self._alone:
            self._queue.close()


# ---- manager -------------------------------------------------------------------------------------


class QueueManager(Consuming, ManagerConnection):
    """A queue manager. Made by ``onceq.open`` and ``onceq.connect``; close it,
    or use ``with``."""

    # ---- queues ---------------------------------------------------------------------------

    create_queue = threads(admin.create_queue)
    set_queue = threads(admin.set_queue)
    set_poison_policy = threads(admin.set_poison_policy)
    delete_queue = threads(admin.delete_queue)
    purge = threads(admin.purge)
    open_queue = opening(handles.open_queue, OpenQueue)
    cursor = opening(receiving.cursor, Cursor.opened)

    # ---- messages -------------------------------------------------------------------------

    send = threads(sending.send)
    send_many = threads(sending.send_many)
    send_tracked = following(sending.send_tracked)
    request = threads(retry.request)
    reply = threads(retry.reply)
    receive = threads(receiving.receive)
    receive_many = threads(receiving.receive_many)
    peek = threads(receiving.peek)
    peek_many = threads(receiving.peek_many)
    peek_headers = threads(receiving.peek_headers)
    peek_tops = threads(receiving.peek_tops)
    remove = threads(receiving.remove)
    move = threads(receiving.move)
    outcome = threads(unit_of_work.outcome)
    tracking_queue = threads(sending.tracking_queue)

    def send_current(
        self, destination: str, body: Body | Nothing = NOTHING, *, json: object = NOTHING,
        **properties: Unpack[SendProperties],
    ) -> MessageId | None:  # fmt: skip
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

    def track(self, message: MessageId | str) -> Tracked:
        """Follow a message by its identifier, also one that another program has sent.

        What can be told depends on what it asked for when it was sent: by ``send_tracked``
        everything, else what its outgoing queue and the dead-letter queues say.
        """
        return Tracked(self, MessageTrail(self._state, given(message)))

    # ---- branches -------------------------------------------------------------------------

    branch = work_in
    decision = threads(verbs.decision)

    _xa = Xa

    @property
    def xa(self) -> Xa:
        """The verbs of XA."""
        return self._xa(self)

    @property
    def groups(self) -> Groups:
        """Many branches committed as one, once for each version."""
        return Groups(self)
