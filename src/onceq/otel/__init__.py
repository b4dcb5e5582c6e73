"""Spans of OpenTelemetry for what an application does with a queue manager.

    from onceq import otel

    qm = otel.instrument(onceq.connect("shop"))

From then on every message that is sent with ``qm`` brings the trace that it was sent in, and what
is received has spans with links to where it was sent. The client library knows nothing of this:
``instrument`` puts its own in front of the methods of this one object, and of the transactions that
it makes. A queue manager that is not instrumented costs what it did.

Needs ``pip install "onceq[otel]"``: the API of OpenTelemetry alone. Without an SDK, or a provider
of tracers, nothing is recorded, and a trace that is there goes along all the same.
"""

try:
    import opentelemetry.trace as _  # noqa: F401
except ImportError as error:
    raise ImportError(
        'onceq.otel needs the API of OpenTelemetry: pip install "onceq[otel]"'
    ) from error

from onceq.otel.faces import instrument, process, uninstrument

__all__ = ["instrument", "process", "uninstrument"]
