"""Spans that are kept in memory, for tests of what makes them."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from onceq.otel.spans import Tracing

Q, PLAIN = r"private$\q", r"private$\plain"
TEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collected:
    """A provider of tracers, and what has come to it."""

    def __init__(self) -> None:
        self._memory = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._memory))
        self.tracing = Tracing(self.provider, "ALPHA")

    @property
    def spans(self) -> list[ReadableSpan]:
        """All that have ended, in the order of their ends."""
        return list(self._memory.get_finished_spans())

    def taken(self) -> list[str]:
        """The names of what came since the last call."""
        found = [span.name for span in self.spans]
        self._memory.clear()
        return found

    def one(self, name: str) -> ReadableSpan:
        """The only span whose name begins so."""
        (found,) = [span for span in self.spans if span.name.startswith(name)]
        return found


def said(span: ReadableSpan, name: str) -> Any:
    """An attribute; None: it has none of that name."""
    return (span.attributes or {}).get(name)


def id_of(span: ReadableSpan) -> int:
    """The identifier of a span."""
    assert span.context is not None
    return int(span.context.span_id)


def linked(span: ReadableSpan) -> list[int]:
    """The identifiers of the spans that a span has links to."""
    return [int(link.context.span_id) for link in span.links]


def above(span: ReadableSpan) -> int:
    """The identifier of its parent; 0: it has none."""
    return int(span.parent.span_id) if span.parent is not None else 0
