"""Queues that an operator has paused: messages come in, and nobody receives the next one.

The pause is a property of the queue, so it outlives a restart. Who looks, who names a message by
its lookup identifier and who takes out of a subqueue is not kept: that is what operators do
meanwhile, and how a reader removes what it has written elsewhere.
"""

from __future__ import annotations

from onceq.core.state.queues import AnyQueue, Queue
from onceq.errors import ReceiveTimeout
from onceq.model.requests import Receive


def paused(item: Receive, queue: AnyQueue) -> bool:
    """Whether a receive of the next message gets none, whatever is there."""
    return (
        isinstance(queue, Queue)
        and queue.properties.paused_since > 0
        and not (item.peek or queue.sub)
    )


def nothing(item: Receive, queue: AnyQueue) -> ReceiveTimeout:
    """What is answered if there is nothing to receive, at all or until the end of the time."""
    if paused(item, queue):
        return ReceiveTimeout(
            f"an operator has paused {item.queue}: nothing is received from it until 'onceq queue "
            "resume'"
        )
    return ReceiveTimeout(f"no message in {item.queue}")
