"""Transactions that are done again, as whole ones, when that is safe.

It also has request and reply: a message, and the one that answers it.

Safe means that nothing of it has happened: what ended it says so (``Retryable``), or its work has
raised, so that it was aborted. Of a commit whose answer was lost nobody knows; the queue manager is
asked for its outcome first, and if it cannot tell, ``InDoubt`` is what the caller gets: such a
transaction is never done again.

Written once for threads and for tasks, as generators of calls (``partners/procedures.py``).

Upholds: I3a (a commit in doubt is not repeated blindly), I4, I13 as far as a requester can see it
(see `client/plans/send.py`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar, Unpack

from onceq import errors
from onceq.client.binding import get_ambient, set_ambient
from onceq.client.enlisting import AnyTransaction, leave
from onceq.client.handlers import check_done
from onceq.client.link import Session
from onceq.client.plans.plan import Plan, ask, do, look_at, within
from onceq.client.plans.receive import peek
from onceq.client.plans.selection import wait_ms
from onceq.client.plans.send import QUEUE, endings, found_by, remove_older, send, tracking_queue
from onceq.client.plans.unit_of_work import outcome
from onceq.client.properties import NOTHING, Body, Nothing, SendProperties, answering, json_body
from onceq.client.stopping import log
from onceq.model import limits, requests
from onceq.model.identity import MessageId
from onceq.model.letters import ENDS
from onceq.model.message import Acknowledge, Message
from onceq.model.names import Kind, elements_of
from onceq.model.requests import PickBy
from onceq.model.views import looks
from onceq.packet.arrived import Batch
from onceq.partners.procedures import Calls, call

# ---- retry ---------------------------------------------------------------------------------------


T = TypeVar("T")

TRIES: Final = 5
"""How often a transaction is done at most, the first time included. What ends it five times in
nearly four seconds has another reason than a conflict or a restart."""
AGAIN_S: Final = (0.05, 0.2, 0.5, 1.0, 2.0)
"""Waits before a transaction is done again; the last one is repeated."""


class EitherTransaction(AnyTransaction, Protocol):
    """A transaction, of either face."""

    @property
    def id(self) -> str: ...

    def _hold(
        self, queue: str, max: int, /, *, timeout: float | None, lookup_id: int = 0
    ) -> Awaitable[Batch] | Batch: ...

    def enlist(self, connection: Any, /) -> object: ...

    def commit(self) -> object: ...


class CallingManager(Protocol):
    """A queue manager, of either face."""

    @property
    def _state(self) -> Session: ...

    def _run(self, plan: Plan[T], /) -> Awaitable[T] | T: ...

    def transaction(self) -> EitherTransaction: ...


class Tries:
    """How often something is done again, and how long it waits before.

    Attributes:
        failed: How often it has failed.
    """

    def __init__(self, tries: int) -> None:
        if isinstance(tries, bool) or not isinstance(tries, int) or tries < 1:
            raise errors.InvalidParameter(
                f"a transaction is tried at least once, not {tries!r} times"
            )
        self._tries = tries
        self.failed = 0

    def wait_s(self) -> float | None:
        """It has failed: how long to wait before it is done again; None: not again."""
        self.failed += 1
        if self.failed >= self._tries:
            return None
        return AGAIN_S[min(self.failed - 1, len(AGAIN_S) - 1)]


def run(
    qm: CallingManager, work: Callable[[Any], object], *, tries: int,
    also: tuple[type[Exception], ...], wait: Callable[[float], object],
) -> Calls[Any]:  # fmt: skip
    """Do a whole transaction; see ``QueueManager.run``.

    Args:
        wait: Waits that number of seconds.
    """
    left = Tries(tries)
    failed: Exception | None
    while True:
        tx, failed = qm.transaction(), None
        try:
            return (yield from _once(qm, tx, work, wait))
        except Exception as error:
            failed = error
            pause_s = left.wait_s() if safe(tx, error, also) else None
            if pause_s is None:
                if left.failed > 1:
                    error.add_note(f"onceq has tried this transaction {left.failed} times")
                raise
            log().warning(
                "a transaction is done again in %s s (%s. time): %s: %s", pause_s,
                left.failed + 1, type(error).__name__, error,
            )  # fmt: skip
        finally:
            yield from leave(tx, failed)
        yield partial(wait, pause_s)


def safe(tx: EitherTransaction, error: Exception, also: tuple[type[Exception], ...] = ()) -> bool:
    """Whether a transaction that ended with an error may be done again: nothing of it happened."""
    if tx._state.decided:
        return False
    # What has doomed it is the error of a send, which may have been raised unchanged.
    doomed = tx._state.doomed is not None and isinstance(error, errors.OnceqError)
    return doomed or isinstance(error, (errors.Retryable, *also))


def gone(error: errors.ServiceNotAvailable) -> bool:
    """Whether the queue manager will not be back: it was closed, or is another one."""
    return type(error) is errors.ServiceNotAvailable


def inside(
    qm: CallingManager, tx: EitherTransaction, work: Callable[..., object], *given: object
) -> Calls[Any]:
    """Call that with a transaction and more, while that is the current one."""
    around = get_ambient()
    set_ambient((tx, qm, tx._state, around))
    try:
        return (yield partial(work, tx, *given))
    finally:
        set_ambient(around)


def settle(
    qm: CallingManager,
    tx: EitherTransaction,
    doubt: errors.InDoubt,
    wait: Callable[[errors.ServiceNotAvailable], Calls[bool]],
) -> Calls[None]:
    """The answer to a commit was lost: find out what became of it. Returns if it has happened.

    Args:
        wait: Waits after the queue manager did not answer; whether to ask again.

    Raises:
        TransactionLost: It has not happened, and cannot any more.
        InDoubt: Nobody can tell.
    """
    if not doubt.transaction or doubt.transaction != tx.id:
        raise doubt
    while True:
        try:
            became = yield from call(qm._run, outcome(qm._state, doubt.transaction))
        except errors.ServiceNotAvailable as away:
            if gone(away) or not (yield from wait(away)):
                raise doubt from None
            continue
        if tx._partners:
            tx._manager._recovering.soon()  # They are to hear of it, committed or not.
        if became == "aborted":
            tx._state.lost()
            raise errors.TransactionLost(
                f"the commit did not happen ({doubt.text}); nothing of it can happen any more"
            ) from doubt
        if became != "committed":
            raise doubt
        tx._state.over = "committed"
        return


def _once(
    qm: CallingManager,
    tx: EitherTransaction,
    work: Callable[[Any], object],
    wait: Callable[[float], object],
) -> Calls[Any]:
    result = yield from inside(qm, tx, work)
    check_done(result)
    if tx._state.over:
        return result  # Its work has committed or aborted it by itself.
    asks = Tries(TRIES)

    def ask_again(_: errors.ServiceNotAvailable) -> Calls[bool]:
        pause_s = asks.wait_s()
        if pause_s is not None:
            yield partial(wait, pause_s)
        return pause_s is not None

    try:
        yield tx.commit
    except errors.InDoubt as doubt:
        yield from settle(qm, tx, doubt, ask_again)
    return result


# ---- requesting ----------------------------------------------------------------------------------
#
# Request and reply: a message, and the one that answers it.


REPLIES: Final = "private$\\onceq.replies"
TIMEOUT_S: Final = 30.0
LOOK_S: Final = (0.25, 0.5, 1.0, 2.0)
"""Between these waits for a reply it is looked whether the request was refused; the last one is
repeated. A reply itself ends a wait at once."""
_OWN: Final = ("response_queue", "admin_queue", "acknowledge")
"""Properties of a request that are not the caller's."""


def request(
    session: Session, /, queue: str, body: Body | Nothing = NOTHING, *, json: object = NOTHING,
    reply_to: str | None = None, timeout: float | None = TIMEOUT_S,
    transactional: bool | None = None, **properties: Unpack[SendProperties],
) -> Plan[Message]:  # fmt: skip
    """Send a request now, also inside the block of a transaction, and wait for its reply.

    Args:
        queue: Where it goes: a name of one queue.
        body, json, transactional, properties: As in ``send``. A request that nobody has received
            some seconds after ``timeout`` expires, unless ``time_to_be_received`` says otherwise.
        reply_to: A queue of this manager for the reply; None: ``private$\\onceq.replies``, a
            transactional queue that is made when it is first needed.
        timeout: Seconds to wait for the reply; None: no limit.

    Returns:
        The reply, which is removed from its queue.

    Raises:
        ReplyTimeout: None came in time. Its text says what is known of the request, and its
            ``request`` is the identifier of that.
        RequestFailed: The request ended without being received: there is no such queue, it was
            purged, a quota is reached.
        ServiceNotAvailable: The manager was lost; with LinkLost, the request may have been sent.
    """
    _check(queue, properties)
    if json is not NOTHING:
        body = json_body(body, json, properties)
    wait_ms(timeout)  # raises InvalidParameter
    replies = yield from _replies(session, reply_to)
    values: dict[str, Any] = dict(properties)
    values["response_queue"] = replies
    values["admin_queue"] = yield from tracking_queue(session)
    values["acknowledge"] = Acknowledge.NEGATIVE_ARRIVAL | Acknowledge.NEGATIVE_RECEIVE
    if values.get("time_to_be_received") is None and timeout is not None:
        values["time_to_be_received"] = (
            math.ceil(min(max(timeout, 0), 1 << 31)) + limits.REQUEST_GRACE_S
        )
    id = yield from send(session, queue, body, transactional=transactional, **values)
    try:
        until = None if timeout is None else session.clock() + timeout
        return (yield from within(_wait(session, queue, id, reply_to or REPLIES, until), until))
    except errors.ServiceNotAvailable as error:
        # Also where the error says that nothing has happened: the request has.
        raise errors.LinkLost(
            f"request {id} to {queue} was sent, and then: {error.text}"
        ) from error


def _check(queue: str, properties: SendProperties) -> None:
    if not isinstance(queue, str):
        raise errors.InvalidParameter(f"a destination is a name, not {queue!r}")
    for name in _OWN:
        if properties.get(name):
            raise errors.InvalidParameter(
                f"request sets {name} itself; name a queue for the reply with reply_to"
            )
    names = elements_of(queue)
    if len(names) != 1 or names[0].kind is Kind.DL:
        raise errors.InvalidParameter(
            f"a request goes to one queue, and {queue} stands for several"
        )


def _replies(session: Session, reply_to: str | None) -> Plan[str]:
    """Format name of the queue for replies; the one that all share is made, and tidied."""
    if reply_to is not None:
        return (yield from look_at(looks.QUEUE, reply_to)).format_name
    now = session.clock()
    known, since = session.replies
    if known and now - since < limits.REPLIES_TIDY_S:
        return known
    try:
        found = yield from look_at(looks.QUEUE, REPLIES)
    except errors.QueueNotFound:
        made = {
            "name": REPLIES.partition("\\")[2], "label": "replies to requests",
            "transactional": True, "quota_kb": limits.REPLIES_QUOTA_KB,
        }  # fmt: skip
        with contextlib.suppress(errors.OnceqError):  # Somebody else may be making it right now.
            yield from do(requests.CreateQueue(made))
        found = yield from look_at(looks.QUEUE, REPLIES)
    yield from remove_older(REPLIES, session.now_s() - limits.REPLIES_AGE_S)
    session.replies = (found.format_name, now)
    return found.format_name


def _wait(
    session: Session, queue: str, id: MessageId, replies: str, until: float | None
) -> Plan[Message]:
    """Wait for what answers a message."""
    rounds = 0
    while True:
        slice_s = LOOK_S[min(rounds, len(LOOK_S) - 1)]
        rounds += 1
        left_s = slice_s if until is None else min(until - session.clock(), slice_s)
        reply = yield from _look_for(replies, id, max(left_s, 0.0))
        if reply is not None:
            with contextlib.suppress(
                errors.ServiceNotAvailable
            ):  # It is here; the rest is tidying.
                yield from do(requests.Remove(replies, 0, reply.lookup_id, reply.lookup_id))
            return reply
        for ack in (yield from found_by(QUEUE, PickBy.CORRELATION, id.pack())):
            _, text = ENDS.get(ack.message_class, ("", f"class {ack.message_class:#06x}"))
            raise errors.RequestFailed(f"request {id} to {queue} was not received: {text}")
        if until is not None and session.clock() >= until:
            known = yield from _known(session, queue, id)
            raise errors.ReplyTimeout(
                f"request {id} to {queue} has no reply: {known}", request=str(id)
            )


def _look_for(replies: str, id: MessageId, wait_s: float) -> Plan[Message | None]:
    """The reply, if it comes in that time."""
    after = 0
    while True:
        asked = requests.Receive(
            replies, 0, limits.RECEIVE_MESSAGES_MAX, limits.RECEIVE_BYTES, wait_ms(wait_s), True,
            after, 0, 0, pick=PickBy.CORRELATION, value=id.pack(),
        )  # fmt: skip
        try:
            found = yield from ask(asked, Batch)
        except errors.ReceiveTimeout:
            return None
        if len(found):
            return found[0]
        after = found.scanned


def _known(session: Session, queue: str, id: MessageId) -> Plan[str]:
    """What is known of a request that nobody has answered, as far as the application may see it."""
    unseen = ""
    try:
        for ending in (yield from endings(session, id, ())):
            if ending.state == "waiting":
                return f"it has not left this computer ({ending.text})"
            return ending.text
    except errors.ServiceNotAvailable:
        raise
    except errors.OnceqError as error:
        unseen = error.text
    try:
        yield from look_at(looks.QUEUE, queue)
        yield from peek(session, queue, message_id=id)
    except errors.ReceiveTimeout:
        return "it was received (or a transaction holds it), and not answered in time"
    except errors.QueueNotFound:
        if not unseen:
            return "it has left this computer and was not refused, so it may have been received"
    except errors.ServiceNotAvailable:
        raise
    except errors.OnceqError as error:
        unseen = error.text
    else:
        return "it is in its queue, and nobody has received it"
    return f"it was sent, and what became of it this application cannot see ({unseen})"


# ---- the other side ----------------------------------------------------------------------------


def reply(
    session: Session, /, message: Message, body: Body | Nothing = NOTHING, *,
    json: object = NOTHING, transactional: bool | None = None, **properties: Unpack[SendProperties],
) -> Plan[MessageId]:  # fmt: skip
    """Answer a request now. ``Transaction.reply`` does it together with receiving the request.

    Args:
        message: The request, as it was received.
        body, json, transactional, properties: As in ``send``.

    Raises:
        InvalidParameter: The message wants no reply.
    """
    if json is not NOTHING:
        body = json_body(body, json, properties)
    values = answering(message, properties)
    return send(session, message.response_queue, body, transactional=transactional, **values)
