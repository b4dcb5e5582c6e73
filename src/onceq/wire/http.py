"""The accepting side of one HTTP connection, without sockets and clocks; h11 parses and writes.

SRMP (``wire/srmp/session.py``) and the pages for monitoring (``service/http.py``) are served by it.
Its owner passes it the bytes that arrive, takes requests from it, and answers them.

A head has a limited size, and is judged before anything of its body is read. A refused request is
answered at once; the rest of it is dropped unread, up to a limit, and nothing behind it is read.

Upholds: I24, I28.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import h11

from onceq.model.limits import HTTP_ENTITY_BYTES_MAX
from onceq.model.run import Buffer

TEXT: Final = "text/plain; charset=utf-8"
Fields = Sequence[tuple[str, str]]


class HttpRequest(NamedTuple):
    """A request; when its head is judged, nothing of its body is there."""

    method: bytes
    target: bytes
    fields: Sequence[tuple[bytes, bytes]]
    """Names in small letters."""
    body: bytes = b""

    def field(self, name: bytes) -> str:
        """Return the values of a header field; "": there is none."""
        return b",".join(value for key, value in self.fields if key == name).decode("latin-1")

    @property
    def announced_bytes(self) -> int:
        """Return the size that the head gives the body; of one in chunks it is the largest."""
        if self.field(b"transfer-encoding"):
            return HTTP_ENTITY_BYTES_MAX
        return int(self.field(b"content-length") or 0)


class Refusal(NamedTuple):
    """Why a request is refused: the status, the text and more fields of its answer."""

    status: int
    text: str
    fields: Fields = ()


Judge = Callable[[HttpRequest], Refusal | None]


class ServedConnection:
    """One connection; it has one request at a time.

    Attributes:
        body: What has arrived of the body of a request that is not whole.
        pending: Whether a whole request waits for its answer.
        over: Why nothing more is read; "": it is.
    """

    def __init__(self, judge: Judge, write: Callable[[bytes], None], head_bytes_max: int) -> None:
        """Begin.

        Args:
            judge: Judges the head of a request; None: its body may come. The body is kept whole, so
                the judge limits its size.
            write: Takes the bytes of answers.
            head_bytes_max: Limit of an incomplete head.
        """
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=head_bytes_max)
        self._judge = judge
        self._write = write
        self._request: HttpRequest | None = None
        self.body = bytearray()
        self.pending = False
        self._ahead = 0
        self._to_drop: int | None = None
        """Bytes of a refused request that may still come; None: there is none."""
        self.over = ""

    @property
    def halfway(self) -> bool:
        """Return True if a head has come, and not all that belongs to it."""
        return self._request is not None and not self.pending

    def receive(self, data: Buffer) -> None:
        """Take bytes that have arrived; ``next_request`` returns the requests in them."""
        if self.over or not data:
            return
        if self._to_drop is not None:
            self._drop(len(data))
            return
        if self.pending:
            # HTTP allows the next request before the answer; it waits in h11 and needs a bound.
            self._ahead += len(data)
            if self._ahead > HTTP_ENTITY_BYTES_MAX:
                self.over = "it sends more and more without waiting for answers"
        self._http.receive_data(bytes(data))

    def next_request(self) -> HttpRequest | Refusal | None:
        """Return the next request, which must be answered; a refusal is the connection's last
        answer. None: there is none yet, or an earlier one waits for its answer."""
        while not (self.over or self.pending or self._to_drop is not None):
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                self.over = f"it does not speak HTTP: {error}"
                # In any other state an answer is under way already, or h11 allows none.
                if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
                    return None
                return Refusal(error.error_status_hint, "not HTTP")
            if isinstance(event, h11.Request):
                self._request = HttpRequest(event.method, event.target, event.headers)
                self.body = bytearray()
                refusal = self._judge(self._request)
                if refusal is not None:
                    # The other side may read only when it has sent everything.
                    self._to_drop = min(self._request.announced_bytes, HTTP_ENTITY_BYTES_MAX)
                    self._drop(len(self._http.trailing_data[0]))
                    return refusal
                if self._http.they_are_waiting_for_100_continue:
                    self._say(h11.InformationalResponse(status_code=100, headers=[]))
            elif isinstance(event, h11.Data):
                self.body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert self._request is not None, "h11 returns the head first"
                self.pending, self._ahead = True, 0
                return self._request._replace(body=bytes(self.body))
            else:
                return None
        return None

    def _drop(self, size: int) -> None:
        assert self._to_drop is not None
        self._to_drop -= size
        if self._to_drop <= 0:
            self.over = "a request that is refused by its head"

    def answer(
        self, status: int, body: bytes = b"", kind: str = TEXT, fields: Fields = (), *, last: bool
    ) -> None:
        """Answer the request that waits, or was refused.

        Args:
            fields: More header fields.
            last: Whether the connection ends with it.
        """
        head = [("Content-Length", str(len(body)))]
        if body:
            head.append(("Content-Type", kind))
        head += fields
        if last:
            head.append(("Connection", "close"))
        reason = HTTPStatus(status).phrase
        self._say(h11.Response(status_code=status, headers=head, reason=reason))
        if body and (self._request is None or self._request.method != b"HEAD"):
            self._say(h11.Data(data=body))
        self._say(h11.EndOfMessage())
        self.pending = False
        if self._to_drop is None:
            self._request = None
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()

    def _say(self, event: Any) -> None:
        data = self._http.send(event)
        if data:
            self._write(data)
