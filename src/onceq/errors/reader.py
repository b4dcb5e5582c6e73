"""Errors of who reads a queue to write its messages elsewhere, and removes them then.

Part of ``onceq.errors``, where applications find them.
"""

from __future__ import annotations

from onceq.errors.base import Refused


class MessagesMissing(Refused):
    """Messages that should still be in a queue are gone."""

    __module__ = "onceq.errors"
    code = "messages-missing"
    cure = "Find out who else receives from the queue; who must see every message needs it alone."


class ReadBefore(Refused):
    """A Spark stream would remove what its sink does not write: its checkpoint is new, or old."""

    __module__ = "onceq.errors"
    code = "read-before"
    cure = "Go on with the newest checkpoint; or a new one AND a new folder, and `spark forget`."


class FinishedBefore(Refused):
    """Spark asks once more for a batch that was written and removed: a checkpoint lacks a file."""

    __module__ = "onceq.errors"
    code = "finished-before"
    cure = (
        "Put the newest files of the checkpoint back; or take a new checkpoint AND a new folder, "
        "and `spark forget`."
    )
