"""Metrics of a queue manager as text for Prometheus, and as OpenMetrics.

    with onceq.connect("./alpha") as qm:
        print(onceq.exposition.text(qm.admin.metrics()))

``METRICS`` names and describes all of them, once: what is exposed, the reference page, the alert
rules and the dashboard are held against it. The format itself is the library's matter
(prometheus-client, extra ``onceq[metrics]``).

Units are base units (seconds, bytes, ratios). The name of a metric that only rises, and begins at 0
with each start of the queue manager, ends in ``_total``. No label has values that others can
multiply without a bound: queues and other queue managers are counted out where they are looked at
(``core/management/metrics.py``), and reasons and classes are known words.

Raises:
    ConfigurationError: The library is missing.

Upholds: I24.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from onceq.errors import ConfigurationError
from onceq.model.views.view import Durations, MetricsView, OutgoingMetrics, QueueMetrics

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.exposition import choose_encoder
except ModuleNotFoundError as error:
    raise ConfigurationError(
        "metrics for Prometheus need the library prometheus-client: pip install 'onceq[metrics]'"
    ) from error

__all__ = ["METRICS", "Described", "negotiated", "text"]

OPENMETRICS: Final = "application/openmetrics-text"
Row = tuple[tuple[str, ...], float]
"""Values of the labels, and the value."""


@dataclass(frozen=True, slots=True)
class Described:
    """One metric.

    Attributes:
        name: Its name in the exposition; of a counter without ``_total``.
        kind: counter, gauge or histogram.
        help: What it says.
        labels: Names of its labels.
        rows: Takes its values out of a view.
        durations: Takes those of a histogram.
        per_queue: Whether it is exposed only where each queue was asked for.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    rows: Callable[[MetricsView], Iterable[Row]] = lambda view: ()
    durations: Callable[[MetricsView], Durations] | None = None
    per_queue: bool = False

    @property
    def exposed(self) -> str:
        """What rules and dashboards call it; a histogram has ``_bucket``, ``_sum`` and ``_count``
        behind it."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


def _one(get: Callable[[MetricsView], float]) -> Callable[[MetricsView], Iterable[Row]]:
    return lambda view: [((), get(view))]


def _each(get: Callable[[MetricsView], dict[str, int]]) -> Callable[[MetricsView], Iterable[Row]]:
    return lambda view: [((key,), value) for key, value in sorted(get(view).items())]


def _peers(get: Callable[[OutgoingMetrics], float]) -> Callable[[MetricsView], Iterable[Row]]:
    return lambda view: [((one.peer,), get(one)) for one in view.outgoing]


def _queues(get: Callable[[QueueMetrics], float]) -> Callable[[MetricsView], Iterable[Row]]:
    return lambda view: [((one.name,), get(one)) for one in view.per_queue]


def _states(view: MetricsView) -> Iterable[Row]:
    for one in view.outgoing:
        for state, count in sorted(one.states.items()):
            yield (one.peer, state.lower()), count


def _refused(view: MetricsView) -> Iterable[Row]:
    return [((o.peer, kind), o.refused[kind]) for o in view.outgoing for kind in sorted(o.refused)]


def _ends(view: MetricsView) -> Iterable[Row]:
    return [((), view.certificate_ends)] if view.certificate_ends else []


def _start(view: MetricsView) -> Iterable[Row]:
    return [((), view.started)] if view.started else []


def _letters(view: MetricsView) -> Iterable[Row]:
    return [(("plain",), view.dead_letters), (("transactional",), view.transactional_dead_letters)]


_COUNTERS: Final = (
    Described("onceq_messages_sent", "counter",
              "Messages that applications have sent; one to several destinations counts once.",
              rows=_one(lambda v: v.sent)),
    Described("onceq_messages_accepted", "counter",
              "Messages that came from other queue managers and were accepted.",
              rows=_one(lambda v: v.accepted)),
    Described("onceq_messages_received", "counter",
              "Messages that applications have received for good.",
              rows=_one(lambda v: v.received)),
    Described("onceq_messages_returned", "counter",
              "Messages that aborted transactions gave back.",
              rows=_one(lambda v: v.returned)),
    Described("onceq_messages_acknowledged", "counter",
              "Messages that other queue managers have taken over.",
              rows=_one(lambda v: v.acknowledged)),
    Described("onceq_messages_ended", "counter",
              "Messages that ended otherwise, by class (expired, purged, refused, in doubt ...).",
              ("class",), _each(lambda v: v.ended)),
    Described("onceq_stream_resent", "counter",
              "Transactional messages that were transmitted once more.",
              rows=_one(lambda v: v.resent)),
    Described("onceq_outgoing_refused", "counter",
              "Messages that another queue manager did not take, by class (no such queue, access "
              "denied, quota ...).",
              ("peer", "class"), _refused),
    Described("onceq_refused", "counter",
              "Requests of applications that were refused, by code of the error.",
              ("reason",), _each(lambda v: v.refused)),
    Described("onceq_trace_reports_dropped", "counter",
              "Trace reports that no report queue has taken: full, away, or of the wrong kind.",
              rows=_one(lambda v: v.reports_dropped)),
    Described("onceq_disbelieved", "counter",
              "What other queue managers said that does not count, by what it was.",
              ("what",), _each(lambda v: v.disbelieved)),
    Described("onceq_connections_refused", "counter",
              "Connections that were not let in, by kind.",
              ("kind",), _each(lambda v: v.turned_away)),
    Described("onceq_trail_acts_lost", "counter",
              "Acts of administration that went before they were told outside.",
              rows=_one(lambda v: v.trail_lost)),
    Described("onceq_log_bytes", "counter",
              "Bytes that were ever written to the log; goes on after a restart.",
              rows=_one(lambda v: v.log_position)),
)  # fmt: skip
_GAUGES: Final = (
    Described("onceq_queues", "gauge", "Queues of applications.", rows=_one(lambda v: v.queues)),
    Described("onceq_queues_paused", "gauge", "Queues that an operator has paused.",
              rows=_one(lambda v: v.queues_paused)),
    Described("onceq_queues_failing", "gauge",
              "Queues of which a consumer says that it can handle no message.",
              rows=_one(lambda v: v.queues_failing)),
    Described("onceq_identity_clashes", "gauge",
              "Identities that two queue managers use, noticed since the start.",
              rows=_one(lambda v: v.clashes)),
    Described("onceq_directory_away", "gauge", "1: the directory cannot be read.",
              rows=_one(lambda v: v.directory_away)),
    Described("onceq_trail_untold", "gauge",
              "1 while acts of administration wait that are to be told outside: trail_file, "
              "trail_syslog.",
              rows=_one(lambda v: v.trail_untold)),
    Described("onceq_messages", "gauge", "Messages in queues of applications.",
              rows=_one(lambda v: v.messages)),
    Described("onceq_message_bytes", "gauge",
              "Bytes of all messages that are held, wherever they are.",
              rows=_one(lambda v: v.bytes)),
    Described("onceq_oldest_age_seconds", "gauge",
              "Age of the oldest message in any queue of applications.",
              rows=_one(lambda v: v.oldest_age_s)),
    Described("onceq_journal_messages", "gauge", "Messages in journals.",
              rows=_one(lambda v: v.journal_messages)),
    Described("onceq_dead_letters", "gauge", "Messages in the two dead-letter queues.",
              ("kind",), _letters),
    Described("onceq_poison_messages", "gauge",
              "Messages moved aside by poison policies.",
              rows=_one(lambda v: v.poison_messages)),
    Described("onceq_damaged_messages", "gauge",
              "Messages set aside because their stored bytes are damaged.",
              rows=_one(lambda v: v.damaged_messages)),
    Described("onceq_messages_in_doubt", "gauge",
              "Messages of which it is not known whether they arrived.",
              rows=_one(lambda v: v.doubts)),
    Described("onceq_waiting_readers", "gauge", "Receives and peeks that wait for a message.",
              rows=_one(lambda v: v.waiting_readers)),
    Described("onceq_outgoing_messages", "gauge",
              "Messages that wait for another queue manager, or for it to tell how they ended.",
              ("peer",), _peers(lambda o: o.messages)),
    Described("onceq_outgoing_unacknowledged", "gauge",
              "Transactional messages that another queue manager has not acknowledged.",
              ("peer",), _peers(lambda o: o.unacknowledged)),
    Described("onceq_outgoing_bytes", "gauge", "Bytes of messages that wait there.",
              ("peer",), _peers(lambda o: o.bytes)),
    Described("onceq_outgoing_oldest_age_seconds", "gauge",
              "Age of the oldest message that another queue manager does not have yet.",
              ("peer",), _peers(lambda o: o.oldest_age_s)),
    Described("onceq_outgoing_state", "gauge",
              "How many outgoing queues to another queue manager are in a state.",
              ("peer", "state"), _states),
    Described("onceq_sessions", "gauge", "Connections with other queue managers.",
              rows=_one(lambda v: v.sessions)),
    Described("onceq_transactions_open", "gauge", "Transactions that are open.",
              rows=_one(lambda v: v.transactions)),
    Described("onceq_transactions_in_doubt", "gauge",
              "Branches of external transactions that are prepared and not decided.",
              rows=_one(lambda v: v.in_doubt)),
    Described("onceq_in_doubt_oldest_age_seconds", "gauge",
              "Since when the oldest of these is prepared.",
              rows=_one(lambda v: v.in_doubt_oldest_age_s)),
    Described("onceq_jobs_running", "gauge", "Jobs that are not over.",
              rows=_one(lambda v: v.jobs_running)),
    Described("onceq_jobs_waiting", "gauge",
              "Those of them that cannot go on now: the disk is nearly full, a queue is held.",
              rows=_one(lambda v: v.jobs_waiting)),
    Described("onceq_quota_used_ratio", "gauge",
              "How much of the quota of the computer is used (1: all of it).",
              rows=_one(lambda v: v.quota_ratio)),
    Described("onceq_fullest_queue_quota_used_ratio", "gauge",
              "How much the fullest queue has used of its own quota.",
              rows=_one(lambda v: v.queue_quota_ratio)),
    Described("onceq_offline", "gauge", "1 while an operator has disconnected the queue manager.",
              rows=_one(lambda v: v.offline)),
    Described("onceq_disk_reserve_reached", "gauge",
              "1 while the disk is nearly full and sends are refused.",
              rows=_one(lambda v: v.space_low)),
    Described("onceq_disk_free_bytes", "gauge", "What the disk has left for the store.",
              rows=_one(lambda v: v.disk_free)),
    Described("onceq_store_bytes", "gauge",
              "What the store takes on the disk: log, segments that lie ready, checkpoint.",
              ("kind",), _each(lambda v: v.store_bytes)),
    Described("onceq_certificate_end_timestamp_seconds", "gauge",
              "Until when (seconds since 1970) the certificate is good; absent without one.",
              rows=_ends),
    Described("onceq_start_timestamp_seconds", "gauge",
              "When the queue manager was started (seconds since 1970).", rows=_start),
    Described("onceq_build_info", "gauge", "1; what runs is in the labels.",
              ("version", "impl", "manager"),
              lambda v: [((v.version, v.impl, v.name), 1)]),
)  # fmt: skip
_HISTOGRAMS: Final = (
    Described("onceq_commit_duration_seconds", "histogram",
              "From the beginning of a turn of work until all that it decided was durable: one "
              "observation for all its commits.",
              durations=lambda v: v.commits),
    Described("onceq_store_sync_duration_seconds", "histogram",
              "How long the sync of the records of a turn took.",
              durations=lambda v: v.syncs),
)  # fmt: skip
_PER_QUEUE: Final = (
    Described("onceq_queue_messages", "gauge",
              "Messages in a queue, those that transactions hold included.",
              ("queue",), _queues(lambda q: q.messages), per_queue=True),
    Described("onceq_queue_bytes", "gauge", "Bytes of its messages.",
              ("queue",), _queues(lambda q: q.bytes), per_queue=True),
    Described("onceq_queue_oldest_age_seconds", "gauge", "Age of the oldest message in it.",
              ("queue",), _queues(lambda q: q.oldest_age_s), per_queue=True),
    Described("onceq_queue_quota_used_ratio", "gauge", "How much of its quota is used; 0: none.",
              ("queue",), _queues(lambda q: q.quota_ratio), per_queue=True),
    Described("onceq_queues_left_out", "gauge",
              "Queues that are left out, because there are too many.",
              rows=_one(lambda v: v.left_out), per_queue=True),
)  # fmt: skip

METRICS: Final = (*_COUNTERS, *_GAUGES, *_HISTOGRAMS, *_PER_QUEUE)
"""All of them."""


def text(view: MetricsView, *, openmetrics: bool = False, queues: bool = False) -> str:
    """What a collector reads.

    Args:
        view: What ``QueueManager.metrics`` gives.
        openmetrics: In the format of OpenMetrics; else in the one of Prometheus.
        queues: Only the metrics of each queue, in place of all others; the view must have them
            (``metrics(queues=True)``).
    """
    body, _ = negotiated(view, OPENMETRICS if openmetrics else "", queues=queues)
    return body.decode()


def negotiated(view: MetricsView, accept: str, *, queues: bool = False) -> tuple[bytes, str]:
    """The same in the form that a collector has asked for, with its name.

    Args:
        accept: Its header ``Accept``.
    """
    encoder, kind = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(view, queues=queues))
    body: bytes = encoder(registry)
    return body, kind


class _Collected:
    """A collector of one view, as the library wants it."""

    def __init__(self, view: MetricsView, *, queues: bool) -> None:
        self._view = view
        self._queues = queues

    def describe(self) -> Iterable[Metric]:
        """Nothing is looked at before it is collected."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        for one in METRICS:
            if one.per_queue != self._queues:
                continue
            if one.durations is not None:
                durations = one.durations(self._view)
                bounds = [*(f"{bound:g}" for bound in durations.bounds), "+Inf"]
                counts = durations.counts or (0,) * len(bounds)
                buckets = list(zip(bounds, map(float, accumulate(counts)), strict=True))
                total_s = durations.total_s
                yield HistogramMetricFamily(one.name, one.help, buckets=buckets, sum_value=total_s)
                continue
            kind = CounterMetricFamily if one.kind == "counter" else GaugeMetricFamily
            family = kind(one.name, one.help, labels=one.labels)
            for labels, value in one.rows(self._view):
                # A queue may have a name that UTF-8 cannot write.
                printable = [label.encode("utf-8", "replace").decode() for label in labels]
                family.add_metric(printable, float(value))
            yield family
