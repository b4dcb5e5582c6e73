"""A unit of work from the application's side.

What a transaction sends is gathered here and goes along with its commit, in one frame where it
fits; a large one is shipped ahead in parts. The queue manager refuses a frame entirely or takes
it entirely, so a call that fails has added nothing. If something is refused that an earlier call
had accepted, or only part of a call could be taken back, the whole transaction aborts: it never
commits without a message that it was given.

Upholds: I2 (all or none), I3a (a commit in doubt has a name).
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from onceq.client.bodies import Bodies, parts, run_of
from onceq.client.link import Request
from onceq.client.plans import outcome
from onceq.client.plans.ahead import NOTHING, Ahead, holding
from onceq.client.plans.handles import know_destination
from onceq.client.plans.plan import DONE, Plan, ask, do, tell
from onceq.client.plans.selection import FIRST, Which, chosen, moved, some
from onceq.client.plans.send_buffer import Gathered, named, offered
from onceq.client.plans.sender_transaction import SenderTransaction, receive_transaction
from onceq.client.properties import BARE_BYTES, parted, weight
from onceq.client.results import MessageIds
from onceq.client.session import Session
from onceq.errors import (
    InDoubt,
    InvalidParameter,
    NotSupported,
    OnceqError,
    SendFailed,
    ServiceNotAvailable,
    TransactionLost,
    TransactionOver,
)
from onceq.model import requests
from onceq.model.doom import dooms, send_failed
from onceq.model.identity import TransactionId
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.message import PLAIN, Message
from onceq.model.requests import SendItem
from onceq.model.results import Sent
from onceq.model.run import Run, largest_of
from onceq.packet.batch import Batch

T = TypeVar("T")
BatchT = TypeVar("BatchT", bound=Batch)
FLUSH_BYTES: Final = 4 << 20
"""Bodies of a transaction gathered here before they are shipped ahead of its commit."""
FLUSH_MESSAGES: Final = 100_000
HEADERS_BYTES: Final = 4_096
"""A body nearer than this to the largest packet is shown to the manager at once."""
LOST: Final = "aborted, because the connection was lost"
INTERRUPTED: Final = "aborted, because a receive in it was given up while it waited"


class Unit:
    """One unit of work.

    Attributes:
        begun: Whether the manager knows of it.
        number: Under which it does; 0 before that.
        over: "" while it is open; else what became of it.
        doomed: The send that was refused, if one was: it can only be aborted.
        id: Of its commit, once that was tried.
        sent: Identifiers of its messages, after the commit.
        ahead: Its first receive, if that went out with the commit before it.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.number = 0
        self.begun = False
        self.over = ""
        self.doomed: SendFailed | None = None
        self.id: TransactionId | None = None
        self.sent: MessageIds | None = None
        self.ahead: Ahead | None = None
        self._from: dict[str, list[array[int]]] = {}
        self._items: list[Gathered] = []
        self._bytes = 0
        self._messages = 0
        self._worked = False
        self.total = 0
        """Messages added to it so far."""

    @property
    def decided(self) -> bool:
        """Whether its commit has happened, or may have."""
        return self.over == "committed" or self.over.startswith("in doubt")

    # ---- its state ------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raises TransactionOver if it is not; TransactionLost if its manager has undone it."""
        if self.over == LOST:
            raise self.lost()
        if self.over:
            raise TransactionOver(f"this transaction is over: it was {self.over}")

    def check_sound(self) -> None:
        """The same; raises SendFailed if there is nothing left but to abort it."""
        self.check_open()
        if self.doomed is not None:
            raise self.doomed

    def _refused(self, destination: str, error: OnceqError) -> SendFailed:
        """A send was refused, and its transaction with it; the manager says the same."""
        self.doomed = send_failed(destination, error)
        return self.doomed

    def lost(self) -> TransactionLost:
        """Its connection is gone, and with it whatever it had done."""
        self.over = LOST
        return TransactionLost(f"this transaction is over: it was {self.over}; do it again")

    def begin(self) -> Plan[None]:
        """Let the manager know of it."""
        if not self.begun:
            self.number = self.session.next_transaction()
            # It goes out with the first request that needs it, in one write.
            yield from tell(requests.Begin(self.number), lazy=True)
            self.begun = True

    def guard(self, plan: Plan[T]) -> Plan[T]:
        """A lost connection ends what was begun on it."""
        try:
            return (yield from plan)
        except ServiceNotAvailable as error:
            if self.begun and self.over != LOST:
                raise self.lost() from error
            raise

    @property
    def idle(self) -> bool:
        """Whether it has sent and received nothing."""
        return not (self.total or self._from or self._worked)

    def _undo(self) -> Plan[None]:
        """Abort it at the manager; whoever asked hears of what led to it, not of this."""
        if self.begun:
            with contextlib.suppress(OnceqError):
                yield from tell(requests.Abort(self.number))

    # ---- sending --------------------------------------------------------------------------

    def send(self, destination: str, bodies: Bodies, properties: Mapping[str, Any]) -> Plan[None]:
        """Add messages. If this raises none was added, and if not because of the call itself
        (a wrong name or property) the transaction is doomed: its commit says so (S0).

        Returns:
            What is still to do; DONE if nothing had to be asked of the manager.
        """
        if self.over or self.doomed is not None:
            self.check_sound()
        if not isinstance(destination, str):
            raise InvalidParameter(f"a destination is a name, not {destination!r}")
        run = run_of(bodies)
        count = len(run.lengths)
        own: Run | None = None
        values: dict[str, Any] = {}
        size = len(run.data) + BARE_BYTES
        if properties:
            values, own = parted(properties, count)
            size += weight(values, own)
        if (
            not count
            # Its send may be refused for its size: that is to be said by this call, not by the
            # commit.
            or size > PACKET_BYTES_MAX - HEADERS_BYTES
            or self._bytes + size > FLUSH_BYTES
            or self._messages + count > FLUSH_MESSAGES
            or destination not in self.session.destinations
        ):
            return self.add(destination, run, values, own, size)
        self._gather(destination, values, run, own, size)
        return DONE

    def add(
        self, destination: str, run: Run, values: dict[str, Any], own: Run | None, size: int
    ) -> Plan[None]:
        """The same, with everything checked."""
        yield from self.guard(know_destination(self.session, destination))
        full = self._bytes + size > FLUSH_BYTES or self._messages + len(run) > FLUSH_MESSAGES
        large = largest_of(run.lengths) > PACKET_BYTES_MAX - HEADERS_BYTES
        if self._items and (full or large):
            yield from self._ship()
        if large or size > FLUSH_BYTES or len(run) > FLUSH_MESSAGES:
            yield from self._ship_apart(destination, values, run, own)
        elif len(run):
            self._gather(destination, values, run, own, size)

    def add_apart(
        self, destination: str, run: Run, values: dict[str, Any], own: Run | None
    ) -> Plan[None]:
        """Add messages to a unit in which nothing is gathered, and ship them at once."""
        yield from self.guard(know_destination(self.session, destination))
        yield from self._ship_apart(destination, values, run, own)

    def _gather(
        self, destination: str, values: dict[str, Any], run: Run, own: Run | None, size: int
    ) -> None:
        second = int(self.session.clock())
        self._bytes += size
        self._messages += len(run.lengths)
        self.total += len(run.lengths)
        if self._items and self._items[-1].took(destination, values, second, run, own):
            return
        self._items.append(Gathered(destination, PLAIN, run, 0, own, values, second))

    def _ship(self) -> Plan[None]:
        """Send ahead what was gathered. These calls have succeeded, so that whatever is wrong with
        one of them dooms the transaction."""
        items = offered(self._items, self.session.clock)
        yield from self.begin()
        try:
            yield from self._sending(items)
        except (TransactionOver, SendFailed, ServiceNotAvailable):
            raise
        except OnceqError as error:
            doomed = self._refused(named(items), error)
            if dooms(error):
                raise doomed from error
            raise
        self._items, self._bytes, self._messages = [], 0, 0

    def _ship_apart(
        self, destination: str, values: dict[str, Any], run: Run, own: Run | None
    ) -> Plan[None]:
        """Send ahead the messages of one call, in as many frames as they need."""
        yield from self.begin()
        for index, (part, heads) in enumerate(parts(run, own)):
            item = SendItem(destination, PLAIN, part, own=heads, values=values)
            try:
                yield from self._sending([item])
            except (TransactionOver, SendFailed, ServiceNotAvailable):
                raise
            except OnceqError as error:
                if index or dooms(error):  # A part of the call was taken, or could be no more.
                    self._refused(destination, error)
                raise
            self.total += len(part)

    def _sending(self, items: Sequence[SendItem]) -> Plan[None]:
        """One frame of sends; interrupted, it leaves the transaction without nobody knows what."""
        try:
            yield from self.guard(do(requests.Send(self.number, items)))
        except (OnceqError, GeneratorExit):
            raise
        except BaseException:
            self.over = "aborted, because a send in it was given up while it waited"
            yield from self._undo()
            raise

    # ---- receiving ------------------------------------------------------------------------

    def receive(
        self, queue: str, *, count: int, timeout: float | None, handle: int = 0,
        wanted: Which = FIRST, cursor: int = 0,
    ) -> Plan[Batch]:  # fmt: skip
        """Take messages; they go back if the transaction aborts.

        A receive that is interrupted (a cancelled task) aborts the transaction: it may have taken
        messages that nobody has seen, and a commit would remove them.
        """
        self.check_sound()
        yield from self.begin()
        if count == 1:
            asked = chosen(
                self.session, queue, wanted, timeout=timeout, transaction=self.number,
                handle=handle, cursor=cursor,
            )  # fmt: skip
        else:
            asked = some(
                self.session, queue, count=count, timeout=timeout, transaction=self.number,
                handle=handle,
            )  # fmt: skip
        return (yield from self._holding(queue, asked))

    def hold(self, queue: str, *, count: int, timeout: float | None, at: int = 0) -> Plan[Batch]:
        """Take messages, also from a queue that is not transactional; or what was asked ahead."""
        self.check_sound()
        ahead, self.ahead = self.ahead, None
        if ahead is not None:
            return (yield from self._holding(queue, ahead.answer()))
        yield from self.begin()
        asked = holding(self.session, queue, self.number, count=count, timeout=timeout, lookup=at)
        return (yield from self._holding(queue, asked))

    def receive_transaction(
        self, queue: str, *, timeout: float | None, deadline: float | None, incomplete: str
    ) -> Plan[SenderTransaction]:
        """Take all messages of one transaction of a sender."""
        self.check_sound()
        yield from self.begin()
        asked = receive_transaction(
            self.session, queue, self.number, timeout=timeout, deadline=deadline,
            incomplete=incomplete,
        )  # fmt: skip
        return (yield from self._holding(queue, asked))

    def _holding(self, queue: str, asked: Plan[BatchT]) -> Plan[BatchT]:
        """A receive, and a note of what it took from where."""
        try:
            batch = yield from self.guard(asked)
            self._from.setdefault(queue, []).append(batch.lookup_ids)
            return batch
        except (OnceqError, GeneratorExit):
            raise
        except BaseException:
            self.over = INTERRUPTED
            yield from self._undo()
            raise

    def reject(self, message: Message, queue: str | None) -> Plan[None]:
        """Refuse a message that was received here."""
        self.check_sound()
        name = self._queue_of(message.lookup_id) if queue is None else queue
        yield from self.begin()
        request = requests.Reject(name, self.number, [message.lookup_id], False)
        yield from self.guard(do(request))

    def move(self, message: Message | int, to: str, queue: str | None) -> Plan[None]:
        """Move a message with the commit."""
        self.check_sound()
        lookup = message if isinstance(message, int) else message.lookup_id
        name = self._queue_of(lookup) if queue is None else queue
        self._worked = True
        yield from self.begin()
        yield from self.guard(moved(name, lookup, to, transaction=self.number))

    def _queue_of(self, lookup: int) -> str:
        """Where this transaction has received a message from."""
        if len(self._from) == 1:
            return next(iter(self._from))
        names = [name for name, ids in self._from.items() if any(lookup in part for part in ids)]
        if len(names) != 1:
            raise InvalidParameter(
                "say in which queue it is: this transaction has received no message with that "
                "lookup identifier" + (", or several of different queues" if names else "")
            )
        return names[0]

    def remove(self, request: requests.Remove | requests.TakeRead) -> Plan[int]:
        """Take a range that was peeked before, without its bytes; the request gets its number."""
        self.check_sound()
        self._worked = True
        yield from self.begin()
        request.transaction = self.number
        return (yield from self.guard(ask(request, int)))

    # ---- the end --------------------------------------------------------------------------

    def commit(self, *, retaining: bool = False, ahead: Ahead = NOTHING) -> Plan[MessageIds]:
        """Make all of it happen, and ask for what comes next in the same round trip.

        Raises:
            SendFailed: A send was refused, here or before; the transaction was undone.
        """
        if self.over:
            self.check_open()
        if retaining:
            raise NotSupported("an internal transaction cannot be retained")
        if self.doomed is not None:
            yield from self._end_doomed()
        # Before it is asked: whatever becomes of the answer, its outcome can be asked for.
        self.id = self.session.next_commit()
        items = offered(self._items, self.session.clock)
        try:
            commit = requests.Commit(self.number, items, self.id, ahead.number)
            sent: Sent = yield Request(commit, behind=ahead.request)
        except OnceqError as error:
            yield from self._not_committed(items, self.id, error)
            raise
        except GeneratorExit:
            raise
        except BaseException:
            self.over = "in doubt, because its commit was given up while it waited"
            yield from ahead.give_up()
            raise
        self.session.used = self.session.clock()
        self.over = "committed"
        self._items = []
        ahead.committed()
        self.sent = MessageIds(self.session.source, sent.first_message, sent.messages)
        return self.sent

    def _not_committed(
        self, items: Sequence[SendItem], id: TransactionId, error: OnceqError
    ) -> Plan[None]:
        """What follows from the answer to a commit; the error itself is raised by the caller.

        Raises:
            InDoubt: There was no answer.
            TransactionLost: It was never asked, and what had been done before is undone.
            OnceqError: As ``_end_refused``.
        """
        if isinstance(error, (InDoubt, *outcome.UNANSWERED)):
            self.over = "in doubt"
        outcome.not_committed(self.session, id, error)
        if isinstance(error, ServiceNotAvailable):
            if self.begun:
                raise self.lost() from error
        elif not isinstance(error, (InDoubt, TransactionOver)):
            yield from self._end_refused(items, error)

    def _end_refused(self, items: Sequence[SendItem], error: OnceqError) -> Plan[None]:
        """The end was refused: if because of a send in it, abort it and say so.

        What came along were sends whose calls had succeeded, so that it does not matter what is
        wrong with them. Of what the manager knows (``begun``) it says itself what has doomed it;
        any other limit is none of a send's.

        Raises:
            OnceqError: SendFailed, or the send's own mistake.
        """
        if isinstance(error, SendFailed):
            self.doomed = error
        elif items and not (self.begun and dooms(error)):
            self._refused(named(items), error)
        if self.doomed is not None:
            yield from self._end_doomed(error)

    def _end_doomed(self, error: OnceqError | None = None) -> Plan[None]:
        """Abort it, and raise why."""
        assert self.doomed is not None
        self.over = "aborted, because a send in it was refused"
        self._items = []
        yield from self._undo()
        if error is None or dooms(error):
            raise self.doomed from error
        raise error

    def drop(self) -> None:
        """Undo all of it, where the manager knows nothing of it or cannot be told."""
        self.check_open()
        self.over = "aborted"
        self._items = []

    def abort(self) -> Plan[None]:
        """Undo all of it."""
        self.drop()
        if self.begun:
            with contextlib.suppress(OnceqError):  # Then it is gone already.
                yield from do(requests.Abort(self.number))
