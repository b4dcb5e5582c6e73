"""A unit of work from the application's side: what it receives, and how it ends.

What it sends is gathered in ``sending_unit``, and goes along with its commit.

A whole transaction of a sender can be received, or nothing of it (SND-17, PIPE-6). Its messages
enter a queue one by one, and some may never come: each can expire or be refused for itself. What
they say of themselves decides when all are there (``packet/survey.py``). The queue is
surveyed by small records, not by its messages; then the members are claimed, all or none, in the
reader's transaction, and only then fetched.

Upholds: I2 (all or none), I3a (a commit in doubt has a name).
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Sequence
from typing import Final, TypeVar

from onceq import errors
from onceq.client.link import LinkRequest, Session
from onceq.client.plans.plan import Plan, ask, do, within
from onceq.client.plans.selection import FIRST, Which, chosen, moved, some, wait_ms
from onceq.client.plans.sending_unit import (
    ENDING,
    NOTHING,
    PipelinedReceive,
    SendingUnit,
    holding,
    named,
    offered,
)
from onceq.client.results import MessageIds
from onceq.model import requests
from onceq.model.identity import TransactionId
from onceq.model.limits import RECEIVE_BYTES, RECEIVE_MESSAGES_MAX
from onceq.model.message import Message
from onceq.model.record import MutableRecord
from onceq.model.requests import PickBy, SendItem
from onceq.model.results import Outcome, Sent, dooms
from onceq.model.run import LENGTH_TYPE, Run
from onceq.packet.arrived import Batch
from onceq.packet.survey import Members, MessageOrigin, Survey

UNANSWERED: Final = (errors.LinkLost, errors.StorageFailure)
"""Errors after which nobody knows whether a request was carried out."""


def not_committed(session: Session, id: TransactionId, error: errors.OnceqError) -> None:
    """A commit has ended with an error, which the caller raises if this does not.

    Raises:
        InDoubt: Its answer was lost: says under which identifier to ask.
    """
    if isinstance(error, UNANSWERED):
        raise errors.InDoubt(
            f"the answer to the commit was lost ({error.text}); ask outcome({str(id)!r}), and "
            "send again only if it says aborted",
            transaction=str(id),
        ) from error
    if isinstance(error, errors.TransactionOver):
        session.renumber(id)


def outcome(session: Session, transaction: str) -> Plan[str]:
    """What became of a commit: "committed", "aborted", or "unknown" if it is too long ago.

    The answer is final: once "aborted" was said, that commit can no longer happen.

    Args:
        transaction: The ``id`` of the transaction, or ``transaction`` of an ``InDoubt``.
    """
    try:
        id = TransactionId.parse(transaction)
    except ValueError as error:
        raise errors.InvalidParameter(str(error)) from None
    if not 0 < id.number < 1 << 62:
        raise errors.InvalidParameter(f"not a transaction identifier: {transaction!r}")
    session.check(id)
    return (yield from ask(requests.AskOutcome(id), Outcome))


POLICIES: Final = ("wait", "give", "dead-letter")
LOOK_AGAIN_S: Final = 5.0
"""What was held by another transaction may be free again after this time, in its old place."""


class SenderTransaction(Batch):
    """Messages of one transaction of a sender, in order.

    Attributes:
        source: GUID of the sending queue manager.
        stream: The message stream that the first of them came in; 0: they were sent on this
            computer.
        transaction: Its number there (20 bits, wraps, and may start again with a stream: not a
            durable key, SND-11). 0 for what came over HTTP, which has no place for it.
        complete: Whether all are here that the transaction has sent to this queue. True only where
            that is known.
    """

    __slots__ = ("complete", "source", "stream", "transaction")

    def __init__(self, batch: Batch, head: MessageOrigin, *, complete: bool) -> None:
        super().__init__(
            batch.run, batch.lookup_ids, array("I", batch.arrived_times),
            array("I", batch.abort_counts), batch.moves,
        )  # fmt: skip
        self.source, self.stream, self.transaction = head.source, head.stream, head.transaction
        self.complete = complete

    def __repr__(self) -> str:
        what = "" if self.complete else ", incomplete"
        return f"<SenderTransaction of {len(self)} messages{what}>"


def receive_transaction(
    session: Session, queue: str, transaction: int, *, timeout: float | None,
    deadline: float | None, incomplete: str,
) -> Plan[SenderTransaction]:  # fmt: skip
    """Receive the messages of one transaction of a sender, all together."""
    if incomplete not in POLICIES:
        raise errors.InvalidParameter(
            f"incomplete is one of {', '.join(POLICIES)}, not {incomplete!r}"
        )
    if incomplete != "wait" and deadline is None:
        raise errors.InvalidParameter(
            f"{incomplete!r} needs a deadline: seconds after its first message"
        )
    wait_ms(timeout)  # raises InvalidParameter
    until = None if timeout is None else session.clock() + timeout
    look = _Look(queue, transaction, Survey(), session.clock() + LOOK_AGAIN_S)
    while True:
        found = yield from _whole(look)
        if found is not None:
            return found
        if deadline is not None and incomplete != "wait":
            for members in look.survey.overdue(session.now_s() - deadline):
                given = yield from _take(look, members, complete=False)
                if given is None:
                    continue
                if incomplete == "give":
                    return given
                request = requests.Reject(queue, transaction, members.lookups, True)
                yield from do(request)
        more = yield from _wait(session, look, until, deadline)
        if not more or session.clock() >= look.again_at:
            look.survey, look.again_at = Survey(), session.clock() + LOOK_AGAIN_S


class _Look(MutableRecord):
    """A receive of whole transactions that goes on.

    Attributes:
        again_at: When all of the queue is looked at again.
        paused: An operator keeps what was found.
    """

    queue: str
    transaction: int
    survey: Survey
    again_at: float
    paused: errors.ReceiveTimeout | None = None


def _whole(look: _Look) -> Plan[SenderTransaction | None]:
    """The first transaction that is there entirely; None if there is none."""
    while True:
        request = requests.Receive(
            look.queue, count_max=RECEIVE_MESSAGES_MAX, bytes_max=RECEIVE_BYTES, peek=True,
            after=look.survey.after, pick=PickBy.HEADS,
        )  # fmt: skip
        try:
            batch = yield from ask(request, Batch)
        except errors.ReceiveTimeout:
            return None
        for members in look.survey.add(batch):
            given = yield from _take(look, members, complete=True)
            if given is not None:
                return given


def _wait(session: Session, look: _Look, until: float | None, deadline: float | None) -> Plan[bool]:
    """Wait until something more comes (True), or it is time to look at all of it again.

    Raises:
        ReceiveTimeout: The time of the caller is over.
    """
    left = LOOK_AGAIN_S
    if until is not None:
        left = min(left, until - session.clock())
        if left <= 0:
            raise look.paused or errors.ReceiveTimeout(
                f"no transaction came to {look.queue} entirely in time"
            )
    if deadline is not None:
        due = [m.arrived + deadline - session.now_s() for m in look.survey.incomplete()]
        left = min([left, *(max(wait, 0.05) for wait in due)])
    request = requests.Receive(
        look.queue, bytes_max=RECEIVE_BYTES, wait_ms=wait_ms(left), peek=True,
        after=look.survey.after, pick=PickBy.HEADS,
    )  # fmt: skip
    try:
        yield from do(request)
    except errors.ReceiveTimeout:
        return False
    return True


def _take(look: _Look, members: Members, *, complete: bool) -> Plan[SenderTransaction | None]:
    """Receive all of these, or None if somebody else has taken one of them, or none is given out
    now."""
    queue, transaction, ranges = look.queue, look.transaction, members.ranges()
    try:
        yield from do(requests.Claim(queue, transaction, ranges))
    except errors.MessageNotFound:
        return None
    except errors.ReceiveTimeout as error:
        look.paused = error
        return None
    at, last = ranges[0][0], ranges[-1][1]
    parts: list[Batch] = []
    while at <= last:
        fetch = requests.Fetch(queue, transaction, at, last, RECEIVE_BYTES)
        batch = yield from ask(fetch, Batch)
        at = batch.lookup_ids[-1] + 1
        parts.append(batch)
    whole = _in_order(parts, members.lookups)
    return SenderTransaction(whole, members.head, complete=complete)


def _in_order(parts: list[Batch], lookups: list[int]) -> Batch:
    """These messages of what was fetched; the transaction may hold others between them."""
    places = {lookup: (part, at) for part in parts for at, lookup in enumerate(part.lookup_ids)}
    lengths, places_of = array(LENGTH_TYPE), array("Q", lookups)
    arrived, aborts = array("I"), array("I")
    moves: list[tuple[int, int, int]] = []
    packets: list[bytes] = []
    for index, lookup in enumerate(lookups):
        part, at = places[lookup]
        one = part.part(at, 1)
        packets.append(bytes(one.run.data))
        lengths += one.run.lengths
        arrived.extend(one.arrived_times)
        aborts.extend(one.abort_counts)
        moves += [(index, count, at_s) for _, count, at_s in one.moves]
    return Batch(Run(b"".join(packets), lengths), places_of, arrived, aborts, moves)


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
        except (errors.OnceqError, GeneratorExit):
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

    def commit(
        self, *, retaining: bool = False, ahead: PipelinedReceive = NOTHING
    ) -> Plan[MessageIds]:
        """Make all of it happen, and ask for what comes next in the same round trip.

        Raises:
            SendFailed: A send was refused, here or before; the transaction was undone.
            InDoubt: There was no answer.
            TransactionLost: It was never asked, and what had been done before is undone.
            WrongProcess: The answer is the parent's.
        """
        if self.over or self.life is not self.session.life:
            self.check_open()
        if self.owed:
            self.check_awaited()
        if retaining:
            raise errors.NotSupported("an internal transaction cannot be retained")
        if self.doomed is not None:
            yield from self._end_doomed()
        # Before it is asked: if the answer is lost, its outcome can be asked for.
        self.id = self.session.next_commit()
        self.over = ENDING  # What comes meanwhile, from whichever thread, would not go along.
        items = offered(self._items, self.session.clock)
        try:
            commit = requests.Commit(self.number, items, self.id, ahead.number)
            sent: Sent = yield LinkRequest(commit, behind=ahead.request)
        except errors.OnceqError as error:
            self.over = ""
            self.check_process()  # Else the answer is the parent's.
            if isinstance(error, (errors.InDoubt, *UNANSWERED)):
                self.over = "in doubt"
            not_committed(self.session, self.id, error)
            if isinstance(error, errors.ServiceNotAvailable):
                if self.begun:  # It was never asked, and what had been done before is undone.
                    raise self.lost() from error
            elif isinstance(error, errors.RolledBackByTime):
                self.over = "aborted, because nothing had happened in it for too long"
            elif not isinstance(error, (errors.InDoubt, errors.TransactionOver)):
                yield from self._end_refused(items, error)
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

    def _end_refused(self, items: Sequence[SendItem], error: errors.OnceqError) -> Plan[None]:
        """The end was refused: if because of a send in it, abort it and say so.

        What came along were sends whose calls had succeeded, so that it does not matter what is
        wrong with them. Of what the manager knows (``begun``) it says itself what has doomed it;
        any other limit is none of a send's.

        Raises:
            OnceqError: SendFailed, or the send's own mistake.
        """
        if isinstance(error, errors.SendFailed):
            self.doomed = error
        elif items and not (self.begun and dooms(error)):
            self._refused(named(items), error)
        if self.doomed is not None:
            yield from self._end_doomed(error)

    def _end_doomed(self, error: errors.OnceqError | None = None) -> Plan[None]:
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
            with contextlib.suppress(errors.OnceqError):  # Then it is gone already.
                yield from do(self._abort(why))
