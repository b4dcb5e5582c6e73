"""A whole transaction of a sender, or nothing of it (SND-17, PIPE-6).

Messages of one transaction enter a queue one by one, and some may never come: each can expire or
be refused for itself. Here the marks of the first and the last one decide when all are there. The
queue is surveyed by small records, not by its messages; then the members are claimed, all or
none, in the reader's transaction, and only then fetched.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from onceq.client.plans.plan import Plan, ask, do
from onceq.client.plans.selection import wait_ms
from onceq.client.session import Session
from onceq.errors import InvalidParameter, MessageNotFound, ReceiveTimeout
from onceq.model import requests
from onceq.model.limits import RECEIVE_BYTES, RECEIVE_MESSAGES_MAX
from onceq.model.record import MutableRecord, field
from onceq.model.requests import PickBy
from onceq.model.run import LENGTH_TYPE, Run
from onceq.packet.batch import Batch
from onceq.packet.heads import Head

POLICIES: Final = ("wait", "give", "dead-letter")
Key = tuple[bytes, int, int]
"""Source, stream and number: what the messages of one transaction to one queue have in common.

The number alone comes round after 2^20 transactions, and at once where a sender begins to count
anew after a restart; but then it begins a new stream as well (EOD-12).
"""
LOOK_AGAIN_S: Final = 5.0
"""What was held by another transaction may be free again after this time."""


class SenderTransaction(Batch):
    """Messages of one transaction of a sender, in order.

    Attributes:
        source: GUID of the sending queue manager.
        stream: The message stream that they came in; 0: they were sent on this computer.
        transaction: Its number there (20 bits, wraps, and may begin anew with a stream: not a
            durable key, SND-11).
        complete: Whether all of them are here.
    """

    __slots__ = ("complete", "source", "stream", "transaction")

    def __init__(self, batch: Batch, key: Key, *, complete: bool) -> None:
        super().__init__(
            batch.run, batch.lookup_ids, array("I", batch.arrived_times),
            array("I", batch.abort_counts), batch.moves,
        )  # fmt: skip
        self.source, self.stream, self.transaction = key
        self.complete = complete

    def __repr__(self) -> str:
        what = "" if self.complete else ", incomplete"
        return f"<SenderTransaction of {len(self)} messages{what}>"


class _Members(MutableRecord):
    """What is there of one transaction."""

    key: Key
    arrived: int
    lookups: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    first: bool = False
    last: bool = False

    @property
    def complete(self) -> bool:
        """Whether nothing is missing: both marks, and nothing left out between them.

        What was sent here has no numbers of a stream, but places one behind another.
        """
        order = self.numbers if any(self.numbers) else self.lookups
        return self.first and self.last and all(b == a + 1 for a, b in pairwise(order))

    def ranges(self) -> list[tuple[int, int]]:
        """Their lookup identifiers as ranges."""
        found: list[tuple[int, int]] = []
        for lookup in self.lookups:
            if found and found[-1][1] + 1 == lookup:
                found[-1] = (found[-1][0], lookup)
            else:
                found.append((lookup, lookup))
        return found


class _Survey:
    """What is known of a queue, from its front to where it was looked at."""

    def __init__(self) -> None:
        self.open: dict[Key, _Members] = {}
        self.done: list[_Members] = []
        self.after = 0

    def add(self, batch: Batch) -> Iterator[_Members]:
        """More records; the transactions that they complete, or that can never be."""
        for lookup, arrived, raw in zip(
            batch.lookup_ids, batch.arrived_times, batch.run, strict=True
        ):
            head = Head.unpack(raw)
            key = (head.source, head.stream, head.transaction)
            if head.first and key in self.open:
                self.done.append(self.open.pop(key))  # Its number has come round again.
            members = self.open.setdefault(key, _Members(key, arrived))
            members.lookups.append(lookup)
            members.numbers.append(head.number)
            members.first |= head.first
            members.last |= head.last
            if head.last:
                del self.open[key]
                if members.complete:
                    yield members
                else:
                    self.done.append(members)
        self.after = batch.scanned

    def overdue(self, before_s: float) -> list[_Members]:
        """Those that are there in part since that second, and are not looked at again."""
        late = [members for members in self.incomplete() if members.arrived <= before_s]
        self.done = [members for members in self.done if members.arrived > before_s]
        self.open = {key: m for key, m in self.open.items() if m.arrived > before_s}
        return late

    def incomplete(self) -> list[_Members]:
        """Those that are there in part, the oldest first."""
        found = [*self.done, *self.open.values()]
        return sorted(found, key=lambda members: members.lookups[0])


def receive_transaction(
    session: Session, queue: str, transaction: int, *, timeout: float | None,
    deadline: float | None, incomplete: str,
) -> Plan[SenderTransaction]:  # fmt: skip
    """See ``Transaction.receive_transaction``."""
    if incomplete not in POLICIES:
        raise InvalidParameter(f"incomplete is one of {', '.join(POLICIES)}, not {incomplete!r}")
    if incomplete != "wait" and deadline is None:
        raise InvalidParameter(f"{incomplete!r} needs a deadline: seconds after its first message")
    until = None if timeout is None else session.clock() + timeout
    survey = _Survey()
    while True:
        found = yield from _whole(session, queue, transaction, survey)
        if found is not None:
            return found
        if deadline is not None and incomplete != "wait":
            for members in survey.overdue(session.now_s() - deadline):
                given = yield from _take(queue, transaction, members, complete=False)
                if given is None:
                    continue
                if incomplete == "give":
                    return given
                request = requests.Reject(queue, transaction, members.lookups, True)
                yield from do(request)
        if not (yield from _wait(session, queue, survey, until, deadline)):
            survey = _Survey()  # What was held may have come back.


def _whole(
    session: Session, queue: str, transaction: int, survey: _Survey
) -> Plan[SenderTransaction | None]:
    """The first transaction that is there entirely; None if there is none."""
    while True:
        request = requests.Receive(
            queue, count_max=RECEIVE_MESSAGES_MAX, bytes_max=RECEIVE_BYTES, peek=True,
            after=survey.after, pick=PickBy.HEADS,
        )  # fmt: skip
        try:
            batch = yield from ask(request, Batch)
        except ReceiveTimeout:
            return None
        for members in survey.add(batch):
            given = yield from _take(queue, transaction, members, complete=True)
            if given is not None:
                return given


def _wait(
    session: Session, queue: str, survey: _Survey, until: float | None, deadline: float | None
) -> Plan[bool]:
    """Wait until something more comes (True), or it is time to look at all of it again.

    Raises:
        ReceiveTimeout: The time of the caller is over.
    """
    left = LOOK_AGAIN_S
    if until is not None:
        left = min(left, until - session.clock())
        if left <= 0:
            raise ReceiveTimeout(f"no transaction came to {queue} entirely in time")
    if deadline is not None:
        due = [m.arrived + deadline - session.now_s() for m in survey.incomplete()]
        left = min([left, *(max(wait, 0.05) for wait in due)])
    request = requests.Receive(
        queue, bytes_max=RECEIVE_BYTES, wait_ms=wait_ms(left), peek=True, after=survey.after,
        pick=PickBy.HEADS,
    )  # fmt: skip
    try:
        yield from do(request)
    except ReceiveTimeout:
        return False
    return True


def _take(
    queue: str, transaction: int, members: _Members, *, complete: bool
) -> Plan[SenderTransaction | None]:
    """Receive all of these, or None if somebody else has taken one of them."""
    request = requests.Claim(queue, transaction, members.ranges())
    try:
        yield from do(request)
    except MessageNotFound:
        return None
    at, last = members.lookups[0], members.lookups[-1]
    parts: list[Batch] = []
    wanted = set(members.lookups)
    while at <= last:
        fetch = requests.Fetch(queue, transaction, at, last, RECEIVE_BYTES)
        batch = yield from ask(fetch, Batch)
        at = batch.lookup_ids[-1] + 1
        parts.append(batch)
        wanted.difference_update(batch.lookup_ids)
        if not wanted:
            break
    whole = _only(parts, set(members.lookups))
    return SenderTransaction(whole, members.key, complete=complete)


def _only(parts: list[Batch], wanted: set[int]) -> Batch:
    """Those messages of what was fetched; the transaction may hold others between them."""
    chosen = [
        part.part(index, 1)
        for part in parts
        for index, lookup in enumerate(part.lookup_ids)
        if lookup in wanted
    ]
    lengths, lookups = array(LENGTH_TYPE), array("Q")
    arrived, aborts = array("I"), array("I")
    moves: list[tuple[int, int, int]] = []
    for index, one in enumerate(chosen):
        lengths += one.run.lengths
        lookups += one.lookup_ids
        arrived.extend(one.arrived_times)
        aborts.extend(one.abort_counts)
        moves += [(index, count, at_s) for _, count, at_s in one.moves]
    run = Run(b"".join(bytes(one.run.data) for one in chosen), lengths)
    return Batch(run, lookups, arrived, aborts, moves)
