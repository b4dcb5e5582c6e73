"""Batch reads: ``spark.read.format("onceq")`` looks at what is in a queue, and leaves it there.

Planning may happen several times for one action; each plan is a picture of its own moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from onceq.spark.access import Access
from onceq.spark.options import LATEST, SourceOptions
from onceq.spark.ranges import Range, beginning, split, start_of
from onceq.spark.rows import arrow_schema, record_batch

if TYPE_CHECKING:
    import pyarrow as pa


class RangePartition(InputPartition):  # type: ignore[misc]
    """Messages that one task reads."""

    def __init__(self, part: Range) -> None:
        self.part = part

    def __repr__(self) -> str:
        return f"RangePartition({self.part})"


def read_part(
    where: str, part: Range, names: Sequence[str], *, complete: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of one task. Runs on an executor, with a connection of its own."""
    schema = arrow_schema(names)
    with Access(where) as access:
        for batch, count in access.read(part, complete=complete):
            yield record_batch(batch, count, part.queue, names, schema)


class OnceqReader(DataSourceReader):  # type: ignore[misc]
    """See the module."""

    def __init__(self, options: SourceOptions, names: Sequence[str]) -> None:
        self._options = options
        self._names = tuple(names)

    def partitions(self) -> list[RangePartition]:
        """What is in the queues now, cut into tasks.

        A queue that is not transactional keeps its messages by priority, and their lookup
        identifiers lie far apart: one task reads it.
        """
        parts: list[Range] = []
        with Access(self._options.manager) as access:
            for queue in self._options.queues:
                sight, transactional = access.look(queue)
                begins = beginning(start_of(self._options.starting[queue], sight), sight)
                ending = self._options.ending[queue]
                to = sight.last if ending == LATEST else min(ending, sight.last)
                if to <= begins:
                    continue
                whole = Range(queue, begins, to)
                least = self._options.partitions_min
                parts += split([whole], least) if transactional else [whole]
        return [RangePartition(part) for part in parts]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one task. Spark makes up a partition of its own where there was none."""
        if not isinstance(partition, RangePartition):
            return iter(())
        return read_part(self._options.manager, partition.part, self._names, complete=False)
