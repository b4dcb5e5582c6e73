"""The pages of metrics of a queue manager, for collectors that ask by HTTP.

A queue manager shows them at its own listener, and a console those of each queue manager that it
watches: the same pages, each with its own way to the numbers. However many ask, one page is made in
a moment, and in another thread: making the text of a thousand queues takes longer than others
should wait.

Upholds: I24.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable
from functools import partial
from typing import Final, Protocol

from onceq.model.limits import METRICS_EVERY_S
from onceq.model.views.view import MetricsView

PAGES: Final = {"/metrics": False, "/metrics/queues": True}
"""Whether a page has the metrics of each queue."""
_OPENMETRICS: Final = "application/openmetrics-text"
_OPENMETRICS_1: Final = f"{_OPENMETRICS};version=1.0.0"

Page = tuple[bytes, str]
"""Body and type."""


class LooksAt(Protocol):
    """Asks a queue manager for what it counts; fails with an OnceqError."""

    def __call__(self, *, queues: bool) -> Awaitable[MetricsView]:
        """Look.

        Args:
            queues: Also at each of its queues.
        """


class MetricsPages:
    """The pages of one queue manager; in the thread of one loop."""

    def __init__(self, look: LooksAt) -> None:
        """Nobody has asked for one yet."""
        self._look = look
        self._pages: dict[tuple[bool, str], tuple[float, asyncio.Task[Page]]] = {}

    def page(self, *, queues: bool, accept: str) -> asyncio.Task[Page]:
        """A page of metrics, as it was METRICS_EVERY_S ago at most when it was asked for.

        It fails with an OnceqError.

        Args:
            queues: Whether the page has the metrics of each queue.
            accept: The header of that name.
        """
        # What somebody writes there is no key to keep: there are two forms.
        key = queues, _OPENMETRICS_1 if _OPENMETRICS in accept else ""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        made = self._pages.get(key)
        if made is None or (made[1].done() and now_s - made[0] >= METRICS_EVERY_S):
            made = self._pages[key] = now_s, loop.create_task(self._make(*key))
        return made[1]

    async def _make(self, queues: bool, accept: str) -> Page:
        # A plain install lacks the library that it needs.
        write = importlib.import_module("onceq.exposition").negotiated
        view = await self._look(queues=queues)
        made: Page = await asyncio.get_running_loop().run_in_executor(
            None, partial(write, view, accept, queues=queues)
        )
        return made
