"""A whole transaction of a sender, or nothing of it (SND-17, PIPE-6).

Messages of one transaction enter a queue one by one, and some may never come: each can expire or
be refused for itself. What they say of themselves decides when all are there
(``packet/transaction_survey.py``). The queue is surveyed by small records, not by its messages;
then the members are claimed, all or none, in the reader's transaction, and only then fetched.
"""

from __future__ import annotations

from array import array
from typing import Final

from onceq.client.plans.plan import Plan, ask, do
from onceq.client.plans.selection import wait_ms
from onceq.client.session import Session
from onceq.errors import (
    InvalidParameter,
    MessageNotFound,
    ReceiveTimeout,
)
from onceq.model import requests
from onceq.model.limits import RECEIVE_BYTES, RECEIVE_MESSAGES_MAX
from onceq.model.record import MutableRecord
from onceq.model.requests import PickBy
from onceq.model.run import LENGTH_TYPE, Run
from onceq.packet.batch import Batch
from onceq.packet.heads import Head
from onceq.packet.transaction_survey import Members, Survey

POLICIES: Final = ("wait", "give", "dead-letter")
LOOK_AGAIN_S: Final = 5.0
"""What was held by another transaction may be free again after this time, in its old place."""


class SenderTransaction(Batch):
    """Messages of one transaction of a sender, in order.

    Attributes:
        source: GUID of the sending queue manager.
        stream: The message stream that the first of them came in; 0: they were sent on this
            computer.
        transaction: Its number there (20 bits, wraps, and may begin anew with a stream: not a
            durable key, SND-11). 0 for what came over HTTP, which has no place for it.
        complete: Whether all are here that the transaction has sent to this queue. True only where
            that is known.
    """

    __slots__ = ("complete", "source", "stream", "transaction")

    def __init__(self, batch: Batch, head: Head, *, complete: bool) -> None:
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
    """See ``Transaction.receive_transaction``."""
    if incomplete not in POLICIES:
        raise InvalidParameter(f"incomplete is one of {', '.join(POLICIES)}, not {incomplete!r}")
    if incomplete != "wait" and deadline is None:
        raise InvalidParameter(f"{incomplete!r} needs a deadline: seconds after its first message")
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
        again_at: When all of the queue is looked at anew.
        paused: An operator keeps what was found.
    """

    queue: str
    transaction: int
    survey: Survey
    again_at: float
    paused: ReceiveTimeout | None = None


def _whole(look: _Look) -> Plan[SenderTransaction | None]:
    """The first transaction that is there entirely; None if there is none."""
    while True:
        request = requests.Receive(
            look.queue, count_max=RECEIVE_MESSAGES_MAX, bytes_max=RECEIVE_BYTES, peek=True,
            after=look.survey.after, pick=PickBy.HEADS,
        )  # fmt: skip
        try:
            batch = yield from ask(request, Batch)
        except ReceiveTimeout:
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
            raise look.paused or ReceiveTimeout(
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
    except ReceiveTimeout:
        return False
    return True


def _take(look: _Look, members: Members, *, complete: bool) -> Plan[SenderTransaction | None]:
    """Receive all of these, or None if somebody else has taken one of them, or none is given out
    now."""
    queue, transaction, ranges = look.queue, look.transaction, members.ranges()
    try:
        yield from do(requests.Claim(queue, transaction, ranges))
    except MessageNotFound:
        return None
    except ReceiveTimeout as error:
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
