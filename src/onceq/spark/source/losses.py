"""Messages that went from a batch between its counting and its reading, and what became of them.

A batch is counted when it is made. What had gone before is a hole, and no loss. What goes between
counting and reading has a cause, and its queue manager knows it (``RangeView.ended``). A message
that expired was not lost: its sender wanted that. Every other cause ends the query, or is logged if
``failOnDataLoss`` is false. What an operator took away before the counting is logged too.

Upholds: PIPE-3; I4 at the connector (nothing is missing without a word).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from onceq.errors import MessagesMissing
from onceq.model.views.queues import RangeView
from onceq.spark.source.offsets import Range

log = logging.getLogger("onceq.spark")

_CAUSES: Final = {
    "expired": "expired",
    "purged": "purged by an operator",
    "rejected": "rejected by another receiver",
    "moved": "moved to a subqueue",
    "damaged": "set aside as damaged",
}


def judge(
    about: str, part: Range, seen: int, now: Callable[[], RangeView], *, fail: bool, done: str
) -> None:
    """Compare what was found of a range with what was counted.

    Args:
        about: Its queue.
        seen: How many messages were found.
        now: Asks what the queue manager knows of the range.
        fail: Whether a loss is an error, and no warning only.
        done: What was about to happen to them, in words.

    Raises:
        MessagesMissing: Some are gone, and have not expired.
    """
    if part.messages is None or seen >= part.messages:
        return
    lost, view = part.messages - seen, now()
    gone = part.since(view.ended)
    text = (
        f"of the {part.messages} messages of {about} after lookup identifier {part.after} and up "
        f"to {part.to}, {lost} {'has' if lost == 1 else 'have'} gone before they were {done}: "
        f"{causes(lost, gone, view.locked)}"
    )
    if not fail or gone.get("expired", 0) >= lost:
        log.warning("%s", text)
        return
    raise MessagesMissing(
        f"[{MessagesMissing.code}] {text}. Set the option failOnDataLoss to false to go on with "
        "what is left"
    )


def tell_taken(about: str, ended: Mapping[str, int]) -> None:
    """Say what an operator has taken from in front of a reader; it is no loss, and no accident."""
    for how in ("purged", "damaged"):
        if ended.get(how):
            log.warning("%d messages of %s were %s before they were read", ended[how], about,
                        _CAUSES[how])  # fmt: skip


def tell_removes(queues: Iterable[str]) -> None:
    """Say what a new query does that nobody has given a name: it may only be meant to look."""
    log.warning(
        "a new query without a subscription begins: it removes from %s what Spark says is done, "
        "also where only some rows are looked at (limit, a console sink). To look, set the option "
        "readMode to peek; a job that is to remove has a name (subscription), or keeps what it "
        "removes (afterRead journal)", ", ".join(queues),
    )  # fmt: skip


def tell_left(about: str, unread: int | None) -> None:
    """A queue of the checkpoint is not read any more: say so, unless it is read up.

    Args:
        unread: How many of its messages nobody has read; None: that is not known.
    """
    if unread == 0:
        return
    known = (
        "whether it has unread messages is not known"
        if unread is None
        else f"{unread} messages in it are unread"
    )
    log.warning(
        "%s is in the checkpoint, and is not read any more; %s. Its place is kept: when it is "
        "among the queues again, it goes on there", about, known,
    )  # fmt: skip


def tell_locked(about: str, place: int) -> None:
    """Say that a queue gives nothing because of somebody's transaction."""
    log.warning(
        "%s gives nothing now: an open transaction holds the message with lookup identifier %d, "
        "and what stands behind it comes after it. It goes on when that transaction ends "
        "('onceq tx list' shows which are open)", about, place,
    )  # fmt: skip


def causes(lost: int, gone: Mapping[str, int], locked: int) -> str:
    """What became of so many messages, as far as it is known."""
    told = []
    for how, count in gone.items():
        size = min(count, lost)
        if size:
            told.append(f"{size} {_CAUSES.get(how, how)}")
            lost -= size
    if lost and locked:
        told.append(f"{lost} held by an open transaction (the first: {locked}), or received")
    elif lost:
        told.append(
            f"{lost} received by somebody else, or ended before the queue manager was started last"
        )
    return ", ".join(told)
