"""Dead letters and journal copies for threads; what is done is in ``dead_letters``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from onceq.client.threads.manager import QueueManager
from onceq.partners.driving import drive, in_threads

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


def letters(qm: QueueManager, queues: Sequence[str], which: Filter, now_s: int) -> Iterator[Letter]:
    """Look at the messages of queues that fit, page by page."""
    search = Search(queues, which, now_s)
    while not search.over:
        yield from drive(search.page(qm))


give_back = in_threads(dead_letters.give_back)
discard = in_threads(dead_letters.discard)
