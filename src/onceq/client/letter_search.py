"""Looking through dead-letter queues and journals for the letters that are meant.

It stands apart from what is done with them (``dead_letters``) because a command that lists letters
needs no more than this, and is quick therefore.

Written once for threads and tasks, as generators of calls (``partners/driving.py``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from onceq.errors import ReceiveTimeout
from onceq.model.identity import guid_bytes
from onceq.model.letters import Filter, Letter
from onceq.packet.batch import Batch
from onceq.partners.driving import Calls, call, drive

PAGE: Final = 256


class Peekable(Protocol):
    """A queue manager as far as it is looked at here, of either face or of ``asking``."""

    @property
    def id(self) -> str: ...

    def peek_many(self, queue: str, max: int, /, *, after: int) -> Awaitable[Batch] | Batch: ...


class Search:
    """Goes through the messages of queues, page by page."""

    def __init__(self, queues: Iterable[str], which: Filter, now_s: int) -> None:
        self._queues = deque(queues)
        self._which, self._now_s = which, now_s
        self._after = 0

    @property
    def over(self) -> bool:
        """Whether everything was looked at."""
        return not self._queues

    def page(self, qm: Peekable) -> Calls[list[Letter]]:
        """Those of the next page that fit."""
        queue, here = self._queues[0], guid_bytes(qm.id)
        try:
            page = yield from call(qm.peek_many, queue, PAGE, after=self._after)
        except ReceiveTimeout:
            self._queues.popleft()
            self._after = 0
            return []
        self._after = page.lookup_ids[-1]
        found = (Letter(queue, message, here) for message in page)
        return [letter for letter in found if self._which.fits(letter, self._now_s)]


def letters(qm: Peekable, queues: Sequence[str], which: Filter, now_s: int) -> Iterator[Letter]:
    """Look at the messages of queues that fit, page by page."""
    search = Search(queues, which, now_s)
    while not search.over:
        yield from drive(search.page(qm))
