"""How much waits, at a position of the log: the same number as the history gives up to there.

An audit asks for it, and reads the history then. So the keeper of a history learns that a client
waits for it (``HistoryWanted``).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge

from onceq.core.decision import HistoryWanted
from onceq.core.management.paging import LATER
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queue_tables import FIRST_NUMBER, JOURNAL_BIT, title_of
from onceq.core.state.queues import AnyQueue, Queue
from onceq.core.step.step import Step
from onceq.errors import InvalidParameter
from onceq.model.identity import guid_text
from onceq.model.limits import QUEUES_MEASURED_AT_ONCE, VIEWS_AT_ONCE
from onceq.model.numbers import read_number
from onceq.model.requests import Look
from onceq.model.requests.request import quoted
from onceq.model.views.queues import WaitingRow, WaitingView


def waiting(step: Step, item: Look) -> object:
    """Answer some queues behind a number, "" for the first ones; raises InvalidParameter."""
    last = read_number(item.name or "0")
    if last is None:
        raise InvalidParameter(f"{quoted(item.name)} is not the number of a queue")
    step.begin(_waiting(step, item, last))
    return LATER


def _waiting(step: Step, item: Look, last: int) -> Iterator[None]:
    """Find the queues in several steps, and count them in the last one."""
    more = False
    some: list[int] = []
    numbers = (step.state.queue_numbers, step.state.outgoing_numbers)
    for looked, number in enumerate(merge(*(one.behind(last) for one in numbers)), 1):
        more = len(some) == VIEWS_AT_ONCE
        if more:
            break
        if _told(step.state.all_queues.get(number)):
            some.append(number)
        if not looked % QUEUES_MEASURED_AT_ONCE:
            yield
    there = filter(None, map(step.state.all_queues.get, some))
    step.act(HistoryWanted())
    step.answer(item.owner, item.request, WaitingView(
        guid_text(step.identity.guid), step.position, step.now.wall_s, tuple(map(_row, there)), more
    ))  # fmt: skip


def _told(queue: AnyQueue | None) -> bool:
    """Return whether the history records each message of a queue when it comes and goes."""
    if isinstance(queue, OutgoingQueue):
        return True
    if not isinstance(queue, Queue) or not FIRST_NUMBER <= queue.number < JOURNAL_BIT:
        return False
    return queue.properties.transactional


def _row(queue: AnyQueue) -> WaitingRow:
    count = queue.unacknowledged if isinstance(queue, OutgoingQueue) else len(queue)
    return WaitingRow(queue.number, title_of(queue), count)
