"""Checkpoints that contradict what a queue manager knows: new ones, old ones, batches asked again.

It also tells what became of messages that went from a batch between its counting and its reading.

Spark counts the batches of a query in its checkpoint. With a new checkpoint they begin with 0, and
a sink that remembers what it has written (a file sink in ``_spark_metadata``, a Delta table in its
log) takes them for batches that it has, writes nothing, and reports success. Messages that this
source then removes are lost. The same happens with an older copy of a checkpoint.

So each removal tells the queue manager who has read: the name of the reader (``subscription``), and
an identifier that is in the checkpoint's offsets and in no other. A reader is refused if

* a reader of its name has removed messages of the queue, and its own checkpoint has no offset yet;
* or it has itself removed messages behind the place that its checkpoint knows.

Both are decided before anything is read. A user who knows better says so: with places in
``startingOffsets``, or with ``onceq spark forget``.

Spark also asks again for a batch that is in no commit log, and that log may have lost a file. If
this reader has removed the batch, its messages are only in the sink, and a sink that overwrites
would empty what it has. So such a batch is refused before any sink is opened (``check_batch``),
also with ``failOnDataLoss`` off.

Upholds: I4 at the connector (nothing is removed that the sink has not written).
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from onceq.errors import FinishedBefore, MessagesMissing, ReadBefore
from onceq.hidden import quote_word
from onceq.model.views.queues import RangeView, ReaderView
from onceq.spark.source.offsets import Offset, Range

# ---- checkpoint conflicts ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StreamIdentity:
    """Who reads, for the queue manager.

    Attributes:
        name: Of the reader; "" is one, too.
        query: What its checkpoint has and no other.
        who: For people.
        keep: Whether the queues' journals keep what is removed.
    """

    name: str = ""
    query: str = ""
    who: str = ""
    keep: bool = False


def who(subscription: str) -> str:
    """What a stream of this process says of itself, to those whom it keeps from a queue, too."""
    said = f" of subscription {subscription!r}" if subscription else ""
    return f"a Spark stream{said}, process {os.getpid()}{_where()}"


def is_from_here(said: str) -> bool:
    """Whether a text names a stream of this Spark application: the readers of all its streams are
    children of one process."""
    return _where() in said


def _where() -> str:
    return f" (child of {os.getppid()}) on {socket.gethostname()}"


def check(
    place: Offset, found: Mapping[str, Sequence[ReaderView]], reader: StreamIdentity, *, told: bool
) -> None:
    """Refuse to begin, or to go on, where messages would be removed that nobody has written.

    Args:
        place: Where the query begins, or its checkpoint is, by the keys of now.
        found: By key of a queue, who has read it.
        told: Whether the options of a new query say at which places it begins.

    Raises:
        ReadBefore: It is so.
    """
    for key, readers in found.items():
        for one in readers:
            if one.reader != reader.name:
                continue
            if place.begins is None:
                if not told:
                    raise _anew(one)
            elif place.query and one.query == place.query and one.to > place.to.get(key, one.to):
                raise _older(one, place.to[key])


def check_batch(
    place: Offset, found: Mapping[str, Sequence[ReaderView]], reader: StreamIdentity, *, skip: bool
) -> bool:
    """Refuse to hand out a batch whose messages this reader has removed.

    They are removed when Spark says that the batch is committed, so the sink has it.

    Args:
        place: Where the batch ends, by the keys of now.
        found: By key of a queue, who has read it.
        skip: The sink knows by its number that it has the batch.

    Returns:
        False: It is so, and the sink knows it.

    Raises:
        FinishedBefore: It is so.
    """
    for part in place.ranges():
        for one in found[part.key]:
            mine = one.reader == reader.name and place.query and one.query == place.query
            if mine and one.to >= part.to:
                if skip:
                    return False
                raise _finished(one, part)
    return True


def _finished(one: ReaderView, part: Range) -> FinishedBefore:
    behind = f", and of later ones up to {one.to}" if one.to > part.to else ""
    return FinishedBefore(
        f"[{FinishedBefore.code}] Spark asks once more for the batch that has the messages of "
        f"{one.queue} after lookup identifier {part.after} and up to {part.to}. It was written and "
        f"its messages{behind} removed by this query, last on {_when(one)} by {_whose(one)}: the "
        "checkpoint lacks its newest files, in commits or in offsets. The rows are in the sink, "
        "and it is not asked to write them again. Put these files back ('Files of a checkpoint "
        "that are lost' in docs/how-to/spark.md); or take a new checkpoint AND a new folder or "
        f"table, and say that you have: {_forget(one)}"
    )


def _anew(one: ReaderView) -> ReadBefore:
    name = f" of subscription {one.reader!r}" if one.reader else ""
    return ReadBefore(
        f"[{ReadBefore.code}] this query has no offset in its checkpoint yet, and a query{name} "
        f"has already read {one.queue} and removed what it had written, up to lookup identifier "
        f"{one.to}, last on {_when(one)} by {_whose(one)}. A sink with the same folder or table "
        "would take the first batches of this one for those that it has written, and the messages "
        "would be lost. Go on with the old checkpoint; or take a new checkpoint AND a new folder "
        f"or table, and say that you have: {_forget(one)}, or places in startingOffsets"
    )


def _older(one: ReaderView, place: int) -> ReadBefore:
    return ReadBefore(
        f"[{ReadBefore.code}] the checkpoint of this query is older than what it has done: it is "
        f"at lookup identifier {place} of {one.queue}, and messages up to {one.to} were removed "
        f"on {_when(one)} by {_whose(one)}, because they were written. Its next batches would have "
        "numbers that the sink knows already, and it would not write them. Go on with the newest "
        "copy of the checkpoint; or take a new checkpoint AND a new folder or table, and say that "
        f"you have: {_forget(one)}"
    )


def _forget(one: ReaderView) -> str:
    name = f" --subscription {quote_word(one.reader)}" if one.reader else ""
    return f"onceq spark forget {quote_word(one.queue)}{name}"


def _when(one: ReaderView) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(one.since))


def _whose(one: ReaderView) -> str:
    """Who it was: the identifier can be looked for in the offsets of checkpoints."""
    return f"query {one.query} ({one.who})" if one.who else f"query {one.query}"


# ---- losses --------------------------------------------------------------------------------------
#
# Messages that went from a batch between its counting and its reading, and what became of them.


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
    """Return a phrase with the known fate of the messages that are missing."""
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
