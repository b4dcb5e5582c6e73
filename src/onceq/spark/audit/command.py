"""``onceq spark audit``: from folders to findings, a report and tables."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from onceq.errors import ConfigurationError
from onceq.spark.audit import copies, files, judge, measure, story
from onceq.spark.audit.stages import Say, Stages, attended
from onceq.spark.runtime import QUICK, quiet_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


SMALL_BYTES: Final = 16 << 20
"""Histories below this are audited by a Spark made to start quickly."""
SMALL: Final = {**QUICK, "spark.sql.codegen.wholeStage": "false"}
"""Compiling each of its many small queries takes longer than running it."""
LARGE: Final = {"spark.sql.shuffle.partitions": "32"}
HEAP_SHARE: Final = 2
"""Half of the computer's memory for Spark where histories are large: with the one gigabyte that it
takes by itself, Java gave up at some million events."""
HEAP_BYTES_MAX: Final = 16 << 30


def run(
    folders: Sequence[str], *, settled: bool, html: str, to: str, stuck_s: float, master: str,
    say: Say,
) -> dict[str, Any]:  # fmt: skip
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
    if to and os.path.exists(to):
        raise ConfigurationError(f"--out {to} is there already; name a folder that is not")
    if html and not Path(html).resolve().parent.is_dir():
        raise ConfigurationError(f"--html {html}: there is no such folder")
    if html and Path(html).is_dir():
        raise ConfigurationError(f"--html {html} is a folder; name a file")
    wish: dict[str, Any] = {"settled": settled, "html": html, "to": to, "stuck_s": stuck_s}
    active = SparkSession.getActiveSession()
    if active is not None:
        return audit(active, histories, **wish, begin=stages.begin)
    size = _size(histories)
    config = SMALL if size < SMALL_BYTES else {**LARGE, "spark.driver.memory": _heap()}
    stages.begin("starting Spark")
    with quiet_session(master, "onceq audit", config) as spark:
        stages.watch(spark.sparkContext.statusTracker())
        return attended(
            lambda: audit(spark, histories, **wish, begin=stages.begin), stages,
            spark.sparkContext.cancelAllJobs,
        )  # fmt: skip


def _size(histories: Sequence[files.Coverage]) -> int:
    """Bytes of all files."""
    return sum(os.path.getsize(path) for one in histories for path in one.files)


def _heap() -> str:
    """Memory for Java, as Spark writes it."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{max(min(whole // HEAP_SHARE, HEAP_BYTES_MAX) >> 20, 1024)}m"


def _some(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _unheard(stage: str) -> None:
    """Nobody listens."""


def audit(
    spark: SparkSession, histories: Sequence[files.Coverage], *, settled: bool = False,
    html: str = "", to: str = "", stuck_s: float = 300.0, begin: Callable[[str], None] = _unheard,
) -> dict[str, Any]:  # fmt: skip
    """The findings about histories.

    Args:
        begin: Is told what is done next, and may raise to end the audit there.
    """
    count = sum(len(one.files) for one in histories)
    begin(f"reading {_some(count, 'file')}, {_size(histories) / (1 << 20):,.1f} MiB, of "
          f"{_some(len(histories), 'queue manager')}")  # fmt: skip
    rows = copies.read(spark, histories).persist()
    ledger = copies.ledger(rows, histories).persist()
    verdicts = judge.judge(rows, ledger, settled=settled).persist()
    try:
        found = _findings(histories, rows, ledger, verdicts, stuck_s, begin)
        moved = measure.traffic(rows, ledger)
        if to:
            begin(f"writing tables into {to}")
            _write(to, {"messages": ledger, "violations": verdicts, "traffic": moved})
            found["written"].append(to)
        if html:
            from onceq.spark.audit.report import page

            begin(f"writing the report {html}")
            points = [row.asDict() for row in moved.collect()]
            Path(html).write_text(page(found, points), encoding="utf-8")
            found["written"].append(html)
        begin("done")
        return found
    finally:
        for frame in (rows, ledger, verdicts):
            frame.unpersist()


def _write(to: str, tables: dict[str, DataFrame]) -> None:
    """All tables, or none."""
    try:
        for name, frame in tables.items():
            frame.write.parquet(os.path.join(to, name))
    except BaseException:
        shutil.rmtree(to, ignore_errors=True)
        raise


def _findings(
    histories: Sequence[files.Coverage], rows: DataFrame, ledger: DataFrame, verdicts: DataFrame,
    stuck_s: float, begin: Callable[[str], None],
) -> dict[str, Any]:  # fmt: skip
    """Each frame is asked first for what fills its cache, so that a stage is what it says."""
    told = {
        row["managerId"]: row
        for row in rows.groupBy("managerId")
        .agg(f.min(f.expr("cast(eventTime as bigint)")).alias("first"), f.count("*").alias("rows"))
        .collect()
    }
    events = sum(row["rows"] for row in told.values())
    begin(f"following messages through {_some(events, 'event')}")
    messages = ledger.count()
    begin(f"judging {_some(messages, 'message')} and their streams")
    counted = sorted(
        verdicts.groupBy("invariant", "fault").count().collect(),
        key=lambda row: (int(row["invariant"][1:]), row["fault"]),
    )
    violations = sum(row["count"] for row in counted)
    if violations:
        begin(f"telling the stories of {_some(violations, 'violation')}")
    stories = story.stories(rows, verdicts) if violations else []
    begin("counting ends, latencies, resends and stuck streams")
    found = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "managers": [
            {**one.plain(), "from_s": told[one.id]["first"] if one.id in told else 0}
            for one in histories
        ],
        "messages": messages,
        "states": measure.states(ledger),
        "violations": violations,
        "by_invariant": [row.asDict() for row in counted],
        "stories": stories,
        "latencies": measure.latencies(ledger),
        "resends": measure.resends(ledger),
        "stuck": measure.stuck(
            ledger, as_of_us=max(one.up_to_us for one in histories), after_s=stuck_s
        ),
        "written": [],
    }
    found["notes"] = _notes(histories, ledger)
    found["verdict"] = _verdict(found)
    return found


def _notes(histories: Sequence[files.Coverage], ledger: DataFrame) -> list[str]:
    """What could not be known, and why."""
    notes = [f"{one.manager}: {limit}" for one in histories for limit in one.limits()]
    missing = ledger.where("fromName is null").select("source").distinct().collect()
    notes += [f"there is no history of the sender {row['source']}" for row in missing]
    blind = ledger.where("state = 'unverified' and toName is null").select("destination")
    notes += [
        f"there is no history of the receiver of {row['destination']}"
        for row in blind.distinct().collect()
    ]
    doubts = ledger.where("state = 'in doubt'").count()
    if doubts:
        notes.append(f"{doubts:,} message(s) in doubt: nobody knows whether they arrived")
    return notes


def _verdict(found: dict[str, Any]) -> str:
    if found["violations"]:
        names = ", ".join(dict.fromkeys(row["invariant"] for row in found["by_invariant"]))
        return f"VIOLATED: {found['violations']:,} violation(s) of {names}"
    limited = " as far as the histories tell" if found["notes"] else ""
    return (
        f"PROVEN{limited}: of {found['messages']:,} messages each met at most one end, once and in "
        "order, and nothing is lost"
    )
