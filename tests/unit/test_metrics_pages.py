"""Pages of metrics are made once in a moment for all who ask."""

from __future__ import annotations

import asyncio

import pytest

from onceq import metrics_pages
from onceq.errors import OnceqError, ServiceNotAvailable
from onceq.metrics_pages import MetricsPages
from onceq.model.views.view import MetricsView, QueueMetrics


class Manager:
    """One that counts who looks at it."""

    def __init__(self) -> None:
        self.looked: list[bool] = []
        self.error: OnceqError | None = None

    async def look(self, *, queues: bool) -> MetricsView:
        self.looked.append(queues)
        if self.error is not None:
            raise self.error
        return MetricsView(sent=len(self.looked), per_queue=(QueueMetrics("q", 3),))


def test_many_who_ask_in_a_moment_have_one_page() -> None:
    manager = Manager()

    async def work() -> None:
        pages = MetricsPages(manager.look)
        accepts = ("", "text/plain", "x" * 1000, "text/html;q=0.5")
        found = [await pages.page(queues=False, accept=accept) for accept in accepts]
        assert len(set(found)) == 1
        assert b"onceq_messages_sent_total 1.0" in found[0][0]
        assert manager.looked == [False]
        open_metrics = "application/openmetrics-text; version=1.0.0,text/plain;q=0.5"
        body, kind = await pages.page(queues=True, accept=open_metrics)
        assert kind.startswith("application/openmetrics-text; version=1.0.0")
        assert b'onceq_queue_messages{queue="q"} 3.0' in body
        assert manager.looked == [False, True]

    asyncio.run(work())


def test_a_page_is_made_anew_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_pages, "METRICS_EVERY_S", 0)
    manager = Manager()

    async def work() -> None:
        pages = MetricsPages(manager.look)
        manager.error = ServiceNotAvailable("away")
        with pytest.raises(ServiceNotAvailable):
            await pages.page(queues=False, accept="")
        manager.error = None
        body, _ = await pages.page(queues=False, accept="")
        assert b"onceq_messages_sent_total 2.0" in body

    asyncio.run(work())
