"""Results that another thread has for a task, while signal handlers raise."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable, Coroutine
from types import CodeType, FrameType
from typing import Any

import pytest

from onceq.client import stopping
from onceq.client.async_link import Handover, in_thread

WAIT_S = 20.0
"""Only a defect makes a test wait so long."""


class Broken(Exception):
    """What a signal handler raises."""


def interrupted(code: CodeType, do: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Run it, and raise once at the first line of a function of this thread; how often that was."""
    raised: list[None] = []

    def called(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code is code and not raised:
            raised.append(None)
            raise Broken

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        sys.settrace(called)
        try:
            await do()
        finally:
            sys.settrace(None)

    asyncio.run(asyncio.wait_for(main(), WAIT_S))
    return len(raised)


def test_a_result_whose_bringing_is_interrupted_comes_all_the_same() -> None:
    async def do() -> None:
        place = Handover(lambda result: None)
        threading.Thread(target=place.put, args=("it",)).start()
        assert await place.take() == "it"
        assert await in_thread(lambda: "done") == "done"
        with pytest.raises(ZeroDivisionError):
            await in_thread(lambda: 1 // 0)

    assert interrupted(Handover._bring.__code__, do) == 1


@pytest.mark.parametrize("first", [True, False])
def test_what_was_given_up_is_missed_once(first: bool) -> None:
    async def do() -> None:
        missed: list[object] = []
        place = Handover(missed.append)
        waiting = asyncio.create_task(place.take())
        await asyncio.sleep(0)
        waiting.cancel()
        if first:
            place.put("it")
        other = threading.Thread(target=place.put, args=("it",))
        with contextlib.suppress(Broken):
            await place.give_up(other.start, WAIT_S)
        assert not place.awaited
        await asyncio.sleep(0)
        assert missed == ["it"]

    assert interrupted(Handover._bring.__code__, do) == 1


def test_a_stop_whose_telling_is_interrupted_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    async def do() -> None:
        tell: list[Callable[[], object]] = []

        def handling(numbers: object, one: Callable[[], object]) -> threading.Lock:
            tell.append(one)
            return threading.Lock()

        monkeypatch.setattr(stopping, "_handling", handling)
        with stopping.asked_to_stop_in_task() as event:
            tell[0]()
            await event.wait()

    assert interrupted(asyncio.Event.set.__code__, do) == 1
