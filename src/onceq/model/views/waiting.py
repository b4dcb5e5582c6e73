"""How much waits in a queue manager at one place of its log: what an audit compares."""

from __future__ import annotations

from onceq.model.views.view import View


class WaitingRow(View, frozen=True):
    """A queue, or an outgoing queue.

    Attributes:
        number: Its number in this queue manager.
        name: As people call it; of an outgoing queue the format name.
        messages: How many transactional messages wait there; of an outgoing queue those that its
            receiver has not acknowledged.
    """

    number: int = 0
    name: str = ""
    messages: int = 0


class WaitingView(View, frozen=True):
    """The next queues behind a number, in the order of their numbers.

    Attributes:
        manager: GUID of the queue manager.
        position: Every record of its log before this place is counted, and none behind it.
        at: When it counted (seconds since 1970 by its clock).
        rows: Transactional queues, their subqueues, and outgoing queues.
        more: Whether there are others behind them.
    """

    manager: str = ""
    position: int = 0
    at: int = 0
    rows: tuple[WaitingRow, ...] = ()
    more: bool = False
