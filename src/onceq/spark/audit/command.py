"""``onceq spark audit``: from folders to findings, a report and tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from onceq.errors import ConfigurationError
from onceq.spark.audit import copies, files, judge, measure, story
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
    folders: Sequence[str], *, settled: bool, html: str, to: str, stuck_s: float, master: str
) -> dict[str, Any]:
    """Audit, in a Spark session of its own if there is none; see ``onceq spark audit --help``.

    Returns:
        The findings, as JSON has them.

    Raises:
        ConfigurationError: There is no history, no Java, or a place cannot be written to.
    """
    histories = files.find(folders)
    if to and os.path.exists(to):
        raise ConfigurationError(f"--out {to} is there already; name a folder that is not")
    if html and not Path(html).resolve().parent.is_dir():
        raise ConfigurationError(f"--html {html}: there is no such folder")
    active = SparkSession.getActiveSession()
    if active is not None:
        return audit(active, histories, settled=settled, html=html, to=to, stuck_s=stuck_s)
    size = sum(os.path.getsize(path) for one in histories for path in one.files)
    config = SMALL if size < SMALL_BYTES else {**LARGE, "spark.driver.memory": _heap()}
    with quiet_session(master, "onceq audit", config) as spark:
        return audit(spark, histories, settled=settled, html=html, to=to, stuck_s=stuck_s)


def _heap() -> str:
    """Memory for Java, as Spark writes it."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{max(min(whole // HEAP_SHARE, HEAP_BYTES_MAX) >> 20, 1024)}m"


def audit(
    spark: SparkSession, histories: Sequence[files.Coverage], *, settled: bool = False,
    html: str = "", to: str = "", stuck_s: float = 300.0,
) -> dict[str, Any]:  # fmt: skip
    """The findings about histories."""
    rows = copies.read(spark, histories).persist()
    ledger = copies.ledger(rows, histories).persist()
    verdicts = judge.judge(rows, ledger, settled=settled).persist()
    try:
        found = _findings(histories, rows, ledger, verdicts, stuck_s)
        moved = measure.traffic(rows, ledger)
        if to:
            for name, frame in (
                ("messages", ledger), ("violations", verdicts), ("traffic", moved),
            ):  # fmt: skip
                frame.write.parquet(os.path.join(to, name))
            found["written"].append(to)
        if html:
            from onceq.spark.audit.report import page

            points = [row.asDict() for row in moved.collect()]
            Path(html).write_text(page(found, points), encoding="utf-8")
            found["written"].append(html)
        return found
    finally:
        for frame in (rows, ledger, verdicts):
            frame.unpersist()


def _findings(
    histories: Sequence[files.Coverage], rows: DataFrame, ledger: DataFrame, verdicts: DataFrame,
    stuck_s: float,
) -> dict[str, Any]:  # fmt: skip
    counted = sorted(
        verdicts.groupBy("invariant", "fault").count().collect(),
        key=lambda row: (int(row["invariant"][1:]), row["fault"]),
    )
    first = {
        row["managerId"]: row["first"]
        for row in rows.groupBy("managerId")
        .agg(f.min(f.expr("cast(eventTime as bigint)")).alias("first"))
        .collect()
    }
    found = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "managers": [{**one.plain(), "from_s": first.get(one.id, 0)} for one in histories],
        "messages": ledger.count(),
        "states": measure.states(ledger),
        "violations": sum(row["count"] for row in counted),
        "by_invariant": [row.asDict() for row in counted],
        "stories": story.stories(rows, verdicts),
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
