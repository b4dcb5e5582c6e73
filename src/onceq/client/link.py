"""The way from the client library to a queue manager: requests out, results back.

A link belongs to one process, and in it to one thread of control at a time: a child that was forked
drops it without a word, and a call in the middle of another one is refused (finding K5).

A link carries out requests; what to ask, and what the answers mean, is in ``plans``. Links have
the same shape: to a daemon from threads (``socket_link``) and from tasks (``async_link``), and to
a manager in the same process (``onceq.embedded.host``, which the client knows by its shape alone).
A session, which outlives its links, numbers the commits.

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

from onceq import errors
from onceq.model import requests
from onceq.model.limits import OUTCOME_AGE_S
from onceq.model.record import MutableRecord, Record
from onceq.model.requests import AskOutcome, BeginAttempt, CommitGroup, Look, Receive, RollbackGroup
from onceq.sockets import both_ends
from onceq.wire.app import frames

if TYPE_CHECKING:
    from onceq.packet.arrived import Batch
import threading
import time
from collections import deque
from collections.abc import Sequence
from enum import Enum
from itertools import count
from types import UnionType
from typing import TYPE_CHECKING, get_args, get_origin, get_type_hints

from onceq.model.identity import GUID_BYTES, TransactionId
from onceq.model.requests.request import is_text, list_given, quoted
from onceq.model.requests.transactions import SendItem

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


class LinkRequest(MutableRecord):
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
    behind: LinkRequest | None = None
    ticket: Any = None
    until: float | None = None

    def __post_init__(self) -> None:
        check_types(self.asked)

    def repeatable(self, error: errors.ServiceNotAvailable) -> bool:
        """Whether it does no harm to ask again on another connection after that error."""
        if isinstance(error, errors.AnswerOverdue):
            return False  # Its time is over.
        if not isinstance(error, errors.LinkLost):
            return True  # It was never sent.
        asked = self.asked
        if isinstance(asked, Receive):
            return asked.peek and not (asked.handle or asked.cursor)
        # The version of a group takes effect once, however often it is asked for.
        return isinstance(asked, (BeginAttempt, CommitGroup, RollbackGroup, Look, AskOutcome))

    @property
    def to_give_up(self) -> LinkRequest | None:
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


class ThreadLink(Protocol):
    """A link for threads."""

    greeting: Greeting

    @property
    def alive(self) -> bool:
        """Whether requests can be made, as far as is known."""

    def check_alive(self) -> bool:
        """Return the same, after a check whether the connection broke while it was idle."""

    def call(self, request: LinkRequest) -> object:
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

    async def check_alive(self) -> bool:
        """Return the same, after a check whether the connection broke while it was idle."""

    async def call(self, request: LinkRequest) -> object:
        """Ask and wait for the result; errors are raised."""

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
    "manager itself can be used: begin again with it"
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
        raise errors.NotCarriedOut(
            f"{type(self).__name__} is for tasks; write async with, not with"
        )

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


def of_parent(what: str) -> errors.WrongProcess:
    """The error for something that was made before a fork."""
    return errors.WrongProcess(f"{what} {FORKED}")


def is_inside(one: object, codes: tuple[CodeType, ...]) -> bool:
    """Whether the caller was itself called, directly or not, from one of these methods of an
    object; looked up in the stack of this thread, and so true however a call was left before."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code in codes and frame.f_locals.get("self") is one:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def refuse_inside(name: str) -> errors.CallInCall:
    """The error for a call in the middle of another one."""
    return errors.CallInCall(
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
        except errors.CallInCall:
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


# ---- types of requests ---------------------------------------------------------------------------
#
# Whether what an application says in a request is of the types that the request has.
#
# Where an application is not checked by a type checker, a wrong argument comes as far as this. It
# must not come further: a rule of the core has no answer for a number where a name is meant, and a
# frame with one is malformed, which costs the whole connection.


_WORDS: Final = {str: "valid text", int: "a whole number", bool: "True or False", bytes: "bytes"}
_Field = tuple[str, tuple[type, ...], tuple[type, ...]]
_FIELDS: Final[dict[type[requests.Request], list[_Field]]] = {}
"""By class of request, made when it is first asked."""
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 64) - 1
"""Of a number that crosses to a daemon."""


def check_types(request: requests.Request) -> None:
    """Refuse a value of a type that its field does not have.

    Raises:
        InvalidParameter: There is one; nothing was asked.
    """
    said = type(request)
    for name, kinds, element in _FIELDS.get(said) or _FIELDS.setdefault(said, _fields(said)):
        value = getattr(request, name)
        kind = type(value)
        # Nearly every value is of these, and each message comes through here.
        if not (
            kind in kinds
            and (value.isascii() if kind is str else kind is not int or value.bit_length() < 64)
        ) and not _fits(value, kinds):
            wanted = " or ".join(_WORDS.get(kind, kind.__name__) for kind in kinds)
            raise errors.InvalidParameter(
                f"{name.rstrip('_')} cannot be {quoted(value)}: it must be {wanted}"
            )
        if element and not all(_fits(one, element) for one in value):
            raise errors.InvalidParameter(f"{name.rstrip('_')} cannot have {quoted(value)} in it")


def _fits(value: object, kinds: tuple[type, ...]) -> bool:
    if not isinstance(value, kinds):
        return False
    if isinstance(value, str):
        return is_text(value)
    if isinstance(value, bool):  # which is an int for Python, and none in a frame
        return bool in kinds
    return not isinstance(value, int) or _INT_MIN <= value <= _INT_MAX


def _fields(kind: type[requests.Request]) -> list[_Field]:
    """Of each field that an application says: its name, its types, and those of its elements."""
    hints = get_type_hints(kind)
    return [(name, _kinds(hints[name]), _elements(hints[name])) for name in list_given(kind)]


def _kinds(hint: Any) -> tuple[type, ...]:
    if isinstance(hint, UnionType):
        return tuple(kind for one in get_args(hint) for kind in _kinds(one))
    kind: type = get_origin(hint) or hint
    if kind is Sequence:
        return (list, tuple)
    if issubclass(kind, Enum):
        # One of a choice may be named by its value; ``LinkRequest.check`` takes it.
        return (kind, int if issubclass(kind, int) else str)
    return (kind,)


def _elements(hint: Any) -> tuple[type, ...]:
    """Nothing is said of batches: the client has made them itself."""
    if get_origin(hint) is not Sequence:
        return ()
    (element,) = get_args(hint)
    return () if element is SendItem else _kinds(element)


# ---- session -------------------------------------------------------------------------------------
#
# What outlives a connection: the numbering of commits, names known to be good, late messages.
#
# Commits are numbered under a session identifier that the client makes up, so that their outcome
# can be asked for on another connection, and after a restart of the queue manager (I3a). The
# identifier begins with the second of its making by the manager's clock; that is how the manager
# tells a session that it has forgotten from one that never committed. So a session that has not
# committed for half of the time for which outcomes are kept makes up a new one before its next
# commit: what is asked within that time after a commit has a true answer.


DESTINATIONS_MAX = 4_096
"""Names remembered; a session that has seen more forgets them all."""
RECONNECT_S: Final = (0.05, 0.2, 0.5, 1.0, 2.0)
"""Waits between attempts to connect again."""
REPEATS_MAX: Final = 3
"""How often a request that may be repeated is, when connections break under it."""


class Session:
    """One application's dealings with one queue manager. Any thread may use it.

    Attributes:
        source: GUID of the queue manager.
        name: Its computer name.
        destinations: Names that were found good to send to before, and whether the queues of this
            manager among theirs are transactional; None: none of them is of this manager.
        foreign: Managers (by GUID) and computers of which a queue was found to be another
            manager's.
        used: When a commit was last answered (by ``clock``): from then on the manager knows the
            present identifier. Before the first one: when that was made up.
        connections: How many there were until now; what is open belongs to one of them.
        life: What is begun belongs to it; a forked child has another one (finding K4).
    """

    def __init__(
        self,
        greeting: Greeting,
        *,
        random: Callable[[int], bytes] = os.urandom,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.source = greeting.id
        self.name = greeting.name
        self.destinations: dict[str, bool | None] = {}
        self.foreign: set[str | bytes] = set()
        self.tracking = ""
        """Name of the queue for acknowledgments of tracked messages, once it is known."""
        self.replies = ("", 0.0)
        """Name of the queue for replies that all share, and when it was last tidied."""
        self.clock = clock
        self._random = random
        self._lock = threading.Lock()
        self.late: dict[str, deque[Batch]] = {}
        """By queue: messages that came when nobody waited any more."""
        self.owed: dict[str, int] = {}
        """By queue: receives on this connection that were given up and may still be answered."""
        self.connections = 0
        self._transactions = count(1)
        self._globals = count(1)
        self.life = object()
        self._parents: set[bytes] = set()
        """Identifiers under which the processes have committed that this one was forked from."""
        self.note_greeting(greeting)
        self._begin()

    def note_greeting(self, greeting: Greeting) -> None:
        """Note a new connection; raises ServiceNotAvailable if it leads to another manager."""
        if greeting.id != self.source:
            raise errors.ServiceNotAvailable(
                f"another queue manager ({greeting.name}) now answers where {self.name} did; "
                "connect again to talk to it"
            )
        self.owed = {}
        self.connections += 1
        self._ahead = greeting.now_s - self.clock()
        self._outcome_age_s = greeting.outcome_age_s

    def _begin(self) -> None:
        self.used = self.clock()
        began = max(int(self.used + self._ahead), 0) & 0xFFFF_FFFF
        self._id = began.to_bytes(4, "little") + self._random(GUID_BYTES - 4)
        self._commits = 0

    def forked(self) -> None:
        """This is a child now: commit under another identifier, and leave to the parent what came
        for it. A thread that is not here any more may have held the lock."""
        self._lock = threading.Lock()
        self._parents.add(self._id)
        self.life = object()
        self.late = {}
        self._begin()

    def next_global(self) -> int:
        """A number for an external transaction that nobody else uses: 96 bits."""
        return int.from_bytes(self._random(8), "big") << 32 | next(self._globals)

    def now_s(self) -> int:
        """Seconds since 1970 by the manager's clock, about."""
        return int(self.clock() + self._ahead)

    def next_commit(self) -> TransactionId:
        """Under which the outcome of the next commit can be asked for."""
        with self._lock:
            # Half: the other half is for asking after the commit.
            if self.clock() - self.used > self._outcome_age_s / 2:
                self._begin()
            self._commits += 1
            return TransactionId(self._id, self._commits)

    def renumber(self, id: TransactionId) -> None:
        """Take another session identifier: a commit was refused, maybe since this one is barred."""
        with self._lock:
            if id.session == self._id:
                self._begin()

    def next_transaction(self) -> int:
        """Number of the next unit of work."""
        return next(self._transactions)

    def check(self, id: TransactionId) -> None:
        """Refuse to ask for commits of this session that were never begun.

        To be told "aborted" would bar every commit up to that number (see ``AskOutcome``), also of
        the parent of a forked process, which may be at it.

        Raises:
            InvalidParameter, WrongProcess.
        """
        if id.session in self._parents:
            raise of_parent(f"commit {id}")
        if id.session == self._id and id.number > self._commits:
            raise errors.InvalidParameter(f"{id} has not been committed yet")

    def add_destination(self, destination: str, kind: bool | None) -> None:
        """Remember that a name can be sent to, and of which kind its queues here are."""
        if len(self.destinations) >= DESTINATIONS_MAX:
            self.destinations.clear()
        self.destinations[destination] = kind

    def note_foreign_manager(self, place: str | bytes) -> None:
        """Remember that this place belongs to another queue manager."""
        if len(self.foreign) >= DESTINATIONS_MAX:
            self.foreign.clear()
        self.foreign.add(place)

    # ---- messages that came when nobody waited any more -------------------------------------

    def owe(self, queue: str) -> None:
        """A receive was given up."""
        with self._lock:
            self.owed[queue] = self.owed.get(queue, 0) + 1

    def keep(self, queue: str, batch: Batch | None) -> None:
        """Received for a call that had been given up: the next receive gets them. None: nothing
        was, or it was refused."""
        with self._lock:
            if self.owed.get(queue):
                self.owed[queue] -= 1
            if batch is None:
                return
            self.late.setdefault(queue, deque()).append(batch)

    def take(self, queue: str, count: int) -> Batch | None:
        """Up to that number of those messages, if there are any."""
        with self._lock:
            waiting = self.late.get(queue)
            if waiting is None:
                return None
            batch = waiting.popleft()
            if len(batch) > count:
                waiting.appendleft(batch.part(count, len(batch) - count))
                batch = batch.part(0, count)
            if not waiting:
                del self.late[queue]
            return batch
