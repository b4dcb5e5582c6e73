"""Queue managers for threads: embedded in this process, or connected to a daemon.

Every method may be called from any thread. A call that finds the connection broken connects
again; what was open on the old one is over (transactions abort), and a commit whose answer was
lost says so with ``InDoubt``.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, cast

from onceq.client import plans
from onceq.client.address import parse
from onceq.client.link import Greeting, Request
from onceq.client.plans import ACCESS, SHARE, Body, Plan, Session, Unit
from onceq.client.results import Batch, MessageIds
from onceq.client.why import why
from onceq.errors import InvalidParameter, ReceiveTimeout, ServiceNotAvailable, TransactionOver
from onceq.model.identity import MessageId, guid_text
from onceq.model.message import Message
from onceq.wire.app import frames
from onceq.wire.app.frames import Code

RECONNECT_S = (0.05, 0.2, 0.5, 1.0, 2.0)
"""Waits between attempts to connect again."""


class Link(Protocol):
    """See client/link.py."""

    greeting: Greeting

    @property
    def alive(self) -> bool:
        """Whether requests can be made."""

    def call(self, request: Request) -> object:
        """Ask and wait."""

    def close(self) -> None:
        """Leave."""


def new_session(greeting: Greeting) -> Session:
    """A session that begins now by the manager's clock (``core/outcomes.py``)."""
    identifier = greeting.now_s.to_bytes(4, "little") + os.urandom(12)
    return Session(identifier, source=greeting.id)


class QueueManager:
    """A queue manager. Made by ``onceq.open`` and ``onceq.connect``; close it, or use ``with``."""

    def __init__(self, connect: Callable[[], Link], *, again: bool) -> None:
        self._connect = connect
        self._again = again
        self._lock = threading.Lock()
        self._link: Link | None = connect()
        self._session = new_session(self._link.greeting)
        self._closed = False

    def __enter__(self) -> QueueManager:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<QueueManager {self.name}>"

    @property
    def name(self) -> str:
        """Computer name of the queue manager, as it stands in format names."""
        return self._live().greeting.name

    @property
    def id(self) -> str:
        """Its GUID."""
        return guid_text(self._session.source)

    def close(self) -> None:
        """Leave a daemon; stop an embedded manager in order. Open transactions abort."""
        with self._lock:
            self._closed = True
            if self._link is not None:
                self._link.close()
                self._link = None

    # ---- running plans --------------------------------------------------------------------

    def _live(self) -> Link:
        """The link, connected again if it broke."""
        link = self._link
        if link is not None and link.alive:
            return link
        with self._lock:
            if self._closed:
                raise ServiceNotAvailable("this queue manager was closed")
            if self._link is None or not self._link.alive:
                if not self._again:
                    raise ServiceNotAvailable("the embedded queue manager has stopped")
                self._link = self._reconnect()
            return self._link

    def _reconnect(self) -> Link:
        for wait in RECONNECT_S:
            try:
                return self._connect()
            except ServiceNotAvailable:
                time.sleep(wait)
        return self._connect()

    def _run(self, plan: Plan, link: Link | None = None) -> Any:
        """Carry a plan out."""
        link = link or self._live()
        try:
            request = next(plan)
            while True:
                try:
                    result = link.call(request)
                except Exception as error:  # noqa: BLE001 - a plan sees every error
                    request = plan.throw(error)
                else:
                    request = plan.send(result)
        except StopIteration as stop:
            return stop.value

    # ---- queues ---------------------------------------------------------------------------

    def create_queue(
        self,
        name: str,
        *,
        transactional: bool = False,
        label: str = "",
        quota_kb: int | None = None,
        exist_ok: bool = False,
    ) -> dict[str, Any]:
        """Make a queue; whether it is transactional is settled for ever.

        Args:
            name: Such as ``private$\\orders``.
            quota_kb: Most that it may hold, in KiB; None: no limit.
            exist_ok: A queue of that name and kind may be there already.

        Raises:
            QueueExists, IllegalPathName, IllegalPropertyValue.
        """
        from onceq.client.queues import create_plan

        plan = create_plan(
            name, transactional=transactional, label=label, quota_kb=quota_kb, exist_ok=exist_ok
        )
        return cast(dict[str, Any], self._run(plan))

    def delete_queue(self, name: str) -> int:
        """Delete a queue; returns how many messages went with it. Raises QueueNotFound."""
        self._session.destinations.clear()
        return cast(int, self._run(plans.ask(Code.DELETE, frames.Named(name))))

    def purge(self, name: str) -> int:
        """Remove the messages of a queue, or of an outgoing queue; returns how many."""
        return cast(int, self._run(plans.ask(Code.PURGE, frames.Named(name))))

    def queues(self) -> list[dict[str, Any]]:
        """All queues of this manager, system queues included."""
        return cast(list[dict[str, Any]], self._look("queues"))

    def queue(self, name: str) -> dict[str, Any]:
        """One queue; raises QueueNotFound."""
        return cast(dict[str, Any], self._look("queue", name))

    def open_queue(self, name: str, *, access: str = "receive", share: str = "none") -> OpenQueue:
        """Hold a queue open (MQOpenQueue).

        Args:
            access: "receive", "peek" or "send".
            share: "none", or "deny-receive" to keep others from receiving.

        Raises:
            SharingViolation, UnsupportedAccessMode, QueueNotFound, UnsupportedFormatName.
        """
        if access not in ACCESS or share not in SHARE:
            raise InvalidParameter(f"access {access!r} with share {share!r} does not exist")
        link = self._live()
        head = frames.Open(name, ACCESS[access], SHARE[share])
        opened = self._run(plans.ask(Code.OPEN, head), link)
        return OpenQueue(self, link, name, opened)

    # ---- messages -------------------------------------------------------------------------

    def send(
        self, destination: str, body: Body, *, transactional: bool = False, **properties: Any
    ) -> MessageId:
        """Send one message now.

        Args:
            destination: Format name of one or more elements, or a path name.
            transactional: As a transaction of its own (MQ_SINGLE_MESSAGE); queues that are
                transactional take nothing else.
            properties: label, priority, delivery, journal, acknowledge, correlation_id,
                time_to_reach_queue, ... (``onceq.Properties``).

        Returns:
            Its identifier, once it is durable.
        """
        return self.send_many(destination, [body], transactional=transactional, **properties)[0]

    def send_many(
        self,
        destination: str,
        bodies: Sequence[Body],
        *,
        transactional: bool = False,
        **properties: Any,
    ) -> MessageIds:
        """Send a batch now: all or none if ``transactional``."""
        plan = plans.send_many(
            self._session, destination, bodies, transactional=transactional, values=properties
        )
        return cast(MessageIds, self._run(plan))

    def receive(self, queue: str, *, timeout: float | None = None, lookup_id: int = 0) -> Message:
        """Take one message, at once and for good.

        Args:
            timeout: Seconds to wait for one; None: for ever.

        Raises:
            ReceiveTimeout: There was none in time.
        """
        plan = plans.receive_many(queue, count=1, timeout=timeout, lookup=lookup_id)
        return cast(Message, self._run(plans.one(plan)))

    def receive_many(self, queue: str, max: int = 1000, *, timeout: float | None = None) -> Batch:
        """Take what is there, at least one message and at most ``max``, at once and for good."""
        return cast(Batch, self._run(plans.receive_many(queue, count=max, timeout=timeout)))

    def peek(self, queue: str, *, timeout: float | None = 0.0, lookup_id: int = 0) -> Message:
        """Look at the first message, or at one by its lookup identifier."""
        plan = plans.receive_many(queue, count=1, timeout=timeout, peek=True, lookup=lookup_id)
        return cast(Message, self._run(plans.one(plan)))

    def peek_many(
        self, queue: str, max: int = 1000, *, after: int = 0, timeout: float | None = 0.0
    ) -> Batch:
        """Look at messages behind the lookup identifier ``after``."""
        plan = plans.receive_many(queue, count=max, timeout=timeout, peek=True, after=after)
        return cast(Batch, self._run(plan))

    def messages(
        self, queue: str, *, batch: int = 1000, timeout: float | None = 0.0
    ) -> Iterator[Message]:
        """Receive one after another, in batches, until none comes for ``timeout`` seconds.

        Messages of a batch are gone from the queue when the first of them is handed out; use a
        transaction where that is not good enough.
        """
        while True:
            try:
                found = self.receive_many(queue, batch, timeout=timeout)
            except ReceiveTimeout:
                return
            yield from found

    def transaction(self) -> Transaction:
        """A unit of work: ``with qm.transaction() as tx``. Commits at the end, aborts on an
        exception."""
        return Transaction(self, self._session)

    def outcome(self, transaction: str) -> str:
        """What became of a commit: "committed", "aborted", or "unknown" if it is too long ago.

        The answer is final: once "aborted" was said, that commit can no longer happen.
        """
        return cast(str, self._run(plans.outcome(self._session, transaction)))

    # ---- operating ------------------------------------------------------------------------

    def _look(self, what: str, name: str = "") -> Any:
        return self._run(plans.ask(Code.LOOK, frames.LookHead(what, name)))

    def status(self) -> dict[str, Any]:
        """The manager at a glance."""
        return cast(dict[str, Any], self._look("status"))

    def outgoing(self) -> list[dict[str, Any]]:
        """All outgoing queues."""
        return cast(list[dict[str, Any]], self._look("outgoing"))

    def outgoing_queue(self, destination: str) -> dict[str, Any]:
        """One outgoing queue; raises QueueNotFound."""
        return cast(dict[str, Any], self._look("outgoing-queue", destination))

    def why(self, destination: str) -> str:
        """One sentence: why messages for a destination do or do not move."""
        return why(self.outgoing_queue(destination))

    def streams(self) -> list[dict[str, Any]]:
        """Incoming message streams (EodGetReceiveInfo)."""
        return cast(list[dict[str, Any]], self._look("streams"))

    def transactions(self) -> list[dict[str, Any]]:
        """Transactions that are open on this manager."""
        return cast(list[dict[str, Any]], self._look("transactions"))

    def _steer(self, destination: str, action: str) -> None:
        self._run(plans.ask(Code.STEER, frames.SteerHead(destination, action)))

    def pause(self, destination: str) -> None:
        """Transmit nothing more to a destination; messages gather."""
        self._steer(destination, "pause")

    def resume(self, destination: str) -> None:
        """Transmit again."""
        self._steer(destination, "resume")

    def resend(self, destination: str) -> None:
        """Transmit at once what is not acknowledged, with unchanged numbers (EOD-45)."""
        self._steer(destination, "resend")


class Transaction:
    """A unit of work. Made by ``QueueManager.transaction``.

    Attributes:
        id: Under which the outcome of its commit can be asked for; "" before the commit.
        sent: Identifiers of the messages sent, after the commit.
    """

    def __init__(self, manager: QueueManager, session: Session) -> None:
        self._manager = manager
        self._unit = Unit(session)
        self._link: Link | None = None

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._unit.over:
            return
        if kind is not None:
            self.abort()
            return
        try:
            self.commit()
        except BaseException:
            if not self._unit.over:
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
        link = self._link
        if link is None or (not link.alive and not self._unit.begun):
            link = self._link = self._manager._live()
        if not link.alive and not self._unit.over:
            self._unit.over = "aborted, because the connection was lost"
            raise TransactionOver(f"this transaction is over: it was {self._unit.over}")
        return self._manager._run(plan, link)

    def send(self, destination: str, body: Body, **properties: Any) -> None:
        """Send one message with the commit."""
        self._run(self._unit.send(destination, (body,), properties))

    def send_many(self, destination: str, bodies: Sequence[Body], **properties: Any) -> None:
        """Send several messages with the commit, in this order."""
        self._run(self._unit.send(destination, bodies, properties))

    def receive(self, queue: str, *, timeout: float | None = None) -> Message:
        """Take one message; it goes back to its place if the transaction aborts."""
        return cast(Message, self._run(
            plans.one(self._unit.receive(queue, count=1, timeout=timeout))))  # fmt: skip

    def receive_many(self, queue: str, max: int = 1000, *, timeout: float | None = None) -> Batch:
        """Take at least one message and at most ``max``."""
        return cast(Batch, self._run(self._unit.receive(queue, count=max, timeout=timeout)))

    def remove(self, queue: str, first: int, last: int) -> int:
        """Take the messages between two lookup identifiers without their bytes; how many."""
        return cast(int, self._run(self._unit.remove(queue, first, last)))

    def peek(self, queue: str, **options: Any) -> None:
        """Raises TransactionUsage: peek has no meaning in a transaction."""
        self._unit.peek()

    def commit(self, *, retaining: bool = False) -> MessageIds:
        """Make all of it happen.

        Raises:
            InDoubt: The answer was lost; ask ``outcome`` with ``error.transaction``.
            TransactionOver: It was committed or aborted before.
        """
        return cast(MessageIds, self._run(self._unit.commit(retaining=retaining)))

    def abort(self) -> None:
        """Undo all of it: nothing is sent, what was received goes back."""
        self._run(self._unit.abort())


class OpenQueue:
    """A queue held open. Made by ``QueueManager.open_queue``."""

    def __init__(
        self, manager: QueueManager, link: Link, name: str, opened: frames.OpenedHead
    ) -> None:
        self._manager = manager
        self._link = link
        self.name = name
        self.handle = opened.handle
        self.local = opened.local
        self.transactional = opened.transactional

    def __enter__(self) -> OpenQueue:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def receive(self, *, timeout: float | None = None) -> Message:
        """Take one message."""
        plan = plans.receive_many(self.name, count=1, timeout=timeout, handle=self.handle)
        return cast(Message, self._manager._run(plans.one(plan), self._link))

    def peek(self, *, timeout: float | None = 0.0) -> Message:
        """Look at the first message."""
        plan = plans.receive_many(
            self.name, count=1, timeout=timeout, handle=self.handle, peek=True
        )
        return cast(Message, self._manager._run(plans.one(plan), self._link))

    def send(self, body: Body, **properties: Any) -> MessageId:
        """Send one message."""
        return self._manager.send(self.name, body, **properties)

    def close(self) -> None:
        """Give the handle back."""
        if self.handle:
            handle, self.handle = self.handle, 0
            self._manager._run(plans.ask(Code.CLOSE, frames.Number(handle)), self._link)


def connect(where: str = ".", *, timeout: float = 10.0) -> QueueManager:
    """Connect to a queue manager that runs as a daemon.

    Args:
        where: ``onceq://host:port``, ``unix:///path``, or its data directory.
        timeout: Seconds for connecting.

    Raises:
        ServiceNotAvailable: Nobody answers there.
    """
    from onceq.client.socket_link import SocketLink

    return QueueManager(lambda: SocketLink(parse(where), timeout), again=True)


def open(
    path: str,
    *,
    name: str | None = None,
    create: bool = True,
    listen: str | None = None,
    peers: Mapping[str, str] | None = None,
    settings: Any = None,
) -> QueueManager:
    """Run a queue manager inside this process.

    Args:
        path: Its data directory; made if it is not there and ``create`` is true.
        name: Its computer name when it is made; the computer's by default.
        listen: "host:port" to accept other queue managers at; None: as ``onceq.toml`` says, or
            nowhere.
        peers: Address book: computer name to "host:port", added to that of ``onceq.toml``.
        settings: ``onceq.Settings`` in place of those of ``onceq.toml``.

    Raises:
        StoreLocked: It runs already, in this or another process.
        NotAStore: The directory holds something else, or nothing and ``create`` is false.
    """
    from onceq.client.embedded_link import EmbeddedLink
    from onceq.client.embedding import host

    made = host(path, name=name, create=create, listen=listen, peers=peers, settings=settings)
    return QueueManager(lambda: EmbeddedLink(made), again=False)
