"""Queue managers for threads: embedded in this process, or connected to a daemon.

Every method may be called from any thread. A call that finds the connection broken connects
again; what was open on the old one is over (transactions abort), and a commit whose answer was
lost says so with ``InDoubt``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Literal, cast, overload

from onceq.client import plans
from onceq.client.batches import send_many
from onceq.client.bodies import Body
from onceq.client.branches import Branching
from onceq.client.consuming import Consuming
from onceq.client.current import current
from onceq.client.cursors import Cursor
from onceq.client.link import Link
from onceq.client.operating import Operating
from onceq.client.pause import pause
from onceq.client.plans import Plan
from onceq.client.queues import create_plan, set_plan
from onceq.client.reading import Reading
from onceq.client.recovering import Recovering
from onceq.client.results import MessageIds
from onceq.client.session import Session
from onceq.client.sync_unit import OpenQueue, Transaction
from onceq.client.tracking import Tracked, Tracking, copies, wishes
from onceq.errors import ServiceNotAvailable
from onceq.model.identity import MessageId, guid_text
from onceq.model.views import looks
from onceq.model.views.queues import QueueView
from onceq.packet.batch import Batch
from onceq.wire.app import frames
from onceq.wire.app.frames import Code

RECONNECT_S = (0.05, 0.2, 0.5, 1.0, 2.0)
"""Waits between attempts to connect again."""
REPEATS_MAX = 3
"""How often a request that may be repeated is, when connections break under it."""


class QueueManager(Consuming, Reading, Operating, Tracking, Branching, Recovering):
    """A queue manager. Made by ``onceq.open`` and ``onceq.connect``; close it, or use ``with``."""

    def __init__(self, connect: Callable[[], Link], *, again: bool) -> None:
        """Connect.

        Args:
            again: Whether to connect again when the connection broke.
        """
        self._connect = connect
        self._again = again
        self._lock = threading.Lock()
        self._closed = False
        self._recovery = None
        self._recovery_lock = threading.Lock()
        self._recovery_soon = threading.Event()
        self._link: Link = connect()
        self._session = Session(self._link.greeting)

    def __enter__(self) -> QueueManager:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<QueueManager {self.name}>"

    @property
    def name(self) -> str:
        """Computer name of the queue manager, as it stands in format names."""
        return self._session.name

    @property
    def id(self) -> str:
        """Its GUID."""
        return guid_text(self._session.source)

    def close(self) -> None:
        """Leave a daemon; stop an embedded manager in order. Open transactions abort."""
        self._closed = True
        self._recovery_soon.set()
        self._link.close()

    # ---- running plans --------------------------------------------------------------------

    def live(self) -> Link:
        """The link, connected again if it broke."""
        link = self._link
        if link.look():
            return link
        with self._lock:
            if self._closed:
                raise ServiceNotAvailable("this queue manager was closed")
            if not self._link.alive:
                if not self._again:
                    raise ServiceNotAvailable(
                        "the embedded queue manager has stopped, or the connection was lost"
                    )
                self._link = self._reconnect()
            return self._link

    def _reconnect(self) -> Link:
        waits = iter(RECONNECT_S)
        while True:
            try:
                link = self._connect()
                break
            except ServiceNotAvailable:
                wait = next(waits, None)
                if wait is None or self._closed:
                    raise
                pause(wait)
        try:
            self._session.heard(link.greeting)
        except ServiceNotAvailable:
            link.close()
            raise
        if self._closed:
            link.close()
        return link

    def run(self, plan: Plan, link: Link | None = None) -> Any:
        """Carry a plan out (for the classes of this package).

        Args:
            link: On this connection and no other; None: on any.
        """
        repeats = 0 if link is not None else REPEATS_MAX
        link = link or self.live()
        try:
            request = next(plan)
            while True:
                try:
                    result = link.call(request)
                except ServiceNotAvailable as error:
                    if repeats and request.repeatable(error):
                        repeats -= 1
                        link = self.live()
                    else:
                        request = plan.throw(error)
                except BaseException as error:  # noqa: BLE001 - a plan sees every error
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
        **more: Any,
    ) -> QueueView:
        """Make a queue; whether it is transactional is settled for ever.

        Args:
            name: Such as ``private$\\orders``.
            quota_kb: Most that it may hold, in KiB; None: no limit.
            exist_ok: A queue of that name and kind may be there already.
            more: journal, journal_quota_kb, type, base_priority, authenticate, priv_level, as in
                ``set_queue``.

        Raises:
            QueueExists, IllegalPathName, IllegalPropertyValue.
        """
        plan = create_plan(
            name, transactional=transactional, label=label, quota_kb=quota_kb, exist_ok=exist_ok,
            **more,
        )  # fmt: skip
        made: QueueView = self.run(plan)
        return made

    def set_queue(self, name: str, **values: Any) -> QueueView:
        """Change properties of a queue: all that are named, or none.

        Args:
            values: label, quota_kb, journal, journal_quota_kb, type (a GUID), base_priority,
                authenticate, priv_level (PRP-7). ``transactional`` is settled for ever.

        Returns:
            The queue as it is now.

        Raises:
            PropertyNotAllowed, IllegalPropertyId, IllegalPropertyValue, EncryptionNotSupported,
            AuthenticationNotSupported, MulticastNotSupported, QueueNotFound.
        """
        made: QueueView = self.run(set_plan(name, values))
        return made

    def delete_queue(self, name: str) -> int:
        """Delete a queue; returns how many messages went with it. Raises QueueNotFound."""
        self._session.destinations.clear()
        return cast(int, self.run(plans.ask(Code.DELETE, frames.Named(name))))

    def purge(self, name: str) -> int:
        """Remove the messages of a queue, or of an outgoing queue; returns how many."""
        return cast(int, self.run(plans.ask(Code.PURGE, frames.Named(name))))

    def queues(self) -> list[QueueView]:
        """All queues of this manager, system queues included."""
        return self._look(looks.QUEUES)

    def open_queue(
        self, name: str, *, access: str = "receive", share: str = "none", note: str = ""
    ) -> OpenQueue:
        """Hold a queue open (MQOpenQueue).

        Args:
            access: "receive", "peek", "send" or "move" (messages into it).
            share: "none", or "deny-receive" to keep others from receiving.
            note: Who holds it; those who are refused because of that are told.

        Raises:
            SharingViolation, UnsupportedAccessMode, QueueNotFound, UnsupportedFormatName.
        """
        link = self.live()
        opened = self.run(plans.open_queue(name, access, share, note), link)
        return OpenQueue(self, self._session, link, name, opened)

    def cursor(self, queue: str, *, access: str = "receive") -> Cursor:
        """A cursor of its own: the queue is open as long as the cursor.

        Args:
            access: "receive", or "peek" for one that only looks.
        """
        opened = self.open_queue(queue, access=access)
        try:
            return opened.cursor(alone=True)
        except BaseException:
            opened.close()
            raise

    # ---- messages -------------------------------------------------------------------------

    @overload
    def send(
        self, destination: str, body: Body, *, transactional: bool = False, track: Literal[True],
        **properties: Any,
    ) -> Tracked: ...  # fmt: skip

    @overload
    def send(
        self, destination: str, body: Body, *, transactional: bool = False,
        track: Literal[False] = False, **properties: Any,
    ) -> MessageId: ...  # fmt: skip

    def send(
        self, destination: str, body: Body, *, transactional: bool = False, track: bool = False,
        **properties: Any,
    ) -> MessageId | Tracked:  # fmt: skip
        """Send one message now.

        Args:
            destination: Format name of one or more elements, or a path name.
            transactional: As a transaction of its own (MQ_SINGLE_MESSAGE); queues that are
                transactional take nothing else.
            track: Follow it to its ends: a ``Tracked`` is returned.
            properties: label, priority, delivery, journal, acknowledge, correlation_id,
                time_to_reach_queue, ... (``onceq.Properties``).

        Returns:
            Its identifier, once it is durable.
        """
        if not track:
            return self.send_many(destination, [body], transactional=transactional, **properties)[0]
        properties = wishes(properties, self.tracking_queue())
        names = self.run(copies(destination))
        sent = self.send_many(destination, [body], transactional=transactional, **properties)
        return Tracked(self._session, sent[0], names, self)

    def send_many(
        self,
        destination: str,
        bodies: Iterable[Body],
        *,
        transactional: bool = False,
        **properties: Any,
    ) -> MessageIds:
        """Send a batch now: all or none if ``transactional``."""
        plan = send_many(
            self._session, destination, bodies, transactional=transactional, values=properties
        )
        return cast(MessageIds, self.run(plan))

    def send_current(self, destination: str, body: Body, **properties: Any) -> MessageId | None:
        """Send with the transaction whose ``with`` block this is (MQ_MTS_TRANSACTION).

        Where there is none the message is sent now, and not transactionally: a transactional
        queue refuses it (class 0x800A).

        Returns:
            Its identifier; None if it goes with the transaction's commit.
        """
        tx = current(self)
        if tx is None:
            return cast(MessageId, self.send(destination, body, **properties))
        tx.send(destination, body, **properties)
        return None

    def receive_many(self, queue: str, max: int = 1000, *, timeout: float | None = None) -> Batch:
        """Take what is there, at least one message and at most ``max``, at once and for good."""
        return cast(
            Batch, self.run(plans.receive_many(self._session, queue, count=max, timeout=timeout))
        )

    def peek_many(
        self, queue: str, max: int = 1000, *, after: int = 0, timeout: float | None = 0.0
    ) -> Batch:
        """Look at messages behind the lookup identifier ``after``."""
        plan = plans.receive_many(
            self._session, queue, count=max, timeout=timeout, peek=True, after=after
        )
        return cast(Batch, self.run(plan))

    def transaction(self) -> Transaction:
        """A unit of work: ``with qm.transaction() as tx``. Commits at the end, aborts on an
        exception."""
        return Transaction(self, self._session)

    def outcome(self, transaction: str) -> str:
        """What became of a commit: "committed", "aborted", or "unknown" if it is too long ago.

        The answer is final: once "aborted" was said, that commit can no longer happen.
        """
        return cast(str, self.run(plans.outcome(self._session, transaction)))
