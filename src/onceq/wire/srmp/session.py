"""A connection that carries SRMP, with the interface of a session of MS-MQQB.

One side only posts, the other only accepts: replies (receipts) go to their own address, over
another connection (HTTP-5). ``Posting`` sends one message after another and takes the answer 200
for a session acknowledgment, 400 for a permanent refusal, and anything else for the end of the
session (HTTP-9). ``Taking`` (``taking.py``) answers when the queue manager has decided. Neither
knows sockets or clocks; h11 does HTTP itself.

Upholds: I1 (200 only once it is durable), I24.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import h11

from onceq.model.classes import MessageClass, class_name
from onceq.model.http import HttpNames, host_of
from onceq.model.identity import NO_GUID, guid_text
from onceq.model.limits import HTTP_POSTS_MAX
from onceq.model.run import Buffer, Run
from onceq.model.settings import Settings
from onceq.packet import layout
from onceq.packet.acks import final_ack
from onceq.wire.mqqb.events import Acked, Arrived, Closed, Event, Opened
from onceq.wire.srmp import envelope, mime
from onceq.wire.srmp.convert import Post, cut_one, post_of
from onceq.wire.srmp.stranger import DENIED

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


def _never_announced(source: bytes, stream: int) -> None:
    """Return None: nothing is passed on."""


@dataclass(slots=True)
class _Waiting:
    """A message on its way."""

    head: h11.Request
    entity: bytes
    post: Post


class Posting:
    """Sends the messages of one outgoing queue to its URL."""

    extended = False
    peer_id = NO_GUID
    timer_set = True
    """Each post and each answer sets it again."""

    def __init__(
        self, *, url: str, own_id: bytes, names: Names, settings: Settings, now_us: int,
        announced: Announced = _never_announced,
    ) -> None:  # fmt: skip
        """Prepare a connection; nothing is sent before ``start`` and the first tick.

        Args:
            url: URL of the destination queue.
            names: Returns the present addresses.
            announced: Returns where the receipts go of another sender's stream that is passed on.
        """
        self._url = url
        self._own = own_id
        self._names = names
        self._announced = announced
        self._settings = settings
        self._http = h11.Connection(h11.CLIENT)
        self._queue: deque[_Waiting] = deque()
        self.output: list[Buffer] = []
        self._sent = self._acked = self._acked_recoverable = 0
        self._status = 0
        self._text = b""
        self._due = 0
        self._used_us = now_us
        self._started = False
        self._closed = False

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

    def take_output(self) -> list[Buffer]:
        """Return the bytes to be written, in order, once."""
        output, self.output = self.output, []
        return output

    def start(self) -> None:
        """Open without negotiation: the first tick reports that the session is open."""
        # Due at once; 0 would mean never.
        self._due = 1

    def persisted(self, recoverable: int, now_us: int) -> None:
        """Do nothing: no message arrives here."""

    def send(self, packets: Run | Buffer, *, count: int, recoverable: int, now_us: int) -> None:
        """Send messages, in order."""
        assert not isinstance(packets, Run)
        data, at = bytes(packets), 0
        for _ in range(count):
            size = layout.packet_size(data, at)
            packet = data[at : at + size]
            at += size
            self._queue.append(self._waiting(packet))
        self._used_us = now_us
        self._next(now_us)

    def _waiting(self, packet: bytes) -> _Waiting:
        post = post_of(packet, self._url, self._own, self._names(), self._announced)
        xml = envelope.write(post.envelope)
        kind, entity = mime.write(xml, post.body, guid_text(self._own), post.extension)
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
                self._heard(event, now_us, events)
        except h11.ProtocolError as error:
            events.append(self._over(f"it does not speak HTTP: {error}"))
        return events

    def _heard(self, event: Any, now_us: int, events: list[Event]) -> None:
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

    def declined(self, status: int, reason: str) -> None:
        """Do nothing: no message arrives here."""

    def more(self) -> list[Event]:
        """Return nothing: nothing waits here."""
        return []

    def close(self, reason: str) -> None:
        """End the connection."""
        self._closed = True

    def _over(self, reason: str) -> Closed:
        self._closed = True
        return Closed(reason)
