"""Dead letters and journal copies; what is done is in ``client/letters``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from onceq.client.letters import Peekable, Returned, Search
from onceq.client.letters import discard as discard_letters
from onceq.client.letters import give_back as give_letters_back
from onceq.model.letters import ALL, DEAD, DEAD_XACT, JOURNAL, REASONS, Filter, Letter, filter_of
from onceq.partners.procedures import drive_in_task, in_tasks

__all__ = [
    "ALL", "DEAD", "DEAD_XACT", "JOURNAL", "REASONS", "Filter", "Letter", "Returned", "discard",
    "filter_of", "give_back", "letters",
]  # fmt: skip


async def letters(
    qm: Peekable, queues: Sequence[str], which: Filter, now_s: int
) -> AsyncIterator[Letter]:
    """Look at the messages of queues that fit, page by page."""
    search = Search(queues, which, now_s)
    while not search.over:
        for letter in await drive_in_task(search.page(qm)):
            yield letter


give_back = in_tasks(give_letters_back)
discard = in_tasks(discard_letters)
