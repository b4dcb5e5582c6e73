"""docs/reference/metrics.md: every metric, from the table that exposes them."""

from __future__ import annotations

from onceq import exposition


def _rows(*, per_queue: bool) -> str:
    return "\n".join(
        f"* `{one.exposed}` ({', '.join((one.kind, *(f'`{label}`' for label in one.labels)))}): "
        f"{one.help}"
        for one in exposition.METRICS
        if one.per_queue == per_queue
    )


def page(note: str) -> str:
    """The page."""
    return (
        "# Metrics\n\n" + note + "Shown by `onceq qm metrics`, at `metrics_listen` "
        "([how to](../how-to/watch.md)), by a "
        "[console](../how-to/watch.md#through-the-console), and by `manager.admin.metrics()` as a "
        "[MetricsView](api/onceq.md#views). Names end in their unit: seconds, bytes, or a ratio "
        "(1 is all). `_total` only rises, from 0 at each start. A histogram has `_bucket`, `_sum` "
        "and `_count`. In brackets: the kind and the labels.\n\n"
        "## Of a queue manager: `/metrics`\n\n" + _rows(per_queue=False) + "\n\n"
        "## Of each queue: `/metrics/queues`\n\n"
        "Up to 1,000 queues, those with the oldest messages "
        "([`METRICS_QUEUES_MAX`](limits.md)). A subqueue counts as a queue.\n\n"
        + _rows(per_queue=True) + "\n"
    )  # fmt: skip
