"""What becomes of the next messages of a job: read, judged by the words of ``model/letters``, and
handed to the core as one batch.

Nothing is remembered between two batches but where the job is, and the core keeps that: whoever
asks again gets the same batch, of the messages that are there by then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, cast

from onceq.core.inputs.jobs import JobBatch, JobDeed
from onceq.core.state.job_table import Source, Work
from onceq.core.state.queues import COUNTER_MASK, lookup_id, place_of
from onceq.core.state.state import DEAD_LETTER, DEAD_XACT
from onceq.errors import OnceqError, QueueNotFound, ReceiveTimeout
from onceq.model import letters
from onceq.model.classes import MessageClass
from onceq.model.jobs import JobAction
from onceq.model.letters import ALL, Letter
from onceq.model.limits import (
    JOB_BATCH_BYTES,
    JOB_BATCH_MESSAGES,
    JOB_DIVERTED_MAX,
    JOB_PURGE_MESSAGES,
)
from onceq.model.message import PLAIN, Message
from onceq.model.requests import Look, PickBy, Receive, SendItem
from onceq.model.run import Run
from onceq.model.views.looks import QUEUE
from onceq.model.views.queues import QueueView
from onceq.packet.batch import Batch

PAGE_BYTES: Final = 1 << 22
"""Packets that are read at once; one message is always read."""
OTHERS: Final = "(others)"
"""In place of destinations for which there is no room."""
_DEAD: Final[Mapping[int, str]] = {DEAD_XACT: letters.DEAD_XACT, DEAD_LETTER: letters.DEAD}


class Ask(Protocol):
    """Ask the manager and wait; raises its OnceqError."""

    def __call__(self, asked: Any, /) -> object: ...


class Reader:
    """What a batch is made from: messages, and which queues there are here."""

    def __init__(self, here: bytes, ask: Ask) -> None:
        """Nothing is asked yet; ``here`` is the GUID of the manager."""
        self.here, self._ask = here, ask
        self.diverted: Counter[str] = Counter()
        """Where messages were going that a job sends elsewhere, and how many; what is sent again
        does not say it any more."""

    def page(self, source: Source, after: int, count: int, *, read: bool) -> Batch | None:
        """The next messages behind a place; None: there are none.

        Args:
            read: Whether their packets are wanted; without them only the places are known.
        """
        pick, value = (PickBy.NOTHING, b"") if read else (PickBy.TOPS, bytes(4))
        try:
            asked = Receive(
                source.name, 0, count, PAGE_BYTES, 0, True, after, pick=pick, value=value
            )  # fmt: skip
            return cast(Batch, self._ask(asked))
        except ReceiveTimeout:
            return None

    def kind_of(self, name: str) -> bool | None:
        """Whether a queue is transactional; None: it is not here."""
        try:
            return cast(QueueView, self._ask(Look(QUEUE.what, name))).transactional
        except OnceqError:
            return None


def next_batch(work: Work, reader: Reader) -> JobBatch:
    """What is to be done next; raises OnceqError if the messages cannot be read."""
    if work.at >= len(work.sources):
        return _on(work, len(work.sources), 0, over=True)
    source = work.sources[work.at]
    order = work.order
    read = order.action is not JobAction.PURGE or order.which != ALL
    count = JOB_BATCH_MESSAGES if read else JOB_PURGE_MESSAGES
    try:
        page = reader.page(source, work.after, count, read=read) if source.ends else None
    except QueueNotFound:
        # What was in it went with it.
        page = None
    if page is None:
        last = work.at + 1 == len(work.sources)
        return _on(work, work.at + 1, 0, over=last)
    return _Judging(work, source, reader).batch(page, read=read)


def _on(work: Work, at: int, after: int, *, over: bool) -> JobBatch:
    return JobBatch(work.number, work.at, work.after, at, after, 0, over=over)


class _Judging:
    """One page of messages, and what becomes of them."""

    def __init__(self, work: Work, source: Source, reader: Reader) -> None:
        self._work, self._order, self._source, self._reader = work, work.order, source, reader
        self._ends = dict(source.ends)
        self._name = _DEAD.get(source.number, source.name)
        self._kinds: dict[str, bool | None] = {}
        self._deeds: list[JobDeed] = []
        self._kept: dict[str, int] = {}

    def batch(self, page: Batch, *, read: bool) -> JobBatch:
        """What becomes of a page, or of its beginning."""
        work, order = self._work, self._order
        after, looked, size = work.after, 0, 0
        left = order.limit - work.done if order.limit else len(page)
        for index, lookup in enumerate(page.lookup_ids):
            lane, counter = place_of(lookup)
            if counter >= self._ends.get(lane, 0):
                # It came later, and so did all behind it in its lane.
                after = lookup_id(lane, COUNTER_MASK)
                break
            if read:
                letter = Letter(self._name, page[index], self._reader.here)
                if self._is_meant(letter):
                    if len(self._deeds) >= left:
                        # How many of those before will be done, nobody knows yet.
                        return self._made(after, looked, over=not self._deeds, more=not self._deeds)
                    self._deeds.append(self._deed(letter))
                    size += len(letter.message.body)
            elif len(self._deeds) >= left:
                return self._made(after, looked, over=not self._deeds, more=not self._deeds)
            else:
                self._deeds.append(JobDeed(lookup, ""))
            after, looked = lookup, looked + 1
            if size >= JOB_BATCH_BYTES:
                break
        return self._made(after, looked)

    def _made(self, after: int, looked: int, *, over: bool = False, more: bool = False) -> JobBatch:
        work = self._work
        return JobBatch(
            work.number, work.at, work.after, work.at, after, looked, tuple(self._deeds),
            tuple(self._kept.items()), over, more,
        )  # fmt: skip

    def _is_meant(self, letter: Letter) -> bool:
        """Whether something is to be done; what fits and stays is counted."""
        order = self._order
        if not order.which.fits(letter, self._work.began_s):
            return False
        why = ""
        if order.action is JobAction.RETURN:
            why = letters.stays(
                letter, in_doubt=order.in_doubt, second=order.second,
                returns_max=order.returns_max,
            )  # fmt: skip
            if not (why or order.to) and letters.is_foreign(letter):
                kind = self._kind_of(letter.message.destination)
                why = letters.cannot_go_back(letter.message, kind)
        elif order.action is JobAction.SEND_AS_NEW and letter.in_doubt and not order.in_doubt:
            why = letters.stays(letter, in_doubt=False, second=True, returns_max=1)
        if why:
            self._kept[why] = self._kept.get(why, 0) + 1
        return not why

    def _kind_of(self, name: str) -> bool | None:
        if name not in self._kinds:
            self._kinds[name] = self._reader.kind_of(name)
        return self._kinds[name]

    def _deed(self, letter: Letter) -> JobDeed:
        """What is sent in the place of a message."""
        message, order = letter.message, self._order
        if order.action is JobAction.PURGE:
            return JobDeed(message.lookup_id, str(message.id))
        destination, values = _SENT[order.action](letter, order.to)
        if order.to and order.action is not JobAction.MOVE:
            known, was = self._reader.diverted, message.destination
            known[was if was in known or len(known) < JOB_DIVERTED_MAX else OTHERS] += 1
        transactional = self._is_transactional(message)
        if transactional:
            values.pop("priority", None)
            values.pop("delivery", None)
        item = SendItem(destination, PLAIN, Run.of([message.body]), values=values)
        return JobDeed(message.lookup_id, str(message.id), item, transactional)

    def _is_transactional(self, message: Message) -> bool:
        """Of the kind that it was; what died because its queue is of the other kind goes as that
        wants it, and so does what goes to a queue that is here."""
        kind = self._kind_of(self._order.to) if self._order.to else None
        if kind is not None:
            return kind
        wrong = message.message_class == MessageClass.NACK_NOT_TRANSACTIONAL_MESSAGE
        return message.transactional or wrong


_SENT: Final[Mapping[JobAction, Callable[[Letter, str], tuple[str, dict[str, Any]]]]] = {
    JobAction.RETURN: letters.home,
    JobAction.MOVE: letters.moved,
    JobAction.SEND_AS_NEW: letters.as_new,
}
