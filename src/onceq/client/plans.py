"""What each operation asks of a queue manager, and what it makes of the answers.

A plan is a generator: it yields ``Request``s, is sent their results, and returns what the caller
gets. It does no I/O, so threads, tasks and the embedded manager run the same plans; that is why
all of them behave the same (``client/sync.py``, ``client/tasks.py``).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast

from onceq.client.link import Request
from onceq.client.session import Session
from onceq.errors import InDoubt, InvalidParameter, LinkLost, StorageFailure, TransactionOver
from onceq.model.identity import TransactionId
from onceq.model.limits import RECEIVE_MESSAGES_MAX
from onceq.model.results import Opened
from onceq.model.run import Run
from onceq.model.views.looks import Look
from onceq.packet.batch import Batch
from onceq.wire.app import frames
from onceq.wire.app.frames import Code

T = TypeVar("T")
Plan = Generator[Request, object, Any]

RECEIVE_BYTES: Final = 8 << 20
"""Packets of one answer to a receive of many."""
WAIT_S_MAX: Final = 1e9
"""A longer timeout waits for ever."""
ACCESS: Final = {"receive": 1, "send": 2, "move": 4, "peek": 0x20}
SHARE: Final = {"none": 0, "deny-receive": 1}


def ask(code: int, head: Any) -> Plan:
    """One request whose answer is the result."""
    return (yield Request(code, head))


def look(look: Look[T], name: str = "") -> Generator[Request, object, T]:
    """What a queue manager tells of itself."""
    return cast(T, (yield Request(Code.LOOK, frames.LookHead(look.what, name))))


def open_queue(name: str, access: str, share: str, note: str = "") -> Plan:
    """Hold a queue open; returns an Opened."""
    if access not in ACCESS or share not in SHARE:
        raise InvalidParameter(
            f"there is no access {access!r} with share {share!r}; access is one of "
            f"{', '.join(ACCESS)}, share one of {', '.join(SHARE)}"
        )
    return (yield Request(Code.OPEN, frames.Open(name, ACCESS[access], SHARE[share], note)))


def know_destination(session: Session, destination: str) -> Plan:
    """Find out at once, the first time, whether a name can be sent to."""
    if session.knows(destination):
        return
    opened = cast(Opened, (yield Request(Code.OPEN, frames.Open(destination, ACCESS["send"], 0))))
    yield Request(Code.CLOSE, frames.Number(opened.handle), waits=False, lazy=True)
    session.learn(destination)


# ---- receiving -----------------------------------------------------------------------------


def wait_ms(timeout: float | None) -> int:
    """Seconds to wait as they go into a frame: None and very long are for ever."""
    if timeout is None or timeout >= WAIT_S_MAX:
        return -1
    if math.isnan(timeout):
        raise InvalidParameter("a timeout is a number of seconds, or None")
    return max(math.ceil(timeout * 1000), 0)


def receive_many(
    session: Session, queue: str, *, count: int, timeout: float | None, transaction: int = 0,
    handle: int = 0, peek: bool = False, after: int = 0, lookup: int = 0, hold: bool = False,
) -> Plan:  # fmt: skip
    """Receive or peek: at least one message, at most ``count``."""
    if count < 1:
        raise InvalidParameter(f"cannot receive {count} messages")
    late = None
    if not (transaction or peek):
        late = partial(session.keep, queue)
        kept = None if lookup else session.take(queue, count)
        if kept is not None:
            return kept
    head = frames.ReceiveHead(
        queue, transaction, min(count, RECEIVE_MESSAGES_MAX), RECEIVE_BYTES, wait_ms(timeout),
        peek, after, lookup, handle, hold=hold,
    )  # fmt: skip
    return cast(Batch, (yield Request(Code.RECEIVE, head, late=late)))


def one(plan: Plan) -> Plan:
    """The only message of a batch."""
    batch = yield from plan
    return batch[0]


# ---- commits and what became of them -----------------------------------------------------


def commit(
    session: Session, transaction: int, items: list[frames.Item], runs: Sequence[Run],
    id: TransactionId,
) -> Plan:  # fmt: skip
    """Commit; if the answer is lost, say in doubt, and under which identifier to ask."""
    head = frames.CommitHead(transaction, id.session, id.number, items)
    try:
        result = yield Request(Code.COMMIT, head, runs)
    except (LinkLost, StorageFailure) as error:
        raise InDoubt(
            f"the answer to the commit was lost ({error.text}); ask outcome({str(id)!r}), and "
            "send again only if it says aborted",
            transaction=str(id),
        ) from error
    except TransactionOver:
        session.barred(id)
        raise
    session.committed()
    return result


def outcome(session: Session, text: str) -> Plan:
    """What became of a commit."""
    try:
        id = TransactionId.parse(text)
    except ValueError as error:
        raise InvalidParameter(str(error)) from None
    if not 0 < id.number < 1 << 62:
        raise InvalidParameter(f"not a transaction identifier: {text!r}")
    session.check(id)
    return (yield Request(Code.OUTCOME, frames.OutcomeHead(id.session, id.number)))
