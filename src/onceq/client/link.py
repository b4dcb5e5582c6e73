"""The way from the client library to a queue manager: requests out, results back.

A link carries out requests; what to ask, and what the answers mean, is in ``plans``. Links have
the same shape: to a daemon from threads (``socket_link``) and from tasks (``async_link``), and to
a manager in the same process (``onceq.embedded.link``, which the client knows by its shape alone).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from onceq.errors import AnswerOverdue, LinkLost, ServiceNotAvailable
from onceq.model import requests
from onceq.model.limits import OUTCOME_AGE_S
from onceq.model.record import MutableRecord, Record
from onceq.model.requests import (
    AskOutcome,
    BeginAttempt,
    CommitGroup,
    Look,
    Receive,
    RollbackGroup,
)
from onceq.model.requests.types import check_types
from onceq.sockets import silence
from onceq.wire.app import frames

if TYPE_CHECKING:
    from onceq.packet.arrived import Batch


class Greeting(Record, frozen=True):
    """Who is at the other end, and for how long it answers for old commits (seconds)."""

    name: str
    id: bytes
    now_s: int
    outcome_age_s: int = OUTCOME_AGE_S


def read_greeting(head: Any) -> Greeting:
    """Read who answers a hello; raises MalformedPacket."""
    said = frames.decode_head(head, frames.Welcome)
    return Greeting(said.name, said.id, said.now_s, said.outcome_age_s)


class PartlyWritten(OSError):
    """The connection broke when some of what was written was on its way."""


class Request(MutableRecord):
    """One thing to ask; raises InvalidParameter if a value in it is of a wrong type.

    Attributes:
        waits: False: nobody looks at the answer, and none is given.
        lazy: Of those, one that may go out together with the next request.
        unhurried: Of those, one that nobody misses for a moment: a manager in the same process may
            work it off together with the next request, and does so soon if none follows.
        shows: Of those, one that may show somebody a message: if a receive waits there it is worked
            off at once.
        late: Takes the messages of a receive that was answered when nobody waited any more.
        behind: A request that goes out with it, right behind. The caller calls the link with
            that next, and waits only for its answer.
        ticket: Of the link that has sent it: how its answer is found, until the caller has it.
        until: When the time of the call is over that it is a part of, by ``time.monotonic``; None:
            as the request itself says.
    """

    asked: requests.Request
    waits: bool = True
    lazy: bool = False
    unhurried: bool = False
    shows: bool = False
    late: Callable[[Batch | None], None] | None = None
    behind: Request | None = None
    ticket: Any = None
    until: float | None = None

    def __post_init__(self) -> None:
        check_types(self.asked)

    def repeatable(self, error: ServiceNotAvailable) -> bool:
        """Whether it does no harm to ask again on another connection after that error."""
        if isinstance(error, AnswerOverdue):
            return False  # Its time is over.
        if not isinstance(error, LinkLost):
            return True  # It was never sent.
        asked = self.asked
        if isinstance(asked, Receive):
            return asked.peek and not (asked.handle or asked.cursor)
        # The version of a group takes effect once, however often it is asked for.
        return isinstance(asked, (BeginAttempt, CommitGroup, RollbackGroup, Look, AskOutcome))

    @property
    def to_give_up(self) -> Request | None:
        """The receive whose wait is to end at the manager if the caller does not wait: itself, or
        the one behind it."""
        return self if isinstance(self.asked, Receive) else self.behind

    def due(self, now: float) -> float | None:
        """When its answer is overdue, by ``time.monotonic``; None: it may come whenever it comes.

        Args:
            now: It is sent.
        """
        asked, until = self.asked, self.until
        if isinstance(asked, Receive) and asked.wait_ms >= 0:
            own = now + asked.wait_ms / 1000
            until = own if until is None else min(own, until)
        return None if until is None else max(until, now) + silence.GRACE_S

    @property
    def kind(self) -> object:
        """Of which type its answer is."""
        return self.asked.answer_type()

    def missed(self, result: object) -> None:
        """The answer came too late for the one who asked."""
        if self.late is not None:
            from onceq.packet.arrived import Batch

            self.late(result if isinstance(result, Batch) else None)


class Link(Protocol):
    """A link for threads."""

    greeting: Greeting

    @property
    def alive(self) -> bool:
        """Whether requests can be made, as far as is known."""

    def look(self) -> bool:
        """The same, after a look whether the connection broke while nobody used it."""

    def call(self, request: Request) -> object:
        """Ask and wait for the result; errors are raised.

        Raises:
            LinkLost: Nobody knows whether it happened.
            ServiceNotAvailable: It was never sent.
        """

    def interrupt(self) -> None:
        """Begin to leave, in the middle of a call of this thread: that ends, and then leaves."""

    def close(self) -> None:
        """Leave."""


class AsyncAsking(Protocol):
    """A link for tasks."""

    greeting: Greeting

    @property
    def alive(self) -> bool:
        """Whether requests can be made, as far as is known."""

    def check_loop(self, *, leaving: bool = False) -> None:
        """Raises WrongLoop where it cannot be used from the loop that runs (finding K6).

        Args:
            leaving: To be closed, which any may do when its own loop is over.
        """

    async def look(self) -> bool:
        """See Link."""

    async def call(self, request: Request) -> object:
        """See Link."""

    def close(self) -> None:
        """Leave."""


def overdue(address: object) -> str:
    """What is said of an answer that did not come."""
    return (
        f"the queue manager at {address} gave no answer, {silence.GRACE_S:g} s behind the "
        "time-out; what was asked may have happened"
    )
