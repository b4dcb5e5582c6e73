"""The frames of one audit: what Spark brings together, and gives to the functions of ``tasks``.

The ledger is kept by Spark while the audit goes on, in bundles: everything after the first look at
the events is made of it, but for the rules of lanes and letters, which see events again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as f

from onceq.audit import files, story, tables
from onceq.audit.rules import MESSAGE, QUEUE
from onceq.audit.sums import Sums, merged, sums_of
from onceq.history.columns import COLUMNS
from onceq.spark.audit.bundles import BUNDLE
from onceq.spark.audit.parts import RECEIVERS, SUMS, VERDICTS, Part, received, sql
from onceq.spark.audit.rows import files_of
from onceq.spark.audit.survey import SURVEY, Survey, surveyed
from onceq.spark.audit.survey import merged as merged_surveys
from onceq.spark.audit.tasks import Tasks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PART_EVENTS: Final = 500_000
"""Events of one part, as far as lanes allow: see ``EVENT_BYTES``."""


CONFIG: Final = (
    "spark.sql.shuffle.partitions",  # those that hold nothing cost a tenth of a second each
    "spark.sql.adaptive.coalescePartitions.enabled",  # which goes by the size of compressed bundles
    "spark.sql.inMemoryColumnarStorage.compressed",  # they are
    "spark.sql.parquet.outputTimestampType",  # as everybody reads them, and not as Spark once did
)
"""What is set in Spark as long as the audit goes on."""


class Job:
    """What is asked of Spark: ``look``, then ``follow``, then ``judge``, and then the rest.

    Args:
        late_us: See ``measure.late_us``.
    """

    def __init__(
        self, spark: SparkSession, histories: Sequence[files.Coverage], *, settled: bool,
        late_us: int,
    ) -> None:  # fmt: skip
        self._files = files_of(histories)
        self.events = sum(one.rows for one in self._files)
        at_once = spark.sparkContext.defaultParallelism
        self._parts = max(self.events // PART_EVENTS, at_once, 2)
        self._config = spark.conf
        self._before = {name: spark.conf.get(name) for name in CONFIG}
        values = (self._parts, "false", "false", "TIMESTAMP_MICROS")
        for name, value in zip(CONFIG, values, strict=True):
            spark.conf.set(name, str(value))
        self._numbers = spark.range(0, len(self._files), 1, min(len(self._files), self._parts))
        self._histories, self._settled, self._late_us = histories, settled, late_us
        self._kept: list[DataFrame] = []

    def look(self) -> Survey:
        """Find out what all rows have to do with; tells histories of rows that say too little."""
        of = self._files
        told = self._numbers.mapInArrow(lambda batches: surveyed(batches, of), sql(SURVEY))
        found = merged_surveys(row.asDict() for row in told.collect())
        found.tell(self._histories)
        # Tasks look at no acts of administration.
        histories = [replace(one, acts=[], acts_to={}) for one in self._histories]
        self.part = Part(histories, found.parties, found.queues, self._settled, self._late_us)
        self._tasks = Tasks(self.part, of, self._parts, found.told)
        return found

    # ---- the ledger --------------------------------------------------------------------------

    def follow(self) -> int:
        """Make the ledger; returns how many copies it has."""
        tasks = self._tasks
        self._lanes = self._numbers.mapInArrow(lambda batches: tasks.lanes(batches), sql(BUNDLE))
        self._ledger = self._lanes.groupBy("part").applyInArrow(
            lambda frame: tasks.ledger(frame), sql(BUNDLE)
        ).persist()  # fmt: skip
        self._kept.append(self._ledger)
        messages: int = self._ledger.agg(f.sum("rows")).collect()[0][0] or 0
        self.part = replace(self.part, receivers=self._receivers())
        self._tasks = replace(tasks, part=self.part)
        return messages

    def _receivers(self) -> dict[tuple[int, int], int]:
        tasks = self._tasks
        rows = self._ledger.mapInArrow(lambda batches: tasks.who_received(batches), sql(RECEIVERS))
        return received(tuple(row) for row in rows.distinct().collect())

    def sums(self) -> Sums:
        """What all copies add up to."""
        tasks = self._tasks
        rows = self._ledger.mapInArrow(lambda batches: tasks.sums(batches), sql(SUMS)).collect()
        return merged(sums_of(json.loads(row["sums"])) for row in rows)

    def streams(self) -> int:
        """How many streams copies are in."""
        return self._different("source", "stream")

    def transactions(self) -> int:
        """How many different transactions were committed, as far as packets name them."""
        return self._different("source", "put_transaction")

    def _different(self, *columns: str) -> int:
        tasks, kinds = self._tasks, dict.fromkeys(columns, "bigint")
        count: int = self._ledger.mapInArrow(
            lambda batches: tasks.different(batches, columns), sql(kinds)
        ).distinct().count()  # fmt: skip
        return count

    def messages(self) -> DataFrame:
        """The copies in words: the columns of ``audit.tables.MESSAGES``."""
        tasks = self._tasks
        return self._ledger.mapInArrow(
            lambda batches: tasks.messages(batches), sql(tables.MESSAGES)
        )  # fmt: skip

    # ---- verdicts ----------------------------------------------------------------------------

    def judge(self) -> None:
        """Judge by all rules."""
        tasks, columns = self._tasks, sql(VERDICTS)
        arrived = self._ledger.mapInArrow(
            lambda batches: tasks.together(batches, QUEUE), sql(BUNDLE)
        )  # fmt: skip
        self.verdicts = (
            self._lanes.groupBy("part").applyInArrow(lambda frame: tasks.of_lanes(frame), columns)
            .union(arrived.groupBy("part").applyInArrow(
                lambda frame: tasks.of_queues(frame), columns))
            .union(self._of_messages())
            .persist()
        )  # fmt: skip
        self._kept.append(self.verdicts)

    def _of_messages(self) -> DataFrame:
        """Of the copies of each message, and of what is told of it."""
        tasks = self._tasks
        copies = self._ledger.mapInArrow(
            lambda batches: tasks.together(batches, MESSAGE), sql(BUNDLE)
        )  # fmt: skip
        spoken = self._numbers.mapInArrow(lambda batches: tasks.spoken(batches), sql(BUNDLE))
        return (
            spoken.groupBy("part").cogroup(copies.groupBy("part"))
            .applyInArrow(lambda left, right: tasks.of_messages(left, right), sql(VERDICTS))
        )  # fmt: skip

    def wrong(self) -> DataFrame:
        """The violations: the columns of ``audit.tables.VIOLATIONS``."""
        return self.verdicts.where("lookedAt is null").select(*tables.VIOLATIONS)

    def looked(self) -> list[dict[str, Any]]:
        """What was compared, on how much, and how much of it is wrong; also on nothing."""
        by = ("invariant", "fault", "looksAt")
        rows = self.verdicts.groupBy(*by).agg(
            f.sum("lookedAt").alias("looked_at"), f.count("said").alias("violations")
        )
        found = {tuple(row[name] for name in by): row for row in rows.collect()}
        return [
            {"invariant": invariant, "fault": fault, "looks_at": looks_at,
             "looked_at": row["looked_at"] if row else 0,
             "violations": row["violations"] if row else 0}
            for invariant, fault, looks_at in self.part.rules()
            for row in [found.get((invariant, fault, looks_at))]
        ]  # fmt: skip

    # ---- stories -----------------------------------------------------------------------------

    def first_wrong(self) -> list[story.Wrong]:
        """The first violations of each rule, in order."""
        number = f.expr("cast(substring(invariant, 2) as int)")
        order = Window.partitionBy("invariant", "fault").orderBy("source", "stream", "number")
        first = self.wrong().withColumn("at", f.row_number().over(order))
        first = first.where(f.col("at") <= story.STORIES_MAX).orderBy(number, "fault", "at")
        return [self.part.wrong(row.asDict()) for row in first.collect()]

    def told_of(self, keys: Sequence[story.Key]) -> pa.Table:
        """The rows that stories of these copies are made of."""
        tasks = self._tasks
        kinds = {name: COLUMNS[name][0] for name in story.SHOWN}
        table: pa.Table = self._numbers.mapInArrow(
            lambda batches: tasks.stories(batches, keys), sql(kinds)
        ).toArrow()  # fmt: skip
        return table

    def end(self) -> None:
        """Give back what Spark holds."""
        for frame in self._kept:
            frame.unpersist()
        for name, value in self._before.items():
            if value is not None:
                self._config.set(name, value)
