"""Server-sent events are whole, whatever the text has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from onceq.console.app import LiveEvents, event
from onceq.console.guard import Keys


def test_every_line_is_data() -> None:
    assert event("overview", "<p>\nevent: x\n\n</p>") == (
        b"event: overview\ndata: <p>\ndata: event: x\ndata: \ndata: </p>\n\n"
    )
    assert event("overview", "") == b"event: overview\n\n"


Ending = Callable[[Keys, str, LiveEvents], object]
ENDINGS: dict[str, Ending] = {
    "signed out": lambda keys, cookie, live: keys.sign_out(cookie),
    "the console stops": lambda keys, cookie, live: live.over.set(),
    "too many sessions": lambda keys, cookie, live: [keys.sign_in(keys.token) for _ in range(100)],
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("looking", [False, True])
def test_they_end_at_once_with_their_session(ending: Ending, looking: bool) -> None:
    """Also in the middle of a look that never ends: nothing here waits for a clock."""
    keys = Keys(lambda: 0.0)
    cookie = keys.sign_in(keys.token)
    assert cookie is not None
    looks = 0

    async def part(request: Any) -> str:
        nonlocal looks
        looks += 1
        if looking and looks > 1:
            await asyncio.Event().wait()
        return "numbers"

    async def work() -> None:
        desk: Any = SimpleNamespace(keys=keys, events=0)
        live = LiveEvents(desk)
        request: Any = SimpleNamespace(
            state=SimpleNamespace(cookie=cookie, session=keys.session(cookie))
        )
        events = live._events(request, "overview", part)
        assert b"numbers" in await anext(events)
        waiting: asyncio.Task[bytes | None] = asyncio.ensure_future(_next(events))
        while looking and looks < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        ending(keys, cookie, live)
        assert await asyncio.wait_for(waiting, 60) is None
        assert desk.events == 0

    asyncio.run(work())


async def _next(events: Any) -> bytes | None:
    return await anext(events, None)
