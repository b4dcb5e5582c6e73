"""Live numbers: the changing part of the overview, sent as server-sent events.

What is sent is the same HTML that the page has; without a script the page is read anew by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from onceq.console.desk import Desk
from onceq.console.limits import EVENTS_MAX, SAMPLE_S


def event(name: str, text: str) -> bytes:
    """One event: every line of the text is a line of data."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: {name}\n{lines}\n".encode()


class Live:
    """Sends events to whoever has a page open."""

    def __init__(self, desk: Desk, part: Callable[[], str]) -> None:
        """Prepare it.

        Args:
            part: The part of the page that changes.
        """
        self._desk, self._part = desk, part
        self.over = asyncio.Event()

    async def answer(self, request: Request) -> Response:
        """An endless answer, until the browser goes, its session ends or the console stops."""
        if self._desk.events >= EVENTS_MAX:
            return PlainTextResponse(
                f"{EVENTS_MAX} pages get live numbers already; read this one anew by hand",
                status_code=503,
            )
        return StreamingResponse(self._events(request.state.cookie), media_type="text/event-stream")

    async def _events(self, cookie: str) -> AsyncIterator[bytes]:
        self._desk.events += 1
        try:
            while not self.over.is_set():
                if cookie and self._desk.keys.session(cookie) is None:
                    return
                yield event("overview", self._part())
                try:
                    async with asyncio.timeout(SAMPLE_S):
                        await self.over.wait()
                except TimeoutError:
                    continue
        finally:
            self._desk.events -= 1
