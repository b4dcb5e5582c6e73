"""The console as an ASGI application: routes, the guard before them, and who looks at numbers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from onceq.console import api, metrics
from onceq.console.desk import Desk
from onceq.console.guard import Guard, hosts_of
from onceq.console.live import Live
from onceq.console.pages import Pages
from onceq.console.sign_in import SignIn


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
            *metrics.routes(desk),
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
