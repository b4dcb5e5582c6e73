"""``onceq qm metrics``: what a queue manager counts, as a collector of metrics reads it."""

from __future__ import annotations

from typing import Annotated

from onceq.cli import out
from onceq.cli.common import Json, Where, asking, dumped
from onceq.cli.parameters import Option


def metrics(
    openmetrics: Annotated[
        bool, Option("--openmetrics", help="In the form of OpenMetrics.")
    ] = False,
    queues: Annotated[
        bool, Option("--queues", help="What is told of each queue, in place of the sums.")
    ] = False,
    qm: Where = None,
    json: Json = False,
) -> None:
    """What a queue manager has counted since its start and how it is, for Prometheus.

    Needs pip install 'onceq[metrics]', but for --json. A queue manager exposes the same by itself
    at the address that its onceq.toml has as metrics_listen.
    """
    with asking(qm) as connection:
        view = connection.metrics(queues=queues)
    if dumped(view, json):
        return
    from onceq import exposition  # it needs a library that a plain install lacks

    out.body(exposition.text(view, openmetrics=openmetrics, queues=queues).rstrip())
