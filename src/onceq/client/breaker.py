"""What fails for all messages, told from what fails for one of them.

A poison policy counts how often a message failed. Where every message fails, because a service is
away or a release is broken, that would move all of them aside. So after some different messages
have failed in a row, and none was handled in between, none of them counts any more: the workers of
a loop take one message at a time between them, with pauses that grow, and each time another one, so
that a message which always fails does not hide that others can be handled. One that is handled ends
it. The pauses of errors that the application has named begin with the first.

Upholds: I17 (a failure is counted only where the message may be at fault).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onceq.client.logs import log
from onceq.errors import InvalidParameter
from onceq.model.views.queues import EVERY_FAILS

DIFFERENT: Final = 3
"""Messages that fail in a row, and none is handled in between: then it is not theirs."""
PAUSES_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Waits before the next message is tried; the last one is repeated."""
SHOWN_CHARS: Final = 80
"""Of an error, in what is said to operators."""

Pauses = Mapping[type[Exception], float]
"""By kind of error: how many seconds a loop waits after it; it counts against no message."""


class Breaker:
    """Of one loop, for all its workers.

    Attributes:
        says: What operators are told while everything fails; "": something can be handled.
        behind: The place of the message that failed last while everything does.
    """

    def __init__(self, queue: str, pauses: Pauses | None = None) -> None:
        self._queue = queue
        self._pauses = dict(pauses or {})
        for kind, pause_s in self._pauses.items():
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                raise InvalidParameter(f"pauses are by classes of exceptions, not by {kind!r}")
            if isinstance(pause_s, bool) or not isinstance(pause_s, (int, float)) or pause_s < 0:
                raise InvalidParameter(f"a pause is a number of seconds, not {pause_s!r}")
        self._failed: set[int] = set()
        self._times = 0
        self._at_work: object = None
        self.says = ""
        self.behind = 0

    def enter(self, worker: object) -> bool:
        """Whether a worker may take a message: one of them at a time while everything fails."""
        if self.says and self._at_work not in (None, worker):
            return False
        self._at_work = worker if self.says else None
        return True

    def leave(self, worker: object) -> None:
        """A worker is done with what it has taken, and with the pause after it."""
        if self._at_work is worker:
            self._at_work = None

    def names(self, error: Exception) -> bool:
        """Whether the application has named a pause for an error."""
        return any(isinstance(error, kind) for kind in self._pauses)

    def failed_s(self, place: int, error: Exception) -> float | None:
        """A message has failed: how long to wait now, and it counts against none; None: it may be
        the message's fault.

        Args:
            place: Its lookup identifier.
        """
        named = [s for kind, s in self._pauses.items() if isinstance(error, kind)]
        self._failed.add(place)
        if not named and not self.says and len(self._failed) < DIFFERENT:
            return None
        pause_s = named[0] if named else PAUSES_S[min(self._times, len(PAUSES_S) - 1)]
        self._times += 0 if named else 1
        self.behind = place
        what = f"{type(error).__name__}: {error}"[:SHOWN_CHARS]
        self.says = f"{EVERY_FAILS}, the next is tried in {pause_s:g} s: {what}"
        log().warning(
            "queue=%s: every message fails (%s different ones, none handled in between); none of "
            "them is counted, and one is tried in %s s: %s: %s", self._queue, len(self._failed),
            pause_s, type(error).__name__, error,
        )  # fmt: skip
        return pause_s

    def handled(self) -> None:
        """A message was handled: whatever fails now may be a message's fault."""
        self._failed.clear()
        self._times = self.behind = 0
        if self.says:
            self.says = ""
            log().warning("queue=%s: messages can be handled again; going on", self._queue)
