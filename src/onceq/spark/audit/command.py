"""``onceq spark audit``: an audit of histories that are too large for one process.

Spark reads the files and brings together what belongs together; each part is judged, and added up,
by the functions of ``onceq.audit`` (see ``job`` and ``parts``).
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

from onceq.audit import files, measure, story, tables
from onceq.audit.command import COUNTING, Wish, check, save, verdict
from onceq.audit.progress import Say
from onceq.audit.sums import Sums, points
from onceq.spark.audit.job import Job
from onceq.spark.audit.stages import Stages, attended
from onceq.spark.runtime import QUICK, quiet_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL_EVENTS: Final = 100_000
"""Histories below this are audited by a Spark made to start quickly."""
HEAP_SHARE: Final = 4
"""A quarter of the computer's memory for Java; the arrays of the tasks lie outside of it."""
HEAP_BYTES_MAX: Final = 16 << 30

Begin = Callable[[str], None]


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


def audit(
    spark: SparkSession, histories: Sequence[files.Coverage], wish: Wish, begin: Begin
) -> dict[str, Any]:
    """The findings about histories.

    Args:
        begin: Is told what is done next, and may raise to end the audit there.
    """
    mib = files.size(histories) / (1 << 20)
    events = _events(histories)
    begin(f"reading {events:,} events in {mib:,.1f} MiB of {len(histories)} queue managers")
    job = Job(spark, histories, events=events, settled=wish.settled,
              late_us=measure.late_us(histories, wish.stuck_s))  # fmt: skip
    try:
        found, counted = _findings(histories, job, events, begin)
        moved = points(counted.traffic)
        if wish.to:
            begin(f"writing tables into {wish.to}")
            _write(wish.to, {
                "messages": job.messages(), "violations": job.wrong(),
                "traffic": spark.createDataFrame(tables.points(moved)).coalesce(1),
            })  # fmt: skip
            found["written"].append(wish.to)
        if wish.html:
            from onceq.audit.report import page

            begin(f"writing the report {wish.html}")
            save(wish.html, page(found, moved), found)
            found["written"].append(wish.html)
        begin("done")
        return found
    finally:
        job.end()


def _write(to: str, tables: dict[str, DataFrame]) -> None:
    """All tables, or none."""
    try:
        for name, frame in tables.items():
            frame.write.parquet(os.path.join(to, name))
    except BaseException:
        shutil.rmtree(to, ignore_errors=True)
        raise


def _findings(
    histories: Sequence[files.Coverage], job: Job, events: int, begin: Begin
) -> tuple[dict[str, Any], Sums]:
    """What is told, and what it was counted from. Each frame is asked first for what fills its
    cache, so that a stage is what it says."""
    first = {
        row["managerId"]: row["first"]
        for row in job.rows.groupBy("managerId")
        .agg(f.min(f.expr("cast(eventTime as bigint)")).alias("first")).collect()
    }  # fmt: skip
    begin(f"following messages through {events:,} events")
    messages = job.follow()
    begin(f"judging {messages:,} messages and their streams")
    job.judge()
    checked = job.looked()
    violations = sum(one["violations"] for one in checked)
    begin(COUNTING)
    counted = job.sums()
    found: dict[str, Any] = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "managers": [{**one.plain(), "from_s": first.get(one.id, 0)} for one in histories],
        **measure.told(counted, histories),
        "events": events,
        "streams": job.streams(),
        "transactions": job.transactions(),
        "violations": violations,
        "messages_violated": job.wrong().select("source", "stream", "number").distinct().count(),
        "checked": checked,
        "stories": [],
        "written": [],
    }
    if violations:
        begin("looking up the events of messages that are wrong")
        wrong = job.first_wrong()
        rows = job.told_of(story.keys_of(wrong))
        found["stories"] = story.stories_of(histories, job.part.parties, wrong, rows)
    found["verdict"] = verdict(found)
    return found, counted
