"""A connection of an unidentified client that posts where anonymous clients have no rights.

Everything that it sends is dropped on arrival, and only the HTTP framing is read. It gets one
answer, always the same: when its request is over, or exceeds the limit for unidentified clients. It
has the interface of a session, which never opens.

Upholds: I24, I28.
"""

from __future__ import annotations

from typing import Final

import h11

from onceq.model.identity import NO_GUID
from onceq.model.limits import HANDSHAKE_BYTES_MAX
from onceq.model.run import Buffer
from onceq.wire.mqqb.events import Closed, Event

DENIED: Final = b"access denied"
_ANSWER: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Connection: close\r\n\r\n%s" % (len(DENIED), DENIED)
)
"""400 is permanent: a queue manager that posts reports it to its sender (HTTP-9)."""
DROPPED_BYTES_MAX: Final = HANDSHAKE_BYTES_MAX // 2
"""The answer leaves before the limit on all sent bytes cuts the connection."""


class Stranger:
    """The connection of this module."""

    extended = False
    peer_id = NO_GUID
    timer_set = False
    """Its time limit is the connection's."""
    room = 0

    def __init__(self) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HANDSHAKE_BYTES_MAX)
        self.output: list[Buffer] = []
        self._heard = 0
        self._closed = False

    def take_output(self) -> list[Buffer]:
        """Return the bytes to be written, in order, once."""
        output, self.output = self.output, []
        return output

    def receive(self, data: Buffer, now_us: int) -> list[Event]:
        """Drop received bytes, and answer when the request is over."""
        if self._closed or not data:
            return []
        self._heard += len(data)
        if not self._over(data):
            return []
        self._closed = True
        self.output.append(_ANSWER)
        return [Closed("it has not said who it is, and nobody has a right here")]

    def _over(self, data: Buffer) -> bool:
        """Return whether to answer now."""
        if self._heard > DROPPED_BYTES_MAX:
            return True
        try:
            self._http.receive_data(bytes(data))
            while (event := self._http.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                    return True
        except h11.ProtocolError:
            return True
        return False

    def idle(self, now_us: int) -> bool:
        """Return True: no message ever passes."""
        return True

    def send(self, packets: object, *, count: int, recoverable: int, now_us: int) -> None:
        """Raise AssertionError: no message goes this way."""
        raise AssertionError("a session that never opens transmits nothing")

    def persisted(self, recoverable: int, now_us: int) -> None:
        """Do nothing: no message arrives here."""

    def declined(self, status: int, reason: str) -> None:
        """Do nothing: no message arrives here."""

    def more(self) -> list[Event]:
        """Return nothing: nothing waits here."""
        return []

    def next_timer(self) -> int | None:
        """Return None: there is no timer (``timer_set``)."""
        return None

    def tick(self, now_us: int) -> list[Event]:
        """Do nothing: there is no timer (``timer_set``)."""
        return []

    def close(self, reason: str) -> None:
        """End the connection."""
        self._closed = True
