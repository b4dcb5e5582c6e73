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

from onceq.audit import acts, files, measure, story, tables
from onceq.audit.command import COUNTING, Wish, check, save, verdict
from onceq.audit.progress import Say
from onceq.audit.sums import Sums, points
from onceq.errors import ConfigurationError
from onceq.spark.audit.job import Job
from onceq.spark.audit.stages import Stages, attended
from onceq.spark.audit.survey import Survey
from onceq.spark.runtime import QUICK, quiet_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL_EVENTS: Final = 100_000
"""Histories below this are audited by a Spark made to start quickly."""
HEAP_SHARE: Final = 4
"""A quarter of the computer's memory for Java; the arrays of the tasks lie outside of it."""
HEAP_BYTES_MAX: Final = 16 << 30
TOLD_BYTES: Final = 2 << 30
"""What one task takes beyond this is told before it is taken."""

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


def _memory() -> int:
    """Of this computer, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _heap() -> str:
    """Memory for Java, as Spark writes it."""
    return f"{max(min(_memory() // HEAP_SHARE, HEAP_BYTES_MAX) >> 20, 1024)}m"


def audit(
    spark: SparkSession, histories: Sequence[files.Coverage], wish: Wish, begin: Begin
) -> dict[str, Any]:
    """The findings about histories.

    Args:
        begin: Is told what is done next, and may raise to end the audit there.
    """
    acts.read(histories)
    mib = files.size(histories) / (1 << 20)
    begin(f"reading {_events(histories):,} events in {mib:,.1f} MiB of {len(histories)} queue "
          "managers")  # fmt: skip
    job = Job(spark, histories, settled=wish.settled,
              late_us=measure.late_us(histories, wish.stuck_s))  # fmt: skip
    try:
        survey = job.look()
        _fits(spark, histories, survey)
        found, counted = _findings(histories, survey, job, begin)
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


def _fits(spark: SparkSession, histories: Sequence[files.Coverage], survey: Survey) -> None:
    """Raise ConfigurationError if a task needs more memory than there is, as far as that is known:
    Spark would end with a worker that is gone."""
    largest = survey.largest()
    if largest is None or not spark.sparkContext.master.startswith("local"):
        return
    if largest.bytes > _memory():
        raise ConfigurationError(
            f"{largest.told(histories)}, and this computer has {_memory() / (1 << 30):,.1f}: take "
            "a Spark with larger executors (--master), or a part of the history: the files of some "
            "days, beside those of the same days of the other managers"
        )


def _write(to: str, tables: dict[str, DataFrame]) -> None:
    """All tables, or none."""
    try:
        for name, frame in tables.items():
            frame.write.parquet(os.path.join(to, name))
    except BaseException:
        shutil.rmtree(to, ignore_errors=True)
        raise


def _findings(
    histories: Sequence[files.Coverage], survey: Survey, job: Job, begin: Begin
) -> tuple[dict[str, Any], Sums]:
    """What is told, and what it was counted from. Each frame is asked first for what fills its
    cache, so that a stage is what it says."""
    largest = survey.largest()
    large = f"; {largest.told(histories)}" if largest and largest.bytes > TOLD_BYTES else ""
    begin(f"following messages through {job.events:,} events{large}")
    messages = job.follow()
    begin(f"judging {messages:,} messages and their streams")
    job.judge()
    checked = job.looked()
    violations = sum(one["violations"] for one in checked)
    begin(COUNTING)
    counted = job.sums()
    found: dict[str, Any] = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "managers": [{**one.plain(), "from_s": survey.first_s.get(one.id, 0)} for one in histories],
        **measure.told(counted, histories),
        "events": job.events,
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
    acts.add(found, histories)
    found["verdict"] = verdict(found)
    return found, counted
