"""The console as an ASGI application: routes, live numbers, metrics, and the guard before them.

Live numbers are the changing part of a page, sent as server-sent events: the same HTML that the
page has. Metrics are what a queue manager shows at its own listener, read by the console's
connection, with the console's rights.

Upholds: I24.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import h11
import uvicorn
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
from uvicorn.protocols.http.h11_impl import H11Protocol

from onceq.console import api
from onceq.console.desk import Desk, show_log, status_of, told_of
from onceq.console.guard import (
    CONNECTIONS_MAX,
    EVENTS_MAX,
    HEADER_BYTES_MAX,
    REQUEST_S_MAX,
    SAMPLE_S,
    SILENT_MAX,
    Guard,
    Keys,
    hosts_of,
)
from onceq.console.managers import Managers, Watched
from onceq.console.pages import Pages
from onceq.console.people import People
from onceq.console.sign_in import SignIn
from onceq.console.table import METRICS
from onceq.errors import ConfigurationError, OnceqError, PortInUse
from onceq.metrics_pages import PAGES, MetricsPages
from onceq.model.views.view import MetricsView

# ---- app -----------------------------------------------------------------------------------------


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
    live = LiveEvents(desk)

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


class LiveEvents:
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
                    f"{EVENTS_MAX} pages get live numbers already; reload this one by hand",
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
    pages = {one: MetricsPages(partial(_read_metrics, one)) for room in desk.every for one in room}
    return [
        Route(
            f"/api/managers/{{manager}}{one.path}",
            _page(desk, pages, queues=PAGES[one.path]),
            methods=["GET"],
        )
        for one in METRICS
    ]


async def _read_metrics(watched: Watched, *, queues: bool) -> MetricsView:
    return await watched.read(lambda qm: qm.admin.metrics(queues=queues))


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


# ---- serving -------------------------------------------------------------------------------------
#
# Serving the console: a listening socket of this computer, uvicorn, and an orderly end.


HOST = "127.0.0.1"
STOP_S = 3
"""For requests that are under way when the console is told to stop."""


class Console:
    """One console, listening."""

    def __init__(
        self, places: Sequence[str], *, port: int, monotonic: Callable[[], float],
        wall: Callable[[], float], token: str = "", token_file: str | None = None,
        names: Sequence[str] = (), secure: bool = False, faults: Mapping[str, str] | None = None,
        people: People | None = None,
    ) -> None:  # fmt: skip
        """Listen on loopback; nothing is answered before ``run``.

        Args:
            places: The queue managers.
            port: 0: any that is free.
            token: For scripts; "": a new one.
            token_file: What the queue managers are shown; see ``Managers``.
            names: By which a proxy is reached, with ports.
            secure: The proxy is reached by HTTPS alone.
            faults: Why some of the places are not usable; see ``Managers``.
            people: Who signs in by OpenID Connect, and as what; None: everyone who has the link or
                the token signs in, as the console itself.

        Raises:
            PortInUse: Somebody else listens there.
            ConfigurationError: A name is none, or none of the places is an address.
        """
        for name in names:
            if not name or any(c in name for c in "/@ ") or not name.isascii():
                raise ConfigurationError(f"--host takes a name such as console.example, not {name}")
        if people is not None and not people.address and (names or secure):
            raise ConfigurationError(
                "the file of --openid says where browsers reach this console: address = "
                '"https://..." in [openid], and not in --host or --https'
            )
        managers = Managers(places, monotonic, token_file=token_file, faults=faults)
        self.problems: Mapping[str, str] = managers.problems
        """What is wrong with places that are shown as away."""
        self._socket = _listening(port)
        self.port: int = self._socket.getsockname()[1]
        if people is not None:
            names, secure = (*names, *people.names), secure or people.secure
        # No other name of the same domain, and nobody between, can put a cookie of this name there.
        cookie = f"{'__Host-' if secure else ''}onceq-console-{self.port}"
        self.keys = Keys(monotonic, token)
        roles = {
            group: Managers(places, monotonic, token_file=file, role=True, faults=faults)
            for group, file in (people.roles.items() if people is not None else ())
        }
        desk = Desk(managers, self.keys, cookie, monotonic, wall, secure, roles=roles)
        self._front = (people.address if people is not None else "") or self.address.rstrip("/")
        self._door: SignIn | None = None
        if people is not None:
            show_log()
            self._door = SignIn(desk, people, address=self._front)
        self._app = make(desk, port=self.port, names=names, door=self._door)
        self._server = _Server(
            uvicorn.Config(
                self._app, log_level="warning", access_log=False, server_header=False,
                date_header=False, limit_concurrency=CONNECTIONS_MAX, proxy_headers=False,
                h11_max_incomplete_event_size=HEADER_BYTES_MAX, http=TimedConnection, ws="none",
                timeout_graceful_shutdown=STOP_S, timeout_keep_alive=30,
            )
        )  # fmt: skip
        self._server.ending = self._app.state.live.over.set

    @property
    def address(self) -> str:
        """Of its first page."""
        return f"http://{HOST}:{self.port}/"

    @property
    def front(self) -> str:
        """Of its first page, where people who sign in at a provider reach it."""
        return f"{self._front}/"

    @property
    def title(self) -> str:
        """The provider at which people sign in; "": there is none."""
        return self._door.title if self._door is not None else ""

    def link(self) -> str:
        """A link that signs a browser in, once."""
        return f"{self.address}sign-in?code={self.keys.new_code()}"

    def run(self, ready: Callable[[], None]) -> None:
        """Serve until SIGINT or SIGTERM.

        Args:
            ready: Called once it answers, and once these signals end it in order.

        Raises:
            ConfigurationError: It did not start.
        """
        self._server.ready = ready
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()
        if not self._server.started:
            raise ConfigurationError("the console did not start: its log above says why")


class _Server(uvicorn.Server):
    """Ends the endless answers first, so that the others can end in order; and ends itself in
    order, where uvicorn would let the signal kill it in the end."""

    ending: Callable[[], None]
    ready: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say that the console is ready (uvicorn)."""
        await super().startup(sockets)
        if self.started:
            self.ready()

    def handle_exit(self, sig: int, frame: object) -> None:
        """End at a signal (uvicorn); the second signal does not wait for anybody."""
        self.ending()
        self.force_exit = self.should_exit
        self.should_exit = True


def _listening(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
    except OSError as error:
        made.close()
        raise PortInUse(f"{HOST}:{port}: {error.strerror}; --port takes another") from None
    made.listen(128)
    made.setblocking(False)
    return made


class TimedConnection(H11Protocol):
    """A connection to a browser whose requests must become whole in time."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Take a connection that was made, and await its first request (asyncio)."""
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Take bytes that arrived (asyncio)."""
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._await_request()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is gone (asyncio)."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Await the next request (uvicorn): it has the time that uvicorn gives it, unless some of
        it is there already."""
        super().on_response_complete()
        if self.conn.trailing_data[0]:
            self._await_request()

    def _await_request(self) -> None:
        """A request is not whole: from its first byte on it has this time. Those that wait so are
        in the order in which they began."""
        if self._late is not None:
            return
        self._late = self.loop.call_later(REQUEST_S_MAX, self.transport.abort)
        waiting = [one for one in self.connections if getattr(one, "_late", None) is not None]
        if len(waiting) > SILENT_MAX:
            min(waiting, key=_due).transport.abort()

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def _due(connection: Any) -> float:
    late: asyncio.TimerHandle = connection._late
    return late.when()
