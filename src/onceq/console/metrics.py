"""The metrics of each queue manager, for collectors that reach them through the console.

They are what a queue manager shows at its own listener, read as everything else here: by the
console's connection, with the console's rights.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from onceq.console.desk import Desk, status_of, told_of
from onceq.console.managers import Watched
from onceq.console.table import METRICS
from onceq.errors import ConfigurationError, OnceqError
from onceq.metrics_pages import PAGES, MetricsPages
from onceq.model.views.metrics import MetricsView

NOT_HERE: Final = 501
"""The library is missing: it is not the queue manager that is away."""


def routes(desk: Desk) -> list[Route]:
    """All of them."""
    pages = {one: MetricsPages(partial(_look, one)) for room in desk.every for one in room}
    return [
        Route(
            f"/api/managers/{{manager}}{one.path}",
            _page(desk, pages, queues=PAGES[one.path]),
            methods=["GET"],
        )
        for one in METRICS
    ]


async def _look(watched: Watched, *, queues: bool) -> MetricsView:
    return await watched.read(lambda qm: qm.metrics(queues=queues))


def _page(
    desk: Desk, pages: Mapping[Watched, MetricsPages], *, queues: bool
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        accept = ",".join(request.headers.getlist("accept"))
        try:
            watched = desk.watched(request)
            if (missing := _missing()) is not None:
                return missing
            page = pages[watched].page(queues=queues, accept=accept)
            # Others wait for it, too: that one of them has gone does not end it.
            body, kind = await asyncio.shield(page)
        except OnceqError as error:
            return JSONResponse(told_of(error), status_code=status_of(error))
        return Response(body, headers={"content-type": kind})

    return answer


def _missing() -> Response | None:
    """Says what to install if the library is not there."""
    try:
        importlib.import_module("onceq.exposition")
    except ConfigurationError as error:
        told = told_of(error)
        told["error"]["cure"] = "Install it where the console runs."
        return JSONResponse(told, status_code=NOT_HERE)
    return None
