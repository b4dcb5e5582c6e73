"""The frames of one audit: what Spark brings together, and gives to the functions of ``parts``.

The ledger is kept by Spark while the audit goes on, as numbers: everything after the first look at
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
from onceq.audit.arrays import NONE
from onceq.audit.events import ABSENT
from onceq.audit.rules import MESSAGE, QUEUE
from onceq.audit.sums import Sums, merged, sums_of
from onceq.history.columns import COLUMNS
from onceq.spark.audit.parts import LEDGER, RECEIVERS, SUMS, VERDICTS, Part, received, sql
from onceq.spark.audit.rows import EVENT, ROWS, files_of
from onceq.spark.audit.survey import Survey, surveyed
from onceq.spark.audit.survey import merged as merged_surveys

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, GroupedData, SparkSession

PART_EVENTS: Final = 500_000
"""Events of one part, as far as lanes allow: see ``EVENT_BYTES``."""
_SPOKEN: Final = tuple(
    EVENT[name] for name in ("told", "accepted", "committed", "sent", "received")
)
"""Events that acknowledgment messages are held beside, and these."""


CONFIG: Final = (
    "spark.sql.sources.parallelPartitionDiscovery.threshold",  # more paths would be listed by a job
    "spark.sql.shuffle.partitions",  # those that hold nothing cost a tenth of a second each
    "spark.sql.inMemoryColumnarStorage.compressed",  # which costs ten times what reading does
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
        values = (len(self._files) + 1, self._parts, "false", "TIMESTAMP_MICROS")
        for name, value in zip(CONFIG, values, strict=True):
            spark.conf.set(name, str(value))
        # Files of earlier versions lack columns.
        columns = {name: kind for name, (kind, _) in COLUMNS.items()}
        self.rows = spark.read.schema(sql(columns)).parquet(*(one.path for one in self._files))
        self._numbers = spark.range(0, len(self._files), 1, min(len(self._files), self._parts))
        self._histories, self._settled, self._late_us = histories, settled, late_us
        self._kept: list[DataFrame] = []

    def look(self) -> Survey:
        """Find out what all rows have to do with; tells histories of rows that say too little."""
        of = self._files
        told = self._numbers.mapInArrow(lambda batches: surveyed(batches, of), "survey string")
        found = merged_surveys(json.loads(row[0]) for row in told.collect())
        found.tell(self._histories)
        self.part = part = Part(
            self._histories, found.parties, found.queues, self._settled, self._late_us
        )
        self._events = self._numbers.mapInArrow(lambda batches: part.read(batches, of), sql(ROWS))
        return found

    # ---- the ledger --------------------------------------------------------------------------

    def follow(self) -> int:
        """Make the ledger; returns how many copies it has."""
        part = self.part
        self.ledger = self._lanes().applyInArrow(
            lambda table: part.ledger(table), sql(LEDGER)
        ).persist()  # fmt: skip
        self._kept.append(self.ledger)
        messages: int = self.ledger.count()
        self.part = replace(part, receivers=self._receivers())
        return messages

    def _lanes(self) -> GroupedData:
        # Copies without a stream are judged one by one, beside what is told of their message.
        within = f.coalesce("stream", "message")
        return self._events.groupBy(self._together(f.col("source"), within))

    def _together(self, *columns: Column) -> Column:
        return f.pmod(f.xxhash64(*columns), f.lit(self._parts)).alias("part")

    def _receivers(self) -> dict[tuple[int, int], int]:
        part = self.part
        rows = self.ledger.mapInArrow(lambda batches: part.who_received(batches), sql(RECEIVERS))
        return received(tuple(row) for row in rows.distinct().collect())

    def sums(self) -> Sums:
        """What all copies add up to."""
        part = self.part
        rows = self.ledger.mapInArrow(lambda batches: part.sums(batches), sql(SUMS)).collect()
        return merged(sums_of(json.loads(row["sums"])) for row in rows)

    def streams(self) -> int:
        """How many streams copies are in."""
        streamed = self.ledger.where(f.col("stream") != NONE)
        count: int = streamed.select("source", "stream").distinct().count()
        return count

    def transactions(self) -> int:
        """How many different transactions were committed, as far as packets name them."""
        named = self.ledger.where(f.col("put_transaction") != NONE)
        count: int = named.select("source", "put_transaction").distinct().count()
        return count

    def messages(self) -> DataFrame:
        """The copies in words: the columns of ``audit.tables.MESSAGES``."""
        part = self.part
        return self.ledger.mapInArrow(lambda batches: part.messages(batches), sql(tables.MESSAGES))

    # ---- verdicts ----------------------------------------------------------------------------

    def judge(self) -> None:
        """Judge by all rules."""
        part, columns = self.part, sql(VERDICTS)
        self.verdicts = (
            self._lanes().applyInArrow(lambda table: part.lanes(table), columns)
            .union(self._within(QUEUE, f.col("taken_manager") != ABSENT,
                                "taken_manager", "taken_place"))
            .union(self._within(MESSAGE, f.col("message") != NONE, "source", "message"))
            .union(self._told())
            .persist()
        )  # fmt: skip
        self._kept.append(self.verdicts)

    def _within(self, what: str, there: Column, *columns: str) -> DataFrame:
        part = self.part
        return (
            self.ledger.where(there)
            .groupBy(self._together(*map(f.col, columns)))
            .applyInArrow(lambda table: part.within(table, what), sql(VERDICTS))
        )

    def _told(self) -> DataFrame:
        """Most messages have no acknowledgment messages: they are left out before."""
        part = self.part
        rows = self._events.where(f.col("message").isNotNull() & f.col("event").isin(*_SPOKEN))
        spoken = rows.where(f.col("event") == EVENT["told"]).select("message").distinct()
        of_events = rows.join(spoken, "message", "left_semi").select(*ROWS)
        of_copies = self.ledger.join(spoken, "message", "left_semi").select(*LEDGER)
        together = self._together(f.col("message"))
        return (
            of_events.groupBy(together)
            .cogroup(of_copies.groupBy(together))
            .applyInArrow(lambda left, right: part.told(left, right), sql(VERDICTS))
        )

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
        part = self.part
        kinds = {name: COLUMNS[name][0] for name in story.SHOWN}
        table: pa.Table = self.rows.select(*story.SHOWN).mapInArrow(
            lambda batches: part.stories(batches, keys), sql(kinds)
        ).toArrow()  # fmt: skip
        return table

    def end(self) -> None:
        """Give back what Spark holds."""
        for frame in self._kept:
            frame.unpersist()
        for name, value in self._before.items():
            if value is not None:
                self._config.set(name, value)
