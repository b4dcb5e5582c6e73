"""Errors of calls that come from where they must not: another process, another loop, the middle of
another call. Applications find them in ``onceq.errors``, the table of all.
"""

from __future__ import annotations

from onceq.errors.base import UsageError


class WrongProcess(UsageError):
    """What belongs to the process that made it is used in a child that was forked from it."""

    __module__ = "onceq.errors"

    code = "wrong-process"
    cure = (
        "In the child, open what the text names again, from its queue manager; an embedded queue "
        "manager stays with the parent: connect to a daemon, or open it after the fork."
    )


class WrongLoop(UsageError):
    """What belongs to one event loop is used in another one; nothing of it happened."""

    __module__ = "onceq.errors"

    code = "wrong-loop"
    cure = "Connect in each loop, inside what `asyncio.run` runs, and close there."


class CallInCall(UsageError):
    """A call came in the middle of another one of the same thread; nothing of it happened."""

    __module__ = "onceq.errors"

    code = "call-in-call"
    cure = (
        "In a signal handler, `__del__` or a callback of a weak reference only note what is to be "
        "done (`onceq.stopping()` does that for signals), or `close` the queue manager."
    )
