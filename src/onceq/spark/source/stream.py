"""Streams: ``spark.readStream.format("onceq")``, exactly once into a sink that Spark can repeat.

Spark logs the end offset of a batch, runs the batch, logs that it is committed, and only then asks
for the next. So when ``latestOffset`` is asked to go on from a place that ended a batch, that
batch is safe in the sink, and its messages may be removed: those of one queue manager in one
transaction. This also happens at the end of an AvailableNow run and at every restart. Until then
the messages stay in the queue, and a batch that must run again finds the same ones.

Messages must come in only at the end of the queue: it is a transactional queue, a journal or a
dead-letter queue. Only there is the lookup identifier of the last message the highest one. With
readMode receive the query holds the queue, so that nothing else receives from it; with peek,
missing messages are noticed (``failOnDataLoss``).

Upholds: I4 at the connector; I18 (a cursor neither repeats nor skips).
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from onceq.client.stopping import pause
from onceq.errors import MessagesMissing, OnceqError
from onceq.model.views.queues import RangeView, ReaderView
from onceq.spark.argument_checks import wrong
from onceq.spark.connections import SourceTarget
from onceq.spark.source.access import LazyConnection
from onceq.spark.source.conflicts import (
    StreamIdentity,
    check,
    check_batch,
    judge,
    tell_left,
    tell_locked,
    tell_removes,
    tell_taken,
    who,
)
from onceq.spark.source.offsets import (
    BATCH_MESSAGES,
    NOTHING,
    Offset,
    QueueSample,
    Range,
    beginning,
    limit_batch,
    split,
)
from onceq.spark.source.options import SourceOptions
from onceq.spark.source.queue_matching import Discovery, Resolved, resolve, unsteady
from onceq.spark.source.reader import RangePartition, Rows, starting

if TYPE_CHECKING:
    import pyarrow as pa


IDLE_WAIT_S: Final = 0.2
"""How long a question for news waits for them; Spark would ask every 10 ms otherwise."""

log = logging.getLogger("onceq.spark")


class OnceqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads queues as a stream. One object lives on the driver; tasks have copies of their own."""

    def __init__(
        self, options: SourceOptions, names: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._options = options
        self._rows = Rows(options, names, counted=True, complete=options.fail_on_data_loss)
        self._queues = Discovery(options, clock)
        self._until: dict[str, int] | None = None
        self._removed: Mapping[str, int] | None = None
        self._seen: dict[str, QueueSample] = {}
        """The queues as they were last seen."""
        self._starts: dict[str, int] = {}
        self._clock = clock
        self._last_batch_s: float | None = None
        """When the last batch was given; None: this process has given none."""
        self._at: Mapping[str, int] = {}
        self._in_flight: Mapping[str, int] = {}
        """Where the last batch of this process has ended, and what of it is not removed yet."""
        self._made: dict[str, Any] | None = None
        """The end of the batch that this process has made last; another one was made before."""
        self._query = uuid.uuid4().hex if options.receive else ""
        """Of the checkpoint; made up here for one that has none yet."""
        self._checked = -1
        """After how many holds it was last looked who has read these queues."""
        self._told: set[str] = set()
        """Who has joined (by key) or left (by identity), and was spoken of."""
        self._waiting_for: dict[str, int] = {}
        """By queue: the locked message that keeps the stream from going on."""

    # ---- places ---------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins; asked again when its first batch must be repeated."""
        sights = self._sample_queues()
        if self._options.receive and not (self._options.subscription or self._options.keep):
            tell_removes(map(str, self._queues.targets.values()))
        to = {key: self._starting(key, sight) for key, sight in sights.items()}
        return self._offset(to, None, sights).pack()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; ``start`` itself if there is none."""
        sights = self._sample_queues()
        found = self._resolved(Offset.unpack(start), sights)
        place = found.place
        if self._remove(place, sights, found.returned):
            sights = self._sample_queues()
        # What a pattern finds later is read from its first message on, also when it was found while
        # nobody was there.
        later = self._options.pattern is not None
        starts = {
            key: NOTHING if later else self._starting(key, sights[key]) for key in found.joined
        }
        begins = {
            key: beginning(starts.get(key, place.to.get(key, 0)), sight)
            for key, sight in sights.items()
        }
        self._at = begins
        return self._next(start, place, begins, sights, limit)

    def _next(
        self, start: dict[str, Any], place: Offset, begins: Mapping[str, int],
        sights: Mapping[str, QueueSample], limit: ReadLimit,
    ) -> dict[str, Any]:  # fmt: skip
        """The end of the batch behind a place; ``start`` itself if there is nothing."""
        found = self._reach(begins, sights, limit)
        count = sum(view.messages for view in found.values())
        last_s, options = self._last_batch_s, self._options
        if (
            count and not isinstance(limit, ReadAllAvailable)
            and self._until is None and last_s is not None
            and count < options.messages_min and self._clock() < last_s + options.delay_s
        ):  # fmt: skip
            # It is better to wait for more messages than to make a batch of these. They are there,
            # so a wait for news would end at once.
            pause(IDLE_WAIT_S)
            return start
        if count:
            self._last_batch_s = self._clock()
            end = replace(self._ended(begins, found, sights), left=place.left)
            self._at, self._in_flight = end.to, end.messages if self._options.receive else {}
            self._made = end.pack()
            return self._made
        # It is told once that a queue has messages, and gives none before somebody's transaction
        # ends.
        waiting = {key: view.locked for key, view in found.items() if view.locked}
        for key, at in waiting.items():
            if self._waiting_for.get(key) != at:
                tell_locked(str(self._queues.targets[key]), at)
        self._waiting_for = waiting
        if self._until is not None:
            # The end of an AvailableNow run; Spark does not always say so.
            self._release()
        elif self._waiting_for:
            # What stands behind it would end a wait for news at once.
            pause(IDLE_WAIT_S)
        else:
            self._wait(begins)
        return start

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the options; Spark hands it back, or asks for everything."""
        if self._options.messages_max:
            return ReadMaxRows(self._options.messages_max)
        if self._options.bytes_max:
            return ReadMaxBytes(self._options.bytes_max)
        # Who asks for everything means it, and not the fewest of a batch either.
        return ReadMaxRows(BATCH_MESSAGES) if self._options.messages_min > 1 else ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the content of each queue, for the progress that Spark shows (``offsets.lag``)."""
        try:
            sights = self._sample_queues(hold=False)
        except OnceqError:
            return None
        at = {key: self._at.get(key, max(s.first - 1, 0)) for key, s in sights.items()}
        behind = {key: s.behind(at[key], self._in_flight.get(key, 0)) for key, s in sights.items()}
        to = {key: max(s.last, at[key]) for key, s in sights.items()}
        report = replace(self._offset(to, at, sights), messages=behind).pack()
        report["bytes"] = {
            sights[key].identity: sights[key].bytes * count // max(sights[key].messages, 1)
            for key, count in behind.items()
        }
        return report

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing that comes later belongs to this run."""
        self._until = {key: sight.last for key, sight in self._sample_queues().items()}

    def _offset(
        self,
        to: Mapping[str, int],
        begins: Mapping[str, int] | None,
        sights: Mapping[str, QueueSample],
    ) -> Offset:
        instances = {key: sight.identity for key, sight in sights.items()}
        return Offset(to, begins, instances, self._options.subscription, query=self._query)

    def _ended(
        self, begins: Mapping[str, int], found: Mapping[str, RangeView],
        sights: Mapping[str, QueueSample],
    ) -> Offset:  # fmt: skip
        """The end of a batch that has something of these queues."""
        having = {key: view for key, view in found.items() if view.messages}
        for key, view in having.items():
            tell_taken(str(self._queues.targets[key]), view.ended)
        to = {key: having[key].to if key in having else begins[key] for key in found}
        return replace(
            self._offset(to, begins, sights),
            messages={key: view.messages for key, view in having.items()},
            ended={key: view.ended for key, view in having.items() if view.ended},
        )

    # ---- queues ---------------------------------------------------------------------------

    def _access(self, target: SourceTarget) -> LazyConnection:
        return self._queues.accesses[target.manager]

    def _sample_queues(self, *, hold: bool = True) -> dict[str, QueueSample]:
        """Sample all queues; take the hold on each one before, if ``hold`` and the options ask."""

        def sample(target: SourceTarget) -> QueueSample:
            access = self._access(target)
            if hold and self._options.receive:
                access.hold(target.queue, who(self._options.subscription))
            sight = access.sample(target.queue)
            if not sight.steady:
                raise wrong(unsteady(target, sight))
            if sight.apart and self._options.keep:
                raise wrong(f"afterRead journal: {target} has no journal of its own")
            return sight

        self._seen = self._queues.sights(sample)
        return self._seen

    def _wait(self, begins: Mapping[str, int]) -> None:
        """For news, in one queue for all: the others have it a moment later."""
        if not self._queues.targets:
            pause(IDLE_WAIT_S)
            return
        key, target = next(iter(self._queues.targets.items()))
        self._access(target).wait(target.queue, begins[key], IDLE_WAIT_S)

    def _release(self) -> None:
        for access in self._queues.accesses.values():
            access.release()

    def _starting(self, key: str, sight: QueueSample) -> int:
        """Where a queue begins that the checkpoint does not have: the same place each time, or what
        comes between two looks would never be read."""
        if key not in self._starts:
            target = self._queues.targets[key]
            self._starts[key] = starting(self._access(target), target, sight, self._options)
        return self._starts[key]

    def _resolved(self, place: Offset, sights: Mapping[str, QueueSample]) -> Resolved:
        """A checkpoint with the queues of now; those that have joined or left are told once."""
        if place.subscription != self._options.subscription:
            raise wrong(
                f"the checkpoint belongs to subscription {place.subscription!r}, this reader is "
                f"{self._options.subscription!r}; use its own checkpoint for each, and its own "
                "folder or table"
            )
        found = resolve(place, sights)
        # Queues of a pattern come and go, and one that comes again is a new one.
        for key in () if self._options.pattern else found.again:
            raise MessagesMissing(
                f"[{MessagesMissing.code}] {self._queues.targets[key]} is not the queue that this "
                "checkpoint was reading: it was deleted and made again, or another queue manager "
                "answers there. Begin with a new checkpoint AND a new folder or table: the sink "
                "would take its first batches for those that it has written"
            )
        for key in found.joined - self._told:
            log.info("%s joins: the checkpoint does not have it", self._queues.targets[key])
        for identity in set(found.place.left) - self._told:
            had = found.place.left[identity]
            tell_left(had.key, self._queues.unread(had.key, had.to, identity))
        self._told |= {*found.joined, *found.place.left}
        self._query = place.query or self._query
        # Who has read these queues is asked again after each hold that was taken, because another
        # reader may have been there meanwhile.
        holds = sum(access.holds for access in self._queues.accesses.values())
        if self._options.receive and holds != self._checked:
            readers = self._readers(self._queues.targets)
            check(found.place, readers, self._reader(found.place), told=self._options.told)
            self._checked = holds
        return found

    def _readers(self, keys: Iterable[str]) -> dict[str, list[ReaderView]]:
        targets = {key: self._queues.targets[key] for key in keys}
        return {key: self._access(one).readers(one.queue) for key, one in targets.items()}

    def _reader(self, place: Offset) -> StreamIdentity:
        name = self._options.subscription
        return StreamIdentity(name, place.query, who(name), self._options.keep)

    # ---- how far --------------------------------------------------------------------------

    def _reach(
        self, begins: Mapping[str, int], sights: Mapping[str, QueueSample], limit: ReadLimit
    ) -> dict[str, RangeView]:
        """What each queue gives now, within a limit."""
        messages, size = BATCH_MESSAGES, 0
        if isinstance(limit, ReadMaxRows):
            messages, size = min(limit.max_rows, BATCH_MESSAGES), self._options.bytes_max
        elif isinstance(limit, ReadMaxBytes):
            size = limit.max_bytes
        ends = {key: sight.last for key, sight in sights.items()}
        if self._until is not None:
            ends = {key: min(end, self._until.get(key, 0)) for key, end in ends.items()}
        return limit_batch(begins, ends, sights, self._count, messages=messages, bytes=size)

    def _count(self, part: Range, *, messages: int = 0, bytes: int = 0) -> RangeView:
        target = self._queues.targets[part.key]
        return self._access(target).count(target.queue, part, messages=messages, bytes=bytes)

    # ---- rows -----------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RangePartition]:
        """The tasks of a batch, from its end offset alone; raises before a sink is opened."""
        if start == end:
            return []
        place = self._batch(Offset.unpack(end))
        ranges = place.ranges()
        if end != self._made:
            # It comes again: nothing of it may be missing.
            options = self._options
            if options.receive and not check_batch(
                place, self._readers(place.to), self._reader(place), skip=options.skip_finished
            ):
                return []
            for part in ranges:
                self._judge(part, self._count(part).messages, "read")
        tasks = [
            tuple(self._counted(part) for part in parts)
            for parts in split(ranges, self._options.partitions_min)
        ]
        for whole in ranges:
            there = sum(part.size for parts in tasks for part in parts if part.key == whole.key)
            self._judge(whole, there, "read")
        guids = {t.manager: self._access(t).who(t.queue)[1] for t in self._queues.targets.values()}
        return [RangePartition(parts, guids, self._queues.targets) for parts in tasks]

    def _batch(self, place: Offset) -> Offset:
        """The end of a batch, by the keys of now."""
        found = resolve(place, self._seen or self._sample_queues())
        gone = [part.key for part in place.ranges() if part.key not in found.keys]
        text = f"the last batch was not finished, and has messages of {', '.join(gone)}"
        if gone and self._options.fail_on_data_loss:
            raise wrong(
                f"{text}. Start the query once more with all of its queues; they can leave when "
                "that is done. If they are no more, set failOnDataLoss to false for that start"
            )
        if gone:
            log.warning("%s; it is run without these", text)
        return found.place

    def _counted(self, part: Range) -> Range:
        """Return a part of a range with its number of messages: with holes the present number."""
        if part.messages is not None:
            return part
        view = self._count(part)
        return replace(part, messages=view.messages, ended=view.ended)

    def _judge(self, part: Range, seen: int, done: str) -> None:
        judge(
            str(self._queues.targets[part.key]), part, seen, lambda: self._count(part),
            fail=self._options.fail_on_data_loss, done=done,
        )  # fmt: skip

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return self._rows.read(partition)

    # ---- removal --------------------------------------------------------------------------

    def commit(self, end: dict[str, Any]) -> None:
        """A batch is committed. Spark does not repeat this call, so a failure waits for
        ``latestOffset``, which removes as well."""
        try:
            place = Offset.unpack(end)
            if self._removed != place.to:
                sights = self._sample_queues()
                found = self._resolved(place, sights)
                self._remove(found.place, sights, found.returned)
        except OnceqError as error:
            log.warning("messages of a committed batch are not removed yet: %s", error)

    def _remove(
        self, place: Offset, sights: Mapping[str, QueueSample], returned: Sequence[Range] = ()
    ) -> bool:
        """Remove what a committed batch has read; whether anything was asked to be removed.

        Repeating it changes nothing. The queues must be those of the checkpoint (``_resolved``):
        another one has other messages at the same places.

        Args:
            returned: What is to be removed, too, of queues that were away since their last batch.
        """
        if not self._options.receive or self._removed == place.to:
            return False
        ranges = [*place.ranges(), *(part for part in returned if part.places)]
        if place.begins is None and not ranges:
            return False
        for manager, access in self._queues.accesses.items():
            mine = [part for part in ranges if self._queues.targets[part.key].manager == manager]
            if not mine:
                continue
            parts = [(self._queues.targets[part.key].queue, part) for part in mine]
            found = [sights[part.key] for part in mine]
            counts = access.remove(parts, found, self._reader(place))
            for part, count in zip(mine, counts, strict=True):
                if count:  # Else they were removed before, by this reader or the one before it.
                    self._judge(part, count, "removed")
        self._removed, self._in_flight = dict(place.to), {}
        return True

    def stop(self) -> None:
        """The query is over: let others receive again."""
        for access in self._queues.accesses.values():
            access.close()
