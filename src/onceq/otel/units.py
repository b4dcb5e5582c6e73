"""A unit of work whose sends, receives and end have spans.

A message that is sent in a transaction has a span of the type ``create``: it begins with the call
and ends with the transaction, as only then it is known whether there is a message at all. What ends
the transaction is a span of the type ``settle``; a commit without receives one of the type
``send``.

Every end goes by ``over`` of the unit of work, so that is where it is noticed: commits, aborts,
lost connections, and those of which nobody knows.

The work in a branch of an external transaction ends before it is decided: its spans end with the
work, and say ``prepared`` or ``ended``. What its coordinator does then, maybe in another process,
has a span of its own, which names the branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanKind, Status, StatusCode

from onceq.client.plans.branches import BranchUnit
from onceq.client.plans.selection import DONE, Plan
from onceq.client.plans.sending_unit import ENDING, LOST, NOTHING, PipelinedReceive
from onceq.client.plans.unit_of_work import Unit
from onceq.client.properties import Bodies
from onceq.client.results import MessageIds
from onceq.client.session import Session
from onceq.errors import InDoubt, ReceiveTimeout, TransactionLost
from onceq.model.branches import Vote
from onceq.model.run import Run
from onceq.otel import spans
from onceq.otel.spans import (
    LINKS_MAX,
    Tracing,
    failed,
    links_to,
    now_ns,
    some,
    with_trace,
)
from onceq.packet.arrived import Batch

T = TypeVar("T")
BatchT = TypeVar("BatchT", bound=Batch)
_OPERATIONS: Final = {spans.ABORTED: "abort", spans.PREPARED: "prepare", spans.ENDED: "end"}
"""What the span of an end is called; else ``commit``."""
SPANS_MAX: Final = 1_000
"""Spans of the sends of one transaction that are open at once. Messages beyond them bring the
context of what is around their send."""


class TracedUnit(Unit):
    """See the module.

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
        more = {spans.BODY_SIZE: size} if count == 1 else {spans.COUNT: count}
        span = self._tracing.start(
            "create", spans.CREATE, str(destination), SpanKind.PRODUCER, more=more
        )
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
        except ReceiveTimeout:
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
        """See ``Unit``."""
        return self._over

    @over.setter
    def over(self, became: str) -> None:
        self._over, before = became, self._over
        if became and became != before:
            self._ended(became)

    def _ended(self, became: str) -> None:
        if became == ENDING:  # nobody knows yet how
            return
        outcome = _outcome(became)
        wrong = self._wrong(outcome)
        for span in self._sends:
            _say(span, outcome, wrong, became)
            span.end()
        if self._taken or self._sends:
            self._settled(outcome, wrong, became)
        self._sends, self._taken = [], 0

    def _settled(self, outcome: str, wrong: str, became: str) -> None:
        operation = _OPERATIONS.get(outcome, "commit")
        kind = spans.SETTLE if self._taken or operation != "commit" else spans.SEND
        links = [Link(span.get_span_context()) for span in self._sends[:LINKS_MAX]]
        span = self._tracing.start(
            operation, kind, "", SpanKind.CLIENT,
            links=(self._links + links)[:LINKS_MAX], context=self.around, since_ns=self._since_ns,
            more={spans.RECEIVED: self._taken, spans.SENT: self.total, **self._about()},
        )  # fmt: skip
        self._end = [Link(span.get_span_context())]
        # An abort that the application has asked for is what it wanted.
        _say(span, outcome, wrong if wrong != spans.ABORTED else "", became)
        span.end()

    def _about(self) -> dict[str, Any]:
        """What else its end tells."""
        return {}

    def _wrong(self, outcome: str) -> str:
        """The type of the error that messages were not sent for; "" if they were."""
        if outcome in (spans.COMMITTED, spans.PREPARED, spans.ENDED):
            return ""
        if outcome == spans.IN_DOUBT:
            return InDoubt.code
        if self.doomed is not None:
            return self.doomed.code
        return TransactionLost.code if self._over == LOST else spans.ABORTED


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
        with self._tracing.settling("commit", self.xid, spans.COMMITTED, self._end):
            return (yield from super().decide())

    def abort(self, why: str = "") -> Plan[None]:
        """The same, once it was prepared; else it is the end of the work."""
        if not self.over.startswith(Vote.PREPARED.value):
            return (yield from super().abort(why))
        with self._tracing.settling("abort", self.xid, spans.ABORTED, self._end):
            return (yield from super().abort(why))

    def _about(self) -> dict[str, Any]:
        return {spans.BRANCH: str(self.xid)}

    def _ended(self, became: str) -> None:
        if not self._deciding:
            super()._ended(became)


def _outcome(became: str) -> str:
    """What the spans of a unit of work say, by how it is over."""
    if became == "committed":
        return spans.COMMITTED
    word = became.partition(":")[0]
    if word in (Vote.PREPARED.value, Vote.READ_ONLY.value):
        return spans.PREPARED
    if word in ("ended", "suspended"):
        return spans.ENDED
    return spans.IN_DOUBT if word.startswith("in doubt") else spans.ABORTED


def _say(span: Span, outcome: str, wrong: str, became: str) -> None:
    span.set_attribute(spans.OUTCOME, outcome)
    if wrong:
        span.set_attribute(spans.ERROR_TYPE, wrong)
        span.set_status(Status(StatusCode.ERROR, f"the transaction was {became}"))


def _measured(bodies: Any) -> tuple[int, int]:
    """How many bodies, and the size of the largest, as far as that is seen without a copy."""
    if isinstance(bodies, Run):
        return len(bodies), max(bodies.lengths, default=0)
    if not isinstance(bodies, (list, tuple)):
        return 0, 0
    return len(bodies), max((len(b) for b in bodies if hasattr(b, "__len__")), default=0)
