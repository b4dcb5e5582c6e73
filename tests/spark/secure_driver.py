"""A Spark application in a process of its own, with all of Spark's log, event log and plans.

Arguments: working folder, JSON with the names that samples of the documentation use. It runs the
samples, fails in three ways, and prints what it was told, as JSON behind ``result``.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def session(folder: Path) -> Any:
    from onceq.spark import prepare
    from onceq.spark.runtime import QUICK

    prepare()
    from pyspark.sql import SparkSession

    (folder / "events").mkdir()
    builder = SparkSession.builder.master("local[2]").appName("secured")
    for key, value in {
        **QUICK, "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{folder / 'events'}",
        "spark.eventLog.compress": "false", "spark.log.level": "INFO",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }.items():  # fmt: skip
        builder = builder.config(key, value)
    return builder.getOrCreate()


def explained(frame: Any) -> None:
    """All plans of a frame, to standard output."""
    for mode in ("extended", "formatted", "cost"):
        frame.explain(mode=mode)


def failed(work: Callable[[], object]) -> list[str]:
    """The error of what must fail: the text that a user sees, and what it is made of again."""
    from onceq.spark.argument_checks import original

    try:
        work()
    except Exception as error:  # noqa: BLE001 - of Spark, of py4j, whatever a user may see
        print(error)
        return [str(error), original(error).text, original(error).code]
    return ["", "", ""]


def opened_up(file: str) -> Any:
    """A step before the sink, on an executor: from then on others may read the file."""

    def step(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            os.chmod(file, 0o644)
            yield batch

    return step


def main(folder: Path, names: dict[str, str]) -> None:
    spark = session(folder)
    found: dict[str, Any] = {}
    for sample in sorted(folder.glob("sample-*.py")):
        globals_ = runpy.run_path(str(sample), init_globals={**names, "spark": spark})
        for name in ("with_token", "with_certificate"):
            if name in globals_:
                explained(globals_[name])
                found[name] = globals_[name].count()
        if "query" in globals_:
            globals_["query"].explain(True)
            print(globals_["query"].lastProgress)
            explained(globals_["orders"])
    who = {"queueManager": names["SECURE"], "tlsAuthorities": names["AUTHORITIES"]}
    read = spark.read.format("onceq").option("queue", r"private$\orders").options(**who)
    write = {**who, "queue": r"private$\copy", "txnAppId": "late", "txnVersion": "1"}

    def unreadable() -> None:
        rows = spark.range(1).selectExpr("cast(id as string) AS body")
        late = rows.mapInArrow(opened_up(names["LATE_FILE"]), "body string").repartition(1)
        late.write.format("onceq").mode("append").options(
            **write, tokenFile=names["LATE_FILE"]
        ).save()

    def broken() -> None:
        def step(batches: Iterator[Any]) -> Iterator[Any]:
            raise ValueError("as any code of a user may")

        rows = read.options(tokenFile=names["TOKEN_FILE"]).load().select("body")
        rows.mapInArrow(step, "body binary").collect()

    def away() -> None:
        read.options(tokenFile=names["GONE_FILE"]).load().collect()

    def revoked() -> None:
        read.options(tokenFile=names["REVOKED_FILE"]).load().collect()

    def lacking() -> None:
        plain = names["SECURE"].replace("tls://", "onceq://")
        rows = spark.read.format("onceq").option("queue", r"private$\orders")
        rows.options(
            queueManager=plain, tokenFile=names["LINES_FILE"], retryTimeout="1"
        ).load().collect()

    rows = spark.createDataFrame([("to both",)], "body string").selectExpr(
        "body", r"explode(array(0, 1)) AS at"
    )
    targets = [rf"{names[name]}/private$\copy" for name in ("SECURE", "SECOND")]
    spread = rows.selectExpr("body", f"array({', '.join(map(repr, targets))})[at] AS queue")
    spread.write.format("onceq").mode("append").options(
        queueManager=f"{names['SECURE']},{names['SECOND']}", tokenFile=names["LINES_FILE"],
        tlsAuthorities=names["AUTHORITIES"], txnAppId="both", txnVersion="1",
    ).save()  # fmt: skip

    def given() -> None:
        read.options(token="onceqt_gone_0").load().collect()

    for one in (unreadable, broken, away, revoked, lacking, given):
        found[one.__name__] = failed(one)
    spark.stop()
    print("result", json.dumps(found))


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main(Path(sys.argv[1]), json.loads(sys.argv[2]))
