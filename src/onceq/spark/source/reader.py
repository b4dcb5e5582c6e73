"""Batch reads: ``spark.read.format("onceq")`` shows what is in a queue, and leaves it there.

Planning may happen several times for one action; each plan is a picture of its own moment. A task
asks for the next page while Spark takes the one before (``Prefetch``).

Upholds: I24 (two pages of a task at a time).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from onceq.spark.argument_checks import wrong
from onceq.spark.connections import LATEST, SourceTarget
from onceq.spark.source.access import LazyConnection, borrowed
from onceq.spark.source.conflicts import judge
from onceq.spark.source.offsets import QueueSample, Range, beginning, split, start_of
from onceq.spark.source.options import NEVER, SourceOptions
from onceq.spark.source.rows import PREFIX_BYTES, arrow_schema, prefix, record_batch

if TYPE_CHECKING:
    import pyarrow as pa

    from onceq import Batch


PREFIX_BYTES_MAX: Final = 8_192
"""Packets with longer headers than that are read whole."""


class RangePartition(InputPartition):  # type: ignore[misc]
    """Messages that one task reads, of one queue or of several.

    Attributes:
        managers: By address for the driver, the GUID of each queue manager that it plans with.
        targets: By key, the queues of its parts.
    """

    def __init__(
        self,
        parts: Sequence[Range],
        managers: Mapping[str, str],
        targets: Mapping[str, SourceTarget],
    ) -> None:
        self.parts = tuple(parts)
        self.targets = {part.key: targets[part.key] for part in parts}
        self.managers = {t.manager: managers[t.manager] for t in self.targets.values()}

    def __repr__(self) -> str:
        return f"RangePartition({self.parts})"


class Rows:
    """What a task needs to know to make rows; it travels to the executors.

    Attributes:
        counted: Whether what is read of a range is compared with what was counted.
        complete: Whether it is an error then if any is missing.
    """

    def __init__(
        self, options: SourceOptions, names: Sequence[str], *, counted: bool, complete: bool
    ) -> None:
        self._patience = options.patience
        self._credentials = options.credentials
        self._names = tuple(names)
        self._counted = counted
        self._complete = complete

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one task. Spark makes up a partition of its own where there was none."""
        if not isinstance(partition, RangePartition):
            return
        for part in partition.parts:
            yield from self._part(part, partition.targets[part.key], partition.managers)

    def _part(
        self, part: Range, target: SourceTarget, managers: Mapping[str, str]
    ) -> Iterator[pa.RecordBatch]:
        seen = 0
        with borrowed(target.near, self._patience, self._credentials) as access:
            name, guid = access.who(target.queue)
            if guid != managers[target.manager]:
                raise wrong(
                    f"the queue manager at {target.near}, where an executor reads "
                    f"{target.queue}, is not the one at {target.manager}; see executorQueueManager"
                )
            prefetch = Prefetch(access, target.queue, part.to)
            try:
                for rows in self._pages(prefetch, part, name, target.queue):
                    seen += rows.num_rows
                    yield rows
            finally:
                prefetch.close()
            if self._counted:
                judge(
                    str(target), part, seen, lambda: access.count(target.queue, part),
                    fail=self._complete, done="read",
                )  # fmt: skip

    def _pages(
        self, prefetch: Prefetch, part: Range, manager: str, queue: str
    ) -> Iterator[pa.RecordBatch]:
        """The rows of each page."""
        from onceq.spark.source.rows import CutShort

        schema = arrow_schema(self._names)
        after, top = part.after, prefix(self._names)
        batch = prefetch.page(after, top)
        while batch is not None:
            end = batch.lookup_ids[-1]
            prefetch.begin(end, top)
            try:
                rows = record_batch(
                    batch, manager=manager, queue=queue, names=self._names, schema=schema
                )
            except CutShort:
                top = longer(top)
                batch = prefetch.page(after, top)
                continue
            after = end
            yield rows
            batch = prefetch.take()


def longer(top: int | None) -> int | None:
    """How much of each packet to read after so much was not enough."""
    assert top is not None, "a whole packet has everything"
    more = max(4 * top, PREFIX_BYTES)
    return more if more <= PREFIX_BYTES_MAX else None


def starting(
    access: LazyConnection, target: SourceTarget, sight: QueueSample, options: SourceOptions
) -> int:
    """The place where a new query begins in a queue; raises ConfigurationError."""
    if options.since == NEVER:
        return start_of(options.starting[target.key], sight)
    if not sight.steady:
        raise wrong(
            f"startingTimestamp needs a queue whose messages come in at the end, and {target} is "
            "none: filter by the column arrivedTime, or use startingOffsets"
        )
    return access.place_before(target.queue, sight, options.since)


class OnceqReader(DataSourceReader):  # type: ignore[misc]
    """Plans a batch read, and reads its ranges in tasks."""

    def __init__(self, options: SourceOptions, names: Sequence[str]) -> None:
        self._options = options
        self._rows = Rows(options, names, counted=False, complete=False)

    def partitions(self) -> list[RangePartition]:
        """What is in the queues now, cut into tasks.

        A queue that is not transactional keeps its messages by priority, and their lookup
        identifiers lie far apart: one task reads it.
        """
        ranges: list[Range] = []
        apart: list[tuple[Range, ...]] = []
        # The queues that are named, or those that a pattern finds now.
        targets = list(self._options.targets)
        pattern = self._options.pattern
        if pattern is not None:
            for at, near in pattern.managers:
                with self._access(at) as access:
                    targets += pattern.matching(at, near, access.queues(pattern.text))
        managers = dict.fromkeys(target.manager for target in targets)
        guids: dict[str, str] = {}
        for manager in managers:
            with self._access(manager) as access:
                for target in targets:
                    if target.manager != manager:
                        continue
                    sight = access.sample(target.queue)
                    guids[manager] = access.who(target.queue)[1]
                    key = target.key
                    begins = beginning(starting(access, target, sight, self._options), sight)
                    ending = self._options.ending[key]
                    to = sight.last if ending == LATEST else min(ending, sight.last)
                    if to > begins and sight.steady:
                        most = min(to - begins, sight.messages)
                        ranges.append(Range(key, begins, to, most))
                    elif to > begins:
                        apart.append((Range(key, begins, to),))
        tasks = split(ranges, self._options.partitions_min)
        by_key = {target.key: target for target in targets}
        return [RangePartition(parts, guids, by_key) for parts in [*tasks, *apart]]

    def _access(self, manager: str) -> LazyConnection:
        return LazyConnection(manager, self._options.patience, self._options.credentials)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return self._rows.read(partition)


class Prefetch:
    """The pages of one queue, up to a place. Close it before its connection is used otherwise."""

    def __init__(self, access: LazyConnection, queue: str, to: int) -> None:
        self._access = access
        self._queue = queue
        self._to = to
        self._thread: ThreadPoolExecutor | None = None
        self._next: Future[Batch | None] | None = None

    def page(self, after: int, top: int | None) -> Batch | None:
        """The page behind a place, now; what was begun before is let go of."""
        self._settle()
        return self._access.page(self._queue, after, self._to, top) if after < self._to else None

    def begin(self, after: int, top: int | None) -> None:
        """Ask for the page behind a place."""
        assert self._next is None, "one page at a time"
        if after < self._to:
            self._thread = self._thread or ThreadPoolExecutor(1)
            self._next = self._thread.submit(self._access.page, self._queue, after, self._to, top)

    def take(self) -> Batch | None:
        """The page that was begun; None if there is none."""
        begun, self._next = self._next, None
        return begun.result() if begun is not None else None

    def close(self) -> None:
        """Wait until nothing is under way."""
        self._settle()
        if self._thread is not None:
            self._thread.shutdown()

    def _settle(self) -> None:
        begun, self._next = self._next, None
        if begun is not None:
            # Waited for, and not heard: one connection carries out one request at a time.
            begun.exception()
