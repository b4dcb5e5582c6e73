"""The way from the client library to a queue manager: requests out, results back.

A link belongs to one process, and in it to one thread of control at a time: a child that was forked
drops it without a word, and a call in the middle of another one is refused (finding K5).

A link carries out requests; what to ask, and what the answers mean, is in ``plans``. Links have
the same shape: to a daemon from threads (``socket_link``) and from tasks (``async_link``), and to
a manager in the same process (``onceq.embedded.link``, which the client knows by its shape alone).

Upholds: I3a (an outcome is told only to who has made the commit), I4 (what the parent sends or
receives its child does not do again).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from functools import partial, wraps
from types import CodeType
from typing import TYPE_CHECKING, Any, Concatenate, Final, NoReturn, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

from onceq.errors import (
    AnswerOverdue,
    CallInCall,
    LinkLost,
    NotCarriedOut,
    ServiceNotAvailable,
    WrongProcess,
)
from onceq.model import requests
from onceq.model.limits import OUTCOME_AGE_S
from onceq.model.record import MutableRecord, Record
from onceq.model.requests import AskOutcome, BeginAttempt, CommitGroup, Look, Receive, RollbackGroup
from onceq.model.requests.types import check_types
from onceq.sockets import both_ends
from onceq.wire.app import frames

if TYPE_CHECKING:
    from onceq.packet.arrived import Batch


# ---- link ----------------------------------------------------------------------------------------


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
        return None if until is None else max(until, now) + both_ends.GRACE_S

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
        f"the queue manager at {address} gave no answer, {both_ends.GRACE_S:g} s behind the "
        "time-out; what was asked may have happened"
    )


# ---- owners --------------------------------------------------------------------------------------
#
# To whom a client belongs: one process, and in it one thread of control at a time.


FORKED: Final = (
    "was made before this process was forked, and belongs to the parent; in a child the queue "
    "manager itself can be used: begin anew with it"
)


class StaysHere:
    """What cannot be pickled or copied: it is one end of a connection of this process."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            f"{type(self).__name__} cannot be pickled or copied: it belongs to this process and "
            "its connection; hand on where the queue manager is, and connect there"
        )


class ForTasks(StaysHere):
    """What tasks use, in an ``async with``."""

    def __enter__(self) -> NoReturn:
        """Raises NotCarriedOut: nobody would wait for the end of the block."""
        raise NotCarriedOut(f"{type(self).__name__} is for tasks; write async with, not with")

    def __exit__(self, *exc: object) -> None:
        """Python looks for it before it enters."""


class Owned(Protocol):
    """Something of this process."""

    def forked(self) -> None:
        """This is a child now: give up what is the parent's, and touch none of it."""


_OWNED: Final[WeakSet[Owned]] = WeakSet()


def own(one: Owned) -> None:
    """Tell it of a fork from now on."""
    _OWNED.add(one)


def of_parent(what: str) -> WrongProcess:
    """The error for something that was made before a fork."""
    return WrongProcess(f"{what} {FORKED}")


def is_inside(one: object, codes: tuple[CodeType, ...]) -> bool:
    """Whether the caller was itself called, directly or not, from one of these methods of an
    object; looked up in the stack of this thread, and so true however a call was left before."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code in codes and frame.f_locals.get("self") is one:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def refuse_inside(name: str) -> CallInCall:
    """The error for a call in the middle of another one."""
    return CallInCall(
        f"a call of queue manager {name} came in the middle of another one of the same thread (in "
        "a signal handler, in __del__, or in a callback of a weak reference), and did nothing; "
        "only note there what is to be done: onceq.stopping() does so for signals. close() can be "
        "called"
    )


P = ParamSpec("P")
L = TypeVar("L")


def after_call(
    method: Callable[Concatenate[L, P], None],
) -> Callable[Concatenate[L, P], None]:
    """A method that gives something back. The garbage collector may call it in the middle of
    another call of its thread: then that call does it when it is over.

    Args:
        method: Of an object with a ``_manager``.
    """

    @wraps(method)
    def leave(self: L, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except CallInCall:
            one: Any = self
            one._manager._afterwards(partial(leave, self, *args, **kwargs))

    return leave


def drop_descriptor(number: int) -> None:
    """Let go of a parent's connection in its child, with nothing said on it.

    An empty file takes its number, so that a later close of the number closes that.
    """
    if number < 0:  # It was closed.
        return
    with contextlib.suppress(OSError):
        empty = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        if empty != number:
            os.dup2(empty, number, inheritable=False)
            os.close(empty)


def _after_fork() -> None:
    failed: list[Exception] = []
    for one in list(_OWNED):
        try:
            one.forked()
        except Exception as error:  # noqa: BLE001 - raised below
            failed.append(error)
    if failed:  # The interpreter prints it, and goes on.
        raise ExceptionGroup("connections of the parent could not be given up", failed)


os.register_at_fork(after_in_child=_after_fork)
