"""The console as an ASGI application: routes, live numbers, metrics, and the guard before them.

Live numbers are the changing part of a page, sent as server-sent events: the same HTML that the
page has. Metrics are what a queue manager shows at its own listener, read by the console's
connection, with the console's rights.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from onceq.console import api
from onceq.console.desk import Desk, status_of, told_of
from onceq.console.guard import Guard, hosts_of
from onceq.console.limits import EVENTS_MAX, SAMPLE_S
from onceq.console.managers import Watched
from onceq.console.pages import Pages
from onceq.console.sign_in import SignIn
from onceq.console.table import METRICS
from onceq.errors import ConfigurationError, OnceqError
from onceq.metrics_pages import PAGES, MetricsPages
from onceq.model.views.metrics import MetricsView


def make(
    desk: Desk, *, port: int, names: Iterable[str] = (), door: SignIn | None = None
) -> Starlette:
    """The application.

    Args:
        door: How people sign in by OpenID Connect; None: they do by the link or the token.
        port: Where browsers reach it on this computer.
        names: Further names of it; see ``hosts_of``.
    """
    pages = Pages(desk, door)
    live = Live(desk)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        watching = [
            asyncio.ensure_future(one.watch(desk.sample)) for room in desk.every for one in room
        ]
        try:
            yield
        finally:
            live.over.set()
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
            for room in desk.every:
                await room.close()

    app = Starlette(
        routes=[
            *api.routes(desk),
            *metric_routes(desk),
            *pages.routes(),
            *(door.routes() if door is not None else ()),
            Route("/events", live.of("overview", pages.part), methods=["GET"]),
            Route("/m/{manager}/jobs/events", live.of("jobs", pages.jobs_part), methods=["GET"]),
            Mount("/static", StaticFiles(packages=[("onceq.console", "static")])),
        ],
        middleware=[
            Middleware(
                Guard, keys=desk.keys, hosts=hosts_of(port, names), cookie=desk.cookie
            )
        ],
        exception_handlers={404: _nothing, 405: _nothing},
        lifespan=lifespan,
    )  # fmt: skip
    app.state.live = live
    return app


async def _nothing(request: Request, error: Exception) -> Response:
    status = int(getattr(error, "status_code", 404))
    text = "there is no such page" if status == 404 else "not by this method"
    if request.url.path.startswith("/api"):
        told = {"error": {"code": "no-such-page", "text": text}}
        return JSONResponse(told, status_code=status)
    return HTMLResponse(
        f'<!doctype html><html lang="en"><title>{text}</title><p>{text}. <a href="/">Overview</a>',
        status_code=status,
    )


def event(name: str, text: str) -> bytes:
    """One event: every line of the text is a line of data."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: {name}\n{lines}\n".encode()


Part = Callable[[Request], Awaitable[str]]


class Live:
    """Sends events to open pages."""

    def __init__(self, desk: Desk) -> None:
        """Nobody has one open yet."""
        self._desk = desk
        self.over = asyncio.Event()

    def of(self, name: str, part: Part) -> Callable[[Request], Awaitable[Response]]:
        """The handler for a page.

        Args:
            name: Of the events.
            part: The part of the page that changes.
        """

        async def answer(request: Request) -> Response:
            """An endless answer, until the browser goes, its session ends or the console stops."""
            if self._desk.events >= EVENTS_MAX:
                return PlainTextResponse(
                    f"{EVENTS_MAX} pages get live numbers already; read this one anew by hand",
                    status_code=503,
                )
            events = self._events(request, name, part)
            return StreamingResponse(events, media_type="text/event-stream")

        return answer

    async def _events(self, request: Request, name: str, part: Part) -> AsyncIterator[bytes]:
        """What is shown; it ends at once when the session does, also in the middle of a look."""
        cookie, session = request.state.cookie, request.state.session
        ends = [asyncio.ensure_future(self.over.wait())]
        if session is not None:
            ends.append(asyncio.ensure_future(session.over.wait()))
        self._desk.events += 1
        try:
            while not (cookie and self._desk.keys.session(cookie) is None):
                look = asyncio.ensure_future(part(request))
                try:
                    if await _first(*ends, look) is not look:
                        return
                    yield event(name, look.result())
                finally:
                    look.cancel()
                if await _first(*ends, timeout=SAMPLE_S) is not None:
                    return
        finally:
            self._desk.events -= 1
            for end in ends:
                end.cancel()


async def _first(
    *tasks: asyncio.Future[Any], timeout: float | None = None
) -> asyncio.Future[Any] | None:
    """The first of these that is done, in their order; None: none is in time (seconds)."""
    await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    return next((task for task in tasks if task.done()), None)


NOT_HERE: Final = 501
"""The library is missing: it is not the queue manager that is away."""


def metric_routes(desk: Desk) -> list[Route]:
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
