"""HTTP for monitoring a queue manager: metrics and health.

``GET /metrics``, ``/metrics/queues``, ``/health/live`` and ``/health/ready``, and nothing else: one
request on a connection, a small head, no body, and an end after some seconds. ``wire/http.py``
speaks HTTP. Every client that passes the door can read the health. Metrics are for clients with the
right ``monitor``: holders of a token (``Authorization: Bearer``) or of a certificate, also on this
computer. An address that is trusted without proof does not have it.

However many clients ask, one view is made in a moment, and one page of it
(``onceq.exposition``).

A manager is *live* if its loop turns: any answer proves that. It is *ready* if it takes work; if
not, each reason is given. A condition that needs a person, and stops no work, is a note.

Upholds: I24, I28.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from onceq.core.inputs import OwnerCame
from onceq.errors import AccessDenied, OnceqError, ServiceNotAvailable
from onceq.metrics_pages import PAGES, MetricsPages, Page
from onceq.model.addresses import address_of
from onceq.model.identification import SOMEBODY, is_private
from onceq.model.identity import read_number
from onceq.model.limits import WATCH_HEAD_BYTES_MAX, WATCH_S_MAX
from onceq.model.policy import Door
from onceq.model.requests import Look
from onceq.model.rights import NOBODY
from onceq.model.views import looks
from onceq.model.views.view import PER_QUEUE, MetricsView
from onceq.model.wording import plural
from onceq.service.admission import Kind
from onceq.service.engine import Engine
from onceq.service.peer_transports import Doors, Entrance, shown_on
from onceq.service.tokens import actor_of, unproven
from onceq.service.wires import Wire, WireNetwork
from onceq.wire.http import TEXT, HttpRequest, Refusal, ServedConnection

log = logging.getLogger("onceq")

# ---- health --------------------------------------------------------------------------------------
#
# As a load balancer, a supervisor or a person asks for it.


STOPPING = "stopping: nothing new is taken"
FULL = "the reserve of the disk is reached: sends are refused until there is room"


@dataclass(frozen=True, slots=True)
class Health:
    """The health of one queue manager.

    Attributes:
        reasons: Why it is not ready; none: it is.
        notes: What a person should look at.
    """

    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Return True if it takes work."""
        return not self.reasons


def health_of(engine: Engine, doors: Doors) -> Health:
    """Return the health of a recovered queue manager. Runs in the thread of its engine."""
    reasons, notes = [], []
    if engine.stopped:
        reasons.append(STOPPING)
    if engine.low:
        reasons.append(FULL)
    state = engine.manager.state
    damaged = sum(entry.count for entry in state.damages)
    if damaged:
        notes.append(
            f"{plural(damaged, 'message')} set aside because stored bytes are damaged: "
            "onceq damage list"
        )
    if state.offline_s:
        notes.append("disconnected by an operator: 'onceq qm connect' brings it back")
    export = engine.trail_export
    if export is not None and export.trouble:
        notes.append(f"acts of administration cannot be told outside: {export.trouble}")
    if export is not None and export.lost:
        lost = plural(export.lost, "act")
        notes.append(f"{lost} of administration went before they were told outside")
    own, now_s = doors.own, engine.clock.read().wall_s
    if own is not None and (own.problem or own.ends_s <= now_s):
        reason = own.problem or "it has expired"
        notes.append(f"no other queue manager believes its certificate: {reason}: onceq tls renew")
    return Health(tuple(reasons), tuple(notes))


# ---- pages ---------------------------------------------------------------------------------------


LIVE: Final = "/health/live"
READY: Final = "/health/ready"
METHODS: Final = (b"GET", b"HEAD")
ROUTES: Final = (*PAGES, LIVE, READY)
_FIELDS: Final = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))
"""In each answer."""
_BEARER: Final = "bearer "


class WatchServer:
    """Serves metrics and health of one queue manager. Runs in the thread of its loop."""

    def __init__(self, network: WireNetwork) -> None:
        self._network = network
        self._owner = 0
        self._views: dict[bool, asyncio.Future[object]] = {}
        self._pages = MetricsPages(self._read)

    def is_called(self, host: str) -> bool:
        """Return True if the field ``Host`` names this queue manager: by an address, which
        nobody else can give, or by a name of its own, with any port."""
        engine = self._network.engine
        own = {without_port(name).casefold() for name in engine.http.own}
        name = without_port(host)
        return bool(address_of(name)) or name in own | {
            "localhost", engine.manager.identity.name.casefold()
        }  # fmt: skip

    def health(self) -> Health:
        """Return the current health of the manager."""
        return health_of(self._network.engine, self._network.doors)

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
        self._http = ServedConnection(
            self._judge, lambda data: self.write([data]), WATCH_HEAD_BYTES_MAX
        )
        self._who = SOMEBODY
        self._owner = 0

    def begin(self, address: str) -> None:
        """Wait for the request."""
        who = self.identify(Entrance.WATCHERS)
        if who is None:
            return
        self._address, self._who = address, who
        self._await_name(WATCH_S_MAX)

    def data_received(self, data: bytes) -> None:
        """Take the bytes of the request (asyncio)."""
        if self.spoken:
            return  # one request is answered, and the connection ends with that
        self._count_bytes(len(data), spoken=False)
        self._http.receive(data)
        found = self._http.next_request()
        if found is None:
            return
        self._count_bytes(0, spoken=True)
        if isinstance(found, Refusal):
            self._fail(found.status, found.text, *found.fields)
        else:
            self._serve(found)

    # ---- what is asked ------------------------------------------------------------------------

    def _judge(self, head: HttpRequest) -> Refusal | None:
        """Judge the head of a request; None: it is for a page."""
        if head.announced_bytes:
            return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a request has no body here")
        # A page of another site may have sent it: the site has given its own name this address, or
        # asks here across sites. Over TLS the certificate says whether the name is right. A browser
        # always sends ``Host``.
        host, origin = head.field(b"host").casefold(), head.field(b"origin")
        tls = self._transport is not None and self._transport.get_extra_info("ssl_object")
        if host and not tls and not self._watch.is_called(host):
            text = "this queue manager is not called so; 'http_names' gives it other names"
            return Refusal(HTTPStatus.MISDIRECTED_REQUEST, text)
        if origin and urlsplit(origin).netloc.casefold() != host:
            return Refusal(HTTPStatus.FORBIDDEN, "the request comes from a page of another site")
        if head.method not in METHODS:
            allow = (("Allow", "GET, HEAD"),)
            return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD", allow)
        if _path(head) not in ROUTES:
            text = f"there is no such page; there are {', '.join(ROUTES)}"
            return Refusal(HTTPStatus.NOT_FOUND, text)
        return None

    def _serve(self, head: HttpRequest) -> None:
        """Answer a request for a page."""
        path = _path(head)
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
        else:
            self._prove(head, queues=PAGES[path])

    def _prove(self, head: HttpRequest, *, queues: bool) -> None:
        """Identify the client, and let the core decide whether it may read metrics."""
        shown, accept = head.field(b"authorization"), head.field(b"accept")

        def work() -> None:
            engine, proof, who = self._network.engine, b"", self._who.actor
            if engine.stopped:
                raise ServiceNotAvailable("the queue manager stops")
            if shown.lower().startswith(_BEARER):
                private = is_private(shown_on(self._transport, http=True))
                token = engine.tokens.check_clear(
                    shown[len(_BEARER) :].strip(), self._address, private=private
                )
                who, proof = actor_of(token), token.digest
            elif who == NOBODY and not engine.tokens.admits_nobody(Door.METRICS):
                raise unproven()
            self._owner = engine.owner(partial(self._judged, queues=queues, accept=accept))
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

    def _judged(self, request: int, result: object, *, queues: bool, accept: str) -> None:
        if self._transport is None:
            return
        if isinstance(result, OnceqError):
            self._denied(result)
            return
        self._watch.page(queues=queues, accept=accept).add_done_callback(self._paged)

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
            self._say(HTTPStatus.OK, *page.result())

    # ---- what is answered ---------------------------------------------------------------------

    def _fail(self, status: int, text: str, *fields: tuple[str, str]) -> None:
        self._say(status, f"{text}\n".encode(), TEXT, *fields)

    def _say(
        self, status: int, body: bytes, kind: str = "application/json", *fields: tuple[str, str]
    ) -> None:
        """Answer, and end the connection."""
        if self._closing or self._transport is None:
            return
        self._http.answer(status, body, kind, (*_FIELDS, *fields), last=True)
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


def _path(head: HttpRequest) -> str:
    return head.target.partition(b"?")[0].decode("ascii", "replace")


def without_port(host: str) -> str:
    """Return a host of HTTP without the port behind it."""
    name, _, port = host.rpartition(":")
    return name if name and read_number(port) is not None and name[-1] != ":" else host


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"
