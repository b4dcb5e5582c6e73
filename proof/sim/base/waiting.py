"""Whether anybody waits for messages that are there: looked at whenever an engine has come to rest.

A receive that waits beside a message which it may have is answered by the next thing that happens
to the queue, or when its time is over: late, and right in the end, so that no invariant about the
outcome sees it.

Upholds: I26 of the simulated managers.
"""

from __future__ import annotations

from onceq.core.manager import Manager
from onceq.core.state.queues import Queue
from onceq.model.requests import Seek


def waits_in_vain(manager: Manager) -> str:
    """The name of a queue that has messages, and somebody who waits for one; "" if there is
    none."""
    step = manager._step
    if step.state.next_expiry <= step.now.wall_s:
        return ""  # First what is over has to go.
    for queue in step.state.queues.values():
        for part in (queue, *queue.subs.values()):
            if part.available and part.waiting and _may_have_it(part):
                return part.title
    return ""


def _may_have_it(queue: Queue) -> bool:
    if queue.properties.paused_since and not queue.sub:
        return False
    return any(
        not item.peek and not item.cursor and item.seek is Seek.CURRENT
        for item in queue.waiting.values()
    )
