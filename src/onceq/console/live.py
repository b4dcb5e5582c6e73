"""Live numbers: the changing part of a page, sent as server-sent events.

What is sent is the same HTML that the page has; without a script the page is read anew by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from onceq.console.desk import Desk
from onceq.console.limits import EVENTS_MAX, SAMPLE_S


def event(name: str, text: str) -> bytes:
    """One event: every line of the text is a line of data."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"event: {name}\n{lines}\n".encode()


Part = Callable[[Request], Awaitable[str]]


class Live:
    """Sends events to whoever has a page open."""

    def __init__(self, desk: Desk) -> None:
        """Nobody has one open yet."""
        self._desk = desk
        self.over = asyncio.Event()

    def of(self, name: str, part: Part) -> Callable[[Request], Awaitable[Response]]:
        """The handler for a page.

        Args:
            name: Of the events.
            part: The part of the page that changes.
        """

        async def answer(request: Request) -> Response:
            """An endless answer, until the browser goes, its session ends or the console stops."""
            if self._desk.events >= EVENTS_MAX:
                return PlainTextResponse(
                    f"{EVENTS_MAX} pages get live numbers already; read this one anew by hand",
                    status_code=503,
                )
            events = self._events(request, name, part)
            return StreamingResponse(events, media_type="text/event-stream")

        return answer

    async def _events(self, request: Request, name: str, part: Part) -> AsyncIterator[bytes]:
        cookie = request.state.cookie
        self._desk.events += 1
        try:
            while not self.over.is_set():
                if cookie and self._desk.keys.session(cookie) is None:
                    return
                yield event(name, await part(request))
                try:
                    async with asyncio.timeout(SAMPLE_S):
                        await self.over.wait()
                except TimeoutError:
                    continue
        finally:
            self._desk.events -= 1
