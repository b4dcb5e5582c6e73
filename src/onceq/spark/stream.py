"""Streams: ``spark.readStream.format("onceq")``, exactly once into a sink that Spark can repeat.

Spark logs the end offset of a batch, runs the batch, logs that it is committed, and only then asks
for the next. So when ``latestOffset`` is asked to go on from a place that ended a batch, that
batch is safe in the sink, and its messages may be removed: all of them, in one transaction. This
also happens at the end of an AvailableNow run and at every restart. Until then the messages stand
in the queue, and a batch that must run again finds the same ones.

A queue must be transactional: only there does a lookup identifier stay the last one, because
nothing can come in before it later. With readMode receive the queue is held, so that nobody
else receives from it; without, whatever is missing is noticed (``failOnDataLoss``).

Upholds: I4 at the connector; I18 (a cursor neither repeats nor skips).
"""

from __future__ import annotations

import logging
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
from onceq.spark.options import LOOKUP_MAX, SourceOptions, wrong
from onceq.spark.ranges import Offset, Range, Sight, advance, beginning, split, start_of
from onceq.spark.reader import RangePartition, read_part

if TYPE_CHECKING:
    import pyarrow as pa

IDLE_WAIT_S: Final = 0.2
"""How long a question for news waits for them; Spark would ask every 10 ms otherwise."""

log = logging.getLogger("onceq.spark")


class OnceqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """See the module. One object lives on the driver; tasks have copies of their own."""

    def __init__(self, options: SourceOptions, names: Sequence[str]) -> None:
        self._options = options
        self._names = tuple(names)
        self._access = Access(options.manager)
        self._targets: dict[str, int] | None = None
        self._removed: Mapping[str, int] | None = None

    # ---- places ---------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins; asked again when its first batch must be repeated."""
        sights = self._look()
        to = {
            queue: start_of(self._options.starting[queue], sight) for queue, sight in sights.items()
        }
        return self._offset(to, None, sights).pack()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; ``start`` itself if there is none."""
        place = Offset.unpack(start)
        self._check(place)
        sights = self._look()
        self._same_queues(place, sights)
        if self._remove(place):
            sights = self._look()
        begins = {
            queue: beginning(place.to.get(queue, 0), sight) for queue, sight in sights.items()
        }
        ends = self._ends(begins, sights)
        if all(ends[queue] <= begins[queue] for queue in begins):
            if self._targets is None:
                queue = self._options.queues[0]
                self._access.wait(queue, begins[queue], IDLE_WAIT_S)
            else:
                # The end of an AvailableNow run; Spark does not always say so.
                self._access.release()
            return start
        to = self._limited(begins, ends, limit)
        if all(to[queue] <= begins[queue] for queue in to):
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
        """The last message of each queue, for the progress that Spark shows."""
        try:
            sights = self._look(hold=False)
        except OnceqError:
            return None
        return self._offset({q: s.last for q, s in sights.items()}, None, sights).pack()

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing that comes later belongs to this run."""
        self._targets = {queue: sight.last for queue, sight in self._look().items()}

    def _offset(
        self, to: Mapping[str, int], begins: Mapping[str, int] | None, sights: Mapping[str, Sight]
    ) -> Offset:
        instances = {queue: sight.instance for queue, sight in sights.items()}
        return Offset(to, begins, instances, self._options.subscription)

    def _look(self, *, hold: bool = True) -> dict[str, Sight]:
        """All queues as they are now; held before they are looked at, if they are to be."""
        sights = {}
        for queue in self._options.queues:
            if hold and self._options.receive:
                self._access.hold(queue)
            sight, transactional = self._access.look(queue)
            if not transactional:
                raise wrong(
                    f"{queue} is not transactional, so messages may come in before others that "
                    "were read already; a stream needs a transactional queue (a batch read does "
                    "not)"
                )
            sights[queue] = sight
        return sights

    def _check(self, place: Offset) -> None:
        if place.subscription != self._options.subscription:
            raise wrong(
                f"the checkpoint belongs to subscription {place.subscription!r}, this reader is "
                f"{self._options.subscription!r}; use its own checkpoint for each"
            )
        if set(place.to) - set(self._options.queues):
            gone = ", ".join(sorted(set(place.to) - set(self._options.queues)))
            raise wrong(f"the checkpoint also has {gone}; go on with all of its queues, or anew")

    def _same_queues(self, place: Offset, sights: Mapping[str, Sight]) -> None:
        for queue, instance in place.instances.items():
            if sights[queue].instance == instance:
                continue
            raise MessagesMissing(
                f"[{MessagesMissing.code}] {queue} is not the queue that this checkpoint was "
                "reading: it was deleted and made again. Begin with a new checkpoint"
            )

    # ---- how far --------------------------------------------------------------------------

    def _ends(self, begins: Mapping[str, int], sights: Mapping[str, Sight]) -> dict[str, int]:
        """The last message that each queue may give now.

        A message locked by somebody's transaction may come back to its place: nothing behind it
        is read before that is settled.
        """
        ends = {}
        for queue, sight in sights.items():
            end = sight.last
            if self._targets is not None:
                end = min(end, self._targets.get(queue, 0))
            if sight.locked and end > begins[queue]:
                part = Range(queue, begins[queue], end)
                end = self._access.unbroken(part, bytes_max=0, gapless=True)
            ends[queue] = max(end, begins[queue])
        return ends

    def _limited(
        self, begins: Mapping[str, int], ends: Mapping[str, int], limit: ReadLimit
    ) -> dict[str, int]:
        messages, size = LOOKUP_MAX, 0
        if isinstance(limit, ReadMaxRows):
            messages, size = limit.max_rows, self._options.bytes_max
        elif isinstance(limit, ReadMaxBytes):
            size = limit.max_bytes
        to = advance(begins, ends, messages)
        if not size:
            return to
        open_queues = [queue for queue in sorted(to) if to[queue] > begins[queue]]
        share = max(size // max(len(open_queues), 1), 1)
        for queue in open_queues:
            part = Range(queue, begins[queue], to[queue])
            to[queue] = self._access.unbroken(part, bytes_max=share, gapless=False)
        return to

    # ---- rows -----------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RangePartition]:
        """The tasks of a batch, from its end offset alone."""
        if start == end:
            return []
        place = Offset.unpack(end)
        return [
            RangePartition(part) for part in split(place.ranges(), self._options.partitions_min)
        ]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return read_part(
            self._options.manager,
            partition.part,
            self._names,
            complete=self._options.fail_on_data_loss,
        )

    # ---- removal --------------------------------------------------------------------------

    def commit(self, end: dict[str, Any]) -> None:
        """A batch is committed. Spark does not repeat this call, so a failure waits for
        ``latestOffset``, which removes as well."""
        try:
            place = Offset.unpack(end)
            if self._removed != place.to:
                self._same_queues(place, self._look())
                self._remove(place)
        except OnceqError as error:
            log.warning("messages of a committed batch are not removed yet: %s", error)

    def _remove(self, place: Offset) -> bool:
        """Remove what a committed batch has read; whether anything was asked to be removed.

        Repeating it changes nothing. The queues must be those of the checkpoint (``_same_queues``):
        another one has other messages at the same places.
        """
        if not self._options.receive or place.begins is None or self._removed == place.to:
            return False
        ranges = place.ranges()
        counts = self._access.remove(ranges) if ranges else []
        if self._options.fail_on_data_loss:
            for part, count in zip(ranges, counts, strict=True):
                if 0 < count < part.size:
                    raise missing(part, count)
        self._removed = dict(place.to)
        return True

    def stop(self) -> None:
        """The query is over: let others receive again."""
        self._access.close()
