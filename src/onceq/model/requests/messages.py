"""Requests about messages in queues: receive and peek, cursors, moves, rejections.

Also here:

* Requests of readers that look at messages, and remove them when they are written elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from onceq.errors import InvalidParameter
from onceq.model.identity import GUID_BYTES
from onceq.model.limits import LEASE_MS_MAX, READER_CHARS_MAX
from onceq.model.message import CORRELATION_BYTES
from onceq.model.record import Record
from onceq.model.requests.request import (
    WORDS_MAX,
    Needs,
    Request,
    check_failure,
    check_lookups,
    choice,
    is_text,
)
from onceq.model.rights import Right


class Seek(IntEnum):
    """Which message is meant, from a lookup identifier or from a cursor (RCV-21)."""

    CURRENT = 0
    NEXT = 1
    PREV = 2
    FIRST = 4
    LAST = 8


class PickBy(IntEnum):
    """What a peek compares or tells."""

    NOTHING = 0
    CORRELATION = 2
    MESSAGE = 3
    TOPS = 4
    BODILESS = 5
    HEADS = 6
    """1 was a shorter record, which told less."""


class Messages:
    """The type of an answer that is messages; what carries them is not of the model."""


_TOP_BYTES: Final = 4
"""Width of the number of bytes that PickBy.TOPS asks for."""
_VALUE_BYTES: Final = {
    PickBy.HEADS: 0,
    PickBy.CORRELATION: CORRELATION_BYTES,
    PickBy.MESSAGE: GUID_BYTES + 4,
    PickBy.TOPS: _TOP_BYTES,
    PickBy.BODILESS: 0,
}
"""What a pick has to say, by its kind."""


class Pick(Record, frozen=True):
    """Of the messages that a peek looked at: the first with these bytes, one small record for each
    (HEADS), the first bytes of each (TOPS; ``value`` says how many, u32), or each without its body
    (BODILESS). So a search does not carry every body to the application (RCV-10), and an actor
    without the right to read bodies sees that the messages are there."""

    by: PickBy
    value: bytes = b""


class _Receive(Request, kw_only=True):
    """Of a receive, what the service fills in."""

    wait_until_us: int = 0


class Receive(_Receive):
    """Take messages, or look at them. Answer: ``Handed`` with at least one message, or
    ReceiveTimeout.

    Attributes:
        queue: Name of a local queue (any form), or of an outgoing queue for peek.
        transaction: 0 takes them at once and for good.
        wait_ms: How long to wait when nothing is there; 0: not at all, -1: without end.
        peek: Leave them where they are.
        after: Peek only messages behind this lookup identifier (a cursor); 0: from the front.
        lookup: Exactly this message, or as ``seek`` says from it on; 0: in order. Never waits
            (RCV-8).
        handle: Opened before, or 0.
        seek: With a lookup identifier or a cursor. FIRST and LAST need neither.
        cursor: Opened before, or 0.
        allow_peek: Others may still peek at it until the transaction ends (RCV-9).
        pick, value: Of what a peek has found, hand out less, as in Pick; NOTHING: all of it. With
            ``lookup`` and no peek: the search by which that was found.
        hold: In a transaction, from any kind of queue: the taken messages are held until the
            outcome. Without it a transaction takes from transactional queues only (RCV-11).
        wait_until_us: Monotonic time that follows from ``wait_ms``; 0: not at all.
    """

    code = 8
    needs = Needs.STATE
    answer = Messages
    queue: str
    transaction: int = 0
    count_max: int = 1
    bytes_max: int = 1 << 22
    wait_ms: int = 0
    peek: bool = False
    after: int = 0
    lookup: int = 0
    handle: int = 0
    seek: Seek = Seek.CURRENT
    cursor: int = 0
    allow_peek: bool = False
    pick: PickBy = PickBy.NOTHING
    value: bytes = b""
    hold: bool = False

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        if self.after or self.lookup:
            check_lookups(self.after, self.lookup)
        self.seek = choice(Seek, self.seek) if self.seek else Seek.CURRENT
        if not self.pick:
            return
        self.pick = choice(PickBy, self.pick)
        if not (self.peek or self.lookup):
            raise InvalidParameter("a search looks; what it has found is taken by its place")
        if len(self.value) != _VALUE_BYTES[self.pick]:
            raise InvalidParameter(f"a pick with a value of {len(self.value)} bytes")


class Remove(Request):
    """Receive a whole range without its bytes (for readers that peeked it). Answer: how many.

    Attributes:
        first, last: Lookup identifiers, both included; what is locked or gone is passed over.
        transaction: 0 removes at once and for good.
    """

    code = 9
    needs = Right.RECEIVE
    queue: str
    transaction: int
    first: int
    last: int

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        check_lookups(self.first, self.last)


class CancelReceive(Request):
    """Stop waiting: the receive of that request number is answered with OperationCancelled."""

    code = 10
    needs = Needs.NOTHING
    quiet = True
    waiting: int


class OpenCursor(Request):
    """A place in a queue that moves from message to message. Answer: its number.

    Attributes:
        handle: The queue, opened for receive or peek; the cursor ends with it.
    """

    code = 18
    needs = Needs.NOTHING
    handle: int


class CloseCursor(Request):
    """Give a cursor back. Answer: None."""

    code = 19
    needs = Needs.NOTHING
    quiet = True
    cursor: int


class MoveMessage(Request):
    """Move a message between a queue and its subqueues (Q-32).

    Answer: its new lookup identifier; 0 in a transaction, which moves it at its commit.

    Attributes:
        queue: Where it is.
        to: Where it goes; "" if ``handle`` says so.
        handle: The target, opened for move; 0: by its name.
    """

    code = 20
    needs = Needs.STATE
    queue: str
    to: str
    lookup: int
    transaction: int = 0
    handle: int = 0

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        check_lookups(self.lookup)


class Reject(Request):
    """Mark messages that this transaction has received as rejected (RCV-15). Answer: None.

    Attributes:
        keep: Also put them into the dead-letter queue of this computer.
        why: What the receiver says of it; it is kept with them, as far as they are kept.
    """

    code = 21
    needs = Right.RECEIVE
    queue: str
    transaction: int
    lookups: Sequence[int]
    keep: bool = False
    why: str = ""

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        check_lookups(*self.lookups)
        check_failure(self.why)


class Claim(Request):
    """Receive exactly these messages, all or none, without their bytes. Answer: how many.

    Attributes:
        ranges: First and last lookup identifier of each range, rising.
    """

    code = 22
    needs = Right.RECEIVE
    queue: str
    transaction: int
    ranges: Sequence[tuple[int, int]]

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        for first, last in self.ranges:
            check_lookups(first, last)


class Fetch(Request):
    """The bytes of messages that the transaction holds. Answer: ``Handed``, one at least.

    Attributes:
        first, last: Lookup identifiers, both included.
    """

    code = 23
    needs = Right.RECEIVE
    answer = Messages
    queue: str
    transaction: int
    first: int
    last: int
    bytes_max: int = 1 << 22

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        check_lookups(self.first, self.last)


# ---- reading -------------------------------------------------------------------------------------


class TakeRead(Request):
    """Receive a whole range that was read by peeking, and remember who has read it, in the same
    record. Answer: how many.

    Attributes:
        first, last: Lookup identifiers, both included; what is locked or gone is passed over.
        transaction: 0 removes at once and for good.
        handle: The queue, opened so that others cannot receive: refused where that is over
            (InvalidHandle); 0: nothing is held.
        reader: Name of the reader; "" is one, too.
        query: Which life of the reader this is.
        who: A note of the reader about itself, for people.
        keep: The journal of the queue takes a copy of each, also where it does not keep others.
    """

    code = 32
    needs = Right.RECEIVE
    queue: str
    transaction: int
    first: int
    last: int
    handle: int = 0
    reader: str = ""
    query: str = ""
    who: str = ""
    keep: bool = False

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        check_lookups(self.first, self.last)
        _check_name(self.reader)
        _check_name(self.query)
        self.who = self.who[:WORDS_MAX] if is_text(self.who) else ""


class RenewHold(Request):
    """A handle that keeps others from receiving ends so much later, if it is not renewed, and
    somebody else wants the queue. Answer: None; InvalidHandle: it is over.

    Attributes:
        lease_ms: From now on; 0: it never ends by itself, as before the first of these requests.
    """

    code = 33
    needs = Needs.NOTHING
    handle: int
    lease_ms: int

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        if not 0 <= self.lease_ms <= LEASE_MS_MAX:
            raise InvalidParameter(f"a lease of {self.lease_ms} ms; it has 0 to {LEASE_MS_MAX}")


class ForgetReader(Request):
    """Forget how far a reader of a queue was. Answer: None."""

    code = 34
    needs = Right.RECEIVE
    queue: str
    reader: str

    def check(self) -> None:
        """Refuse values that no rule has an answer for."""
        _check_name(self.reader)


def _check_name(name: str) -> None:
    if len(name) > READER_CHARS_MAX or not is_text(name):
        raise InvalidParameter(
            f"a reader and its query have up to {READER_CHARS_MAX} characters of text"
        )
