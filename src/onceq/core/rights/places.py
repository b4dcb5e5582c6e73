"""What the names in a request mean for rights: queues here with their names, and all others.

Nothing is made here: no outgoing queue, no subqueue. A name that leads nowhere is a place, too;
otherwise refusals would reveal which queues exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum

from onceq.core.names.resolve import is_local, local_queue, members
from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queue_tables import JOURNAL_BIT, queue_key_of
from onceq.core.state.queues import AnyQueue, Queue
from onceq.core.step.step import Step
from onceq.errors import QueueNotFound
from onceq.model.names import FormatName, Kind, parse_any, queue_key
from onceq.model.patterns import QueueName
from onceq.model.policy import MANAGER
from onceq.model.record import Record
from onceq.model.sending import elements_of


class PlaceKind(Enum):
    """The kind of a place."""

    QUEUE = "queue"
    JOURNAL = "journal"
    SYSTEM = "system"
    OUTGOING = "outgoing"


class Place(Record, frozen=True):
    """The target of an operation, for rights.

    Attributes:
        queue: Name that rights are asked for at, case-folded: of a queue here its path
            (``private$\\orders``), of a journal its queue's, of any other the format name.
        said: The name that the actor used; "": the same name.
    """

    queue: QueueName
    kind: PlaceKind = PlaceKind.QUEUE
    said: str = ""


def place_of(queue: AnyQueue) -> Place:
    """Return the place of a queue."""
    if isinstance(queue, OutgoingQueue):
        return _elsewhere(queue.name)
    if not isinstance(queue, Queue):
        return Place(MANAGER, PlaceKind.SYSTEM)
    if queue.parent is not None:
        return place_of(queue.parent)
    key = QueueName(queue_key_of(queue.properties))
    if not queue.system:
        return Place(key)
    # A journal has the properties of its queue.
    return Place(key, PlaceKind.JOURNAL if queue.number & JOURNAL_BIT else PlaceKind.SYSTEM)


def place_sent_to(queue: AnyQueue, said: FormatName) -> Place:
    """Return the place that a send goes to. Elsewhere it is the name that the sender used: other
    sends to the same place, under other names, do not affect its rights."""
    return _elsewhere(said) if isinstance(queue, OutgoingQueue) else place_of(queue)


def _elsewhere(name: FormatName) -> Place:
    return Place(QueueName(str(name).casefold()), PlaceKind.OUTGOING)


def places(step: Step, text: str, *, sending: bool = False) -> Iterator[Place]:
    """Yield the places that a name means; for a send one for each of its destinations.

    Raises:
        OnceqError: The name is invalid, or it needs a directory that is not there.
    """
    for name in members(step, elements_of(text)) if sending else parse_any(text):
        yield _place(step, name)


def _place(step: Step, name: FormatName) -> Place:
    if not is_local(step, name):
        return _elsewhere(name)
    said = "" if name.kind is Kind.DIRECT else str(name)
    try:
        return replace(place_of(local_queue(step, name)), said=said)
    except QueueNotFound:
        key = queue_key(name.private, name.queue) if name.queue else str(name).casefold()
        return Place(QueueName(key), said=said)
