"""What each operation asks of a queue manager, and what it makes of the answers.

A plan is a generator: it yields ``Request``s, is sent their results, and returns what the caller
gets. It does no I/O, so threads, tasks and the embedded manager run the same plans; that is why
all of them behave the same (``client/sync.py``, ``client/tasks.py``).
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from onceq.client.link import Greeting, LinkLost, Request
from onceq.client.results import Batch, MessageIds
from onceq.errors import (
    IllegalPropertySize,
    IllegalPropertyValue,
    InDoubt,
    InvalidParameter,
    LabelTooLong,
    NotSupported,
    ServiceNotAvailable,
    TransactionOver,
    TransactionUsage,
)
from onceq.model.identity import TransactionId
from onceq.model.limits import LABEL_CHARS_MAX, PACKET_BYTES_MAX, RECEIVE_MESSAGES_MAX
from onceq.model.message import CORRELATION_BYTES, Delivery
from onceq.model.run import LENGTH_TYPE, Run
from onceq.wire.app import frames
from onceq.wire.app.frames import Code

Plan = Generator[Request, object, Any]
Body = bytes | bytearray | memoryview | str

FLUSH_BYTES = 4 << 20
"""Bodies of a transaction gathered here before they are shipped ahead of its commit."""
FLUSH_MESSAGES = 100_000
RECEIVE_BYTES = 8 << 20
"""Packets of one answer to a receive of many."""
DESTINATIONS_MAX = 4_096
ACCESS = {"receive": 1, "send": 2, "peek": 0x20}
SHARE = {"none": 0, "deny-receive": 1}


@dataclass(slots=True)
class Session:
    """What outlives a connection: the numbering of commits, and names known to be good."""

    id: bytes
    commits: int = 0
    transactions: int = 0
    source: bytes = b""
    destinations: set[str] = field(default_factory=set)

    def next_commit(self) -> TransactionId:
        """Under which the outcome of the next commit can be asked for."""
        self.commits += 1
        return TransactionId(self.id, self.commits)


def new_session(greeting: Greeting, random: bytes) -> Session:
    """A session that begins now by the manager's clock (``core/outcomes.py``).

    Args:
        random: Twelve random bytes.
    """
    return Session(greeting.now_s.to_bytes(4, "little") + random, source=greeting.id)


def raw(body: Body) -> bytes | bytearray | memoryview:
    """The bytes of a body; text becomes UTF-8."""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytes, bytearray)):
        return body
    if isinstance(body, memoryview):
        return body.cast("B")
    raise InvalidParameter(f"a body is bytes or text, not {type(body).__name__}")


def run_of(bodies: Sequence[Body]) -> Run:
    """Bodies as one run."""
    try:
        return Run(b"".join(bodies), array(LENGTH_TYPE, map(len, bodies)))  # type: ignore[arg-type]
    except TypeError:
        return Run.of([raw(body) for body in bodies])


def checked(values: dict[str, Any]) -> dict[str, Any]:
    """Message properties, with those faults found that need no queue manager."""
    if not values:
        return values
    label = values.get("label", "")
    if len(label) > LABEL_CHARS_MAX:
        raise LabelTooLong(f"the label has {len(label)} characters; at most {LABEL_CHARS_MAX} fit")
    correlation = values.get("correlation_id")
    if correlation is not None and len(correlation) != CORRELATION_BYTES:
        raise IllegalPropertySize(
            f"a correlation identifier has {CORRELATION_BYTES} bytes, not {len(correlation)}"
        )
    priority = values.get("priority")
    if priority is not None and not 0 <= priority <= 7:
        raise IllegalPropertyValue(f"priority is 0 to 7, not {priority}")
    delivery = values.get("delivery")
    if isinstance(delivery, str):
        names = {kind.name.lower(): kind for kind in Delivery}
        if delivery not in names:
            raise IllegalPropertyValue(f"delivery is express or recoverable, not {delivery!r}")
        values["delivery"] = names[delivery]
    return {
        name: int(value) if isinstance(value, int) else value
        for name, value in values.items()
        if value is not None
    }


def know_destination(session: Session, destination: str) -> Plan:
    """Find out at once, the first time, whether a name can be sent to."""
    if destination in session.destinations:
        return
    opened = yield Request(Code.OPEN, frames.Open(destination, ACCESS["send"], 0))
    handle = cast(frames.OpenedHead, opened).handle
    yield Request(Code.CLOSE, frames.Number(handle), waits=False)
    if len(session.destinations) >= DESTINATIONS_MAX:
        session.destinations.clear()
    session.destinations.add(destination)


# ---- sending and receiving outside transactions ------------------------------------------


def send_many(
    session: Session, destination: str, bodies: Sequence[Body], *, transactional: bool,
    values: dict[str, Any],
) -> Plan:  # fmt: skip
    """Send a batch at once: as it is, or as one transaction of its own."""
    values = checked(values)
    run = run_of(bodies)
    item = frames.Item(destination, values, 0, len(run))
    if transactional:
        sent = yield from _commit(session, 0, [item], [run])
    else:
        sent = yield Request(Code.SEND, frames.SendHead(0, [item]), [run])
    return MessageIds(session.source, sent.first_message, sent.messages)


def _commit(
    session: Session, transaction: int, items: list[frames.Item], runs: list[Run],
    id: TransactionId | None = None,
) -> Plan:  # fmt: skip
    """Commit; if the answer is lost, say in doubt, and under which identifier to ask."""
    id = id or session.next_commit()
    head = frames.CommitHead(transaction, id.session, id.number, items)
    try:
        result = yield Request(Code.COMMIT, head, runs)
    except LinkLost as error:
        raise InDoubt(
            f"the answer to the commit was lost ({error.text}); ask outcome({str(id)!r}), and "
            "send again only if it says aborted",
            transaction=str(id),
        ) from error
    return result


def receive_many(
    queue: str, *, count: int, timeout: float | None, transaction: int = 0, handle: int = 0,
    peek: bool = False, after: int = 0, lookup: int = 0, bytes_max: int = RECEIVE_BYTES,
) -> Plan:  # fmt: skip
    """Receive or peek: at least one message, at most ``count``."""
    if count < 1:
        raise InvalidParameter(f"cannot receive {count} messages")
    wait = -1 if timeout is None else max(round(timeout * 1000), 0)
    if timeout is not None and timeout > 0:
        wait = max(wait, 1)
    head = frames.ReceiveHead(
        queue, transaction, min(count, RECEIVE_MESSAGES_MAX), bytes_max, wait, peek, after, lookup,
        handle,
    )  # fmt: skip
    batch = yield Request(Code.RECEIVE, head)
    return cast(Batch, batch)


def one(plan: Plan) -> Plan:
    """The only message of a batch."""
    batch = yield from plan
    return batch[0]


def ask(code: int, head: Any) -> Plan:
    """One request whose answer is the result."""
    return (yield Request(code, head))


def outcome(session: Session, text: str) -> Plan:
    """What became of a commit."""
    try:
        id = TransactionId.parse(text)
    except ValueError as error:
        raise InvalidParameter(str(error)) from None
    return (yield Request(Code.OUTCOME, frames.OutcomeHead(id.session, id.number)))


# ---- transactions ------------------------------------------------------------------------


class Unit:
    """One unit of work, from the application's side: what it has sent is gathered here and goes
    along with its commit, in one frame where it fits."""

    def __init__(self, session: Session) -> None:
        session.transactions += 1
        self.number = session.transactions
        self.session = session
        self.link: object = None
        self.begun = False
        self.over = ""
        self.id: TransactionId | None = None
        self.sent: MessageIds | None = None
        self._items: list[_Gathered] = []
        self._bytes = 0
        self._messages = 0

    def _open(self) -> None:
        if self.over:
            raise TransactionOver(f"this transaction is over: it was {self.over}")

    def _begin(self) -> Plan:
        if not self.begun:
            self.begun = True
            yield Request(Code.BEGIN, frames.Number(self.number), waits=False)

    def send(self, destination: str, bodies: Sequence[Body], values: dict[str, Any]) -> Plan:
        """Add messages."""
        self._open()
        values = checked(values)
        yield from know_destination(self.session, destination)
        added = [raw(body) for body in bodies]
        size = sum(map(len, added))
        last = self._items[-1] if self._items else None
        fresh = last is None or last.destination != destination or last.values != values
        if fresh or (last is not None and last.second != _second()):
            last = _Gathered(destination, values, _second())
            self._items.append(last)
        assert last is not None
        last.bodies += added
        self._bytes += size
        self._messages += len(added)
        large = any(len(body) > PACKET_BYTES_MAX - 4_096 for body in added)
        if large or self._bytes > FLUSH_BYTES or self._messages > FLUSH_MESSAGES:
            yield from self._ship()

    def _take(self) -> tuple[list[frames.Item], list[Run]]:
        now = _second()
        items = [
            frames.Item(g.destination, g.values, now - g.second, len(g.bodies)) for g in self._items
        ]
        runs = [Run.of(g.bodies) for g in self._items]
        self._items, self._bytes, self._messages = [], 0, 0
        return items, runs

    def _ship(self) -> Plan:
        """Send ahead what was gathered; what is refused is dropped, the rest stands."""
        yield from self._begin()
        items, runs = self._take()
        for item, run in zip(items, runs, strict=True):
            yield from self._guard(Request(Code.SEND, frames.SendHead(self.number, [item]), [run]))

    def _guard(self, request: Request) -> Plan:
        try:
            return (yield request)
        except (LinkLost, ServiceNotAvailable):
            self.over = "aborted, because the connection was lost"
            raise

    def receive(self, queue: str, *, count: int, timeout: float | None, handle: int = 0) -> Plan:
        """Take messages; they go back if the transaction aborts."""
        self._open()
        yield from self._begin()
        return (
            yield from receive_many(
                queue, count=count, timeout=timeout, transaction=self.number, handle=handle
            )
        )

    def remove(self, queue: str, first: int, last: int) -> Plan:
        """Take a range that was peeked before, without its bytes."""
        self._open()
        yield from self._begin()
        head = frames.RemoveHead(queue, self.number, first, last)
        return (yield from self._guard(Request(Code.REMOVE, head)))

    def peek(self) -> None:
        """There is no such thing."""
        raise TransactionUsage("peek has no meaning in a transaction (RCV-11)")

    def commit(self, *, retaining: bool = False) -> Plan:
        """Make all of it happen."""
        self._open()
        if retaining:
            raise NotSupported("an internal transaction cannot be retained")
        self.id = self.session.next_commit()
        items, runs = self._take()
        number = self.number if self.begun else 0
        try:
            sent = yield from _commit(self.session, number, items, runs, self.id)
        except InDoubt:
            self.over = "in doubt"
            raise
        except LinkLost:
            self.over = "aborted, because the connection was lost"
            raise
        except ServiceNotAvailable:
            self.over = "aborted, because the connection was lost"
            raise
        self.over = "committed"
        self.sent = MessageIds(self.session.source, sent.first_message, sent.messages)
        return self.sent

    def abort(self) -> Plan:
        """Undo all of it."""
        self._open()
        self.over = "aborted"
        self._items = []
        if self.begun:
            try:
                yield Request(Code.ABORT, frames.Number(self.number))
            except ServiceNotAvailable:
                return


@dataclass(slots=True)
class _Gathered:
    destination: str
    values: dict[str, Any]
    second: int
    bodies: list[bytes | bytearray | memoryview] = field(default_factory=list)


def _second() -> int:
    return int(time.monotonic())
