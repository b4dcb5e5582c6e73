"""What applications ask, as inputs of the core; and what the core answers, as frames.

``to_input`` is shared by the connections of a daemon and by the embedded manager. An
``ApiConnection`` is one application on one connection; it knows bytes and frames, not sockets. An
application that asks faster than it is answered is read no further (back-pressure), and one that
is lost takes its open transactions with it (I17).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol

from onceq.core import inputs
from onceq.core.decision import Opened, Sent
from onceq.errors import (
    IllegalPropertyValue,
    InvalidParameter,
    MalformedPacket,
    OnceqError,
    UnknownVersion,
)
from onceq.model.identity import GUID_BYTES, TransactionId
from onceq.model.message import PLAIN, Acknowledge, Delivery, Journal, Properties
from onceq.model.queue import QueueProperties
from onceq.model.run import Buffer, Run
from onceq.service.engine import Delivered, Engine
from onceq.wire.app import frames
from onceq.wire.app.frames import ANSWER, FAILED, Code

UNANSWERED_BYTES_MAX = 64 << 20
"""Bytes of requests of one application that wait for their answers; reading stops above."""
UNANSWERED_MAX = 4_096
"""Requests of one application that wait for their answers."""
FOR_EVER_US = 1 << 62

_PROPERTY_NAMES = frozenset(field.name for field in dataclasses.fields(Properties))
_QUEUE_NAMES = frozenset(field.name for field in dataclasses.fields(QueueProperties))


def properties_of(values: dict[str, Any]) -> Properties:
    """Message properties from the names and values of a frame; raises InvalidParameter."""
    if not values:
        return PLAIN
    unknown = values.keys() - _PROPERTY_NAMES
    if unknown:
        raise InvalidParameter(f"there is no message property {sorted(unknown)[0]!r}")
    for name, value in values.items():
        wanted: type | tuple[type, ...] = int
        if name in ("label", "admin_queue", "response_queue"):
            wanted = str
        elif name in ("correlation_id", "extension"):
            wanted = bytes
        if not isinstance(value, wanted) and not (name == "priority" and value is None):
            raise IllegalPropertyValue(f"property {name} cannot be {value!r}")
    try:
        return Properties(
            **{
                **values,
                "delivery": Delivery(values.get("delivery", Delivery.RECOVERABLE)),
                "acknowledge": Acknowledge(values.get("acknowledge", 0) & 0x0F),
                "journal": Journal(values.get("journal", 0) & 3),
            }
        )
    except ValueError as error:
        raise IllegalPropertyValue(str(error)) from None


def items_of(heads: Sequence[frames.Item], runs: Sequence[Run]) -> tuple[inputs.SendItem, ...]:
    """Batches to send."""
    return tuple(
        inputs.SendItem(head.destination, properties_of(head.properties), run, max(head.age_s, 0))
        for head, run in zip(heads, runs, strict=True)
    )


def split_items(heads: Sequence[frames.Item], data: memoryview) -> list[Run]:
    """The bodies of several batches out of one frame; raises MalformedPacket."""
    if any(head.count < 0 for head in heads):
        raise MalformedPacket("a batch of less than no messages")
    whole = frames.unpack_run(data, sum(head.count for head in heads))
    runs: list[Run] = []
    at = 0
    for head in heads:
        runs.append(whole.part(at, head.count))
        at += head.count
    return runs


def to_input(
    owner: int, request: int, code: int, head: Any, runs: Sequence[Run], *, now_us: int,
    random: Callable[[int], bytes],
) -> inputs.Input:  # fmt: skip
    """One request of an application as an input of the core; raises OnceqError."""
    if code == Code.COMMIT:
        id_ = None
        if head.number:
            if len(head.session) != GUID_BYTES:
                raise InvalidParameter(f"a session identifier has {GUID_BYTES} bytes")
            id_ = TransactionId(head.session, head.number)
        return inputs.Commit(owner, request, head.transaction, items_of(head.items, runs), id_)
    if code == Code.RECEIVE:
        until = 0
        if head.wait_ms:
            until = FOR_EVER_US if head.wait_ms < 0 else now_us + head.wait_ms * 1000
        return inputs.Receive(
            owner, request, head.queue, head.transaction, head.count_max, head.bytes_max, until,
            head.peek, head.after, head.lookup, head.handle,
        )  # fmt: skip
    if code == Code.SEND:
        return inputs.Send(owner, request, head.transaction, items_of(head.items, runs))
    if code == Code.CREATE:
        return inputs.CreateQueue(owner, request, _queue(head.properties), random(GUID_BYTES))
    return _simple(owner, request, code, head)


def _queue(values: dict[str, Any]) -> QueueProperties:
    unknown = values.keys() - _QUEUE_NAMES
    if unknown:
        raise InvalidParameter(f"there is no queue property {sorted(unknown)[0]!r}")
    try:
        return QueueProperties(**values)
    except TypeError as error:
        raise InvalidParameter(f"queue properties: {error}") from None


def _simple(owner: int, request: int, code: int, head: Any) -> inputs.Input:
    try:
        if code == Code.BEGIN:
            return inputs.Begin(owner, request, head.number)
        if code == Code.ABORT:
            return inputs.Abort(owner, request, head.number)
        if code == Code.OPEN:
            return inputs.OpenQueue(
                owner, request, head.name, inputs.Access(head.access), inputs.Share(head.share)
            )
        if code == Code.CLOSE:
            return inputs.CloseQueue(owner, request, head.number)
        if code == Code.REMOVE:
            return inputs.Remove(
                owner, request, head.queue, head.transaction, head.first, head.last
            )
        if code == Code.CANCEL:
            return inputs.CancelReceive(owner, request, head.number)
        if code == Code.OUTCOME:
            return inputs.AskOutcome(owner, request, TransactionId(head.session, head.number))
        if code == Code.DELETE:
            return inputs.DeleteQueue(owner, request, head.name)
        if code == Code.PURGE:
            return inputs.PurgeQueue(owner, request, head.name)
        if code == Code.STEER:
            return inputs.SteerOutgoing(owner, request, head.destination, inputs.Steer(head.action))
        return inputs.Look(owner, request, head.what, head.name)
    except ValueError as error:
        raise InvalidParameter(str(error)) from None


def plain(value: object) -> object:
    """A view as maps, lists and plain values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Enum):
        return value.value
    return value


def answer_frame(request: int, code: int, result: object) -> list[Buffer]:
    """An answer as a frame."""
    if isinstance(result, OnceqError):
        return frames.frame(request, code | FAILED, frames.Failure(result.code, result.text))
    if isinstance(result, Delivered):
        head = frames.HandedHead(
            len(result.run), result.lookups.tobytes(), result.arrived.tobytes(),
            result.aborts.tobytes(),
        )  # fmt: skip
        return frames.frame(request, code | ANSWER, head, *frames.pack_runs([result.run]))
    if isinstance(result, Sent):
        sent = frames.SentHead(result.first_message, result.messages, result.transaction)
        return frames.frame(request, code | ANSWER, sent)
    if isinstance(result, Opened):
        opened = frames.OpenedHead(result.handle, result.local, result.transactional)
        return frames.frame(request, code | ANSWER, opened)
    return frames.frame(request, code | ANSWER, plain(result))


class Transport(Protocol):
    """What an ApiConnection needs of its connection (asyncio transports have it)."""

    def writelines(self, list_of_data: Sequence[Buffer], /) -> None:
        """Send bytes."""

    def close(self) -> None:
        """Send what was written, then close."""

    def pause_reading(self) -> None:
        """Stop taking bytes in."""

    def resume_reading(self) -> None:
        """Take bytes in again."""


class ApiConnection:
    """One application on one connection."""

    def __init__(
        self, engine: Engine, transport: Transport, *, random: Callable[[int], bytes]
    ) -> None:
        self._engine = engine
        self._transport = transport
        self._random = random
        self._parser = frames.Parser()
        self._owner = engine.owner(self._answer)
        self._codes: dict[int, tuple[int, int]] = {}
        self._bytes = 0
        self._paused = False
        self._blocked = False
        self._greeted = False
        self._gone = False

    def data_received(self, data: Buffer) -> None:
        """Bytes have come."""
        if self._gone:
            return
        try:
            for request, code, head, rest in self._parser.feed(data):
                self._request(request, code, head, rest)
        except OnceqError as error:
            self._refuse(error)
            return
        self._throttle()

    def _request(self, request: int, code: int, raw: memoryview, rest: memoryview) -> None:
        head: Any = frames.decode_request(code, raw)
        if not self._greeted:
            self._hello(request, code, head)
            return
        if not request or request in self._codes:
            raise MalformedPacket(f"request number {request} is in use or zero")
        runs = split_items(head.items, rest) if code in (Code.SEND, Code.COMMIT) else []
        size = len(raw) + len(rest)
        self._codes[request] = (code, size)
        self._bytes += size
        try:
            item = to_input(
                self._owner, request, code, head, runs,
                now_us=self._engine.clock.read().mono_us, random=self._random,
            )  # fmt: skip
        except OnceqError as error:
            self._answer(request, error)
            return
        self._engine.submit(item)

    def _hello(self, request: int, code: int, head: Any) -> None:
        if code != Code.HELLO:
            raise MalformedPacket("the first frame must be a hello")
        if head.version != frames.VERSION:
            raise UnknownVersion(
                f"the client speaks version {head.version}, this manager {frames.VERSION}"
            )
        self._greeted = True
        identity = self._engine.manager.identity
        welcome = frames.Welcome(
            frames.VERSION, identity.name, identity.guid, self._engine.clock.read().wall_s
        )
        self._transport.writelines(frames.frame(request, code | ANSWER, welcome))

    def _refuse(self, error: OnceqError) -> None:
        """Say why, and end the connection: nothing more of it can be trusted."""
        failure = frames.Failure(error.code, error.text)
        self._transport.writelines(frames.frame(0, FAILED, failure))
        self._transport.close()
        self.connection_lost()

    def _answer(self, request: int, result: object) -> None:
        code, size = self._codes.pop(request)
        self._bytes -= size
        if not self._gone:
            self._transport.writelines(answer_frame(request, code, result))
            self._throttle()

    def _throttle(self) -> None:
        full = (
            self._blocked or self._bytes > UNANSWERED_BYTES_MAX or len(self._codes) > UNANSWERED_MAX
        )
        if full != self._paused and not self._gone:
            self._paused = full
            if full:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def pause_writing(self) -> None:
        """The application does not read its answers: read nothing more from it."""
        self._blocked = True
        self._throttle()

    def resume_writing(self) -> None:
        """It reads again."""
        self._blocked = False
        self._throttle()

    def connection_lost(self) -> None:
        """The application is gone."""
        if not self._gone:
            self._gone = True
            self._engine.owner_gone(self._owner)
