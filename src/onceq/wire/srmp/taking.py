"""The side of SRMP that accepts messages; see ``session.py``.

A head is judged before the body comes (``heads.py``). A request whose head is refused is answered
at once, and the rest of it is dropped unread. All others are answered when the queue manager has
decided.

Upholds: I1 (200 only once it is durable), I24, I28.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import h11

from onceq.errors import MalformedPacket, OnceqError
from onceq.model.http import Arrival, host_of
from onceq.model.identity import NO_GUID
from onceq.model.limits import HANDSHAKE_BYTES_MAX, HOPS_MAX, HTTP_ENTITY_BYTES_MAX
from onceq.model.run import Buffer, Run
from onceq.model.settings import Settings
from onceq.packet.headers import headers
from onceq.packet.settle import is_settling
from onceq.wire.mqqb.events import Arrived, Closed, Event, Opened
from onceq.wire.srmp import envelope, mime
from onceq.wire.srmp.convert import runs_of
from onceq.wire.srmp.heads import Refusal, refuse_head
from onceq.wire.srmp.session import BAD, OK, TEXT_BYTES_MAX, Names

REQUEST_S: Final = 60
"""Seconds after which an incomplete request is given up (P14: slow senders)."""


def hops_of(fields: Iterable[tuple[bytes, bytes]]) -> int:
    """Return how many managers have passed a request on, by its Via fields; at most HOPS_MAX."""
    values = b",".join(value for name, value in fields if name == b"via")
    return min(values.count(b",") + 1, HOPS_MAX) if values.strip() else 0


class Taking:
    """Accepts requests on a connection that another manager has made."""

    extended = False
    peer_id = NO_GUID
    timer_set = True
    """Each post and each answer sets it again."""

    def __init__(
        self, *, own_id: bytes, names: Names, settings: Settings, now_us: int,
        granted: Callable[[], bool] = lambda: True,
    ) -> None:  # fmt: skip
        """Prepare.

        Args:
            names: Returns the present addresses.
            granted: Returns whether the other side may send to any queue here now.
        """
        self._granted = granted
        self._own = own_id
        self._names = names
        self._settings = settings
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HANDSHAKE_BYTES_MAX)
        self.output: list[Buffer] = []
        self._request: h11.Request | None = None
        self._entity = bytearray()
        self._to_drop: int | None = None
        """Bytes of a refused request that may still come; None: there is none."""
        self._pending = False
        self._ahead = 0
        self._used_us = self._begun_us = now_us
        self._told = False
        self._closed = False

    room = 0
    """Only answers are sent here."""

    def idle(self, now_us: int) -> bool:
        """Return whether nothing has passed for about the time after which connections close."""
        return now_us - self._used_us >= int(self._settings.session_idle_s * 900_000)

    def take_output(self) -> list[Buffer]:
        """Return the bytes to be written, in order, once."""
        output, self.output = self.output, []
        return output

    def start(self) -> None:
        """Do nothing: the other side begins."""

    def send(self, packets: Run | Buffer, *, count: int, recoverable: int, now_us: int) -> None:
        """Raise AssertionError: no message goes this way."""
        raise AssertionError("what is said to an HTTP client goes to its own address")

    def receive(self, data: Buffer, now_us: int) -> list[Event]:
        """Handle bytes of requests."""
        if self._closed or not data:
            return []
        self._used_us = now_us
        events: list[Event] = []
        if self._to_drop is not None:
            return self._drop(len(data))
        if self._pending:
            # HTTP allows the next request before the answer; it waits in h11 and needs a bound.
            self._ahead += len(data)
            if self._ahead > HTTP_ENTITY_BYTES_MAX:
                self._closed = True
                return [Closed("it sends more and more without waiting for answers")]
        if self._request is None:
            self._begun_us = now_us
        try:
            self._http.receive_data(bytes(data))
            self._read(events)
        except h11.ProtocolError as error:
            self._broken(error, events)
        return events

    def _read(self, events: list[Event]) -> None:
        while not self._closed:
            event = self._http.next_event()
            if event in (h11.NEED_DATA, h11.PAUSED):
                return
            if isinstance(event, h11.Request):
                self._begin(event, events)
            elif isinstance(event, h11.Data):
                # The head has given this number of bytes, and h11 takes no more.
                self._entity += event.data
            elif isinstance(event, h11.EndOfMessage):
                self._whole(events)
                if self._pending:
                    return
            elif isinstance(event, h11.ConnectionClosed):
                return
            if self._to_drop is not None:
                events += self._drop(len(self._http.trailing_data[0]))
                return

    def _begin(self, request: h11.Request, events: list[Event]) -> None:
        """Judge the head of a request."""
        self._request, self._entity = request, bytearray()
        refusal = refuse_head(request.method, request.headers, granted=self._granted())
        if refusal is not None:
            self._refuse(request, refusal)
            return
        if not self._told:
            self._told = True
            events.append(Opened(NO_GUID, http=True))
        if self._http.they_are_waiting_for_100_continue:
            self._say(h11.InformationalResponse(status_code=100, headers=[]))

    def _refuse(self, request: h11.Request, refusal: Refusal) -> None:
        """Answer at once. The other side may read only when it has sent everything: the rest is
        dropped, up to the size that it has declared, or that a message may have."""
        fields = dict(request.headers)
        said = int(fields.get(b"content-length", b"0"))
        if b"transfer-encoding" in fields:
            said = HTTP_ENTITY_BYTES_MAX
        self._to_drop = min(said, HTTP_ENTITY_BYTES_MAX)
        self._answer(refusal.status, refusal.text, last=True)

    def _drop(self, size: int) -> list[Event]:
        """Drop bytes of a refused request."""
        assert self._to_drop is not None
        self._to_drop -= size
        if self._to_drop > 0:
            return []
        self._closed = True
        return [Closed("a request that is refused by its head")]

    def _broken(self, error: h11.ProtocolError, events: list[Event]) -> None:
        # In any other state an answer is under way already, or h11 allows none.
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            status = getattr(error, "error_status_hint", 400)
            self._answer(status, "not HTTP", last=True)
        self._closed = True
        events.append(Closed(f"it does not speak HTTP: {error}"))

    def _whole(self, events: list[Event]) -> None:
        """Handle one complete request."""
        request, self._request = self._request, None
        assert request is not None
        kind = next((v for n, v in request.headers if n == b"content-type"), b"")
        try:
            xml, body, extension = mime.read(kind.decode("latin-1"), bytes(self._entity))
            read = envelope.read(xml)
            arrival = self._names().arrival(read.to)
            foreign = arrival is None
            if foreign and read.stream_receipt is not None:
                self._answer(BAD, f"{host_of(read.to)} is not here")
                return
            arrival = arrival or Arrival(read.to, here=False)
            hops = 0 if arrival.here else hops_of(request.headers)
            runs = runs_of(read, body, extension, arrival, self._own, hops)
            # Its address may have led here once: the core knows whether it is a repetition.
            runs = [replace(run, foreign=foreign) for run in runs]
            if any(is_settling(headers(packet)) for run in runs for packet in run.packets):
                raise MalformedPacket("a packet of another protocol")
        except OnceqError as error:
            self._answer(BAD, error.text)
            return
        if not runs:
            self._answer(OK)
            return
        self._pending, self._ahead = True, 0
        events.append(Arrived(runs, 1, 1))

    def persisted(self, recoverable: int, now_us: int) -> None:
        """Answer that the posted message is durable, or settled."""
        if self._pending:
            self._pending = False
            self._answer(OK)

    def declined(self, status: int, reason: str) -> None:
        """Answer that the message was not accepted."""
        if self._pending:
            self._pending = False
            self._answer(status, reason)

    def more(self) -> list[Event]:
        """Read what the other side has sent behind the answered request."""
        events: list[Event] = []
        if not (self._closed or self._pending):
            try:
                self._read(events)
            except h11.ProtocolError as error:
                self._broken(error, events)
        return events

    def _answer(self, status: int, text: str = "", *, last: bool = False) -> None:
        content = text.encode("utf-8", "replace")[:TEXT_BYTES_MAX]
        fields = [("Content-Length", str(len(content)))]
        if content:
            fields.append(("Content-Type", "text/plain; charset=utf-8"))
        if last:
            fields.append(("Connection", "close"))
        reason = HTTPStatus(status).phrase
        self._say(h11.Response(status_code=status, headers=fields, reason=reason))
        if content:
            self._say(h11.Data(data=content))
        self._say(h11.EndOfMessage())
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()

    def _say(self, event: Any) -> None:
        data = self._http.send(event)
        if data:
            self.output.append(data)

    def next_timer(self) -> int | None:
        """Return when an unused connection, or one with half a request, is closed."""
        if self._request is not None:
            return self._begun_us + REQUEST_S * 1_000_000
        return self._used_us + int(self._settings.session_idle_s * 2_000_000)

    def tick(self, now_us: int) -> list[Event]:
        """Do what is due at this time."""
        due = self.next_timer()
        if self._closed or self._pending or due is None or now_us < due:
            return []
        self._closed = True
        return [Closed("idle")]

    def close(self, reason: str) -> None:
        """End the connection."""
        self._closed = True
