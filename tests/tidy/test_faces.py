"""The client's face for threads is what ``tools/faces.py`` makes of the one for tasks."""

from __future__ import annotations

import faces


def test_the_face_for_threads_is_made_from_the_one_for_tasks() -> None:
    assert faces.differing() == [], "run `make format`"


SOURCE = '''"""A class, for example."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from onceq.client.binding import counted, tasks
from onceq.client.async_link import in_thread
from onceq.client.plans import send


class AsyncThing:
    """An AsyncThing: ``async with await onceq.aio.connect()``."""

    send = counted(tasks(send.send))

    async def wait(
        self,
        work: Callable[[AsyncThing], Awaitable[int]],  # whose comment stays
    ) -> int:
        """Wait."""
        await asyncio.sleep(await in_thread(min, 1, 2))
        done = await in_thread(
            self.leave,
        )
        return done  # tasks
        # threads: return await work(self)
'''
MADE = '''# Made from client/tasks/thing.py by tools/faces.py: edit that, and run `make format`.
"""A class, for example."""

from __future__ import annotations

from collections.abc import Callable

from onceq.client.binding import threads
from onceq.client.plans import send
from onceq.client.stopping import pause


class Thing:
    """A Thing: ``with onceq.connect()``."""

    send = threads(send.send)

    def wait(
        self,
        work: Callable[[Thing], int],  # whose comment stays
    ) -> int:
        """Wait."""
        pause(min(1, 2))
        done = self.leave()
        return work(self)
'''


def test_what_is_written_for_tasks_is_made_for_threads() -> None:
    assert faces.threads_module("thing.py", SOURCE) == MADE
