"""Live numbers: the changing part of a page, sent as server-sent events.

What is sent is the same HTML that the page has; without a script the page is read anew by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

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
        """What is shown; it ends at once when the session does, also in the middle of a look."""
        cookie, session = request.state.cookie, request.state.session
        ends = [asyncio.ensure_future(self.over.wait())]
        if session is not None:
            ends.append(asyncio.ensure_future(session.over.wait()))
        self._desk.events += 1
        try:
            while not (cookie and self._desk.keys.session(cookie) is None):
                look = asyncio.ensure_future(part(request))
                try:
                    if await _first(*ends, look) is not look:
                        return
                    yield event(name, look.result())
                finally:
                    look.cancel()
                if await _first(*ends, timeout=SAMPLE_S) is not None:
                    return
        finally:
            self._desk.events -= 1
            for end in ends:
                end.cancel()


async def _first(
    *tasks: asyncio.Future[Any], timeout: float | None = None
) -> asyncio.Future[Any] | None:
    """The first of these that is done, in their order; None: none is in time (seconds)."""
    await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    return next((task for task in tasks if task.done()), None)
