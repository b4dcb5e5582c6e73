"""A connection with the console: a request comes whole and in time, or the connection ends.

uvicorn waits for the rest of a request for as long as the connection is open, and counts it among
those that it serves. So each connection has a time for its request, and those that have not said a
whole one are few: the oldest makes room for the next. What is answered, or waits for its next
request in order, is not among them.

Upholds: I24.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from onceq.console.limits import REQUEST_S_MAX, SILENT_MAX


class TimedConnection(H11Protocol):
    """See the module."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See asyncio."""
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._await_request()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """See uvicorn: what waits for its next request has the time that uvicorn gives it, unless
        some of that request is there already."""
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
