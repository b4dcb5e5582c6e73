"""Requests of readers that look at messages, and remove them when they are written elsewhere."""

from __future__ import annotations

from onceq.errors import InvalidParameter
from onceq.model.limits import LEASE_MS_MAX, READER_CHARS_MAX
from onceq.model.requests.request import WORDS_MAX, Needs, Request, check_lookups, is_text
from onceq.model.rights import Right


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
        """See Request."""
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
        """See Request."""
        if not 0 <= self.lease_ms <= LEASE_MS_MAX:
            raise InvalidParameter(f"a lease of {self.lease_ms} ms; it has 0 to {LEASE_MS_MAX}")


class ForgetReader(Request):
    """Forget how far a reader of a queue was. Answer: None."""

    code = 34
    needs = Right.RECEIVE
    queue: str
    reader: str

    def check(self) -> None:
        """See Request."""
        _check_name(self.reader)


def _check_name(name: str) -> None:
    if len(name) > READER_CHARS_MAX or not is_text(name):
        raise InvalidParameter(
            f"a reader and its query have up to {READER_CHARS_MAX} characters of text"
        )
