"""HTTP for monitoring a queue manager: metrics and health.

``GET /metrics``, ``/metrics/queues``, ``/health/live`` and ``/health/ready``, and nothing else: one
request on a connection, a small head, no body, and an end after some seconds. h11 parses the HTTP.
Every client that passes the door can read the health. Metrics are for clients with the right
``monitor``: holders of a token (``Authorization: Bearer``) or of a certificate, also on this
computer. An address that is trusted without proof does not have it.

However many clients ask, one view is made in a moment, and one page of it
(``onceq.exposition``).

Upholds: I24, I28.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import h11

from onceq.core.inputs import OwnerCame
from onceq.errors import AccessDenied, OnceqError, ServiceNotAvailable
from onceq.metrics_pages import PAGES, MetricsPages, Page
from onceq.model.addresses import address_of
from onceq.model.identification import is_private
from onceq.model.identity import read_number
from onceq.model.limits import WATCH_HEAD_BYTES_MAX, WATCH_S_MAX
from onceq.model.policy import Door
from onceq.model.requests import Look
from onceq.model.rights import NOBODY
from onceq.model.views import looks
from onceq.model.views.view import PER_QUEUE, MetricsView
from onceq.service.admission import Kind
from onceq.service.health import Health
from onceq.service.peer_transports import shown_on
from onceq.service.tokens import actor_of, unproven
from onceq.service.wires import Wire, WireNetwork

log = logging.getLogger("onceq")

LIVE: Final = "/health/live"
READY: Final = "/health/ready"
METHODS: Final = (b"GET", b"HEAD")
_TOO_LARGE: Final = 413
_BEARER: Final = "bearer "


class WatchServer:
    """Serves metrics and health of one queue manager. Runs in the thread of its loop."""

    def __init__(self, network: WireNetwork, health: Callable[[], Health]) -> None:
        """Serve one manager.

        Args:
            health: Returns its current health.
        """
        self._network = network
        self.health = health
        self._owner = 0
        self._views: dict[bool, asyncio.Future[object]] = {}
        self._pages = MetricsPages(self._read)

    def is_called(self, host: str) -> bool:
        """Return True if the field ``WireNetwork`` names this queue manager: by an address, which
        nobody else can give, or by a name of its own, with any port."""
        engine = self._network.engine
        own = {without_port(name).casefold() for name in engine.http.own}
        name = without_port(host)
        return bool(address_of(name)) or name in own | {
            "localhost", engine.manager.identity.name.casefold()
        }  # fmt: skip

    def page(self, *, queues: bool, accept: str) -> asyncio.Task[Page]:
        """Return a page of metrics (``MetricsPages``)."""
        return self._pages.page(queues=queues, accept=accept)

    async def _read(self, *, queues: bool) -> MetricsView:
        view = await self._view(queues=queues)
        if isinstance(view, OnceqError):
            raise view
        assert isinstance(view, MetricsView)
        return view

    def _view(self, *, queues: bool) -> asyncio.Future[object]:
        """Ask the core, unless it is being asked."""
        known = self._views.get(queues)
        if known is not None:
            return known
        found = self._views[queues] = self._network.loop.create_future()
        self._network.use(None, partial(self._ask, queues=queues))
        return found

    def _ask(self, *, queues: bool) -> None:
        engine = self._network.engine
        if engine.stopped:
            self._take_answer(1 + queues, ServiceNotAvailable("the queue manager stops"))
            return
        self._owner = self._owner or engine.owner(self._take_answer)
        what = Look(looks.METRICS.what, PER_QUEUE if queues else "")
        what.owner, what.request = self._owner, 1 + queues
        engine.submit(what)

    def _take_answer(self, request: int, result: object) -> None:
        found = self._views.pop(request == 2)
        if not found.done():
            found.set_result(result)


class WatchWire(Wire):
    """One connection of a monitoring client."""

    def __init__(self, network: WireNetwork, watch: WatchServer) -> None:
        super().__init__(network, Kind.WATCHER)
        self._watch = watch
        self._address = ""
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=WATCH_HEAD_BYTES_MAX)
        self._request: h11.Request | None = None
        self._answered = False
        self._owner = 0

    def begin(self, address: str) -> None:
        """Wait for the request."""
        self._address = address
        self._await_name(WATCH_S_MAX)

    def data_received(self, data: bytes) -> None:
        """Parse the bytes of the request (asyncio)."""
        if self.spoken:
            return  # one request is answered, and the connection ends with that
        self._count_bytes(len(data), spoken=False)
        try:
            self._http.receive_data(data)
            while not self.spoken:
                event = self._http.next_event()
                if event is h11.NEED_DATA and self._http.they_are_waiting_for_100_continue:
                    event = h11.Data(data=b"")  # It has one, and asks before it sends it.
                if event is h11.NEED_DATA or event is h11.PAUSED:
                    return
                self._event(event)
        except h11.RemoteProtocolError as error:
            self._count_bytes(0, spoken=True)
            self._fail(error.error_status_hint, "this is not a request that is understood here")

    def _event(self, event: Any) -> None:
        if isinstance(event, h11.Request):
            self._request = event
        elif isinstance(event, h11.Data):
            self._count_bytes(0, spoken=True)
            self._fail(_TOO_LARGE, "a request has no body here")
        elif isinstance(event, h11.EndOfMessage):
            self._count_bytes(0, spoken=True)
            self._asked()
        elif isinstance(event, h11.ConnectionClosed):
            self._count_bytes(0, spoken=True)
            self.close()

    # ---- what is asked ------------------------------------------------------------------------

    def _asked(self) -> None:
        request = self._request
        assert request is not None, "its end has come"
        # A page of another site may have sent it: the site has given its own name this address, or
        # asks here across sites. Over TLS the certificate says whether the name is right. A browser
        # always sends ``WireNetwork``.
        host, origin = self._header(b"host").casefold(), self._header(b"origin")
        tls = self._transport is not None and self._transport.get_extra_info("ssl_object")
        if host and not tls and not self._watch.is_called(host):
            text = "this queue manager is not called so; 'http_names' gives it other names"
            self._fail(HTTPStatus.MISDIRECTED_REQUEST, text)
            return
        if origin and urlsplit(origin).netloc.casefold() != host:
            text = "the request comes from a page of another site"
            self._fail(HTTPStatus.FORBIDDEN, text)
            return
        if request.method not in METHODS:
            self._fail(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD", ("Allow", "GET, HEAD"))
            return
        path = request.target.partition(b"?")[0].decode("ascii", "replace")
        if path == LIVE:
            self._say(HTTPStatus.OK, _json({"status": "live"}))
        elif path == READY:
            health = self._watch.health()
            said = {
                "status": "ready" if health.ready else "not ready",
                "reasons": health.reasons,
                "notes": health.notes,
            }
            status = HTTPStatus.OK if health.ready else HTTPStatus.SERVICE_UNAVAILABLE
            self._say(status, _json(said))
        elif path in PAGES:
            self._prove(self._header(b"authorization"), queues=PAGES[path])
        else:
            paths = ", ".join((*PAGES, LIVE, READY))
            self._fail(HTTPStatus.NOT_FOUND, f"there is no such page; there are {paths}")

    def _header(self, name: bytes) -> str:
        assert self._request is not None
        found = [value for key, value in self._request.headers if key == name]
        return b",".join(found).decode("latin-1")

    def _prove(self, shown: str, *, queues: bool) -> None:
        """Identify the client, and let the core decide whether it may read metrics."""
        actor = self._network.watcher(self._transport)

        def work() -> None:
            engine, proof, who = self._network.engine, b"", actor
            if engine.stopped:
                self._denied(ServiceNotAvailable("the queue manager stops"))
                return
            if shown.lower().startswith(_BEARER):
                private = is_private(shown_on(self._transport, http=True))
                token = engine.tokens.check_clear(
                    shown[len(_BEARER) :].strip(), self._address, private=private
                )
                who, proof = actor_of(token), token.digest
            elif who == NOBODY and not engine.tokens.admits_nobody(Door.METRICS):
                raise unproven()
            self._owner = engine.owner(partial(self._judged, queues=queues))
            engine.submit(OwnerCame(self._owner, who, proof, where=self._address))
            # Of the requests that need the same right it is the one that costs nothing.
            may = Look(looks.SCRUB.what)
            may.owner, may.request = self._owner, 1
            engine.submit(may)

        def tried() -> None:
            try:
                work()
            except OnceqError as error:
                self._denied(error, proven=False)

        self._network.use(self, tried)

    def _judged(self, request: int, result: object, *, queues: bool) -> None:
        if self._transport is None:
            return
        if isinstance(result, OnceqError):
            self._denied(result)
            return
        page = self._watch.page(queues=queues, accept=self._header(b"accept"))
        page.add_done_callback(self._paged)

    def _denied(self, error: OnceqError, *, proven: bool = True) -> None:
        """Refuse; a client without proof of its identity hears that a token may help."""
        if not isinstance(error, AccessDenied):
            self._fail(HTTPStatus.SERVICE_UNAVAILABLE, error.text)
        elif proven:
            self._fail(HTTPStatus.FORBIDDEN, error.text)
        else:
            self._fail(HTTPStatus.UNAUTHORIZED, error.text, ("WWW-Authenticate", "Bearer"))

    def _paged(self, page: asyncio.Task[Page]) -> None:
        error = page.exception() if not page.cancelled() else None
        if page.cancelled() or isinstance(error, OnceqError):
            self._fail(HTTPStatus.SERVICE_UNAVAILABLE, str(error or "the queue manager stops"))
        elif error is not None:
            log.error("a mistake of ours in showing metrics", exc_info=error)
            self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, "the log of the queue manager says why")
        else:
            body, kind = page.result()
            self._say(HTTPStatus.OK, body, kind)

    # ---- what is answered ---------------------------------------------------------------------

    def _fail(self, status: int, text: str, *more: tuple[str, str]) -> None:
        self._say(status, f"{text}\n".encode(), "text/plain; charset=utf-8", *more)

    def _say(
        self, status: int, body: bytes, kind: str = "application/json", *more: tuple[str, str]
    ) -> None:
        """Answer, and end the connection."""
        if self._answered or self._transport is None:
            return
        self._answered = True
        head = h11.Response(
            status_code=int(status),
            headers=[
                ("Content-Type", kind), ("Content-Length", str(len(body))),
                ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"),
                ("Connection", "close"), *more,
            ],
        )  # fmt: skip
        pieces = [self._http.send(head) or b""]
        if self._request is None or self._request.method != b"HEAD":
            pieces.append(self._http.send(h11.Data(data=body)) or b"")
        self.write(pieces)
        self.close()
        # It may be the engine that has answered, in the middle of its work.
        self._network.loop.call_soon(self._network.use, None, self._leave)

    def _leave(self) -> None:
        if self._owner:
            owner, self._owner = self._owner, 0
            self._network.engine.owner_gone(owner)

    def end(self, reason: str) -> None:
        """End the wait for the page."""
        self._network.loop.call_soon(self._network.use, None, self._leave)


def without_port(host: str) -> str:
    """Return a host of HTTP without the port behind it."""
    name, _, port = host.rpartition(":")
    return name if name and read_number(port) is not None and name[-1] != ":" else host


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"
