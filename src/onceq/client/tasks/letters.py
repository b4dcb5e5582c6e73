"""Dead letters and journal copies for tasks; what is done is in ``dead_letters``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from onceq.client import dead_letters
from onceq.client.dead_letters import (
    ALL,
    DEAD,
    DEAD_XACT,
    JOURNAL,
    REASONS,
    Filter,
    Letter,
    Returned,
    Search,
    filter_of,
)
from onceq.client.tasks.manager import AsyncQueueManager
from onceq.partners.driving import drive_in_task, in_tasks

__all__ = [
    "ALL",
    "DEAD",
    "DEAD_XACT",
    "JOURNAL",
    "REASONS",
    "Filter",
    "Letter",
    "Returned",
    "discard",
    "filter_of",
    "give_back",
    "letters",
]


async def letters(
    qm: AsyncQueueManager, queues: Sequence[str], which: Filter, now_s: int
) -> AsyncIterator[Letter]:
    """Look at the messages of queues that fit, page by page."""
    search = Search(queues, which, now_s)
    while not search.over:
        for letter in await drive_in_task(search.page(qm)):
            yield letter


give_back = in_tasks(dead_letters.give_back)
discard = in_tasks(dead_letters.discard)
