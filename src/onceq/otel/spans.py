"""Spans for operations, and the way between them and the ``traceparent`` of messages.

The names of the semantic conventions, which may still change, stand here alone. Below are the
units of work whose sends, receives and end have spans.

A send has a span of the kind PRODUCER, and its context goes with the message. A receive has one of
the kind CLIENT, a handler one of the kind CONSUMER; both have links to the contexts that their
messages bring. A receive that finds nothing has none: a loop that waits would make two a second.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, Literal, TypeVar

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

from onceq import errors
from onceq.client.link import Session
from onceq.client.plans.branches import BranchUnit
from onceq.client.plans.plan import DONE, Plan
from onceq.client.plans.sending_unit import ENDING, LOST, NOTHING, PipelinedReceive
from onceq.client.plans.unit_of_work import Unit
from onceq.client.properties import Bodies
from onceq.client.results import MessageIds
from onceq.model.branches import Vote, Xid
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.marks import untraced
from onceq.model.message import Message
from onceq.model.run import Run
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
        parent: The parent of a handler's span: "link": the current span, with a link to the span
            that sent the message; "message": the span that sent the message, in the same trace.
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
            # What it says of the branch; "" if it leaves that open.
            if isinstance(error, (errors.RolledBack, errors.RolledBackByHand)):
                outcome = ABORTED
            elif isinstance(error, errors.CommittedByHand):
                outcome = COMMITTED
            else:
                outcome = IN_DOUBT if isinstance(error, errors.InDoubt) else ""
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
    code = error.code if isinstance(error, errors.OnceqError) else type(error).__qualname__
    span.set_attribute(ERROR_TYPE, code)
    span.set_status(Status(StatusCode.ERROR, str(error)))
    span.record_exception(error)


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


# ---- units ---------------------------------------------------------------------------------------
#
# A unit of work whose sends, receives and end have spans.
#
# A message that is sent in a transaction has a span of the type `create`: it begins with the
# call and ends with the transaction, as only then it is known whether there is a message at all.
# What ends the transaction is a span of the type `settle`; a commit without receives one of the
# type `send`.
#
# Every end goes by `over` of the unit of work, so that is where it is noticed: commits, aborts,
# lost connections, and those of which nobody knows.
#
# The work in a branch of an external transaction ends before it is decided: its spans end with
# the work, and say `prepared` or `ended`. What its coordinator does then, maybe in another
# process, has a span of its own, which names the branch.


T = TypeVar("T")
BatchT = TypeVar("BatchT", bound=Batch)
_OPERATIONS: Final = {ABORTED: "abort", PREPARED: "prepare", ENDED: "end"}
"""What the span of an end is called; else ``commit``."""
SPANS_MAX: Final = 1_000
"""Spans of the sends of one transaction that are open at once. Messages beyond them bring the
context of what is around their send."""


class TracedUnit(Unit):
    """A unit of work whose sends, receives and end have spans.

    Attributes:
        around: Below which its end is: the handler's span, or the one of its first receive.
    """

    def __init__(self, tracing: Tracing, session: Session, *of: Any) -> None:
        """Args:
        of: What its kind of unit is made of beside the session.
        """
        self._tracing = tracing
        self._over = ""
        self._sends: list[Span] = []
        self._links: list[Link] = []
        self._taken = 0
        self._since_ns: int | None = None
        self._end: list[Link] = []
        self.around: Context | None = None
        super().__init__(session, *of)

    # ---- sending --------------------------------------------------------------------------

    def send(self, destination: str, bodies: Bodies, properties: Mapping[str, Any]) -> Plan[None]:
        """Add messages, with the context of their span."""
        if not isinstance(bodies, (list, tuple, Run, str, bytes, bytearray, memoryview)):
            bodies = list(bodies)  # type: ignore[arg-type]  # what is no list says so
        count, size = _measured(bodies)
        if len(self._sends) >= SPANS_MAX:
            around = trace.get_current_span()
            return super().send(destination, bodies, with_trace(around, properties, size))
        more = {BODY_SIZE: size} if count == 1 else {COUNT: count}
        span = self._tracing.start("create", CREATE, str(destination), SpanKind.PRODUCER, more=more)
        try:
            plan = super().send(destination, bodies, with_trace(span, properties, size))
        except BaseException as error:
            failed(span, error)
            span.end()
            raise
        if plan is DONE:
            self._sends.append(span)
            return plan
        return self._adding(plan, span)

    def _adding(self, plan: Plan[None], span: Span) -> Plan[None]:
        try:
            yield from plan
        except BaseException as error:
            failed(span, error)
            span.end()
            raise
        self._sends.append(span)

    # ---- receiving ------------------------------------------------------------------------

    def _holding(self, queue: str, asked: Plan[BatchT]) -> Plan[BatchT]:
        since_ns = now_ns()
        try:
            batch = yield from super()._holding(queue, asked)
        except errors.ReceiveTimeout:
            raise
        except Exception as error:
            self._tracing.receive_failed(queue, error, since_ns)
            raise
        if len(batch):
            context = self._tracing.received(queue, batch, since_ns)
            self._taken += len(batch)
            if len(self._links) < LINKS_MAX:
                self._links += links_to(some(batch)[0])[: LINKS_MAX - len(self._links)]
            if self.around is None:
                self.around = trace.set_span_in_context(NonRecordingSpan(context))
        return batch

    # ---- the end --------------------------------------------------------------------------

    def commit(
        self, *, retaining: bool = False, ahead: PipelinedReceive = NOTHING
    ) -> Plan[MessageIds]:
        """As any other; its span begins here."""
        self._since_ns = now_ns()
        return super().commit(retaining=retaining, ahead=ahead)

    @property
    def over(self) -> str:  # noticed when it is set
        """Whether the unit of work is over."""
        return self._over

    @over.setter
    def over(self, became: str) -> None:
        self._over, before = became, self._over
        if became and became != before:
            self._ended(became)

    def _ended(self, became: str) -> None:
        if became == ENDING:  # nobody knows yet how
            return
        word = became.partition(":")[0]
        if became == "committed":
            outcome = COMMITTED
        elif word in (Vote.PREPARED.value, Vote.READ_ONLY.value):
            outcome = PREPARED
        elif word in ("ended", "suspended"):
            outcome = ENDED
        else:
            outcome = IN_DOUBT if word.startswith("in doubt") else ABORTED
        wrong = self._wrong(outcome)
        for span in self._sends:
            _say(span, outcome, wrong, became)
            span.end()
        if self._taken or self._sends:
            self._settled(outcome, wrong, became)
        self._sends, self._taken = [], 0

    def _settled(self, outcome: str, wrong: str, became: str) -> None:
        operation = _OPERATIONS.get(outcome, "commit")
        kind = SETTLE if self._taken or operation != "commit" else SEND
        links = [Link(span.get_span_context()) for span in self._sends[:LINKS_MAX]]
        span = self._tracing.start(
            operation, kind, "", SpanKind.CLIENT,
            links=(self._links + links)[:LINKS_MAX], context=self.around, since_ns=self._since_ns,
            more={RECEIVED: self._taken, SENT: self.total, **self._about()},
        )  # fmt: skip
        self._end = [Link(span.get_span_context())]
        # An abort that the application has asked for is what it wanted.
        _say(span, outcome, wrong if wrong != ABORTED else "", became)
        span.end()

    def _about(self) -> dict[str, Any]:
        """What else its end tells."""
        return {}

    def _wrong(self, outcome: str) -> str:
        """The type of the error that messages were not sent for; "" if they were."""
        if outcome in (COMMITTED, PREPARED, ENDED):
            return ""
        if outcome == IN_DOUBT:
            return errors.InDoubt.code
        if self.doomed is not None:
            return self.doomed.code
        return errors.TransactionLost.code if self._over == LOST else ABORTED


class TracedBranch(TracedUnit, BranchUnit):
    """The same for the work in a branch; made of the session and the branch's identifier."""

    _deciding = False
    """Whether it is ended in order to be committed: only what becomes of that is its end."""

    def commit(
        self, *, retaining: bool = False, ahead: PipelinedReceive = NOTHING
    ) -> Plan[MessageIds]:
        """In one phase; see ``BranchUnit``."""
        self._deciding = True
        try:
            return (yield from super().commit(retaining=retaining, ahead=ahead))
        finally:
            self._deciding = False
            if self.over:
                self._ended(self.over)

    def decide(self) -> Plan[None]:
        """As any other; its span has a link to the end of the work."""
        with self._tracing.settling("commit", self.xid, COMMITTED, self._end):
            return (yield from super().decide())

    def abort(self, why: str = "") -> Plan[None]:
        """The same, once it was prepared; else it is the end of the work."""
        if not self.over.startswith(Vote.PREPARED.value):
            return (yield from super().abort(why))
        with self._tracing.settling("abort", self.xid, ABORTED, self._end):
            return (yield from super().abort(why))

    def _about(self) -> dict[str, Any]:
        return {BRANCH: str(self.xid)}

    def _ended(self, became: str) -> None:
        if not self._deciding:
            super()._ended(became)


def _say(span: Span, outcome: str, wrong: str, became: str) -> None:
    span.set_attribute(OUTCOME, outcome)
    if wrong:
        span.set_attribute(ERROR_TYPE, wrong)
        span.set_status(Status(StatusCode.ERROR, f"the transaction was {became}"))


def _measured(bodies: Any) -> tuple[int, int]:
    """How many bodies, and the size of the largest, as far as that is seen without a copy."""
    if isinstance(bodies, Run):
        return len(bodies), max(bodies.lengths, default=0)
    if not isinstance(bodies, (list, tuple)):
        return 0, 0
    return len(bodies), max((len(b) for b in bodies if hasattr(b, "__len__")), default=0)
