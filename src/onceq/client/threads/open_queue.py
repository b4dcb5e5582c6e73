# Made from client/tasks/open_queue.py by tools/faces.py: edit that, and run `make format`.
"""Open queues and cursors."""

from __future__ import annotations

import contextlib
from typing import Self, TypeVar, Unpack

from onceq.client.binding import threads
from onceq.client.owners import StaysHere, after_call
from onceq.client.plans import cursors, handles
from onceq.client.plans.cursors import Place
from onceq.client.plans.handles import Handle
from onceq.client.plans.plan import Plan
from onceq.client.plans.send import send
from onceq.client.properties import NOTHING, Body, Nothing, SendProperties
from onceq.client.threads.running import Pinned, Runner
from onceq.client.threads.transaction import Transaction
from onceq.errors import HandleLost, InvalidHandle, WrongProcess
from onceq.model.identity import MessageId
from onceq.model.message import Message

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
        return bool(self.handle) and self._on.look()

    def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out on the connection of the handle (for the classes of this package)."""
        self._state.check(alive=self._on.look())
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
        return Cursor(self, self._run(cursors.of_handle(self._state)), alone=alone)

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

    def __init__(self, queue: OpenQueue, place: Place, *, alone: bool) -> None:
        self._queue = queue
        self._manager = queue._manager
        self._state = place
        self._alone = alone

    @classmethod
    def opened(cls, manager: Runner, on: Pinned, place: Place) -> Self:
        """One that has its queue for itself (for ``QueueManager.cursor``)."""
        return cls(OpenQueue(manager, on, place.handle), place, alone=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _run(self, plan: Plan[T]) -> T:
        """Carry a plan out (for the classes of this package)."""
        return self._queue._run(plan)

    peek_current = threads(cursors.peek_current)
    peek_next = threads(cursors.peek_next)
    peek_previous = threads(cursors.peek_previous)
    peek_first = threads(cursors.peek_first)
    peek_last = threads(cursors.peek_last)

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
