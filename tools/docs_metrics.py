"""docs/reference/metrics.md: every metric, from the table that exposes them."""

from __future__ import annotations

from onceq import exposition


def _rows(*, per_queue: bool) -> str:
    return "\n".join(
        f"| `{one.exposed}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} | "
        f"{one.help} |"
        for one in exposition.METRICS
        if one.per_queue == per_queue
    )


def page(note: str) -> str:
    """The page."""
    head = "| metric | kind | labels | what it says |\n|---|---|---|---|\n"
    return (
        "# Metrics\n\n" + note + "What `onceq qm metrics` prints and a queue manager exposes at "
        "the address that its `onceq.toml` names as `metrics_listen` "
        "([how to watch a queue manager](../how-to/watch.md)), and what a "
        "[console](../how-to/watch.md#through-the-console) shows of each. Names end "
        "in their unit: seconds, "
        "bytes, or a ratio of which 1 is all. What ends in `_total` only rises, and begins anew "
        "with each start. A histogram has `_bucket`, `_sum` and `_count` behind its name.\n\n"
        "In Python `manager.metrics()` gives the same as an object, "
        "[MetricsView](api/onceq.md#views), and `onceq.exposition.text` makes the text of it.\n\n"
        "## Of a queue manager: `/metrics`\n\n" + head + _rows(per_queue=False) + "\n\n"
        "## Of each queue: `/metrics/queues`\n\n"
        "Up to 1,000 queues; of more those with the oldest messages "
        "([`METRICS_QUEUES_MAX`](limits.md)). A subqueue is a queue of its own here.\n\n"
        + head + _rows(per_queue=True) + "\n"
    )  # fmt: skip
