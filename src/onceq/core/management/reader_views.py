"""Readers as operators see them: which have read a queue, and removed what they had read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from onceq.core.management.paging import Listing, Order
from onceq.core.names.resolve import find_queue
from onceq.core.state.client_memory import Reading
from onceq.core.state.queue_tables import title_of
from onceq.core.step.step import Step
from onceq.model.requests import Look
from onceq.model.views.queues import ReaderView
from onceq.model.views.view import copy_by_name

Row = tuple[int, str, Reading]


def _of(step: Step, item: Look) -> Iterator[Row]:
    table = step.state.readings
    numbers = [find_queue(step, item.name).number] if item.name else table.queues()
    return ((number, *one) for number in numbers for one in list(table.of(number).items()))


def _view(step: Step, row: Row) -> ReaderView:
    number, reader, one = row
    queue = title_of(step.state.all_queues[number])
    return copy_by_name(ReaderView, one, queue=queue, reader=reader, since=one.at_s)


READERS: Final[Listing[Row, ReaderView]] = Listing(
    _of,
    _view,
    {"queue": Order(lambda step, row: row[:2], (int, str))},
    there=lambda step, row: row[0] in step.state.all_queues,
)
"""The readers of a queue, or of all."""
