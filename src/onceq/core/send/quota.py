"""Quotas: a queue's refuses permanently, the whole manager's for now (Q-19).

Messages of open transactions count, received and sent ones (Q-21): a send that was accepted as
within the quota stays so until its commit.
"""

from __future__ import annotations

from onceq.core.state.queues import Queue
from onceq.core.step.routes import Target
from onceq.core.step.step import Step
from onceq.errors import InsufficientResources
from onceq.model.limits import STREAM_NUMBERS_MAX
from onceq.model.queue import QUOTA_UNLIMITED_KB


def check_quota(step: Step, target: Target, size: int, *, transactional: bool) -> None:
    """Refuse a send to a queue of this manager that has no room for it, or to a stream that has no
    numbers left: a stream that is always under way never starts again (EOD-12)."""
    queue = target.queue
    if isinstance(queue, Queue):
        if queue.properties.quota_kb != QUOTA_UNLIMITED_KB and over_quota(step, queue, size):
            queue_full(step, queue)
            raise InsufficientResources(
                f"queue {queue.properties.name} is at its quota of {queue.properties.quota_kb} KB; "
                "receive from it, or raise its quota_kb"
            )
    elif transactional and queue.given(step.state.stamp) > STREAM_NUMBERS_MAX:
        raise InsufficientResources(
            f"the stream to {target.text} has used its {STREAM_NUMBERS_MAX:,} numbers; sends go on "
            "in a new one as soon as everything that is under way there is acknowledged"
        )


def over_quota(step: Step, queue: Queue, size: int) -> bool:
    """Return whether a queue of this manager with a quota has no room for ``size`` more bytes."""
    return step.holding(queue) + size > queue.properties.quota_kb << 10


def queue_full(step: Step, queue: Queue) -> None:
    """Notify the operator that a queue is at its quota: it refuses messages permanently (Q-19)."""
    step.notice(
        "queue quota reached", queue.properties.name, queue=queue.properties.name,
        quota_kb=queue.properties.quota_kb, messages=len(queue),
    )  # fmt: skip


def computer_full(step: Step) -> None:
    """Notify the operator that all queues together are at their quota: new messages are refused for
    now, and their senders repeat them (Q-19)."""
    step.notice(
        "computer quota reached", held=step.state.space.total,
        computer_quota_bytes=step.settings.computer_quota_bytes,
    )  # fmt: skip
