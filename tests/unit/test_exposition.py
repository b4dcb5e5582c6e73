"""Metrics as text: names, units, both forms, and label values that somebody else has chosen."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parsed_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parsed

from onceq import exposition
from onceq.exposition import METRICS, negotiated, text
from onceq.model.views.view import Durations, MetricsView, OutgoingMetrics, QueueMetrics

VIEW = MetricsView(
    name="ALPHA",
    version="1.2.3",
    impl="cpython-3.12",
    sent=7,
    ended={"nack-deleted": 2},
    refused={"quota": 1},
    disbelieved={"a lie": 3},
    turned_away={"peers": 4},
    dead_letters=1,
    transactional_dead_letters=5,
    outgoing=(
        OutgoingMetrics(
            "beta", {"CONNECTED": 2, "ONHOLD": 1}, 9, 8, 900, 60, {"nack-access-denied": 2}
        ),
    ),
    certificate_ends=1_800_000_000,
    commits=Durations((0.001, 0.01), (3, 2, 1), 0.5),
    syncs=Durations((0.001, 0.01), (6, 0, 0), 0.002),
    store_bytes={"log": 100, "ready": 50},
    per_queue=(QueueMetrics("private$\\orders", 3, 300, 12, 0.5),),
    left_out=2,
)  # fmt: skip


def samples(said: str, *, openmetrics: bool = False) -> dict[tuple[str, tuple[str, ...]], float]:
    parse = parsed_openmetrics if openmetrics else parsed
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in parse(said)
        for sample in family.samples
    }


@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_collector_reads_what_was_counted(openmetrics: bool) -> None:
    found = samples(text(VIEW, openmetrics=openmetrics), openmetrics=openmetrics)
    assert found["onceq_messages_sent_total", ()] == 7
    assert found["onceq_messages_ended_total", ("nack-deleted",)] == 2
    assert found["onceq_refused_total", ("quota",)] == 1
    assert found["onceq_dead_letters", ("transactional",)] == 5
    assert found["onceq_outgoing_state", ("beta", "onhold")] == 1
    assert found["onceq_outgoing_oldest_age_seconds", ("beta",)] == 60
    assert found["onceq_build_info", ("cpython-3.12", "ALPHA", "1.2.3")] == 1
    assert found["onceq_commit_duration_seconds_bucket", ("0.001",)] == 3
    assert found["onceq_commit_duration_seconds_bucket", ("+Inf",)] == 6
    assert found["onceq_commit_duration_seconds_sum", ()] == 0.5
    assert found["onceq_store_bytes", ("ready",)] == 50
    assert not any(name.startswith("onceq_queue_") for name, _ in found)


@pytest.mark.parametrize("openmetrics", [False, True])
def test_queues_are_a_page_of_their_own(openmetrics: bool) -> None:
    found = samples(text(VIEW, openmetrics=openmetrics, queues=True), openmetrics=openmetrics)
    assert found["onceq_queue_messages", ("private$\\orders",)] == 3
    assert found["onceq_queue_oldest_age_seconds", ("private$\\orders",)] == 12
    assert found["onceq_queues_left_out", ()] == 2
    assert ("onceq_messages", ()) not in found


@pytest.mark.parametrize("openmetrics", [False, True])
@pytest.mark.parametrize(
    "name", ['a"b', "two\nlines", "back\\slash", "\udcff", "}{,=", "𝔘nicode", "a" * 5_000]
)
def test_a_name_cannot_break_the_text(name: str, openmetrics: bool) -> None:
    view = replace(VIEW, per_queue=(QueueMetrics(name, 1), QueueMetrics("last", 2)))
    found = samples(text(view, openmetrics=openmetrics, queues=True), openmetrics=openmetrics)
    shown = name.encode("utf-8", "replace").decode()
    assert found["onceq_queue_messages", (shown,)] == 1
    assert found["onceq_queue_messages", ("last",)] == 2


def test_the_form_is_the_one_that_was_asked_for() -> None:
    body, kind = negotiated(VIEW, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert kind.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    body, kind = negotiated(VIEW, "text/html")
    assert kind.startswith("text/plain")
    assert b"# EOF" not in body


def test_what_is_absent_has_no_value() -> None:
    found = samples(text(MetricsView()))
    assert ("onceq_certificate_end_timestamp_seconds", ()) not in found
    assert ("onceq_start_timestamp_seconds", ()) not in found, "an older one does not say it"
    assert found["onceq_commit_duration_seconds_count", ()] == 0


def test_every_name_is_well_formed_and_used_once() -> None:
    names = [one.name for one in METRICS]
    assert len(set(names)) == len(names)
    for one in METRICS:
        assert re.fullmatch(r"onceq_[a-z_]+[a-z]", one.name), one.name
        assert not one.name.endswith("_total"), "the library adds it"
        assert one.help.endswith("."), one.name
        assert one.kind in ("counter", "gauge", "histogram")


def test_every_field_of_the_view_is_told() -> None:
    source = Path(exposition.__file__).read_text()
    for kind, letter in ((MetricsView, "v"), (OutgoingMetrics, "o"), (QueueMetrics, "q")):
        for field in fields(kind):
            if field.name in ("id", "name", "peer", "states", "outgoing", "per_queue"):
                continue
            told = (f"{letter}.{field.name}", f"view.{field.name}")
            assert any(re.search(rf"\b{re.escape(one)}\b", source) for one in told), field.name


def test_without_the_library_the_error_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from onceq.errors import ConfigurationError\n"
        "try:\n"
        "    import onceq.exposition\n"
        "except ConfigurationError as error:\n"
        "    print(error.text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "pip install 'onceq[metrics]'" in done.stdout
