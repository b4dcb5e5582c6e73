"""Working off a queue, message by message, without losing any: loops for threads and for tasks.

Each message is received in a transaction of its own. It is committed when the loop asks for the
next message, or the handler has returned, and before anything else is handed out; whatever ends
the loop before that (an exception, ``break``, the death of the process or of the queue manager)
puts the message back in its place, and nothing else is ever held. What is handed out again says so
by ``abort_count``.

The loops decide with ``Course``; what is left to each kind is to wait and to call.

Upholds: I4 (at most one committed receive), I17 (who is lost gives everything back).
"""

from __future__ import annotations

import logging
from array import array
from typing import Any, Final

from onceq.client.plans.selection import wait_ms
from onceq.errors import InDoubt, InvalidParameter, OnceqError, TransactionLost
from onceq.model.run import LENGTH_TYPE, Run
from onceq.packet.batch import Batch

LOOK_S: Final = 0.5
"""Where a stop may come, a wait for a message is asked for in slices of so many seconds."""
AWAY_S: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
"""Waits of ``consume`` while the queue manager is away; the last one is repeated."""

NOTHING: Final = Batch(Run(b"", array(LENGTH_TYPE)), array("Q"), array("I"), array("I"))

log = logging.getLogger("onceq")


class Course:
    """How one loop goes on.

    Attributes:
        batch: Messages of one transaction, at most.
        handled: Messages that were handed on and committed.
    """

    def __init__(self, queue: str, timeout: float | None, batch: int, *, stoppable: bool) -> None:
        if batch < 1:
            raise InvalidParameter(f"a batch has at least one message, not {batch}")
        wait_ms(timeout)  # raises InvalidParameter
        self.queue = queue
        self.batch = batch
        self.handled = 0
        self._timeout = self._left = timeout
        self._stoppable = stoppable
        self._failed = 0

    def slice_s(self) -> float | None:
        """How long to wait for a message now."""
        if not self._stoppable:
            return self._left
        return LOOK_S if self._left is None else min(LOOK_S, self._left)

    def nothing_came(self) -> bool:
        """No message came in that time: whether all of the time is over."""
        waited = self.slice_s()
        if self._left is None or waited is None:
            return False
        self._left -= waited
        return self._left <= 0

    def argument(self, taken: Batch) -> Any:
        """What a handler is called with."""
        return taken if self.batch > 1 else taken[0]

    def done(self, count: int) -> None:
        """Messages are committed."""
        self.handled += count
        self._left = self._timeout
        self._failed = 0

    def away_s(self, error: OnceqError) -> float:
        """The queue manager is away: how long to wait before it is asked again."""
        wait = AWAY_S[min(self._failed, len(AWAY_S) - 1)]
        self._failed += 1
        log.warning("queue=%s: %s; trying again in %s s", self.queue, error.text, wait)
        return wait

    def settled(self, error: InDoubt, outcome: str) -> None:
        """What became of a commit whose answer was lost; raises if it is not done."""
        if outcome == "aborted":
            raise TransactionLost(
                f"the commit did not happen ({error.text}); what was received from {self.queue} "
                "is in its place again, and will be handed out again"
            ) from error
        if outcome != "committed":
            raise error

    def failed(self, error: Exception, policy: object) -> None:
        """A handler has raised; raises it again unless the queue says what then becomes of a
        message: without that the same one would come for ever."""
        if not policy:
            raise error
        log.warning(
            "queue=%s: a handler failed, what it was given goes back: %s: %s", self.queue,
            type(error).__name__, error,
        )  # fmt: skip
