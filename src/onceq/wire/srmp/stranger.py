"""A connection of somebody who posts and has not said who he is, where nobody has a right.

Whatever he sends is dropped as it comes, and nothing of it but the frame of HTTP is read. He hears
one answer, always the same: when his request is over, or has become longer than anybody's may be
who has not said who he is. It has the face of a session, which never opens.

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
"""400 is for good: a queue manager that posts tells its sender (HTTP-9)."""
DROPPED_BYTES_MAX: Final = HANDSHAKE_BYTES_MAX // 2
"""He is answered before his connection is cut for what he has sent in all."""


class Stranger:
    """See the module."""

    extended = False
    peer_id = NO_GUID
    timer_set = False
    """The time that he has is that of his connection."""
    room = 0

    def __init__(self) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HANDSHAKE_BYTES_MAX)
        self.output: list[Buffer] = []
        self._heard = 0
        self._closed = False

    def take_output(self) -> list[Buffer]:
        """See Posting."""
        output, self.output = self.output, []
        return output

    def receive(self, data: Buffer, now_us: int) -> list[Event]:
        """Bytes have come."""
        if self._closed or not data:
            return []
        self._heard += len(data)
        if not self._over(data):
            return []
        self._closed = True
        self.output.append(_ANSWER)
        return [Closed("it has not said who it is, and nobody has a right here")]

    def _over(self, data: Buffer) -> bool:
        """Whether he is to be answered now."""
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
        """Nothing ever passes."""
        return True

    def send(self, packets: object, *, count: int, recoverable: int, now_us: int) -> None:
        """Nothing goes this way."""
        raise AssertionError("a session that never opens transmits nothing")

    def persisted(self, recoverable: int, now_us: int) -> None:
        """Nothing arrives here."""

    def declined(self, status: int, reason: str) -> None:
        """Nothing arrives here."""

    def more(self) -> list[Event]:
        """Nothing waits here."""
        return []

    def next_timer(self) -> int | None:
        """See ``timer_set``."""
        return None

    def tick(self, now_us: int) -> list[Event]:
        """See ``timer_set``."""
        return []

    def close(self, reason: str) -> None:
        """It is over."""
        self._closed = True
