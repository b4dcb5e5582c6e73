"""Run jobs, one after another, while a queue manager runs.

A batch of a job never divides what a sender sent in one transaction, if it can.

A job needs the content of messages, which the core does not have (``core/inputs.py``). So a
thread asks the engine for messages as an application would, decides about each, and hands the
decisions back, a batch at a time. It keeps nothing: the core has the position of a job. After a
stop or a crash, the job runs on at the next start.

The thread begins with the first job that there is to do.

Upholds: I22.
"""

from __future__ import annotations

import logging
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final, Protocol, cast

from onceq import errors
from onceq.core.inputs import JobBatch, JobDeed, JobFailed, NextJob
from onceq.core.state.job_table import Source, Work
from onceq.core.state.queue_tables import DEAD_LETTER, DEAD_XACT
from onceq.core.state.queues import COUNTER_MASK, lookup_id, place_of
from onceq.model import letters, limits
from onceq.model.letters import ALL, JobAction, Letter
from onceq.model.message import PLAIN, Message
from onceq.model.requests import Look, PickBy, Receive, SendItem
from onceq.model.resultcodes import MessageClass
from onceq.model.run import Run
from onceq.model.views.looks import QUEUE
from onceq.model.views.queues import QueueView
from onceq.packet.arrived import Batch
from onceq.packet.survey import Survey, head_of
from onceq.service.logs import event

# ---- job transactions ----------------------------------------------------------------------------
#
# Transactions of senders in a page of a job's messages: what is sent together stays together.


@dataclass(frozen=True, slots=True)
class PageTransactions:
    """The transactions of a page, each as the indexes of its messages, in its own order.

    Attributes:
        whole: The complete ones.
        parts: Others. Of some the rest may be behind the page.
    """

    whole: list[list[int]]
    parts: list[list[int]]

    def cut(self, count: int, wanted: int, *, last: bool, whole: bool) -> int:
        """Return how many messages a batch takes, so that it splits no transaction.

        Args:
            count: How many there are to take, of the whole page.
            wanted: How many it should take at most.
            last: Nothing behind these belongs to the job.
            whole: Return 0 rather than split one, and keep to ``wanted``. Else a transaction that
                goes on behind the page is split, and more than ``wanted`` may be taken.
        """
        if last and count <= wanted:
            return count
        ends = list(range(count))
        torn = self.parts if whole and not last else []
        for group, end in [(part, max(part)) for part in self.whole] + [
            (part, count) for part in torn
        ]:
            for index in group:
                if index < count:
                    ends[index] = max(ends[index], end)
        reach, best = -1, 0
        for index, end in enumerate(ends):
            reach = max(reach, end)
            if reach > index:
                continue
            if index + 1 <= wanted:
                best = index + 1
            elif not whole and not best:
                return index + 1
        return best or (0 if whole else wanted)


def wholes(page: Batch, destination: Callable[[Message], str]) -> PageTransactions:
    """Return the transactions of a page.

    Args:
        destination: Distinguishes messages that one transaction has sent to several queues and that
            are in one now, as dead letters are.
    """
    surveys: dict[str, Survey] = {}
    places = {lookup: index for index, lookup in enumerate(page.lookup_ids)}
    found = PageTransactions([], [])
    for index, packet in enumerate(page.run):
        message = page[index]
        if not message.transactional:
            continue
        head, arrived = Run.of([head_of(packet, 0)]), array("I", (0,))
        one = Batch(head, page.lookup_ids[index : index + 1], arrived, arrived)
        survey = surveys.setdefault(destination(message), Survey())
        found.whole.extend(
            [places[lookup] for lookup in members.lookups] for members in survey.add(one)
        )
    for survey in surveys.values():
        found.parts.extend(
            [places[lookup] for lookup in members.lookups] for members in survey.incomplete()
        )
    return found


# ---- job batches ---------------------------------------------------------------------------------
#
# The next batch of a job: its messages are read, judged by the rules of `model/letters`, and handed
# to the core.


PAGE_BYTES: Final = 1 << 22
"""Bytes of packets that are read at once; one message is always read."""
OTHERS: Final = "(others)"
"""Replaces destinations for which there is no room."""
_DEAD: Final[Mapping[int, str]] = {DEAD_XACT: letters.DEAD_XACT, DEAD_LETTER: letters.DEAD}


class Ask(Protocol):
    """Asks the manager and waits; raises its OnceqError."""

    def __call__(self, asked: Any, /) -> object: ...


class Reader:
    """Reads what a batch is made from: messages, and the local queues."""

    def __init__(self, here: bytes, ask: Ask) -> None:
        """Prepare; nothing is asked yet. ``here`` is the GUID of the manager."""
        self.here, self._ask = here, ask
        self.diverted: Counter[str] = Counter()
        """Counts the original destinations of redirected messages, which the messages no longer
        contain."""

    def page(self, source: Source, after: int, count: int, *, read: bool) -> Batch | None:
        """Return the next messages behind a position; None if there are none.

        Args:
            read: Whether their packets are wanted; without them only the positions are known.
        """
        pick, value = (PickBy.NOTHING, b"") if read else (PickBy.TOPS, bytes(4))
        try:
            asked = Receive(
                source.name, 0, count, PAGE_BYTES, 0, True, after, pick=pick, value=value
            )  # fmt: skip
            return cast(Batch, self._ask(asked))
        except errors.ReceiveTimeout:
            return None

    def kind_of(self, name: str) -> bool | None:
        """Return True if a queue is transactional; None if it is not here."""
        try:
            return cast(QueueView, self._ask(Look(QUEUE.what, name))).transactional
        except errors.OnceqError:
            return None


def next_batch(work: Work, reader: Reader) -> JobBatch:
    """Return the next batch; raises OnceqError if the messages cannot be read."""
    if work.at >= len(work.sources):
        return _on(work, len(work.sources), 0, over=True)
    source = work.sources[work.at]
    order = work.order
    read = order.action is not JobAction.PURGE or order.which != ALL
    count = limits.JOB_BATCH_MESSAGES if read else limits.JOB_PURGE_MESSAGES
    try:
        page = reader.page(source, work.after, count, read=read) if source.ends else None
    except errors.QueueNotFound:
        # Its messages went with the queue.
        page = None
    if page is None:
        last = work.at + 1 == len(work.sources)
        return _on(work, work.at + 1, 0, over=last)
    judging = _Judging(work, source, reader)
    found = judging.batch(page, read=read)
    if found is None:
        # A transaction begins here that goes on behind the page.
        longer = reader.page(source, work.after, limits.JOB_TRANSACTION_MESSAGES, read=True)
        found = judging.batch(longer or page, read=True, whole=False)
    assert found is not None, "a longer page is taken whole"
    return found


def _on(work: Work, at: int, after: int, *, over: bool) -> JobBatch:
    return JobBatch(work.number, work.at, work.after, at, after, 0, over=over)


@dataclass(slots=True)
class _Seen:
    """A message of a page.

    Attributes:
        meant: Whether something is to be done; else ``why`` says why it stays, if it fits.
    """

    lookup: int
    letter: Letter | None
    meant: bool
    why: str = ""

    @property
    def size(self) -> int:
        """Return the bytes that are sent for it."""
        return len(self.letter.message.body) if self.meant and self.letter is not None else 0


class _Judging:
    """One page of messages, and the decisions about them."""

    def __init__(self, work: Work, source: Source, reader: Reader) -> None:
        self._work, self._order, self._source, self._reader = work, work.order, source, reader
        self._ends = dict(source.ends)
        self._name = _DEAD.get(source.number, source.name)
        self._kinds: dict[str, bool | None] = {}

    def batch(self, page: Batch, *, read: bool, whole: bool = True) -> JobBatch | None:
        """Return the batch for a page, or for its beginning.

        Args:
            whole: Return None if it begins with a transaction that goes on behind it.
        """
        seen, after, full = self._cut(page, read=read)
        parts: list[list[int]] = []
        cut = len(seen)
        if read:
            # A step should not do more than that.
            sizes = accumulate(one.size for one in seen[: limits.JOB_BATCH_MESSAGES])
            full_at = (at for at, size in enumerate(sizes, 1) if size >= limits.JOB_BATCH_BYTES)
            cut = next(full_at, min(len(seen), limits.JOB_BATCH_MESSAGES))
        if read and self._order.action is not JobAction.PURGE:
            transactions = wholes(page, self._destination)
            parts = transactions.whole
            cut = transactions.cut(len(seen), cut, last=full or bool(after), whole=whole)
            if not cut and seen:
                return None
        done = seen[:cut]
        kept = Counter(one.why for one in done if one.why)
        deeds = tuple(self._deeds(done, parts))
        stop = full and cut == len(seen) and not deeds
        if cut < len(seen) or not after:
            after = done[-1].lookup if done else self._work.after
        work = self._work
        return JobBatch(
            work.number, work.at, work.after, work.at, after, cut, deeds, tuple(kept.items()),
            stop, stop,
        )  # fmt: skip

    def _destination(self, message: Message) -> str:
        """Return the message's own destination, if not all go to one place."""
        return "" if self._order.to else message.destination

    def _cut(self, page: Batch, *, read: bool) -> tuple[list[_Seen], int, bool]:
        """Return the messages of a page up to where the job ends; then the place where it goes on
        behind later messages, or True for the end by its limit."""
        order, meant = self._order, 0
        found: list[_Seen] = []
        left = order.limit - self._work.done if order.limit else len(page)
        for index, lookup in enumerate(page.lookup_ids):
            lane, counter = place_of(lookup)
            if counter >= self._ends.get(lane, 0):
                # It came later, and so did all behind it in its lane.
                return found, lookup_id(lane, COUNTER_MASK), False
            one = _Seen(lookup, None, True)
            if read:
                letter = Letter(self._name, page[index], self._reader.here)
                one = _Seen(lookup, letter, *self._is_meant(letter))
            if one.meant and meant >= left:
                # The number of earlier ones that will be done is still unknown.
                return found, 0, True
            meant += one.meant
            found.append(one)
        return found, 0, False

    def _deeds(self, done: list[_Seen], parts: list[list[int]]) -> Iterator[JobDeed]:
        """Yield the actions for messages; those of a transaction come together at its first
        message."""
        of = {index: part for part in parts for index in part}
        given: set[int] = set()
        for index, one in enumerate(done):
            if not one.meant or index in given:
                continue
            part = of.get(index, [])
            together = all(at < len(done) and done[at].meant for at in part)
            if len(part) < 2 or not together:
                yield self._deed(one)
                continue
            given.update(part)
            for at in part:
                yield replace(self._deed(done[at]), together=index + 1, apart=False)

    def _is_meant(self, letter: Letter) -> tuple[bool, str]:
        """Return whether something is to be done, and for a fitting message that stays the
        reason."""
        order = self._order
        if not order.which.fits(letter, self._work.began_s):
            return False, ""
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
        return not why, why

    def _kind_of(self, name: str) -> bool | None:
        if name not in self._kinds:
            self._kinds[name] = self._reader.kind_of(name)
        return self._kinds[name]

    def _deed(self, one: _Seen) -> JobDeed:
        """Return what is sent in the place of a message."""
        if one.letter is None:
            return JobDeed(one.lookup, "")
        letter, message, order = one.letter, one.letter.message, self._order
        if order.action is JobAction.PURGE:
            return JobDeed(message.lookup_id, str(message.id))
        destination, values = _SENT[order.action](letter, order.to)
        if order.to and order.action is not JobAction.MOVE:
            known, was = self._reader.diverted, message.destination
            known[was if was in known or len(known) < limits.JOB_DIVERTED_MAX else OTHERS] += 1
        # As a local target queue needs it, else as it was sent; a message that died because its
        # queue is transactional counts as transactional.
        kind = self._kind_of(order.to) if order.to else None
        wrong = message.message_class == MessageClass.NACK_NOT_TRANSACTIONAL_MESSAGE
        transactional = kind if kind is not None else message.transactional or wrong
        if transactional:
            values.pop("priority", None)
            values.pop("delivery", None)
        item = SendItem(destination, PLAIN, Run.of([message.body]), values=values)
        # A message that was sent with others goes as a part of something that nobody can complete,
        # unless it is found to be sent with all of them (``_deeds``).
        alone = message.first_in_transaction and message.last_in_transaction
        apart = transactional and message.transactional and not alone
        return JobDeed(message.lookup_id, str(message.id), item, transactional, apart=apart)


_SENT: Final[Mapping[JobAction, Callable[[Letter, str], tuple[str, dict[str, Any]]]]] = {
    JobAction.RETURN: letters.home,
    JobAction.MOVE: letters.moved,
    JobAction.SEND_AS_NEW: letters.as_new,
}


# ---- jobs ----------------------------------------------------------------------------------------


GONE: Final = (errors.ServiceNotAvailable, errors.StorageFailure)
"""The errors of a manager that has stopped."""

log = logging.getLogger("onceq")


class JobThread:
    """The thread that runs the jobs of one manager."""

    def __init__(self, ask: Ask) -> None:
        """Prepare; nothing is asked yet."""
        self._ask = ask
        self._here = b""
        self._soon = threading.Event()
        self._over = False
        self._started = False
        self._lock = threading.Lock()

    def start(self, here: bytes, *, running: bool) -> None:
        """Begin: the manager runs from now on.

        Args:
            here: Its GUID.
            running: Whether there is a job to go on with.
        """
        self._here = here
        if running:
            self.soon()

    def soon(self) -> None:
        """Note that there is a job; from any thread, also in the middle of a pump."""
        self._soon.set()
        with self._lock:
            if self._started or self._over or not self._here:
                return
            self._started = True
        threading.Thread(target=self._run, name="onceq-jobs", daemon=True).start()

    def stop(self) -> None:
        """Begin no further batch. A batch under way is not waited for: it is recorded whole, or
        not at all."""
        with self._lock:
            self._over = True
        self._soon.set()

    def _run(self) -> None:
        wait_s: float | None = None
        while not self._over:
            self._soon.wait(wait_s)
            self._soon.clear()
            try:
                wait_s = limits.JOB_RETRY_S if self.round() else None
            except GONE:
                return  # The next start goes on.
            except Exception as error:
                if self._over:
                    return
                # The manager does not answer, or a mistake of ours: the job stays where it is.
                log.warning("jobs cannot be worked off: %r", error, exc_info=True)
                wait_s = limits.JOB_RETRY_S

    def round(self) -> bool:
        """Run the jobs that there are; return whether some of them have to be tried again later."""
        reader, stuck, behind = Reader(self._here, self._ask), False, 0
        while not self._over:
            work = cast(Work | None, self._ask(NextJob(behind)))
            if work is None:
                break
            behind = work.number
            stuck |= not self._work_off(work, reader)
        return stuck

    def _work_off(self, work: Work, reader: Reader) -> bool:
        """Go on with a job until it is over; return False if it cannot go on now."""
        reader.diverted.clear()
        try:
            at: Work | None = work
            while at is not None and not self._over:
                try:
                    batch: Any = next_batch(at, reader)
                except GONE:
                    raise
                except errors.OnceqError as error:
                    self._ask(JobFailed(at.number, error.text, final=False))
                    return False
                try:
                    at = cast(Work | None, self._ask(batch))
                except GONE:
                    raise
                except errors.OnceqError:
                    return False  # The core has noted why.
            return True
        finally:
            for was, count in reader.diverted.items():
                event(
                    "a job sends messages elsewhere than they were going", job=work.number,
                    to=work.order.to, instead_of=was, count=count,
                )  # fmt: skip
