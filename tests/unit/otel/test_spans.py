"""Spans of single operations, and the text that goes with a message."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN, SpanKind, StatusCode

from onceq.errors import QueueNotFound
from onceq.model.identity import MessageId
from onceq.model.limits import PACKET_BYTES_MAX
from onceq.model.marks import trace_trailer
from onceq.model.message import Message
from onceq.otel import spans
from onceq.otel.spans import (
    LINKS_MAX,
    ROOM_BYTES,
    Tracing,
    context_of,
    current,
    links_to,
    some,
    traceparent_of,
    with_trace,
)
from tests.unit.otel.collected import TEXT, Collected, above, id_of, linked, said


def message(number: int, traceparent: str = "", **more: object) -> Message:
    return Message(b"body", MessageId(b"S" * 16, number), traceparent=traceparent, **more)  # type: ignore[arg-type]


def numbered(number: int) -> str:
    return f"{TEXT[:36]}{number:016x}-01"


def test_a_context_goes_into_a_text_and_back() -> None:
    span = trace.NonRecordingSpan(context_of(TEXT))
    assert traceparent_of(span) == TEXT
    assert traceparent_of(INVALID_SPAN) == ""


def test_a_send_brings_the_context_of_its_span() -> None:
    span = trace.NonRecordingSpan(context_of(TEXT))
    assert with_trace(span, {"priority": 5}, 1) == {"priority": 5, "traceparent": TEXT}
    assert with_trace(INVALID_SPAN, {"priority": 5}, 1) == {"priority": 5}


def test_a_message_that_has_a_trace_keeps_it() -> None:
    span = trace.NonRecordingSpan(context_of(numbered(7)))
    for given in ({"traceparent": TEXT}, {"extension": b"x" + trace_trailer(TEXT)}):
        assert with_trace(span, given, 1) == given


def test_a_body_that_barely_fits_goes_without_its_trace() -> None:
    span = trace.NonRecordingSpan(context_of(TEXT))
    assert with_trace(span, {}, PACKET_BYTES_MAX - ROOM_BYTES) == {"traceparent": TEXT}
    assert with_trace(span, {}, PACKET_BYTES_MAX - ROOM_BYTES + 1) == {}


def test_links_are_bounded_and_each_is_there_once() -> None:
    many = [message(n, numbered(1 + n // 2)) for n in range(4 * LINKS_MAX)]
    found = links_to(many)
    assert len(found) == LINKS_MAX
    assert [link.context.span_id for link in found] == list(range(1, LINKS_MAX + 1))
    few, count = some(iter(many))
    assert (len(few), count) == (LINKS_MAX, 4 * LINKS_MAX)
    assert links_to([message(1)]) == []


def test_a_receive_says_what_it_has_found() -> None:
    collected = Collected()
    collected.tracing.received("q", message(1, TEXT, abort_count=2), 17)
    span = collected.one("receive q")
    assert (span.kind, span.start_time) == (SpanKind.CLIENT, 17)
    assert linked(span) == [int(TEXT[36:52], 16)]
    assert dict(span.attributes or {}) == {
        spans.SYSTEM: "onceq", spans.SERVER: "ALPHA", spans.DESTINATION: "q",
        spans.OPERATION: "receive", spans.OPERATION_TYPE: "receive", spans.BODY_SIZE: 4,
        spans.MESSAGE_ID: str(MessageId(b"S" * 16, 1)), spans.ABORT_COUNT: 2,
    }  # fmt: skip


@pytest.mark.parametrize(("parent", "below"), [("link", 0), ("message", int(TEXT[36:52], 16))])
def test_a_handler_is_below_its_message_where_that_is_wanted(parent: str, below: int) -> None:
    collected = Collected()
    tracing = Tracing(collected.provider, "ALPHA", parent)  # type: ignore[arg-type]
    with tracing.processing("q", message(1, TEXT)) as span:
        assert trace.get_current_span() is span
    ended = collected.one("process q")
    assert (ended.kind, above(ended)) == (SpanKind.CONSUMER, below)
    assert linked(ended) == [int(TEXT[36:52], 16)]


def test_a_handler_of_a_batch_is_below_none_of_its_messages() -> None:
    collected = Collected()
    tracing = Tracing(collected.provider, "ALPHA", "message")
    with tracing.processing("q", [message(n, numbered(1 + n)) for n in range(3)]):
        pass
    ended = collected.one("process q")
    assert (above(ended), linked(ended), said(ended, spans.COUNT)) == (0, [1, 2, 3], 3)


@pytest.mark.parametrize(
    ("error", "type"), [(QueueNotFound("x"), "queue-not-found"), (ValueError("x"), "ValueError")]
)
def test_an_error_has_its_stable_code(error: Exception, type: str) -> None:
    collected = Collected()
    span = collected.tracing.start("send", spans.SEND, "q", SpanKind.PRODUCER)
    with pytest.raises(Exception, match="x"), current(span):
        raise error
    ended = collected.one("send q")
    assert said(ended, spans.ERROR_TYPE) == type
    assert ended.status.status_code is StatusCode.ERROR
    assert [event.name for event in ended.events] == ["exception"]


def test_a_receive_that_failed_says_why() -> None:
    collected = Collected()
    collected.tracing.receive_failed("q", QueueNotFound("x"), 17)
    assert said(collected.one("receive q"), spans.ERROR_TYPE) == "queue-not-found"
    assert id_of(collected.one("receive q"))
