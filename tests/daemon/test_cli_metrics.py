"""``onceq qm metrics`` of a daemon, in both forms, and as whoever may not look."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parsed_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parsed

from tests.daemon.shell import STOCK, Shell

pytestmark = pytest.mark.slow


def test_metrics_of_a_daemon(onceq_: Shell) -> None:
    onceq_("queue", "create", "private$/counted", "--transactional")
    onceq_("send", "private$/counted", "a")
    onceq_("send", STOCK, "b")
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in parsed(onceq_("qm", "metrics"))
        for sample in family.samples
    }
    assert found["onceq_messages_sent_total",] >= 2
    assert found["onceq_outgoing_unacknowledged", "beta"] >= 1
    assert found["onceq_store_sync_duration_seconds_count",] >= 2
    assert found["onceq_disk_free_bytes",] > 0
    queues = onceq_("qm", "metrics", "--queues", "--openmetrics")
    (family,) = [one for one in parsed_openmetrics(queues) if one.name == "onceq_queue_messages"]  # type: ignore[no-untyped-call]
    depths = {sample.labels["queue"]: sample.value for sample in family.samples}
    assert depths[r"private$\counted"] == 1
    view = onceq_.json("qm", "metrics")
    assert isinstance(view, dict)
    assert view["sent"] >= 2
