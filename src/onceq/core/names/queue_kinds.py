"""Which queues of this manager take transactional messages, and which take all others (Q-4).

Upholds: I2 (a send is refused as a whole, and not thrown away).
"""

from __future__ import annotations

from onceq.core.state.queues import Queue
from onceq.core.step.routes import Target
from onceq.errors import WrongQueueKind
from onceq.errors.usage import not_transactional


def wrong_kind(targets: tuple[Target, ...], *, transactional: bool) -> WrongQueueKind:
    """Return why the queues of this manager among some destinations cannot be sent to, if one does
    not take such messages. Those of other managers are unknown."""
    kinds: dict[bool, str] = {}
    for target in targets:
        if isinstance(target.queue, Queue):
            kinds.setdefault(target.queue.properties.transactional, target.queue.title)
    if len(kinds) == 2:
        return WrongQueueKind(
            f"{kinds[True]} takes only messages that are sent in transactions, and {kinds[False]} "
            "only others, so one send cannot reach both; send to them apart"
        )
    if transactional:
        return not_transactional(kinds[False])
    return WrongQueueKind(
        f"{kinds[True]} is transactional, and takes only what is sent in a transaction; leave "
        "transactional=False out"
    )


def kind_of(targets: tuple[Target, ...]) -> bool | None:
    """Return whether the queues of this manager among some destinations are transactional; None:
    there are none.

    Raises:
        WrongQueueKind: Some are, and others are not.
    """
    kinds = {t.queue.properties.transactional for t in targets if isinstance(t.queue, Queue)}
    if len(kinds) == 2:
        raise wrong_kind(targets, transactional=True)
    return kinds.pop() if kinds else None
