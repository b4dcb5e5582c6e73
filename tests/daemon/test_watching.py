"""Metrics and health of real daemons: over loopback and TLS, as accounts and with tokens."""

from __future__ import annotations

import http.client
import json
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

import onceq
from onceq.file_access import CONFIGURATION_FILE
from tests.daemon.process import WAIT_S, Process

pytestmark = pytest.mark.slow

Q = r"private$\orders"
TOKENS: dict[Process, str] = {}
"""For whoever scrapes; over TCP no account is known."""


def at(process: Process) -> tuple[str, int]:
    """Where it shows metrics."""
    host, _, port = process.ready.split("metrics on ")[1].split(",")[0].rpartition(":")
    return host, int(port)


def get(
    process: Process, path: str, *, tls: ssl.SSLContext | None = None, **heads: str
) -> tuple[int, str]:
    host, port = at(process)
    if tls is None:
        made = http.client.HTTPConnection(host, port, timeout=WAIT_S)
    else:
        made = http.client.HTTPSConnection(host, port, timeout=WAIT_S, context=tls)
    made.request("GET", path, headers=heads)
    answer = made.getresponse()
    body = answer.read().decode()
    made.close()
    return answer.status, body


def metrics(process: Process, path: str = "/metrics") -> dict[tuple[str, ...], float]:
    with onceq.connect(str(process.path)) as qm:
        if not any(one.name == "prometheus" for one in qm.tokens.list()):
            TOKENS[process] = qm.tokens.create("prometheus", grants={"": "monitor"}).token
    status, body = get(process, path, Authorization=f"Bearer {TOKENS[process]}")
    assert status == 200, body
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in parsed(body)
        for sample in family.samples
    }


@pytest.fixture
def alpha(tmp_path: Path) -> Iterator[Process]:
    path = tmp_path / "alpha"
    path.mkdir()
    (path / CONFIGURATION_FILE).write_text(
        'listen = "127.0.0.1:0"\nmetrics_listen = "127.0.0.1:0"\n'
    )
    process = Process(path, "--create", "ALPHA").started()
    yield process
    assert process.end(signal.SIGTERM) == 0, process.said


def test_what_happens_is_seen_by_whoever_scrapes(alpha: Process) -> None:
    assert get(alpha, "/health/ready")[0] == 200
    with onceq.connect(str(alpha.path)) as qm:
        qm.create_queue(Q, transactional=True)
        with qm.transaction() as tx:
            for body in ("a", "b", "c"):
                tx.send(Q, body)
        with qm.transaction() as tx:
            tx.receive(Q, timeout=WAIT_S)
        found = metrics(alpha)
        assert found["onceq_messages_sent_total",] == 3
        assert found["onceq_messages_received_total",] == 1
        assert found["onceq_messages",] == 2
        assert found["onceq_commit_duration_seconds_count",] >= 2
        assert metrics(alpha, "/metrics/queues")["onceq_queue_messages", Q] == 2
        before = found["onceq_log_bytes_total",]
        qm.purge(Q)
    assert alpha.popen.poll() is None
    # SIGHUP leaves the listener as it is.
    alpha.popen.send_signal(signal.SIGHUP)
    alpha.wait_to_say("configuration reloaded")
    assert get(alpha, "/health/live")[0] == 200
    assert metrics(alpha)["onceq_log_bytes_total",] >= before


def test_an_account_without_the_right_is_told_how_to_get_it(
    alpha: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert get(alpha, "/metrics")[0] == 401, "over TCP an account is nobody"
    with onceq.connect(str(alpha.path)) as qm:
        sender = qm.tokens.create("sender")
        qm.rights.grant("token:sender", "send", Q)
    status, body = get(alpha, "/metrics", Authorization=f"Bearer {sender.token}")
    assert (status, "onceq grant token:sender monitor" in body) == (403, True)
    with onceq.connect(str(alpha.path)) as qm:
        qm.rights.grant("token:sender", "monitor")
    status, body = get(alpha, "/metrics", Authorization=f"Bearer {sender.token}")
    assert (status, "onceq_build_info" in body) == (200, True)
    assert get(alpha, "/metrics", Authorization="Bearer nonsense")[0] == 401


def test_an_address_that_others_reach_needs_proof(tmp_path: Path) -> None:
    path = tmp_path / "alpha"
    path.mkdir()
    (path / CONFIGURATION_FILE).write_text('listen = "127.0.0.1:0"\nmetrics_listen = "0.0.0.0:0"\n')
    process = Process(path, "--create", "ALPHA")
    assert process.ended() == 2
    assert "metrics_listen: other computers can reach 0.0.0.0:0" in process.said


def test_ready_says_how_it_is_as_json(alpha: Process) -> None:
    with onceq.connect(str(alpha.path)) as qm:
        qm.admin.disconnect()
        status, body = get(alpha, "/health/ready")
        assert status == 200
        assert "disconnected by an operator" in json.loads(body)["notes"][0]
        assert metrics(alpha)["onceq_offline",] == 1
