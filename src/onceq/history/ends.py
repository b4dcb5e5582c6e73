"""The end of messages that leave a queue: the event, its class, and their reader."""

from __future__ import annotations

from typing import Final

from onceq.core.state.outgoing_queues import OutgoingQueue
from onceq.core.state.queues import TRANSACTIONAL_LANE, AnyQueue
from onceq.core.state.records import Change, Op, RangeChange
from onceq.model.classes import MessageClass

_ENDS: Final[dict[int, str]] = {
    MessageClass.NACK_DELETED: "purged",
    MessageClass.NACK_QUEUE_DELETED: "deleted",
    MessageClass.NACK_QUEUE_PURGED: "purged",
    MessageClass.NACK_RECEIVE_TIMEOUT: "expired",
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: "expired",
    MessageClass.NACK_RECEIVE_REJECTED: "rejected",
}
"""How a message ends in a queue, by class."""


def became(queue: AnyQueue, move: RangeChange) -> tuple[str, int | None]:
    """Return the event of a move, and its class."""
    reason = move.reason
    if isinstance(queue, OutgoingQueue):
        if move.op in (Op.RELEASE, Op.AWAIT):
            return ("acknowledged" if move.lane == TRANSACTIONAL_LANE else "released"), None
        if not reason & 0x8000:
            return "confirmed", reason
        if reason == MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER:
            return "in-doubt", reason
        if reason == MessageClass.NACK_DELETED:
            return "purged", reason
        return ("not-received" if reason & 0x4000 else "not-delivered"), reason
    if move.op == Op.REMOVE:
        return "received", None
    if move.op in (Op.UNLOCK, Op.RETURN):
        return "given-back", None
    if move.op == Op.SETTLE:
        return "settled", reason
    if move.op == Op.RELEASE:
        return "lost", None
    if move.op == Op.PURGE or not reason:
        return "purged", reason or None
    return _ENDS.get(reason, "rejected"), reason


def reader_of(change: Change, queue: int, last: int) -> str | None:
    """Return the reader of a range that a change removes; None where it does not say.

    Args:
        last: Lookup identifier of the last of the range.
    """
    for read in change.marks.reads if change.marks else ():
        if read.queue == queue and last <= read.to:
            return read.reader
    return None
