"""A trace over two queue managers, which are killed in between: a collector gets spans with links.

The collector is a real receiver of OTLP over HTTP, in this process; the applications export to it
as they would to any other.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import onceq
from onceq import otel
from tests.daemon.process import WAIT_S, Process

Q = r"private$\q"
THERE = rf"DIRECT=OS:BETA\{Q}"
FAST = "[settings]\nconnect_retry_s = 0.05\nresend_first_s = 0.2\norder_ack_delay_s = 0.02\n"
DEAF = f"{FAST}settle_doubts = false\n"


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[Process] = []

    def started(name: str, *options: str) -> Process:
        made = Process(
            tmp_path / name, "--create", name.upper(), "--listen", "127.0.0.1:0", *options
        ).started()
        running.append(made)
        return made

    yield started
    for one in running:
        if one.popen.poll() is None:
            assert one.end() == 0, one.said


class Collector:
    """Receives spans by OTLP over HTTP."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        spans = self.spans

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                for one in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in one.scope_spans:
                        spans.extend(scope.spans)
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def provider(self) -> TracerProvider:
        """For an application: each span is exported when it ends."""
        where = f"http://127.0.0.1:{self.server.server_port}/v1/traces"
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(where)))
        return provider

    def one(self, name: str) -> Any:
        (found,) = [span for span in self.spans if span.name.split()[0] == name]
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_collector_gets_linked_spans_of_a_message_over_two_managers_through_kills(
    start: Start, collector: Collector
) -> None:
    beta = start("beta")
    with onceq.connect(str(beta.path)) as qm:
        qm.create_queue(Q, transactional=True)
    alpha = start("alpha", "--peer", f"BETA={beta.peers_at}")
    for process in (alpha, beta):
        process.end()
        (process.path / "onceq.toml").write_text(FAST)
    alpha = start("alpha", "--peer", f"BETA={beta.peers_at}")
    sender = collector.provider()
    with onceq.connect(str(alpha.path)) as qm:
        otel.instrument(qm, tracer_provider=sender)
        with sender.get_tracer("shop").start_as_current_span("order"), qm.transaction() as tx:
            tx.send(THERE, "order 17")
    # It waits in the outgoing queue, then in its queue; both are killed with it.
    alpha.end(signal.SIGKILL)
    beta = start("beta", "--listen", beta.peers_at)
    start("alpha", "--peer", f"BETA={beta.peers_at}")
    with onceq.connect(str(beta.path)) as qm:
        assert qm.peek(Q, timeout=WAIT_S).traceparent
    beta.end(signal.SIGKILL)
    beta = start("beta", "--listen", beta.peers_at)
    with onceq.connect(str(beta.path)) as qm:
        otel.instrument(qm, tracer_provider=collector.provider())
        qm.send(Q, "the last", transactional=True)
        stop = threading.Event()

        def handle(tx: onceq.Transaction, message: onceq.Message) -> None:
            if message.text == "the last":
                stop.set()

        assert qm.consume(Q, handle, timeout=WAIT_S, stop=stop) == 2
    order, create = collector.one("order"), collector.one("create")
    assert create.parent_span_id == order.span_id
    assert create.trace_id == order.trace_id
    for name in ("receive", "process"):
        first = next(span for span in collector.spans if span.name == f"{name} {Q}")
        (link,) = first.links
        assert (link.trace_id, link.span_id) == (create.trace_id, create.span_id)
    commits = [span for span in collector.spans if span.name == "commit"]
    assert [len(span.links) for span in commits] == [1, 1, 1]


@pytest.mark.parametrize("deaf", ["alpha", "beta"])
def test_who_does_not_say_the_word_gets_the_message_and_no_byte_of_its_trace(
    start: Start, deaf: str
) -> None:
    beta = start("beta")
    with onceq.connect(str(beta.path)) as qm:
        qm.create_queue(Q, transactional=True)
    alpha = start("alpha", "--peer", f"BETA={beta.peers_at}")
    for process in (alpha, beta):
        process.end()
        (process.path / "onceq.toml").write_text(DEAF if process.path.name == deaf else FAST)
    beta = start("beta", "--listen", beta.peers_at)
    alpha = start("alpha", "--peer", f"BETA={beta.peers_at}")
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with onceq.connect(str(alpha.path)) as qm:
        qm.send(THERE, "1", transactional=True, extension=b"x", traceparent=trace)
    with onceq.connect(str(beta.path)) as qm:
        message = qm.peek(Q, timeout=WAIT_S)
        raw = bytes(qm.peek_tops(Q).run.data)
    assert (message.extension, message.traceparent) == (b"x", "")
    assert b"OQtrace" not in raw
    assert bytes.fromhex("0af7651916cd43dd8448eb211c80319c") not in raw
