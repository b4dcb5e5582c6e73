"""The queues that keep ended messages: whether there is room, and what happens without room.

A dead letter is never dropped: if the sender's own dead-letter queue cannot be used, the system's
takes it (CNF-16). A journal copy is dropped silently where the journal is full (Q-14).

Upholds: I12 (at most one dead letter here, and exactly one where it was asked for), I14.
"""

from __future__ import annotations

from onceq.core.names.resolve import is_local, local_queue, one_name
from onceq.core.state.queue_tables import DEAD_XACT, JOURNAL
from onceq.core.state.queues import Queue
from onceq.core.state.records import RangeChange
from onceq.core.step.change_builder import ChangeBuilder
from onceq.core.step.step import Step
from onceq.errors import BadDeadLetterQueue, InsufficientProperties, InvalidParameter, OnceqError
from onceq.model.classes import MessageClass
from onceq.model.message import Journal, Properties
from onceq.model.queue import QUOTA_UNLIMITED_KB

CopyTo = tuple[int, int, int]


def own_or_system(build: ChangeBuilder, number: int, size: int, *, without: int = 0) -> int:
    """Return a sender's own dead-letter queue, or the system's if that cannot be used (CNF-16).

    Args:
        number: Number of the own queue; 0: there is none.
        size: Bytes that it is to take, beside what the change already brings to it.
        without: Number of a queue that is being deleted.
    """
    if not number:
        return DEAD_XACT
    step = build.step
    queue = step.state.all_queues.get(number)
    if not isinstance(queue, Queue) or number == without:
        about, problem = str(number), "it was deleted"
    elif build.holding(queue) + size > queue.properties.quota_bytes:
        about, problem = queue.properties.name, "it is full"
    else:
        return number
    step.notice(
        "a sender's own dead-letter queue cannot be used: the system's takes its messages",
        about, queue=about, reason=problem,
    )  # fmt: skip
    return DEAD_XACT


def queue_being_deleted(step: Step, part: RangeChange, reason: int) -> int:
    """Return the queue whose deletion ends a range and that might also take it; else 0."""
    if reason != MessageClass.NACK_QUEUE_DELETED:
        return 0
    here = step.state.all_queues[part.queue]
    return here.parent.number if isinstance(here, Queue) and here.parent else here.number


def own_dead_letter_queue(step: Step, properties: Properties, *, transactional: bool) -> int:
    """Return the number of the dead-letter queue that a sender names; 0 if it names none.

    Raises:
        InvalidParameter: Outside a transaction (CNF-15).
        InsufficientProperties: Without asking for dead letters.
        BadDeadLetterQueue: It is no transactional queue of this manager.
    """
    text = properties.dead_letter_queue
    if not text:
        return 0
    if not transactional:
        raise InvalidParameter("dead_letter_queue is for messages of transactions only")
    if not properties.journal & Journal.DEADLETTER:
        raise InsufficientProperties(
            "dead_letter_queue needs journal=DEADLETTER: without it there are no dead letters"
        )
    try:
        (name,) = one_name(text)
        queue = local_queue(step, name) if is_local(step, name) else None
    except OnceqError as error:
        raise BadDeadLetterQueue(f"dead_letter_queue {text}: {error.text}") from None
    if queue is None or queue.system or queue.sub or not queue.properties.transactional:
        raise BadDeadLetterQueue(
            f"dead_letter_queue {text} is not a transactional queue of {step.identity.name}"
        )
    return queue.number


# ---- journals -------------------------------------------------------------------------------


def journal_copy(
    build: ChangeBuilder, queue: Queue, move: RangeChange, *, in_any_case: bool
) -> tuple[CopyTo, ...]:
    """Return the journal that takes a copy of what is received from a queue (Q-11), if the queue
    keeps one and it has room (Q-14).

    What belongs together here is copied together or not at all.

    Args:
        in_any_case: Whether its room was checked before (``core/receive/reading.py``).
    """
    journal = (queue.parent or queue).journal
    if journal is None:
        return ()
    quota_kb = journal.properties.quota_kb
    if (
        not in_any_case
        and quota_kb < QUOTA_UNLIMITED_KB
        and (build.holding(journal) + build.size(move) > quota_kb << 10)
    ):
        build.step.notice("journal full: copies dropped", queue.properties.name,
                          queue=queue.properties.name)  # fmt: skip
        return ()
    return ((journal.number, 0, 0),)


def journal_room(build: ChangeBuilder, size: int) -> bool:
    """Return whether the journal of this computer has room for ``size`` more bytes (Q-12, Q-14)."""
    step = build.step
    quota_kb = step.settings.computer_journal_quota_kb
    if quota_kb >= QUOTA_UNLIMITED_KB:
        return True
    journal = step.state.all_queues[JOURNAL]
    if journal.bytes + build.coming(JOURNAL) + size <= quota_kb << 10:
        return True
    step.notice("journal full: copies dropped", "the journal of this computer",
                computer_journal_quota_kb=quota_kb)  # fmt: skip
    return False
