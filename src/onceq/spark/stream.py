"""Streams: ``spark.readStream.format("onceq")``, exactly once into a sink that Spark can repeat.

Spark logs the end offset of a batch, runs the batch, logs that it is committed, and only then asks
for the next. So when ``latestOffset`` is asked to go on from a place that ended a batch, that
batch is safe in the sink, and its messages may be removed: all of them of one queue manager in
one transaction. This also happens at the end of an AvailableNow run and at every restart. Until
then the messages stand in the queue, and a batch that must run again finds the same ones.

A queue must be one where messages only come in at the end: a transactional queue, a journal or a
dead-letter queue. Only there does a lookup identifier stay the last one. With readMode receive the
queue is held, so that nobody else receives from it; without, whatever is missing is noticed
(``failOnDataLoss``).

Upholds: I4 at the connector; I18 (a cursor neither repeats nor skips).
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from onceq.errors import MessagesMissing, OnceqError
from onceq.spark.access import Access, missing
from onceq.spark.options import SourceOptions, wrong
from onceq.spark.ranges import (
    BATCH_MESSAGES,
    Offset,
    Range,
    Sight,
    advance,
    beginning,
    split,
    start_of,
)
from onceq.spark.reader import RangePartition, Rows
from onceq.spark.targets import Target

if TYPE_CHECKING:
    import pyarrow as pa

IDLE_WAIT_S: Final = 0.2
"""How long a question for news waits for them; Spark would ask every 10 ms otherwise."""

log = logging.getLogger("onceq.spark")


class OnceqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """See the module. One object lives on the driver; tasks have copies of their own."""

    def __init__(self, options: SourceOptions, names: Sequence[str]) -> None:
        self._options = options
        self._rows = Rows(options, names, complete=options.fail_on_data_loss)
        self._targets = {target.key: target for target in options.targets}
        self._accesses = {
            target.manager: Access(target.manager, options.patience) for target in options.targets
        }  # fmt: skip
        self._until: dict[str, int] | None = None
        self._removed: Mapping[str, int] | None = None

    # ---- places ---------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins; asked again when its first batch must be repeated."""
        sights = self._look()
        to = {key: start_of(self._options.starting[key], sight) for key, sight in sights.items()}
        return self._offset(to, None, sights).pack()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; ``start`` itself if there is none."""
        place = Offset.unpack(start)
        self._check(place)
        sights = self._look()
        self._same_queues(place, sights)
        if self._remove(place, sights):
            sights = self._look()
        begins = {key: beginning(place.to.get(key, 0), sight) for key, sight in sights.items()}
        ends = self._ends(begins, sights)
        if all(ends[key] <= begins[key] for key in begins):
            if self._until is None:
                self._wait(begins)
            else:
                # The end of an AvailableNow run; Spark does not always say so.
                self._release()
            return start
        to = self._limited(begins, ends, limit)
        if all(to[key] <= begins[key] for key in to):
            return start
        return self._offset(to, begins, sights).pack()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the options; Spark hands it back, or asks for everything."""
        if self._options.messages_max:
            return ReadMaxRows(self._options.messages_max)
        if self._options.bytes_max:
            return ReadMaxBytes(self._options.bytes_max)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """What stands in each queue, for the progress that Spark shows (``lag.py``)."""
        try:
            sights = self._look(hold=False)
        except OnceqError:
            return None
        first = {key: max(sight.first - 1, 0) for key, sight in sights.items()}
        return self._offset({key: s.last for key, s in sights.items()}, first, sights).pack()

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing that comes later belongs to this run."""
        self._until = {key: sight.last for key, sight in self._look().items()}

    def _offset(
        self, to: Mapping[str, int], begins: Mapping[str, int] | None, sights: Mapping[str, Sight]
    ) -> Offset:
        instances = {key: sight.instance for key, sight in sights.items()}
        return Offset(to, begins, instances, self._options.subscription)

    # ---- queues ---------------------------------------------------------------------------

    def _access(self, target: Target) -> Access:
        return self._accesses[target.manager]

    def _look(self, *, hold: bool = True) -> dict[str, Sight]:
        """All queues as they are now; held before they are looked at, if they are to be."""
        sights = {}
        for key, target in self._targets.items():
            access = self._access(target)
            if hold and self._options.receive:
                access.hold(target.queue, self._note())
            sight = access.look(target.queue)
            if not sight.steady:
                raise wrong(_unsteady(target, sight))
            sights[key] = sight
        return sights

    def _note(self) -> str:
        """Who this is, for those who are kept from the queue by it."""
        name = self._options.subscription
        said = f" of subscription {name!r}" if name else ""
        return f"a Spark stream{said}, process {os.getpid()} on {socket.gethostname()}"

    def _wait(self, begins: Mapping[str, int]) -> None:
        """For news, in one queue for all: the others have it a moment later."""
        key, target = next(iter(self._targets.items()))
        self._access(target).wait(target.queue, begins[key], IDLE_WAIT_S)

    def _release(self) -> None:
        for access in self._accesses.values():
            access.release()

    def _check(self, place: Offset) -> None:
        if place.subscription != self._options.subscription:
            raise wrong(
                f"the checkpoint belongs to subscription {place.subscription!r}, this reader is "
                f"{self._options.subscription!r}; use its own checkpoint for each"
            )
        if set(place.to) - set(self._targets):
            gone = ", ".join(sorted(set(place.to) - set(self._targets)))
            raise wrong(f"the checkpoint also has {gone}; go on with all of its queues, or anew")

    def _same_queues(self, place: Offset, sights: Mapping[str, Sight]) -> None:
        for key, instance in place.instances.items():
            if sights[key].known_as(instance):
                continue
            raise MessagesMissing(
                f"[{MessagesMissing.code}] {self._targets[key]} is not the queue that this "
                "checkpoint was reading: it was deleted and made again, or another queue manager "
                "answers there. Begin with a new checkpoint"
            )

    # ---- how far --------------------------------------------------------------------------

    def _ends(self, begins: Mapping[str, int], sights: Mapping[str, Sight]) -> dict[str, int]:
        """The last message that each queue may give now.

        A message locked by somebody's transaction may come back to its place: nothing behind it
        is read before that is settled.
        """
        ends = {}
        for key, sight in sights.items():
            end = sight.last
            if self._until is not None:
                end = min(end, self._until.get(key, 0))
            if sight.locked and end > begins[key]:
                target = self._targets[key]
                part = Range(key, begins[key], end)
                end = self._access(target).unbroken(target.queue, part)
            ends[key] = max(end, begins[key])
        return ends

    def _limited(
        self, begins: Mapping[str, int], ends: Mapping[str, int], limit: ReadLimit
    ) -> dict[str, int]:
        messages, size = BATCH_MESSAGES, 0
        if isinstance(limit, ReadMaxRows):
            messages, size = min(limit.max_rows, BATCH_MESSAGES), self._options.bytes_max
        elif isinstance(limit, ReadMaxBytes):
            size = limit.max_bytes
        to = advance(begins, ends, messages)
        if not size:
            return to
        open_queues = [key for key in sorted(to) if to[key] > begins[key]]
        share = max(size // max(len(open_queues), 1), 1)
        for key in open_queues:
            target = self._targets[key]
            part = Range(key, begins[key], to[key])
            to[key] = self._access(target).fitting(target.queue, part, share)
        return to

    # ---- rows -----------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RangePartition]:
        """The tasks of a batch, from its end offset alone."""
        if start == end:
            return []
        tasks = split(Offset.unpack(end).ranges(), self._options.partitions_min)
        guids = {t.manager: self._access(t).who(t.queue)[1] for t in self._options.targets}
        return [RangePartition(parts, guids) for parts in tasks]

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
                sights = self._look()
                self._same_queues(place, sights)
                self._remove(place, sights)
        except OnceqError as error:
            log.warning("messages of a committed batch are not removed yet: %s", error)

    def _remove(self, place: Offset, sights: Mapping[str, Sight]) -> bool:
        """Remove what a committed batch has read; whether anything was asked to be removed.

        Repeating it changes nothing. The queues must be those of the checkpoint (``_same_queues``):
        another one has other messages at the same places.
        """
        if not self._options.receive or place.begins is None or self._removed == place.to:
            return False
        ranges = place.ranges()
        for manager, access in self._accesses.items():
            mine = [part for part in ranges if self._targets[part.key].manager == manager]
            if not mine:
                continue
            parts = [(self._targets[part.key].queue, part) for part in mine]
            counts = access.remove(parts, [sights[part.key] for part in mine], self._note())
            self._nothing_missing(mine, counts)
        self._removed = dict(place.to)
        return True

    def _nothing_missing(self, ranges: Sequence[Range], counts: Sequence[int]) -> None:
        """None at all: they were removed before, by this reader or the one before it."""
        if self._options.fail_on_data_loss:
            for part, count in zip(ranges, counts, strict=True):
                if 0 < count < part.size:
                    raise missing(str(self._targets[part.key]), part, count)

    def stop(self) -> None:
        """The query is over: let others receive again."""
        for access in self._accesses.values():
            access.close()


def _unsteady(target: Target, sight: Sight) -> str:
    """Why a queue cannot be a stream."""
    if sight.transactional:
        return (
            f"{target} is a subqueue: it ends when it is empty, and begins again with the same "
            "places, so a stream would not know where it was; read it as a batch"
        )
    return (
        f"{target} is not transactional, so messages may come in before others that were read "
        "already; a stream needs a transactional queue, a journal or a dead-letter queue (a batch "
        "read takes any)"
    )
