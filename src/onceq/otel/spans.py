"""Spans for operations, and the way between them and the ``traceparent`` of messages.

The names of the semantic conventions, which may still change, stand here alone.

A send has a span of the kind PRODUCER, and its context goes with the message. A receive has one of
the kind CLIENT, a handler one of the kind CONSUMER; both have links to the contexts that their
messages bring. A receive that finds nothing has none: a loop that waits would make two a second.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, Literal

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TracerProvider,
)

from onceq.errors import CommittedByHand, InDoubt, OnceqError, RolledBack, RolledBackByHand
from onceq.model.branches import Xid
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.marks import untraced
from onceq.model.message import Message
from onceq.packet.arrived import Batch
from onceq.version import __version__

# ---- names ---------------------------------------------------------------------------------------
#
# Names of the semantic conventions for messaging, which OpenTelemetry may still change.


SYSTEM: Final = "messaging.system"
SYSTEM_ONCEQ: Final = "onceq"
DESTINATION: Final = "messaging.destination.name"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
MESSAGE_ID: Final = "messaging.message.id"
CONVERSATION: Final = "messaging.message.conversation_id"
BODY_SIZE: Final = "messaging.message.body.size"
COUNT: Final = "messaging.batch.message_count"
SERVER: Final = "server.address"
ERROR_TYPE: Final = "error.type"

CREATE: Final = "create"
SEND: Final = "send"
RECEIVE: Final = "receive"
PROCESS: Final = "process"
SETTLE: Final = "settle"

OUTCOME: Final = "onceq.transaction.outcome"
"""What became of the transaction: committed, aborted or in-doubt; of a branch, whose coordinator
decides later, prepared or ended."""
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
IN_DOUBT: Final = "in-doubt"
PREPARED: Final = "prepared"
ENDED: Final = "ended"
BRANCH: Final = "onceq.transaction.branch"
"""Which branch of an external transaction is prepared, decided or left: as ``Xid`` prints it."""
RECEIVED: Final = "onceq.transaction.received_count"
SENT: Final = "onceq.transaction.sent_count"
ABORT_COUNT: Final = "onceq.message.abort_count"
"""How often the message was received before, and given back."""


# ---- spans ---------------------------------------------------------------------------------------


LINKS_MAX: Final = 128
"""Links of one span: what the SDK of OpenTelemetry keeps if nobody says otherwise."""
ROOM_BYTES: Final = 4_096
"""A body nearer than this to the largest packet goes without its trace: it could be the one that
does not fit any more."""
Parent = Literal["link", "message"]
Messages = Message | Batch | Iterable[Message]


class Tracing:
    """What is needed to make spans for one queue manager.

    Attributes:
        parent: What a handler's span is below: "link": whatever is around it, with a link to where
            the message was sent; "message": where its message was sent, in the same trace.
    """

    def __init__(
        self, provider: TracerProvider | None, server: str = "", parent: Parent = "link"
    ) -> None:
        self._tracer = trace.get_tracer("onceq", __version__, provider)
        self._always = {SYSTEM: SYSTEM_ONCEQ}
        if server:
            self._always[SERVER] = server
        self.parent = parent

    def start(
        self, operation: str, type: str, destination: str, kind: SpanKind, *,
        links: Iterable[Link] = (), context: Context | None = None, since_ns: int | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> Span:  # fmt: skip
        """A span that has begun."""
        values: dict[str, Any] = {
            **self._always, OPERATION: operation, OPERATION_TYPE: type, **(more or {})
        }  # fmt: skip
        if destination:
            values[DESTINATION] = destination
        return self._tracer.start_span(
            f"{operation} {destination}".rstrip(), context, kind, values, list(links), since_ns
        )

    def received(
        self, queue: str, messages: Messages, since_ns: int, around: Context | None = None
    ) -> SpanContext:
        """A receive that has found something; the context of its span."""
        few, count = some(messages)
        span = self.start(
            "receive", RECEIVE, queue, SpanKind.CLIENT, links=links_to(few),
            context=around, since_ns=since_ns, more=described(few, count),
        )  # fmt: skip
        span.end()
        return span.get_span_context()

    def receive_failed(self, queue: str, error: BaseException, since_ns: int) -> None:
        """A receive that was refused, or was cut off."""
        span = self.start("receive", RECEIVE, queue, SpanKind.CLIENT, since_ns=since_ns)
        failed(span, error)
        span.end()

    @contextlib.contextmanager
    def settling(
        self, operation: str, xid: Xid, outcome: str, links: Iterable[Link] = ()
    ) -> Iterator[None]:
        """The span of what prepares or decides a branch; the work in it was done elsewhere.

        Args:
            outcome: What becomes of the branch if no error leaves the block.
        """
        span = self.start(
            operation, SETTLE, "", SpanKind.CLIENT, links=links,
            more={BRANCH: str(xid)},
        )  # fmt: skip
        try:
            yield
        except BaseException as error:
            outcome = _became(error)
            failed(span, error)
            raise
        finally:
            if outcome:
                span.set_attribute(OUTCOME, outcome)
            span.end()

    @contextlib.contextmanager
    def processing(
        self, queue: str, messages: Messages, around: Context | None = None
    ) -> Iterator[Span]:
        """The span of what is done for messages; it is the current one meanwhile."""
        few, count = some(messages)
        links = links_to(few)
        if self.parent == "message" and count == 1 and links:
            around = trace.set_span_in_context(NonRecordingSpan(links[0].context))
        span = self.start(
            "process", PROCESS, queue, SpanKind.CONSUMER, links=links, context=around,
            more=described(few, count),
        )  # fmt: skip
        with current(span):
            yield span


@contextlib.contextmanager
def current(span: Span) -> Iterator[Span]:
    """Let a span be the current one, and end it, with the error if one leaves the block."""
    with trace.use_span(
        span, end_on_exit=True, record_exception=False, set_status_on_exception=False
    ):
        try:
            yield span
        except BaseException as error:
            failed(span, error)
            raise


def failed(span: Span, error: BaseException) -> None:
    """Note an error: of onceq by its stable code, any other by its class."""
    code = error.code if isinstance(error, OnceqError) else type(error).__qualname__
    span.set_attribute(ERROR_TYPE, code)
    span.set_status(Status(StatusCode.ERROR, str(error)))
    span.record_exception(error)


def _became(error: BaseException) -> str:
    """What an error of a verb says of its branch; "" if it leaves that open."""
    if isinstance(error, (RolledBack, RolledBackByHand)):
        return ABORTED
    if isinstance(error, CommittedByHand):
        return COMMITTED
    return IN_DOUBT if isinstance(error, InDoubt) else ""


def some(messages: Messages) -> tuple[list[Message], int]:
    """The first messages of many, and how many they are."""
    if isinstance(messages, Message):
        return [messages], 1
    if isinstance(messages, Batch):
        count = len(messages)
        return [messages[index] for index in range(min(count, LINKS_MAX))], count
    whole = list(messages)
    return whole[:LINKS_MAX], len(whole)


def described(few: list[Message], count: int) -> dict[str, Any]:
    """Attributes of the messages of a span; of one message what it is."""
    if count != 1:
        return {COUNT: count}
    (message,) = few
    found: dict[str, Any] = {
        MESSAGE_ID: str(message.id), BODY_SIZE: len(message.body)
    }  # fmt: skip
    if any(message.correlation_id):
        found[CONVERSATION] = message.correlation_id.hex()
    if message.abort_count:
        found[ABORT_COUNT] = message.abort_count
    return found


def links_to(messages: Iterable[Message]) -> list[Link]:
    """Links to where messages were sent, each once, at most LINKS_MAX."""
    texts = dict.fromkeys(message.traceparent for message in messages if message.traceparent)
    return [Link(context_of(text)) for text in islice(texts, LINKS_MAX)]


def context_of(traceparent: str) -> SpanContext:
    """The context that a message brings; it was checked when it was read."""
    _, trace_id, span_id, flags = traceparent.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)))


def traceparent_of(span: Span) -> str:
    """The text that brings the context of a span; "" if there is none."""
    context = span.get_span_context()
    if not context.is_valid:
        return ""
    flags = int(context.trace_flags) & 0xFF
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}"


def with_trace(span: Span, properties: Mapping[str, Any], size: int) -> dict[str, Any]:
    """The properties of a send, with the context of its span; but a message that has a trace, as
    a dead letter that goes home does, keeps that.

    Args:
        size: Bytes of the largest body.
    """
    values = dict(properties)
    text = traceparent_of(span)
    if text and size <= PACKET_BYTES_MAX - ROOM_BYTES and not _has_trace(values):
        values["traceparent"] = text
    return values


def _has_trace(values: Mapping[str, Any]) -> bool:
    extension = values.get("extension")
    if values.get("traceparent"):
        return True
    return isinstance(extension, (bytes, bytearray)) and bool(untraced(bytes(extension))[1])


def now_ns() -> int:
    """When a span begins that is made later."""
    return time.time_ns()
