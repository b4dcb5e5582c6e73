"""``onceq spark audit``: an audit of histories that are too large for one process.

Spark reads the files and brings together what belongs together; each part is judged by the rules of
``onceq.audit`` (see ``parts``), and what all parts say is counted by Spark again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from onceq.audit import files
from onceq.audit.arrays import NONE
from onceq.audit.command import Wish, check, save, verdict
from onceq.audit.events import NOBODY, READ
from onceq.audit.progress import Say
from onceq.audit.rules import MESSAGE, QUEUE
from onceq.audit.story import STORIES_MAX, Wrong, stories_by_files
from onceq.audit.tables import COUNTS
from onceq.history.columns import COLUMNS
from onceq.spark.audit import measure
from onceq.spark.audit.parts import AGAIN, LEDGER, VERDICTS, WORDS, Part
from onceq.spark.audit.stages import Stages, attended
from onceq.spark.runtime import QUICK, quiet_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PART_EVENTS: Final = 2_000_000
"""Events of one part, as far as lanes allow: a task takes some 1 GB for them."""
SMALL_EVENTS: Final = 100_000
"""Histories below this are audited by a Spark made to start quickly."""
HEAP_SHARE: Final = 4
"""A quarter of the computer's memory for Java; the arrays of the tasks lie outside of it."""
HEAP_BYTES_MAX: Final = 16 << 30


def run(folders: Sequence[str], wish: Wish, say: Say, *, master: str) -> dict[str, Any]:
    """Audit, in a Spark session of its own if there is none; see ``onceq spark audit --help``.

    Args:
        say: Is told how far it is.

    Returns:
        The findings, as JSON has them.

    Raises:
        ConfigurationError: There is no history, no Java, or a place cannot be written to.
        KeyboardInterrupt: Ctrl-C or SIGTERM; there is no report then, and all tables or none.
    """
    stages = Stages(say)
    histories = files.find(folders)
    check(wish)
    active = SparkSession.getActiveSession()
    if active is not None:
        return audit(active, histories, wish, stages.begin)
    count = _events(histories)
    config = QUICK if count < SMALL_EVENTS else {"spark.driver.memory": _heap()}
    stages.begin("starting Spark")
    with quiet_session(master, "onceq audit", config) as spark:
        stages.watch(spark.sparkContext.statusTracker())
        return attended(
            lambda: audit(spark, histories, wish, stages.begin), stages,
            spark.sparkContext.cancelAllJobs,
        )  # fmt: skip


def _events(histories: Sequence[files.Coverage]) -> int:
    return sum(pq.read_metadata(path).num_rows for one in histories for path in one.files)


def _heap() -> str:
    """Memory for Java, as Spark writes it."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{max(min(whole // HEAP_SHARE, HEAP_BYTES_MAX) >> 20, 1024)}m"


def _unread(rows: DataFrame, histories: Sequence[files.Coverage]) -> None:
    """Tell histories of their rows that do not say which message they are about."""
    nobody = rows.where((f.col("source") == NOBODY) & ~f.col("observed")).groupBy("managerId")
    found = nobody.agg(f.count("*").alias("rows"), f.max("position").alias("last")).collect()
    by_id = {one.id: one for one in histories}
    for row in found:
        one = by_id[row["managerId"]]
        one.unread, one.unread_to = row["rows"], row["last"] + 1


_SUMS: Final = {
    "queue_ends": "received + expired + rejected + purged + deleted",
    "given_up": "not_delivered + in_doubt + removed",
}
"""Counts that ``Copies`` works out of others."""


class _Job:
    """The frames of one audit."""

    def __init__(
        self, spark: SparkSession, histories: Sequence[files.Coverage], *, settled: bool
    ) -> None:
        paths = [file for one in histories for file in one.files]
        self.events = _events(histories)
        self.parts = max(self.events // PART_EVENTS, spark.sparkContext.defaultParallelism, 2)
        # More than 32 paths would be listed by a job of Spark's.
        listing = "spark.sql.sources.parallelPartitionDiscovery.threshold"
        spark.conf.set(listing, str(len(paths) + 1))
        # Files of earlier versions lack columns.
        schema = ", ".join(f"`{name}` {kind}" for name, (kind, _) in COLUMNS.items())
        self.rows = spark.read.schema(schema).parquet(*paths)
        parties = {row[0] for name in ("managerId", "source")
                   for row in self.rows.select(name).distinct().collect()} - {None}  # fmt: skip
        queues = {row[0] for row in self.rows.select("queue").distinct().collect()} - {None}
        _unread(self.rows, histories)
        self.part = part = Part(histories, sorted(parties), sorted(queues), settled)
        lanes = self.rows.select(*READ).groupBy(self._together("source", "stream"))
        self.ledger = lanes.applyInArrow(lambda table: part.ledger(table), LEDGER).persist()
        self.verdicts = (
            lanes.applyInArrow(lambda table: part.lanes(table), VERDICTS)
            .union(self._within(QUEUE, "taken_manager", "taken_place"))
            .union(self._within(MESSAGE, "source", "message"))
            .union(self._told())
            .persist()
        )

    def _together(self, *columns: str) -> Column:
        return f.pmod(f.xxhash64(*columns), f.lit(self.parts)).alias("part")

    def _within(self, what: str, *columns: str) -> DataFrame:
        part = self.part
        return self.ledger.groupBy(self._together(*columns)).applyInArrow(
            lambda table: part.within(table, what), VERDICTS
        )

    def _told(self) -> DataFrame:
        part = self.part
        events = "'told', 'accepted', 'committed', 'sent', 'received'"
        rows = self.rows.select(*READ).where(f"message is not null and event in ({events})")
        of_events = rows.groupBy(self._together("source", "message"))
        of_copies = self.ledger.groupBy(self._together("messageSource", "messageId"))
        return of_events.cogroup(of_copies).applyInArrow(
            lambda left, right: part.told(left, right), VERDICTS
        )

    def messages(self) -> DataFrame:
        """The copies in words, with the counts behind them: the columns of ``audit.tables``."""
        words = (f.col(word).alias(name) for word, name in WORDS.items() if name not in AGAIN)
        counts = (f.expr(_SUMS.get(own, own)).alias(name) for name, own in COUNTS.items())
        return self.ledger.select(*words, *counts)

    def end(self) -> None:
        """Give back what Spark holds."""
        self.ledger.unpersist()
        self.verdicts.unpersist()


def audit(
    spark: SparkSession, histories: Sequence[files.Coverage], wish: Wish,
    begin: Callable[[str], None],
) -> dict[str, Any]:  # fmt: skip
    """The findings about histories.

    Args:
        begin: Is told what is done next, and may raise to end the audit there.
    """
    mib = files.size(histories) / (1 << 20)
    begin(f"reading {mib:,.1f} MiB of {len(histories)} queue managers")
    job = _Job(spark, histories, settled=wish.settled)
    try:
        found = _findings(histories, job, wish, begin)
        moved = measure.traffic(job.ledger)
        if wish.to:
            begin(f"writing tables into {wish.to}")
            _write(wish.to, {
                "messages": job.messages(), "violations": _wrong(job), "traffic": moved,
            })  # fmt: skip
            found["written"].append(wish.to)
        if wish.html:
            from onceq.audit.report import page

            begin(f"writing the report {wish.html}")
            points = [row.asDict() for row in moved.collect()]
            save(wish.html, page(found, points), found)
            found["written"].append(wish.html)
        begin("done")
        return found
    finally:
        job.end()


def _wrong(job: _Job) -> DataFrame:
    return job.verdicts.where("lookedAt is null").drop("lookedAt", "looksAt")


def _write(to: str, tables: dict[str, DataFrame]) -> None:
    """All tables, or none."""
    try:
        for name, frame in tables.items():
            frame.write.parquet(os.path.join(to, name))
    except BaseException:
        shutil.rmtree(to, ignore_errors=True)
        raise


def _findings(
    histories: Sequence[files.Coverage], job: _Job, wish: Wish, begin: Callable[[str], None]
) -> dict[str, Any]:
    """Each frame is asked first for what fills its cache, so that a stage is what it says."""
    first = {
        row["managerId"]: row["first"]
        for row in job.rows.groupBy("managerId")
        .agg(f.min(f.expr("cast(eventTime as bigint)")).alias("first")).collect()
    }  # fmt: skip
    begin(f"following messages through {job.events:,} events")
    messages = job.ledger.count()
    begin(f"judging {messages:,} messages and their streams")
    wrong = _wrong(job)
    violated = {(row["invariant"], row["fault"]): row["count"]
                for row in wrong.groupBy("invariant", "fault").count().collect()}  # fmt: skip
    looked = job.verdicts.where("lookedAt is not null").groupBy("invariant", "fault", "looksAt")
    checked = [
        {"invariant": row["invariant"], "fault": row["fault"], "looks_at": row["looksAt"],
         "looked_at": row["count"],
         "violations": violated.get((row["invariant"], row["fault"]), 0)}
        for row in looked.agg(f.sum("lookedAt").alias("count")).collect()
    ]  # fmt: skip
    begin("counting ends, latencies, resends and stuck streams")
    copies = job.ledger
    streams = copies.where("messageStream is not null").select("messageSource", "messageStream")
    found: dict[str, Any] = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "managers": [{**one.plain(), "from_s": first.get(one.id, 0)} for one in histories],
        "messages": messages,
        "events": job.events,
        "streams": streams.distinct().count(),
        "transactions": copies.where("transactionNumber is not null")
        .select("messageSource", "transactionNumber").distinct().count(),
        "states": measure.states(copies),
        "violations": sum(violated.values()),
        "messages_violated": wrong.select("source", "stream", "number").distinct().count(),
        "checked": sorted(checked, key=lambda one: (int(one["invariant"][1:]), one["fault"])),
        "stories": _stories(histories, job.part.parties, wrong) if violated else [],
        "latencies": measure.latencies(copies),
        "resends": measure.resends(copies),
        "stuck": measure.stuck(
            copies, as_of_us=max(one.up_to_us for one in histories), after_s=wish.stuck_s
        ),
        "notes": _notes(histories, copies),
        "written": [],
    }  # fmt: skip
    found["verdict"] = verdict(found)
    return found


def _stories(
    histories: Sequence[files.Coverage], parties: Sequence[str], wrong: DataFrame
) -> list[dict[str, Any]]:
    number = f.expr("cast(substring(invariant, 2) as int)")
    first = wrong.orderBy(number, "fault", "source", "stream", "number").limit(STORIES_MAX)
    codes = {party: code for code, party in enumerate(parties)}

    def known(value: int | None) -> int:
        return NONE if value is None else value

    return stories_by_files(histories, parties, [
        Wrong(
            (codes[row["source"]], known(row["stream"]), known(row["number"]),
             known(row["message"])),
            row["invariant"], row["fault"], row["route"] or "", row["said"],
        )
        for row in first.collect()
    ])  # fmt: skip


def _notes(histories: Sequence[files.Coverage], copies: DataFrame) -> list[str]:
    """What could not be known, and why."""
    notes = [f"{one.manager}: {limit}" for one in histories for limit in one.limits()]
    known = [one.id for one in histories]
    untold = copies.select("messageSource").distinct().where(~f.col("messageSource").isin(known))
    notes += sorted(f"there is no history of the sender {row[0]}" for row in untold.collect())
    blind = copies.where("state = 'unverified' and receiver is null").select("destination")
    notes += sorted(
        f"there is no history of the receiver of {row[0]}" for row in blind.distinct().collect()
    )
    doubts = copies.where("state = 'in doubt'").count()
    if doubts:
        notes.append(f"{doubts:,} message(s) in doubt: nobody knows whether they arrived")
    return notes
