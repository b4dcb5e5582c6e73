"""A connection that carries SRMP, with the interface of a session of MS-MQQB.

One side only posts, the other only accepts: replies (receipts) go to their own address, over
another connection (HTTP-5). ``Posting`` sends one message after another and takes the answer 200
for a session acknowledgment, 400 for a permanent refusal, and anything else for the end of the
session (HTTP-9). ``Taking`` answers when the queue manager has decided; ``wire/http.py`` reads
requests for it. Neither knows sockets or clocks; h11 does HTTP itself.

Also here:

* A connection of an unidentified client that posts where anonymous clients have no rights.
* The head of a request, judged before anything of the body is read.

Upholds: I1 (200 only once it is durable), I24, I28.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import h11

from onceq.errors import MalformedPacket, OnceqError
from onceq.model.http import Arrival, HttpNames, host_of
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.limits import HANDSHAKE_BYTES_MAX, HOPS_MAX, HTTP_ENTITY_BYTES_MAX, HTTP_POSTS_MAX
from onceq.model.resultcodes import MessageClass, class_name
from onceq.model.run import Buffer, Run
from onceq.model.settings import Settings
from onceq.packet import address
from onceq.packet.acks import final_ack, is_settling
from onceq.packet.headers import headers
from onceq.wire.http import HttpRequest, Refusal, ServedConnection
from onceq.wire.mqqb.internal import Acked, Arrived, Closed, Event, Opened
from onceq.wire.srmp import convert, envelope
from onceq.wire.srmp.convert import ENVELOPE_TYPE, Post, cut_one, post_of, runs_of

# ---- stranger ------------------------------------------------------------------------------------


class _HttpSession:
    """What connections over HTTP have in common with a session, as long as they do not differ."""

    extended = False
    peer_id = NO_GUID
    timer_set = True
    """Each post and each answer sets it again."""

    def __init__(self) -> None:
        self.output: list[Buffer] = []
        self._closed = False

    @property
    def room(self) -> int:
        """The number of messages that may be handed over now."""
        return 0

    def take_output(self) -> list[Buffer]:
        """Return the bytes to be written, in order, once."""
        output, self.output = self.output, []
        return output

    def start(self) -> None:
        """Do nothing: the other side begins."""

    def send(self, packets: Run | Buffer, *, count: int, recoverable: int, now_us: int) -> None:
        """Raise AssertionError: no message goes this way."""
        raise AssertionError("what is said to an HTTP client goes to its own address")

    def persisted(self, recoverable: int, now_us: int) -> None:
        """Do nothing: no message arrives here."""

    def declined(self, status: int, reason: str) -> None:
        """Do nothing: no message arrives here."""

    def more(self) -> list[Event]:
        """Return nothing: nothing waits here."""
        return []

    def close(self, reason: str) -> None:
        """End the connection."""
        self._closed = True


DENIED: Final = b"access denied"
_ANSWER: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Connection: close\r\n\r\n%s" % (len(DENIED), DENIED)
)
"""400 is permanent: a queue manager that posts reports it to its sender (HTTP-9)."""
DROPPED_BYTES_MAX: Final = HANDSHAKE_BYTES_MAX // 2
"""The answer leaves before the limit on all sent bytes cuts the connection."""


class Stranger(_HttpSession):
    """The connection of a client that may post nothing.

    Everything that it sends is dropped on arrival, and only the HTTP framing is read. It gets one
    answer, always the same: when its request is over, or exceeds the limit for unidentified
    clients. It has the interface of a session, which never opens.
    """

    timer_set = False
    """Its time limit is the connection's."""

    def __init__(self) -> None:
        super().__init__()
        # It says nothing by itself: not even that a body may come.
        self._http = ServedConnection(lambda head: None, lambda data: None, HANDSHAKE_BYTES_MAX)
        self._heard = 0

    def receive(self, data: Buffer, now_us: int) -> list[Event]:
        """Drop received bytes, and answer when the request is over."""
        if self._closed or not data:
            return []
        self._heard += len(data)
        self._http.receive(data)
        found = self._http.next_request()
        self._http.body.clear()
        if found is None and self._heard <= DROPPED_BYTES_MAX:
            return []
        self._closed = True
        self.output.append(_ANSWER)
        return [Closed("it has not said who it is, and nobody has a right here")]

    def idle(self, now_us: int) -> bool:
        """Return True: no message ever passes."""
        return True

    def next_timer(self) -> int | None:
        """Return None: there is no timer (``timer_set``)."""
        return None

    def tick(self, now_us: int) -> list[Event]:
        """Do nothing: there is no timer (``timer_set``)."""
        return []


# ---- session -------------------------------------------------------------------------------------


ANSWER_S: Final = 20
"""Seconds after which a missing answer is given up (HTTP-9)."""
OK, BAD = 200, 400
TEXT_BYTES_MAX: Final = 500
_CLASSES: Final = (MessageClass.NACK_BAD_DESTINATION_QUEUE, MessageClass.NACK_ACCESS_DENIED)
_REFUSED: Final = (class_name(_CLASSES[True]).encode(), DENIED)
"""Texts of the answers if a right is missing, and to a stranger; the status does not show that."""

Names = Callable[[], HttpNames]
Announced = Callable[[bytes, int], str | None]
"""Maps source and stream to the direct name for its receipts; None if it is not known."""
VIA: Final = "1.1 onceq"
"""Each forwarding manager adds this to its Via field: SRMP itself counts no hops."""


@dataclass(slots=True)
class _Waiting:
    """A message on its way."""

    head: h11.Request
    entity: bytes
    post: Post


class Posting(_HttpSession):
    """Sends the messages of one outgoing queue to its URL."""

    def __init__(
        self, *, url: str, own_id: bytes, names: Names, settings: Settings, now_us: int,
        announced: Announced = lambda source, stream: None,
    ) -> None:  # fmt: skip
        """Prepare a connection; nothing is sent before ``start`` and the first tick.

        Args:
            url: URL of the destination queue.
            names: Returns the present addresses.
            announced: Returns where the receipts go of another sender's stream that is passed on.
        """
        super().__init__()
        self._url = url
        self._own = own_id
        self._names = names
        self._announced = announced
        self._settings = settings
        self._http = h11.Connection(h11.CLIENT)
        self._queue: deque[_Waiting] = deque()
        self._sent = self._acked = self._acked_recoverable = 0
        self._status = 0
        self._text = b""
        self._due = 0
        self._used_us = now_us
        self._started = False

    @property
    def opened(self) -> bool:
        """Whether messages can be sent."""
        return self._started and not self._closed

    @property
    def room(self) -> int:
        """The number of messages that may be handed over now."""
        return HTTP_POSTS_MAX - len(self._queue) if self.opened else 0

    def idle(self, now_us: int) -> bool:
        """Return whether nothing has passed for about the time after which connections close."""
        return now_us - self._used_us >= int(self._settings.session_idle_s * 900_000)

    def start(self) -> None:
        """Open without negotiation: the first tick reports that the session is open."""
        # Due at once; 0 would mean never.
        self._due = 1

    def send(self, packets: Run | Buffer, *, count: int, recoverable: int, now_us: int) -> None:
        """Send messages, in order."""
        assert not isinstance(packets, Run)
        data, at = bytes(packets), 0
        for _ in range(count):
            size = address.packet_size(data, at)
            packet = data[at : at + size]
            at += size
            self._queue.append(self._waiting(packet))
        self._used_us = now_us
        self._next(now_us)

    def _waiting(self, packet: bytes) -> _Waiting:
        post = post_of(packet, self._url, self._own, self._names(), self._announced)
        xml = envelope.write(post.envelope)
        kind, entity = convert.write(xml, post.body, guid_text(self._own), post.extension)
        host, slash, path = self._url.partition("://")[2].partition("/")
        head = h11.Request(
            method="POST",
            target=slash + path,
            headers=[
                ("Host", host), ("Content-Type", kind), ("Content-Length", str(len(entity))),
                ("SOAPAction", '"MSMQMessage"'), ("Proxy-Accept", "NonInteractiveClient"),
                *([("Via", ", ".join([VIA] * post.hops))] if post.hops else []),
            ],
        )  # fmt: skip
        return _Waiting(head, entity, post)

    def _next(self, now_us: int) -> None:
        """Send the next message, if none is under way."""
        if not self._queue or self._http.our_state is not h11.IDLE:
            return
        waiting = self._queue[0]
        self._say(waiting.head)
        self._say(h11.Data(data=waiting.entity))
        self._say(h11.EndOfMessage())
        self._sent += 1
        self._due = now_us + ANSWER_S * 1_000_000

    def _say(self, event: Any) -> None:
        data = self._http.send(event)
        if data:
            self.output.append(data)

    def receive(self, data: Buffer, now_us: int) -> list[Event]:
        """Handle bytes from the other side."""
        if self._closed or not data:
            return []
        self._used_us = now_us
        events: list[Event] = []
        try:
            self._http.receive_data(bytes(data))
            while not self._closed:
                event = self._http.next_event()
                if event in (h11.NEED_DATA, h11.PAUSED):
                    break
                self._handle(event, now_us, events)
        except h11.ProtocolError as error:
            events.append(self._over(f"it does not speak HTTP: {error}"))
        return events

    def _handle(self, event: Any, now_us: int, events: list[Event]) -> None:
        if isinstance(event, h11.Response):
            self._status, self._text = event.status_code, b""
        elif isinstance(event, h11.Data):
            self._text = (self._text + bytes(event.data))[:TEXT_BYTES_MAX]
        elif isinstance(event, h11.EndOfMessage):
            self._answered(now_us, events)
        elif isinstance(event, h11.ConnectionClosed):
            events.append(self._over("the other side closed the connection"))

    def _answered(self, now_us: int, events: list[Event]) -> None:
        if not self._queue:
            events.append(self._over("an answer to nothing"))
            return
        if self._status not in (OK, BAD):
            events.append(self._over(f"{host_of(self._url)} answers {self._status}"))
            return
        post = self._queue.popleft().post
        self._acked += 1
        self._acked_recoverable += post.recoverable
        refused = self._status == BAD
        if refused and post.place[0] and post.message.source == self._own:
            events.append(Arrived(cut_one(self._refusal(post)), 1, 1))
        events.append(Acked(self._acked, self._acked_recoverable, refused=refused))
        self._due = now_us + int(self._settings.session_idle_s * 1_000_000)
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._next(now_us)
        else:
            events.append(self._over("the other side ends the connection with its answer"))

    def _refusal(self, post: Post) -> bytes:
        """Return the receiver's permanent refusal as a final acknowledgment (HTTP-9)."""
        stream, number = post.place
        reason = _CLASSES[self._text in _REFUSED]
        return final_ack(
            own=NO_GUID, own_message=1, sent_time=post.envelope.sent,
            destination_manager=self._own,
            message_class=reason, stream=stream, number=number,
            previous=number - 1, source=self._own, message=post.message.number,
        )  # fmt: skip

    def next_timer(self) -> int | None:
        """Return when ``tick`` is wanted."""
        return self._due or None

    def tick(self, now_us: int) -> list[Event]:
        """Do what is due at this time."""
        if self._closed or not self._due or now_us < self._due:
            return []
        if not self._started:
            self._started = True
            self._due = now_us + int(self._settings.session_idle_s * 1_000_000)
            return [Opened(NO_GUID, http=True)]
        if self._queue:
            return [self._over(f"no answer within {ANSWER_S} s")]
        return [self._over("idle")]

    def _over(self, reason: str) -> Closed:
        self._closed = True
        return Closed(reason)


# ---- heads ---------------------------------------------------------------------------------------


_TYPES: Final = (ENVELOPE_TYPE.encode(), b"multipart/related")
_OF_BROWSERS: Final = b"sec-fetch-"


def refuse_head(
    method: bytes, fields: Iterable[tuple[bytes, bytes]], *, granted: bool
) -> Refusal | None:
    """Judge the head of a request; None: its body may come.

    Each published request has ``SOAPAction``, ``Content-Length``, and one of two content types
    ([MC-MQSRM] 4). A page in a browser can send none of that to a host of another origin without
    asking that host first (a preflight), and a browser marks what it sends in fields that no page
    sets: ``Origin`` and ``Sec-Fetch-*``. So a head shows whether a queue manager posts or a page
    does, on a connection without proofs of identity.

    A body in chunks is refused: each chunk costs as much as a whole packet, and may be one byte.

    Args:
        method: The HTTP method.
        fields: The header fields; names in small letters.
        granted: Whether the sender has a right to send here. Without one it may report what it has
            received: receipts need no right, and are short.
    """
    if method != b"POST":
        return Refusal(405, "messages are posted")
    known: dict[bytes, bytes] = {}
    for name, value in fields:
        if name == b"origin" or name.startswith(_OF_BROWSERS):
            return Refusal(403, f"{name.decode('latin-1')}: web pages post no messages here")
        known.setdefault(name, value)
    if b"transfer-encoding" in known or b"content-length" not in known:
        return Refusal(411, "the size of a message is said first, in Content-Length")
    if b"soapaction" not in known:
        return Refusal(400, "SOAPAction is missing, which every queue manager sends")
    kind = known.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind not in _TYPES:
        return Refusal(415, "a message is text/xml, or multipart/related")
    size = int(known[b"content-length"])
    if size > HTTP_ENTITY_BYTES_MAX:
        return Refusal(413, f"at most {HTTP_ENTITY_BYTES_MAX} bytes")
    if size > HANDSHAKE_BYTES_MAX and not granted:
        return Refusal(400, DENIED.decode())
    return None


# ---- taking --------------------------------------------------------------------------------------


REQUEST_S: Final = 60
"""Seconds after which an incomplete request is given up (P14: slow senders)."""


def hops_of(fields: Iterable[tuple[bytes, bytes]]) -> int:
    """Return how many managers have passed a request on, by its Via fields; at most HOPS_MAX."""
    values = b",".join(value for name, value in fields if name == b"via")
    return min(values.count(b",") + 1, HOPS_MAX) if values.strip() else 0


class Taking(_HttpSession):
    """Accepts requests on a connection that another manager has made.

    A request whose head is refused is answered at once; all others are answered when the queue
    manager has decided.
    """

    def __init__(
        self, *, own_id: bytes, names: Names, settings: Settings, now_us: int,
        granted: Callable[[], bool] = lambda: True,
    ) -> None:  # fmt: skip
        """Prepare.

        Args:
            names: Returns the present addresses.
            granted: Returns whether the other side may send to any queue here now.
        """
        super().__init__()
        self._granted = granted
        self._own = own_id
        self._names = names
        self._settings = settings
        self._http = ServedConnection(
            self._judge, lambda data: self.output.append(data), HANDSHAKE_BYTES_MAX
        )
        self._events: list[Event] = []
        self._used_us = self._begun_us = now_us
        self._told = False

    def idle(self, now_us: int) -> bool:
        """Return whether nothing has passed for about the time after which connections close."""
        return now_us - self._used_us >= int(self._settings.session_idle_s * 900_000)

    def receive(self, data: Buffer, now_us: int) -> list[Event]:
        """Handle bytes of requests."""
        if self._closed or not data:
            return []
        self._used_us = now_us
        if not self._http.halfway:
            self._begun_us = now_us
        self._http.receive(data)
        return self.more()

    def more(self) -> list[Event]:
        """Read what the other side has sent, up to a request that waits for its answer."""
        if self._closed:
            return []
        while (found := self._http.next_request()) is not None:
            if isinstance(found, Refusal):
                self._answer(found.status, found.text, last=True)
            else:
                self._whole(found)
        events, self._events = self._events, []
        if self._http.over:
            self._closed = True
            events.append(Closed(self._http.over))
        return events

    def _judge(self, head: HttpRequest) -> Refusal | None:
        refusal = refuse_head(head.method, head.fields, granted=self._granted())
        if refusal is None and not self._told:
            self._told = True
            self._events.append(Opened(NO_GUID, http=True))
        return refusal

    def _whole(self, request: HttpRequest) -> None:
        """Handle one complete request."""
        kind = next((v for n, v in request.fields if n == b"content-type"), b"")
        try:
            xml, body, extension = convert.read(kind.decode("latin-1"), request.body)
            read = envelope.read(xml)
            arrival = self._names().arrival(read.to)
            foreign = arrival is None
            if foreign and read.stream_receipt is not None:
                self._answer(BAD, f"{host_of(read.to)} is not here")
                return
            arrival = arrival or Arrival(read.to, here=False)
            hops = 0 if arrival.here else hops_of(request.fields)
            runs = runs_of(read, body, extension, arrival, self._own, hops)
            # Its address may have led here once: the core knows whether it is a repetition.
            runs = [replace(run, foreign=foreign) for run in runs]
            if any(is_settling(headers(packet)) for run in runs for packet in run.packets):
                raise MalformedPacket("a packet of another protocol")
        except OnceqError as error:
            self._answer(BAD, error.text)
            return
        if runs:
            self._events.append(Arrived(runs, 1, 1))
        else:
            self._answer(OK)

    def persisted(self, recoverable: int, now_us: int) -> None:
        """Answer that the posted message is durable, or settled."""
        if self._http.pending:
            self._answer(OK)

    def declined(self, status: int, reason: str) -> None:
        """Answer that the message was not accepted."""
        if self._http.pending:
            self._answer(status, reason)

    def _answer(self, status: int, text: str = "", *, last: bool = False) -> None:
        self._http.answer(status, text.encode("utf-8", "replace")[:TEXT_BYTES_MAX], last=last)

    def next_timer(self) -> int | None:
        """Return when an unused connection, or one with half a request, is closed."""
        if self._http.halfway:
            return self._begun_us + REQUEST_S * 1_000_000
        return self._used_us + int(self._settings.session_idle_s * 2_000_000)

    def tick(self, now_us: int) -> list[Event]:
        """Do what is due at this time."""
        due = self.next_timer()
        if self._closed or self._http.pending or due is None or now_us < due:
            return []
        self._closed = True
        return [Closed("idle")]
