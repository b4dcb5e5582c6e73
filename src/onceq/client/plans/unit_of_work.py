"""A unit of work from the application's side: what it receives, and how it ends.

What it sends is gathered in ``sending_unit``, and goes along with its commit.

Upholds: I2 (all or none), I3a (a commit in doubt has a name).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final, TypeVar

from onceq.client.link import Request
from onceq.client.plans import outcome
from onceq.client.plans.ahead import NOTHING, Ahead, holding
from onceq.client.plans.plan import Plan, ask, do, within
from onceq.client.plans.selection import FIRST, Which, chosen, moved, some
from onceq.client.plans.send_buffer import named, offered
from onceq.client.plans.sender_transaction import SenderTransaction, receive_transaction
from onceq.client.plans.sending_unit import ENDING, SendingUnit
from onceq.client.results import MessageIds
from onceq.errors import (
    InDoubt,
    NotSupported,
    OnceqError,
    RolledBackByTime,
    SendFailed,
    ServiceNotAvailable,
    TransactionOver,
)
from onceq.model import requests
from onceq.model.doom import dooms
from onceq.model.identity import TransactionId
from onceq.model.message import Message
from onceq.model.requests import SendItem
from onceq.model.results import Sent
from onceq.packet.batch import Batch

BatchT = TypeVar("BatchT", bound=Batch)
INTERRUPTED: Final = "aborted, because a receive in it was given up while it waited"


class Unit(SendingUnit):
    """One unit of work; its attributes are those of ``SendingUnit``."""

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

    def hold(
        self, queue: str, *, count: int, timeout: float | None, at: int = 0, wanted: Which = FIRST
    ) -> Plan[Batch]:
        """Take messages, or the one that is wanted, also from a queue that is not transactional; or
        what was asked ahead."""
        self.check_sound()
        ahead, self.ahead = self.ahead, None
        if ahead is not None:
            return (yield from self._holding(queue, ahead.answer()))
        yield from self.begin()
        if wanted is FIRST:
            asked = holding(
                self.session, queue, self.number, count=count, timeout=timeout, lookup=at
            )
        else:
            asked = chosen(
                self.session, queue, wanted, timeout=timeout, transaction=self.number, hold=True
            )
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
        until = None if timeout is None else self.session.clock() + timeout
        return (yield from self._holding(queue, within(asked, until)))

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

    def reject(self, message: Message, why: str, queue: str | None) -> Plan[None]:
        """Refuse a message that was received here."""
        self.check_sound()
        name = self._from.queue_of(message.lookup_id) if queue is None else queue
        yield from self.begin()
        request = requests.Reject(name, self.number, [message.lookup_id], False, why)
        yield from self.guard(do(request))

    def move(self, message: Message | int, to: str, queue: str | None) -> Plan[None]:
        """Move a message with the commit."""
        self.check_sound()
        lookup = message if isinstance(message, int) else message.lookup_id
        name = self._from.queue_of(lookup) if queue is None else queue
        self._worked = True
        yield from self.begin()
        yield from self.guard(moved(name, lookup, to, transaction=self.number))

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
        if self.over or self.life is not self.session.life:
            self.check_open()
        if self.owed:
            self.check_awaited()
        if retaining:
            raise NotSupported("an internal transaction cannot be retained")
        if self.doomed is not None:
            yield from self._end_doomed()
        # Before it is asked: whatever becomes of the answer, its outcome can be asked for.
        self.id = self.session.next_commit()
        self.over = ENDING  # What comes meanwhile, from whichever thread, would not go along.
        items = offered(self._items, self.session.clock)
        try:
            commit = requests.Commit(self.number, items, self.id, ahead.number)
            sent: Sent = yield Request(commit, behind=ahead.request)
        except OnceqError as error:
            self.over = ""
            yield from self._not_committed(items, self.id, error)
            raise
        except BaseException as error:
            self.over = "in doubt, because its commit was given up while it waited"
            if not isinstance(error, GeneratorExit):  # Then nothing can be asked any more.
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
            WrongProcess: The answer is the parent's.
            OnceqError: As ``_end_refused``.
        """
        self.check_process()
        if isinstance(error, (InDoubt, *outcome.UNANSWERED)):
            self.over = "in doubt"
        outcome.not_committed(self.session, id, error)
        if isinstance(error, ServiceNotAvailable):
            if self.begun:
                raise self.lost() from error
        elif isinstance(error, RolledBackByTime):
            self.over = "aborted, because nothing had happened in it for too long"
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

    def abort(self, why: str = "") -> Plan[None]:
        """Undo all of it; see ``transaction.abort``."""
        self.drop()
        if self.begun:
            with contextlib.suppress(OnceqError):  # Then it is gone already.
                yield from do(self._abort(why))
