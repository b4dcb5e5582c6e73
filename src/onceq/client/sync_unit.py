"""Transactions and open queues for threads; made by ``QueueManager``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from onceq.client import plans
from onceq.client.bodies import Body
from onceq.client.branch_unit import Deciding
from onceq.client.choosing import chosen, which
from onceq.client.current import Chain, entered, left
from onceq.client.cursors import Cursor
from onceq.client.enlisting import Partners, carry_out
from onceq.client.link import Link
from onceq.client.plans import Plan
from onceq.client.reading import Taking
from onceq.client.results import MessageIds
from onceq.client.session import Session
from onceq.client.tracking import Tracked, copies, wishes
from onceq.client.unit import Unit
from onceq.errors import HandleLost, InvalidHandle, OnceqError, RolledBack, ServiceNotAvailable
from onceq.model.identity import MessageId
from onceq.model.message import Message
from onceq.model.results import Opened
from onceq.packet.batch import Batch
from onceq.partners.deciding import What, committing
from onceq.wire.app import frames
from onceq.wire.app.frames import Code

if TYPE_CHECKING:
    from onceq.client.sync import QueueManager


class Transaction(Taking):
    """A unit of work. Made by ``QueueManager.transaction``.

    Attributes:
        id: Under which the outcome of its commit can be asked for; "" before the commit.
        sent: Identifiers of the messages sent, after the commit.
        pending: After the commit: partners that have not carried it out yet, because they could
            not be reached; recovery will see to that.
    """

    def __init__(self, manager: QueueManager, session: Session) -> None:
        self._manager = manager
        self._unit = Unit(session)
        self._link: Link | None = None
        self._around: Chain = None
        self._deciding = Deciding(self._unit)
        self._partners = Partners()
        self.pending: list[str] = []

    def __enter__(self) -> Transaction:
        self._around = entered(self, self._manager, self._unit)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left(self._around)
        if self._unit.over:
            if not self._unit.decided:
                self._partners.rollback()
            return
        if kind is not None:
            with contextlib.suppress(OnceqError):  # The exception of the block is the news.
                self.abort()
            return
        try:
            self.commit()
        except BaseException:
            if not self._unit.over:
                with contextlib.suppress(OnceqError):
                    self.abort()
            raise

    @property
    def id(self) -> str:
        """See the class."""
        return str(self._unit.id) if self._unit.id is not None else ""

    @property
    def sent(self) -> MessageIds | None:
        """See the class."""
        return self._unit.sent

    def _run(self, plan: Plan) -> Any:
        """Carry a plan out, always on the connection that the transaction was begun on."""
        self._unit.check_open()
        if self._link is None or not self._unit.begun:
            self._link = self._manager.live()
        elif not self._link.look():
            raise self._unit.lost()
        return self._manager.run(plan, self._link)

    @overload
    def send(
        self, destination: str, body: Body, *, track: Literal[True], **properties: Any
    ) -> Tracked: ...

    @overload
    def send(
        self, destination: str, body: Body, *, track: Literal[False] = False, **properties: Any
    ) -> None: ...

    def send(
        self, destination: str, body: Body, *, track: bool = False, **properties: Any
    ) -> Tracked | None:
        """Send one message with the commit.

        Args:
            track: Follow it to its ends, from the commit on: a ``Tracked`` is returned.
        """
        if not track:
            self._send(destination, (body,), properties)
            return None
        manager, unit = self._manager, self._unit
        unit.check_open()
        properties = wishes(properties, manager.tracking_queue())
        names = manager.run(copies(destination))
        index = unit.total
        self._send(destination, (body,), properties)
        made = Tracked.within(unit.session, unit, index, names)
        made.manager = manager
        return cast(Tracked, made)

    def send_many(self, destination: str, bodies: Iterable[Body], **properties: Any) -> None:
        """Send several messages with the commit, in this order."""
        self._send(destination, bodies, properties)

    def _send(self, destination: str, bodies: Iterable[Body], values: dict[str, Any]) -> None:
        """Gather them; ask the manager only if something must be asked, and on its connection."""
        unit = self._unit
        if unit.begun and self._link is not None and not self._link.look():
            unit.check_open()
            raise unit.lost()
        more = unit.offer(destination, bodies, values)
        if more is not None:
            self._run(more)

    def _hold(self, queue: str, max: int, *, timeout: float | None) -> Batch:
        """Take from a queue of whatever kind, for loops that work one off (for the classes of
        this package and the command line)."""
        return cast(Batch, self._run(self._unit.hold(queue, count=max, timeout=timeout)))

    def receive_many(self, queue: str, max: int = 1000, *, timeout: float | None = None) -> Batch:
        """Take at least one message and at most ``max``."""
        return cast(Batch, self._run(self._unit.receive(queue, count=max, timeout=timeout)))

    def remove(self, queue: str, first: int, last: int) -> int:
        """Take the messages between two lookup identifiers without their bytes; how many."""
        return cast(int, self._run(self._unit.remove(queue, first, last)))

    def peek(self, queue: str, **options: Any) -> None:
        """Raises TransactionUsage: peek has no meaning in a transaction."""
        self._unit.peek()

    def enlist(self, connection: Any) -> Any:
        """Let a database, or another queue manager, commit with this transaction or not at all.

        What is done on the connection from now on belongs to the transaction; do not commit or
        roll back there.

        Args:
            connection: Of psycopg 3, PyMySQL or SQLAlchemy; a ``QueueManager``; or a partner of
                your own (docs/reference/partners.md).

        Returns:
            For another queue manager: a ``Branch``, in which to send and receive there. Else the
            connection.

        Raises:
            TwoPhaseForbidden: The server does not allow it; the text says which line to change.
            EnlistRefused: It cannot take part; the text says why.
            NoCoordinator: This manager takes no part in external transactions.
        """
        partner = self._manager.partner_for(connection)
        self._unit.check_open()
        partner.check()
        xid = self._run(self._deciding.enlist(partner.name))
        partner.begin(xid)
        self._partners.add(partner, xid)
        self._manager.look_after(partner)
        return getattr(partner, "work", connection)

    def commit(self, *, retaining: bool = False) -> MessageIds:
        """Make all of it happen, here and at every partner.

        Raises:
            InDoubt: The answer was lost; ask ``outcome`` with ``error.transaction``. Partners stay
                prepared; recovery tells them the outcome.
            RolledBack: A partner could not commit, and everything was undone.
            TransactionOver: It was committed or aborted before.
        """
        if not len(self._partners):
            return cast(MessageIds, self._run(self._unit.commit(retaining=retaining)))
        self._unit.check_open()
        if self._unit.doomed is not None:
            self._partners.rollback()
            return cast(MessageIds, self._run(self._unit.commit()))
        steps = committing(len(self._partners), idle=self._unit.idle)
        try:
            made = carry_out(steps, self._partners, self._home)
        except RolledBack:
            self._partners.open = False
            if not self._unit.over:
                self.abort()
            raise
        except BaseException:
            if self._unit.decided or self._unit.idle:
                self._partners.open = False
                self._partners.abandon()
            raise
        self._partners.open = False
        if made.result is None:
            self.abort()
            return MessageIds(self._unit.session.source)
        self.pending = self._partners.names(made.pending)
        if self.pending:
            self._partners.abandon(index for index, _ in made.pending)
            self._manager.recover_soon()
        return cast(MessageIds, made.result)

    def _home(self, what: What) -> Any:
        if what is What.DECIDE:
            return self._run(self._unit.commit())
        with contextlib.suppress(OnceqError):  # It is decided; recovery finds out.
            self._manager.run(self._deciding.told(what.value))
        return None

    def abort(self) -> None:
        """Undo all of it: nothing is sent, what was received goes back, partners roll back."""
        self._partners.rollback()
        if self._unit.begun and self._link is not None and self._link.alive:
            self._manager.run(self._unit.abort(), self._link)
        else:
            self._unit.drop()


class OpenQueue:
    """A queue held open. Made by ``QueueManager.open_queue``."""

    def __init__(
        self,
        manager: QueueManager,
        session: Session,
        link: Link,
        name: str,
        opened: Opened,
    ) -> None:
        self._manager = manager
        self._session = session
        self._link = link
        self.name = name
        self.handle = opened.handle
        self.local = opened.local
        self.transactional = opened.transactional
        self.places = tuple(opened.places)
        """Opened to send: which queues the name leads to; order is kept between names that have
        one in common. Numbers of the queue manager's."""
        self.turn = opened.turn
        """How many have opened it so that others cannot receive, this one included."""

    def __enter__(self) -> OpenQueue:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether its connection still lives, as far as that can be known without asking."""
        return bool(self.handle) and self._link.look()

    def run(self, plan: Plan) -> Any:
        """Carry a plan out on the connection of the handle (for the classes of this package)."""
        if self.handle and not self._link.look():
            raise HandleLost(
                f"queue {self.name} was open on a connection that is lost; open it again"
            )
        if not self.handle:
            raise InvalidHandle(f"queue {self.name} is not open: it was closed")
        return self._manager.run(plan, self._link)

    def _asking(self, count: int, timeout: float | None, *, peek: bool, after: int = 0) -> Plan:
        return plans.receive_many(
            self._session, self.name, count=count, timeout=timeout, handle=self.handle, peek=peek,
            after=after,
        )  # fmt: skip

    def receive(self, *, timeout: float | None = None, **choice: Any) -> Message:
        """Take one message, at once and for good; chosen as in ``QueueManager.receive``."""
        plan = chosen(
            self._session, self.name, which(**choice), timeout=timeout, handle=self.handle
        )
        return cast(Message, self.run(plans.one(plan)))

    def receive_many(self, max: int = 1000, *, timeout: float | None = None) -> Batch:
        """Take at least one message and at most ``max``, at once and for good."""
        return cast(Batch, self.run(self._asking(max, timeout, peek=False)))

    def peek(self, *, timeout: float | None = 0.0, **choice: Any) -> Message:
        """Look at one message."""
        plan = chosen(
            self._session, self.name, which(**choice), timeout=timeout, handle=self.handle,
            peek=True,
        )  # fmt: skip
        return cast(Message, self.run(plans.one(plan)))

    def peek_many(self, max: int = 1000, *, after: int = 0, timeout: float | None = 0.0) -> Batch:
        """Look at messages behind the lookup identifier ``after``."""
        return cast(Batch, self.run(self._asking(max, timeout, peek=True, after=after)))

    def send(self, body: Body, *, transactional: bool = False, **properties: Any) -> MessageId:
        """Send one message now."""
        made = self._manager.send(self.name, body, transactional=transactional, **properties)
        return cast(MessageId, made)

    def cursor(self, *, alone: bool = False) -> Cursor:
        """A place in the queue that moves from message to message; see ``onceq.Cursor``.

        Args:
            alone: Close the queue with the cursor.
        """
        number = self.run(plans.ask(Code.CURSOR, frames.Number(self.handle)))
        return Cursor(self, self._session, cast(int, number), alone=alone)

    def close(self) -> None:
        """Give the handle back; receives that wait through it end with OperationCancelled."""
        handle, self.handle = self.handle, 0
        if handle and self._link.alive:
            with contextlib.suppress(ServiceNotAvailable):
                self._manager.run(plans.ask(Code.CLOSE, frames.Number(handle)), self._link)
